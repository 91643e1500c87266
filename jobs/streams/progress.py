"""Progress on standard error: one line a batch, coloured on a terminal, plain elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.console import Console
from rich.markup import escape

from ingest.feeds.base import DATA_FILES
from ingest.options.traits import FILES
from jobs.streams.partition_progress import SHOWN
from store.epochs.recovery.recover import RecoveryReport
from store.epochs.state.values import Durability
from writers.batch.commit import BatchOutcome
from writers.spark.stream import BatchProgress, StreamTotals


def taken(done: BatchOutcome | StreamTotals, unit: str) -> int:
    """How much of its source a batch or a run has read, in the unit of its feed."""
    return done.counts.get(DATA_FILES, done.splits) if unit == FILES else done.messages


class Progress:
    """Says what streams do. ``verbose`` adds where the time of a batch went."""

    def __init__(self, *, verbose: bool = False, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._verbose = verbose

    def say(self, stream: str, text: str) -> None:
        """One line about a stream; ``text`` may have rich's markup."""
        self._console.print(f"{datetime.now():%H:%M:%S} [bold]{escape(stream)}[/bold] {text}", soft_wrap=True)

    def recovered(self, report: RecoveryReport) -> None:
        """What opening a stream has found; nothing is said of a clean one without epochs."""
        if report.clean and not report.epoch:
            return
        text = f"goes on after epoch {report.epoch}, generation {report.generation}"
        if not report.clean:
            text += (
                f"; recovery cut {report.cut_bytes:,} bytes of {len(report.cut_files)} files, removed "
                f"{len(report.stray_locations)} locations and {len(report.stray_files)} files of an uncommitted batch"
            )
        if report.lost_epochs:
            text += f"; [red]{len(report.lost_epochs)} epochs were not durable and are taken again[/red]"
        for each in report.set_aside:
            text += f"; [red]{each.rows:,} rows of {escape(f'{each.internal}/{each.value}')} are set aside[/red]"
        self.say(report.stream, text)

    def loss_window(self, stream: str, durability: Durability, sync_s: float) -> None:
        """What a power cut may take back, and where it comes from then; nothing is said where it takes nothing."""
        if durability == "fsync":
            return
        if durability == "periodic":
            window = f"what was committed in the last {sync_s:g} s (a batch that runs longer puts the sync off)"
        else:
            window = "what was committed since the stream last ended well or compacted its log"
        self.say(
            stream,
            f"[yellow]durability {durability}: a power cut may take back {window}; "
            "a restart takes them from the source again, which must still have them[/yellow]",
        )

    @property
    def places_shown(self) -> int | None:
        """How many partitions a line of progress names; None = all."""
        return None if self._verbose else SHOWN

    def batch(self, stream: str, done: BatchProgress, places: str = "", *, unit: str = FILES) -> None:
        """One committed batch; ``places`` tells of the partitions of its source, ``unit`` is what it has read."""
        outcome = done.outcome
        if outcome.epoch is None:
            self.say(stream, f"batch {outcome.batch_id}: all of it was committed before, nothing to do")
            return
        read = taken(outcome, unit)
        lag = "" if done.lag is None else f", lag {done.lag:,} {unit}"
        self.say(
            stream,
            f"epoch [cyan]{outcome.epoch}[/cyan]: [green]{outcome.rows:,}[/green] rows of "
            f"{read:,} {unit} into "
            f"{outcome.locations:,} locations in {done.seconds:.2f} s, {done.rate:,.0f} rows/s{lag}"
            + (f": {escape(places)}" if places else ""),
        )
        if outcome.passed:
            self.say(stream, f"[yellow]{outcome.passed:,} offsets were missing and passed over, as allowed[/yellow]")
        if outcome.rejected:
            self.say(
                stream, f"[red]{outcome.rejected:,} rows rejected[/red], see `sparkhaven quarantine list NS.T {stream}`"
            )
        if self._verbose:
            parts = ", ".join(f"{name} {seconds:.3f}" for name, seconds in outcome.seconds.items())
            self.say(stream, f"seconds: {parts}")

    def older(self, stream: str, count: int, paths: Sequence[str], days: float) -> None:
        """Newcomers that are never taken, the newest of them by name."""
        named = ", ".join(map(escape, paths[-count:])) + (
            f" and {count - len(paths)} more" if count > len(paths) else ""
        )
        self.say(
            stream,
            f"[yellow]{count:,} new files are not taken: older than max_file_age ({days:g} d): {named}; "
            "touch a file to have it taken[/yellow]",
        )

    def source(self, stream: str, reachable: bool, seconds: float, reason: str) -> None:
        """That the source does not answer, or answers again after so many seconds."""
        if reachable:
            self.say(stream, f"the source answers again, after {seconds:,.0f} s")
        else:
            self.say(stream, f"[yellow]the source does not answer: {escape(reason)}; the stream waits for it[/yellow]")

    def still_stopped(self, stream: str, error: Exception, seconds: float) -> None:
        """That a stream has been stopped for so long, while others of the process go on."""
        self.say(stream, f"[red]stopped for {seconds:,.0f} s: {escape(_headline(error))}[/red]")

    def passed(self, stream: str, lines: Sequence[str]) -> None:
        """What lies in a feed and is not taken, a line for each reason."""
        for line in lines:
            self.say(stream, f"[yellow]not taken: {escape(line)}[/yellow]")

    def remark(self, stream: str, text: str) -> None:
        """Something about the data that somebody should look at."""
        self.say(stream, f"[yellow]{escape(text)}[/yellow]")

    def growing(self, stream: str, paths: Sequence[str]) -> None:
        """Files that do not come to rest."""
        named = ", ".join(map(escape, paths))
        self.say(
            stream,
            f"[yellow]left, because they still change and do not end with a whole line: {named}; "
            "they are taken when they have not changed for `settle`[/yellow]",
        )

    def warn(self, stream: str, error: Exception) -> None:
        """Something that does not stop the stream."""
        self.say(stream, f"[yellow]{escape(str(error))}[/yellow]")

    def stopped(self, stream: str, error: Exception) -> None:
        """That a stream has failed, in one line: others may go on, and the command tells the error whole at the end."""
        self.say(stream, f"[red]stopped: {escape(_headline(error))}[/red]")

    def restarts(self, stream: str, seconds: float) -> None:
        """That a stream which has failed will be started again."""
        self.say(stream, f"[yellow]starts again in {seconds:g} s; what was committed stays[/yellow]")

    def ended(self, stream: str, totals: StreamTotals) -> None:
        """The sums of a run."""
        rate = totals.rows / totals.seconds if totals.seconds else 0.0
        self.say(
            stream,
            f"ended at epoch {totals.epoch}: {totals.rows:,} rows in {totals.epochs} epochs, "
            f"{totals.seconds:.1f} s, {rate:,.0f} rows/s",
        )


def _headline(error: Exception) -> str:
    where = getattr(error, "where", None)
    return str(error).partition("\n")[0] + (f" ({where})" if where else "")
