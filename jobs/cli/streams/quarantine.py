"""Commands on the quarantine of a stream, its dead-letter queue: ``quarantine list|requeue|drop``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import DryRun, OneStream, group, help_end
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.jobs.monitor.rejected import find, row_value
from sparkhaven.store.errors import EXIT_BAD_DATA, SparkhavenError, counted
from sparkhaven.store.io.local_path import local_path

if TYPE_CHECKING:
    from sparkhaven.jobs.operations.quarantine import Requeued
    from sparkhaven.writers.quarantine.row_choice import Chosen

SHOWN = 1000

StateOption = Annotated[str, typer.Option(metavar="all|pending|requeued", help="Only rows in this state.")]


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows: all options that are given hold together."""

    reason: Annotated[str | None, typer.Option(metavar="CODE", help="Only rows with this reason code.")] = None
    source: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Only rows of this file or topic/partition. * matches any text."),
    ] = None
    epoch: Annotated[int | None, typer.Option(metavar="N", help="Only rows that were rejected with this epoch.")] = None

    def chosen(self, state: str) -> Chosen:
        from sparkhaven.jobs.operations.quarantine import RejectedKeywords, chosen_rows

        return chosen_rows(RejectedKeywords(reason=self.reason, source=self.source, epoch=self.epoch), state)


def register(app: typer.Typer) -> None:
    quarantine = group("List, requeue and drop rows that could not be stored.")
    usage = "wrong options, no such table or stream"
    retry = "the stream runs, a volume is not mounted"
    line = "quarantine list Nyc13.Flight flights --reason overflow --json > rows.jsonl"
    quarantine.command("list", epilog=help_end(line, usage=usage))(list_)
    lines = (
        "quarantine requeue Nyc13.Flight flights",
        "quarantine requeue Nyc13.Flight flights conf/streams/flights.toml --from rows.jsonl",
    )
    bad_data = "rows are still bad, or are not pending"
    end = help_end(*lines, bad_data=bad_data, usage=usage, retry=retry)
    quarantine.command(epilog=end)(requeue)
    line = "quarantine drop Nyc13.Flight flights --source '/data/flights/2013-01-*' --dry-run"
    quarantine.command(epilog=help_end(line, usage=usage, retry=retry))(drop)
    app.add_typer(quarantine, name="quarantine")


def list_(
    cli: CliContext,
    stream: OneStream,
    rows: RowFilter,
    state: StateOption = "all",
    limit: Annotated[int, typer.Option(metavar="N", min=0, help="At most this many rows. 0: all.")] = SHOWN,
) -> None:
    """Lists rejected rows by source and position.

    With --json one line a row, as `quarantine requeue --from` takes them.
    """
    chosen, rejected = rows.chosen(state), find(stream.place(cli), removed=True)
    listed: list[list[object]] = []
    count = 0
    if rejected is not None:
        requeued = rejected.requeued()
        for row in rejected.rows(chosen, limit):
            count += 1
            shown = row_value(row, requeued)
            if cli.json:
                cli.result(shown, "")
            else:
                keys = ("source", "position", "epoch", "requeued_epoch", "reason", "column", "value", "expected")
                listed.append([_short(shown[key], end=key == "source") for key in keys])
    if not cli.json:
        table(["source", "position", "epoch", "requeued", "reason", "column", "value", "expected"], listed)
    if limit and count == limit:
        cli.note(f"{limit:,} rows shown, there may be more: --limit 0 shows all")


def requeue(
    cli: CliContext,
    stream: OneStream,
    rows: RowFilter,
    stream_file: Annotated[
        Path | None,
        typer.Argument(metavar="[STREAM.toml]", parser=local_path, help="Stream file. Default: that of the last run."),
    ] = None,
    repaired: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE.jsonl", parser=local_path, help="Only the rows of this file, with its payloads."
        ),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Ingests pending rows again, each exactly once.

    Rows that are still bad stay in the quarantine. The current schema and stream file apply. The stream must not be
    running.
    """
    from sparkhaven.jobs.operations.quarantine import Requeued, RequeueRequest
    from sparkhaven.jobs.operations.quarantine import requeue as requeue_rows

    done, where = Requeued(), stream.place(cli)
    try:
        requeue_rows(where, RequeueRequest(rows.chosen("pending"), stream_file, repaired, dry_run), done)
    except (SparkhavenError, OSError):
        if done.epochs:
            _show_requeued(cli, where.stream, done, dry_run)
        raise
    _show_requeued(cli, where.stream, done, dry_run)
    if done.refused or done.cut or done.not_pending:
        cli.fails(EXIT_BAD_DATA)


def drop(
    cli: CliContext,
    stream: OneStream,
    rows: RowFilter,
    state: StateOption = "all",
    everything: Annotated[bool, typer.Option("--all", help="Drop all rows.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Deletes rows from the quarantine.

    Rows that were ingested again stay in the table.
    """
    from sparkhaven.jobs.operations.quarantine import drop_rows

    chosen, where = rows.chosen(state), stream.place(cli)
    dropped = drop_rows(where, chosen, everything=everything, dry_run=dry_run)
    words = "would drop" if dry_run else "dropped"
    record = {"stream": where.stream, "dropped": dropped, "dry_run": dry_run}
    cli.result(record, f"{where.stream}: {words} {counted(dropped, 'row')}")


def _show_requeued(cli: CliContext, stream: str, done: Requeued, dry_run: bool) -> None:
    sent, cut, epochs, refused = done.sent, done.cut, done.epochs, done.refused
    unknown, before = done.not_pending, done.ingested_before
    record = {"stream": stream, "sent": sent, "refused": len(refused), "cut": cut, "not_pending": len(unknown)}
    record["ingested_before"] = len(before)
    record |= {"epochs": epochs, "epoch": epochs[-1] if epochs else None, "dry_run": dry_run}
    record["refusals"] = [str(row) for row in refused[:10]]
    where = f" in epoch {', '.join(map(str, epochs))}" if epochs else ""
    lines = [f"{stream}: {'would ingest' if dry_run else 'ingested'} {counted(sent, 'row')}{where}"]
    if refused:
        lines += [
            f"still bad, and stay in the quarantine: {counted(len(refused), 'row')}",
            *(f"  {row}" for row in refused[:10]),
        ]
    if cut:
        lines.append(f"longer than 1 MiB, and cut: {counted(cut, 'row')}. Requeue with --from and a whole payload")
    if before:
        lines.append(f"ingested before: {counted(len(before), 'row')} of the file")
    if unknown:
        lines.append(f"not pending, dropped or never rejected: {counted(len(unknown), 'row')} of the file")
    cli.result(record, "\n".join(lines))
    if done.unmarked is not None:
        cli.note(f"they are committed. The next start of the stream marks them in the quarantine: {done.unmarked}")


def _short(value: object, *, end: bool) -> object:
    """A text in at most 60 characters; ``end``: its end says most, as that of a path does."""
    if not isinstance(value, str) or len(value) <= 60:
        return value
    return f"...{value[-57:]}" if end else f"{value[:57]}..."
