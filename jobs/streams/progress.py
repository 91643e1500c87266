"""Progress on standard error: one line for each batch, coloured on a terminal, plain elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console
from rich.markup import escape

from sparkhaven.ingest.feeds.base import DATA_FILES
from sparkhaven.ingest.spec import FILES
from sparkhaven.store.epochs.recovery.recover import RecoveryReport
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.errors import counted
from sparkhaven.store.layout import TableName
from sparkhaven.writers.batch.commit import BatchOutcome
from sparkhaven.writers.batch.stream_batches import BatchProgress, StreamTotals

NAMED = 10  # paths that a start names of what its recovery changed, without --verbose
SHOWN = 3  # partitions in a line of progress, those with the most left first


def taken(done: BatchOutcome | StreamTotals, unit: str) -> int:
    """How much a batch or a run has read of its source, in the unit of its feed."""
    return done.counts.get(DATA_FILES, done.splits) if unit == FILES else done.messages


class Progress:
    """Prints the progress of streams. ``verbose`` adds the time of each step of a batch."""

    def __init__(self, *, verbose: bool = False, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._verbose = verbose

    def say(self, stream: str, text: str) -> None:
        """One line about a stream; ``text`` may have rich's markup."""
        self._console.print(f"{datetime.now():%H:%M:%S} [bold]{escape(stream)}[/bold] {text}", soft_wrap=True)

    def recovered(self, report: RecoveryReport) -> None:
        """Reports the recovery of an opened stream; prints nothing for a new one."""
        if report.clean and not report.epoch:
            return
        text = f"continues after epoch {report.epoch}, generation {report.generation}"
        if not report.clean:
            cut = f"{counted(report.cut_bytes, 'byte')} of {counted(len(report.cut_files), 'file')}"
            removed = counted(len(report.stray_locations), "location")
            strays = counted(len(report.stray_files), "file")
            text += f". Recovery truncated {cut}, removed {removed} and {strays} of an uncommitted batch"
            named = report.changes()
            more = f". {len(named) - NAMED:,} more, see --verbose" if len(named) > NAMED and not self._verbose else ""
            text += (
                "".join(
                    f". {escape(line[0].upper() + line[1:])}" for line in (named if self._verbose else named[:NAMED])
                )
                + more
            )
        if report.lost_epochs:
            text += f". [red]Not durable, ingested again: {counted(len(report.lost_epochs), 'epoch')}[/red]"
        for aside in report.set_aside:
            text += (
                f". [red]Set aside: {counted(aside.rows, 'row')} of {escape(f'{aside.internal}/{aside.value}')}[/red]"
            )
        self.say(report.stream, text)

    def chosen(self, stream: str, local: bool, why: str) -> None:
        self.say(stream, f"runs {'in this process, without Spark' if local else 'in Spark'}: {escape(why)}")

    def loss_window(self, stream: str, policy: CommitPolicy) -> None:
        """Reports what a power failure may lose under this policy; prints nothing if that is nothing."""
        if policy.syncs_each_batch:
            return
        if math.isfinite(policy.loss_window_s):
            window = f"the commits of the last {policy.loss_window_s:g} s (a longer batch delays the sync)"
        else:
            window = "all commits since the stream last ended well or compacted its log"
        self.say(
            stream,
            f"[yellow]durability {policy.durability}: a power failure may lose {window}."
            " A restart ingests them again, if the source still has them[/yellow]",
        )

    @property
    def partitions_shown(self) -> int | None:
        """How many topic partitions a line of progress names; None: all."""
        return None if self._verbose else SHOWN

    def batch(
        self,
        stream: str,
        done: BatchProgress,
        partitions: str = "",
        *,
        table: TableName,
        unit: str = FILES,
        label: str = "",
    ) -> None:
        """One committed batch; ``partitions``: the progress by topic partition, ``unit`` is what it has read.

        ``label`` stands for the stream in its lines. Default: its name.
        """
        outcome, shown = done.outcome, label or stream
        if outcome.epoch is None:
            self.say(shown, f"batch {outcome.batch_id}: committed before, nothing to do")
            return
        read = taken(outcome, unit)
        lag = "" if done.lag is None else f", lag {counted(done.lag, unit)}"
        row = "row" if outcome.rows == 1 else "rows"
        self.say(
            shown,
            f"epoch [cyan]{outcome.epoch}[/cyan]: [green]{outcome.rows:,}[/green] {row} from {counted(read, unit)} "
            f"into {counted(outcome.locations, 'location')} in {done.seconds:.2f} s, {done.rate:,.0f} rows/s{lag}"
            + (f": {escape(partitions)}" if partitions else ""),
        )
        if outcome.passed:
            self.say(shown, f"[yellow]{outcome.passed:,} missing offsets were skipped, as allow_gap permits[/yellow]")
        if outcome.rejected:
            rejected = f"[red]{counted(outcome.rejected, 'row')} rejected[/red]"
            self.say(shown, f"{rejected}, see `sparkhaven quarantine list {table} {stream}`")
        if self._verbose:
            parts = ", ".join(f"{name} {seconds:.3f}" for name, seconds in outcome.seconds.items())
            self.say(shown, f"seconds: {parts}")

    def older(self, stream: str, line: str) -> None:
        self.say(stream, f"[yellow]{escape(line)}[/yellow]")

    def source(self, stream: str, reachable: bool, seconds: float, reason: str) -> None:
        """Reports that the source does not answer, or answers again after ``seconds``."""
        if reachable:
            self.say(stream, f"the source answers again, after {seconds:,.0f} s")
        else:
            self.say(stream, f"[yellow]the source does not answer: {escape(reason)}. The stream waits for it[/yellow]")

    def still_stopped(self, stream: str, error: Exception, seconds: float) -> None:
        """Reports that a stream is stopped, while others of the process run."""
        self.say(stream, f"[red]stopped for {seconds:,.0f} s: {escape(_headline(error))}[/red]")

    def passed(self, stream: str, lines: Sequence[str]) -> None:
        for line in lines:
            self.say(stream, f"[yellow]not ingested: {escape(line)}[/yellow]")

    def remark(self, stream: str, text: str) -> None:
        self.say(stream, f"[yellow]{escape(text)}[/yellow]")

    def growing(self, stream: str, paths: Sequence[str]) -> None:
        named = ", ".join(map(escape, paths))
        self.say(
            stream,
            f"[yellow]these files still change and do not end with a whole line: {named}."
            " They are ingested once they have not changed for `settle`[/yellow]",
        )

    def warn(self, stream: str, error: Exception) -> None:
        self.say(stream, f"[yellow]{escape(str(error))}[/yellow]")

    def stopped(self, stream: str, error: Exception) -> None:
        """Reports a failed stream in one line; the command reports the whole error when all streams have ended."""
        self.say(stream, f"[red]stopped: {escape(_headline(error))}[/red]")

    def restarts(self, stream: str, seconds: float) -> None:
        self.say(stream, f"[yellow]restarts in {seconds:g} s. Committed rows stay[/yellow]")

    def ended(self, stream: str, totals: StreamTotals) -> None:
        rate = totals.rows / totals.seconds if totals.seconds else 0.0
        self.say(
            stream,
            f"ended at epoch {totals.epoch}: {counted(totals.rows, 'row')} in {counted(totals.epochs, 'epoch')}, "
            f"{totals.seconds:.1f} s, {rate:,.0f} rows/s",
        )


