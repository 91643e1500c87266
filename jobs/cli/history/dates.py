"""Commands on dates of history: ``dates adopt|drop|expire``, and the group that has those of ``relocation``."""

from __future__ import annotations

import shlex
import time
from functools import partial
from typing import Annotated

import typer

from sparkhaven.ingest.settings.units import parse_period
from sparkhaven.jobs.cli.context import CliContext, exit_with, report
from sparkhaven.jobs.cli.history import relocation
from sparkhaven.jobs.cli.history.relocation import place_of
from sparkhaven.jobs.cli.options import DatesOption, DryRun, TableArgument, YesOption, group, help_end
from sparkhaven.jobs.date_choice import end_of, parse_choice, zone_named
from sparkhaven.store.errors import EXIT_DONE, SettingsError
from sparkhaven.store.io.system_errors import as_ours
from sparkhaven.store.merges.merge_records import all_values
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.seen_history import history_values
from sparkhaven.writers.merge.adoption import adopt_dates
from sparkhaven.writers.merge.write.phases import Failure
from sparkhaven.writers.removal.history_removal import drop_history
from sparkhaven.writers.transfer.extended import follow

EXIT_CODES = {
    "done": "done, or nothing to drop",
    "bad_data": "a date failed: intraday still has it",
    "usage": "wrong options, no such table or dates",
    "retry": "a merge runs",
}


def register(app: typer.Typer) -> None:
    dates = group("Move, detach, attach, adopt, drop and expire dates of history.")
    relocation.register(dates)
    bad_data = "a location is damaged, or rows of a merge are gone"
    dates.command(epilog=help_end("dates adopt Nyc13.Flight --dry-run", **EXIT_CODES | {"bad_data": bad_data}))(adopt)
    dates.command(epilog=help_end("dates drop Nyc13.Flight --dates 2013-07-04 --dry-run", **EXIT_CODES))(drop)
    dates.command(epilog=help_end("dates expire Nyc13.Flight --keep 400d --dry-run", **EXIT_CODES))(expire)
    app.add_typer(dates, name="dates")


def drop(
    ctx: typer.Context,
    name: TableArgument,
    dates: DatesOption = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the record.")] = "dropped by command",
    dry_run: DryRun = False,
) -> None:
    """Drops dates of history.

    Readers no longer see them. Their files are removed an hour later, by the next merge or `clean`. The merge records
    stay, with the rows and digests that were dropped. A date that is still in intraday is refused.
    """
    cli: CliContext = ctx.obj
    place = place_of(cli, name)
    values = parse_choice(dates).pick(history_values(place), time.time(), lambda: all_values(place), "merged ")
    exit_with(_drop(cli, place, values, reason, dry_run=dry_run)[0])


def adopt(
    ctx: typer.Context,
    name: TableArgument,
    dates: DatesOption = None,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Go on without rows of a merge that were removed by hand.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Adopts history that was copied, moved or made elsewhere.

    Its files stay where they are. They are read. A merge record gets their rows, digests and checksums, and the
    location index names them. Default: every date whose history is not as its merge record says.
    """
    cli: CliContext = ctx.obj
    place, code = place_of(cli, name), EXIT_DONE
    choose = None if dates is None else partial(parse_choice(dates).pick, now_s=time.time())
    adopted = rows = 0
    for done in adopt_dates(place, choose, clock=time.time, accept_loss=accept_loss, dry_run=dry_run):
        if done.error is not None:
            failed = report(cli, as_ours(done.error), table=name, date=done.value)
            code = code or failed
            continue
        adopted, rows = adopted + done.differs, rows + done.rows
        shown = {"table": name, "date": done.value, "rows": done.rows, "moved": done.moved, "lost": done.lost}
        parts = [f"{done.rows:,} rows without a record", f"{done.moved:,} locations moved", f"{done.lost:,} rows gone"]
        text = ", ".join(parts) if done.differs else "is as its record says"
        cli.result({**shown, "generation": done.generation, "dry_run": dry_run}, f"{done.value}: {text}")
    if adopted and not dry_run:
        follow(place, cli.note)
    end = " would be adopted (dry run)" if dry_run else " adopted"
    shown = {"table": name, "dates": adopted, "rows": rows, "dry_run": dry_run}
    cli.result(shown, f"{adopted:,} dates, {rows:,} rows{end}")
    exit_with(code)


def expire(
    ctx: typer.Context,
    name: TableArgument,
    keep: Annotated[
        str, typer.Option(metavar="PERIOD", help="How long a date stays after its day: 400d, 6 months, 2 years.")
    ],
    zone: Annotated[
        str, typer.Option("--zone", metavar="Z", help="Time zone of times without an offset, and of days.")
    ] = "UTC",
    yes: YesOption = False,
    dry_run: DryRun = False,
) -> None:
    """Drops dates of history that are older than a period.

    As `dates drop` does, once --yes confirms what is listed. Partition values that begin with no date are kept. Months
    and years are those of the calendar.
    """
    cli: CliContext = ctx.obj
    place, now_s = place_of(cli, name), time.time()
    try:
        period = parse_period(keep)
    except ValueError as error:
        expected = "like 400d, 36h, '6 months' or '2 years'"
        raise SettingsError("--keep is no period", expected=expected, found=repr(keep), hint=str(error)) from error
    where = zone_named(zone, "--zone is not a time zone")
    old = [
        value for value in history_values(place) if (end := end_of(value, where, period)) is not None and end <= now_s
    ]
    planned = dry_run or not yes
    code, rows = _drop(cli, place, old, f"older than {keep}", dry_run=planned)
    if old and not dry_run and not yes and code == EXIT_DONE:
        raise SettingsError(
            "the dates that would go are not confirmed",
            where=name,
            expected="--yes",
            found=f"{len(old):,} dates from {old[0]} to {old[-1]}, {rows:,} rows",
            hint=f"`sparkhaven dates expire {name} --keep {shlex.quote(keep)} --zone {zone} --yes` drops them",
        )
    exit_with(code)


def _drop(cli: CliContext, place: TablePlace, values: list[str], reason: str, *, dry_run: bool) -> tuple[int, int]:
    """Drops dates, or says what that would do; the exit code, and rows."""
    code, name = EXIT_DONE, str(place.table)
    dates = rows = size = 0
    for value, done in zip(values, drop_history(place, values, reason, clock=time.time, dry_run=dry_run), strict=True):
        if isinstance(done, Failure):
            failed = report(cli, as_ours(done.error), table=name, date=value)
            code = code or failed
            continue
        dates, rows, size = dates + bool(done.generation), rows + done.rows, size + done.size
        shown = {"table": name, "date": value, "rows": done.rows, "bytes": done.size, "generation": done.generation}
        verb = "would drop" if dry_run else "dropped" if done.generation else "dropped before,"
        cli.result({**shown, "dry_run": dry_run}, f"{value}: {verb} {done.rows:,} rows, {done.size:,} bytes")
    if not dry_run:
        follow(place, cli.note)
    cli.result(
        {"table": name, "dates": dates, "rows": rows, "bytes": size, "dry_run": dry_run},
        f"{dates:,} dates, {rows:,} rows, {size:,} bytes"
        + (" (dry run)" if dry_run else ". The files go in an hour, by the next merge or `clean`" if dates else ""),
    )
    return code, rows
