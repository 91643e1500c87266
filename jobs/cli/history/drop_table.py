"""The command ``drop``: a whole table, in two phases."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import DryRun, TableArgument, YesOption, help_end
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.dropped_tables import DropPhase, TableDrop, drop_path
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.publish.publish_phase import GRACE_S
from sparkhaven.writers.removal.table_removal import drop_table, due_s


def register(app: typer.Typer) -> None:
    app.command(
        "drop",
        epilog=help_end(
            "drop Nyc13.Flight --dry-run",
            "drop Nyc13.Flight --yes",
            done="dropped, and its files are removed or wait for their grace period",
            usage="no such table, a stream of it runs, or --yes is missing",
            retry="a merge or removal of the table runs, a volume is not mounted",
        ),
    )(drop)


def drop(
    ctx: typer.Context,
    name: TableArgument,
    yes: YesOption = False,
    grace: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Grace period for readers, before files are removed.")
    ] = GRACE_S,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the record.")] = "dropped by command",
    dry_run: DryRun = False,
) -> None:
    """Drops a table: rows, history, schema, quarantine and logs.

    Readers find no such table from then on. Those that have it open go on, because its files stay for the grace
    period. The same command, or `clean`, removes them after that. Then a table of that name can be created.

    A record stays: rows and digests of each date, numbers of the streams, and the schema. Snapshots are not touched.

    It is safe to kill: a repeat goes on.
    """
    cli: CliContext = ctx.obj
    place = TablePlace(Fs(), cli.database(), TableName.parse(name))
    if not yes and not dry_run:
        planned = drop_table(place, reason, clock=time.time, grace_s=grace, dry_run=True)
        raise SettingsError(
            f"dropping {name} is not confirmed",
            expected="--yes",
            found=f"{planned.intraday_rows:,} intraday rows, {planned.history_rows:,} rows of history",
            hint=f"`sparkhaven snapshot {name} --out DIR` keeps a copy. `sparkhaven drop {name} --yes` drops it",
        )
    dropped = drop_table(place, reason, clock=time.time, grace_s=grace, dry_run=dry_run, note=cli.note)
    waits = due_s(dropped, time.time(), grace)
    cli.result({**drop_json(place, dropped, waits), "dry_run": dry_run}, drop_line(dropped, waits, dry_run=dry_run))


def drop_json(place: TablePlace, dropped: TableDrop, waits: float) -> dict[str, object]:
    """A drop as JSON; ``waits``: seconds until its files may be removed."""
    removed = dropped.phase is DropPhase.REMOVED
    return {
        "table": dropped.table,
        "phase": dropped.phase,
        "intraday_rows": dropped.intraday_rows,
        "history_rows": dropped.history_rows,
        "dates": len(dropped.dates),
        "streams": [stream.stream for stream in dropped.streams],
        "bytes": dropped.size,
        "kept": list(dropped.kept),
        "due_s": None if removed else round(waits, 1),
        "record": str(drop_path(place, dropped.number)),
    }


def drop_line(dropped: TableDrop, waits: float, *, dry_run: bool) -> str:
    """A drop in a line, and one for each quarantine that other streams share."""
    rows = f"{dropped.intraday_rows:,} intraday rows, {dropped.history_rows:,} rows of history"
    what = f"{dropped.table}: {{}} {rows}, {dropped.size:,} bytes"
    if dry_run:
        return what.format("would drop")
    if dropped.phase is not DropPhase.REMOVED:
        again = f"`sparkhaven drop {dropped.table} --yes` or `clean` removes the files"
        return f"{what.format('dropped')}. In {waits:,.0f} s {again}"
    return "\n".join([what.format("removed"), *(f"{path} stays: other streams share it" for path in dropped.kept)])
