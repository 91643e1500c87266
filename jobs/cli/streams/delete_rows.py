"""``delete-rows``: takes out the rows that match a condition, as an epoch of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import DatesOption, DryRun, TableArgument, help_end
from sparkhaven.jobs.operations.maintenance import open_log
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.removal.row_withdrawal import WithdrawnRows, find_rows, withdraw_rows


def register(app: typer.Typer) -> None:
    lines = "delete-rows Nyc13.Flight --where 'dep_delay < -600' --dates 2013-07-04 --dry-run"
    usage = "wrong options, no such table or date, no such column, matching rows in history"
    retry = "a stream of the table or a merge runs"
    app.command("delete-rows", epilog=help_end(lines, done="deleted, or no row matches", usage=usage, retry=retry))(
        delete_rows
    )


def delete_rows(
    ctx: typer.Context,
    name: TableArgument,
    where: Annotated[str, typer.Option(metavar="EXPR", help="The rows to delete, like 'Size < 0 && isNull(Sym)'.")],
    dates: DatesOption = None,
    dry_run: DryRun = False,
) -> None:
    """Deletes intraday rows that match, as a new epoch.

    Older epochs still show them. The next merge of their dates leaves them out, with proof. Stop the streams that have
    such rows before.
    """
    cli: CliContext = ctx.obj
    place = TablePlace(Fs(), cli.database(), TableName.parse(name))
    if dry_run:
        done = WithdrawnRows(find_rows(place, where, dates), {})
    else:
        done = withdraw_rows(place, where, dates, open_log)
    matching = done.matching
    record = {
        "table": name,
        "where": where,
        "rows": matching.rows,
        "epoch": next(iter(done.epochs.values())) if len(done.epochs) == 1 else None,
        "epochs": done.epochs,
        "dates": matching.of_dates(),
        "dry_run": dry_run,
    }
    for date, rows in matching.of_dates().items():
        cli.note(f"{date}: {rows:,} of {matching.dates[date]:,} rows")
    epochs = ", ".join(f"{stream} epoch {epoch}" for stream, epoch in done.epochs.items())
    words = f"{matching.rows:,} rows of {len(matching.of_dates()):,} dates"
    if not matching.rows:
        cli.result(record, "no row matches")
    else:
        cli.result(record, f"would delete {words}" if dry_run else f"deleted {words}: {epochs}")
