"""``delete-rows``: takes out the rows that match a condition, of intraday by an epoch, of history by a generation."""

from __future__ import annotations

from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import DatesOption, DryRun, TableArgument, help_end
from sparkhaven.jobs.operations.row_deletions import delete_rows
from sparkhaven.store.errors import counted
from sparkhaven.writers.rewrites.row_deletion import DeletedRows


def register(app: typer.Typer) -> None:
    lines = "delete-rows Nyc13.Flight --where 'dep_delay < -600' --dates 2013-07-04 --dry-run"
    usage = "wrong options, no such table or date, no such column"
    retry = "a stream that has such rows or a merge runs"
    done = "deleted, or no row matches"
    app.command("delete-rows", epilog=help_end(lines, done=done, bad_data="a date failed", usage=usage, retry=retry))(
        delete_rows_command
    )


def delete_rows_command(
    cli: CliContext,
    name: TableArgument,
    where: Annotated[str, typer.Option(metavar="EXPR", help="The rows to delete, in SQL: 'Size < 0 AND Sym IS NULL'.")],
    dates: DatesOption = None,
    dry_run: DryRun = False,
) -> None:
    """Deletes rows that match, from intraday and history.

    Rows that are not merged go by a new epoch. Older epochs still show them. The next merge leaves them out. Stop the
    streams that have such rows before. Merged rows go by a new generation of their date. Both are proved: validate and
    truncate accept exactly that, and later merges keep it.
    """
    done = delete_rows(cli.place(name), where, dates, cli.note, dry_run=dry_run)
    matching = done.matching
    rows = matching.rows if dry_run else done.rows
    counts = matching.of_dates() if dry_run else done.of_dates()
    merged = matching.history if dry_run else {date: deletion.rows for date, deletion in done.history.items()}
    record = {
        "table": name,
        "where": where,
        "rows": rows,
        "epoch": next(iter(done.epochs.values())) if len(done.epochs) == 1 else None,
        "epochs": done.epochs,
        "dates": counts,
        "merged": merged,
        "generations": {date: deletion.generation for date, deletion in done.history.items()},
        "dry_run": dry_run,
    }
    if done.failed:
        record["errors"] = {date: cli.failed(date, error) for date, error in done.failed.items()}
    for date, count in counts.items():
        of_history = f", {merged[date]:,} of them in history" if date in merged else ""
        cli.note(f"{date}: {count:,} of {counted(matching.dates.get(date, count), 'row')}{of_history}")
    _show(cli, record, done, f"{counted(rows, 'row')} of {counted(len(counts), 'date')}", dry_run)


def _show(cli: CliContext, record: dict[str, object], done: DeletedRows, words: str, dry_run: bool) -> None:
    parts = [f"{stream} epoch {epoch}" for stream, epoch in done.epochs.items()]
    parts += [f"{date} as generation {deletion.generation}" for date, deletion in done.history.items()]
    if not done.matching.rows:
        cli.result(record, "no row matches")
    elif dry_run:
        cli.result(record, f"would delete {words}")
    else:
        cli.result(record, f"deleted {words}: {', '.join(parts) or 'none'}")