def _headline(error: Exception) -> str:
    where = getattr(error, "where", None)
    return str(error).partition("\n")[0] + (f" ({where})" if where else "")


@dataclass(slots=True)
class PartitionProgress:
    """The topic partitions of one stream, from batch to batch. ``before``: the positions when it was opened."""

    before: Mapping[str, int]

    def line(
        self, positions: Mapping[str, int], ends: Mapping[str, int], seconds: float, *, shown: int | None = SHOWN
    ) -> str:
        """The topic partitions after a batch of ``seconds``, as text; "" for a source without any.

        An end in ``ends`` that lies before the position is outdated and not shown. ``shown`` None: all.
        """
        now = {source: offset for source, offset in positions.items() if "/" in source}
        lags = {source: ends[source] - offset for source, offset in now.items() if ends.get(source, -1) >= offset}
        order = sorted(now, key=lambda source: (-lags.get(source, 0), source))[:shown]
        texts = [self._text(source, now[source], lags.get(source), seconds) for source in order]
        self.before = now
        return "; ".join(texts) + (f", and {len(now) - len(order):,} more" if len(now) > len(order) else "")

    def _text(self, source: str, offset: int, lag: int | None, seconds: float) -> str:
        rate = (offset - self.before.get(source, offset)) / seconds if seconds else 0.0
        end = "" if lag is None else f" of {offset + lag:,}, lag {lag:,}"
        return f"{source} at {offset:,}{end}, {rate:,.0f}/s"


def total_lag(positions: Mapping[str, int], ends: Mapping[str, int]) -> int | None:
    """The lag of all topic partitions; None where the end of one is outdated."""
    lags = [ends.get(source, -1) - offset for source, offset in positions.items() if "/" in source]
    return sum(lags) if lags and min(lags) >= 0 else None
