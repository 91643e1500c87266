"""Commands on dates of history: ``dates adopt|drop|expire|move|detach|attach``."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from sparkhaven.ingest.settings.base_model import parse_period
from sparkhaven.jobs.cli.context import CliContext, exit_with, report
from sparkhaven.jobs.cli.options import (
    DatesOption,
    DryRun,
    StopOnErrorOption,
    TableArgument,
    WorkersOption,
    YesOption,
    group,
    help_end,
)
from sparkhaven.jobs.date_choice import end_of, parse_choice, zone_named
from sparkhaven.store.errors import EXIT_DONE, SettingsError, counted
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.io.system_errors import as_ours
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.merge_records import all_values
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.seen_history import history_values
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.writers.merge.adoption import adopt_dates
from sparkhaven.writers.merge.write.phases import Failure
from sparkhaven.writers.removal.history_removal import drop_history
from sparkhaven.writers.transfer.date_copies import move_dates
from sparkhaven.writers.transfer.detached_dates import attach_dates, detach_dates, detached_below, missing_parts
from sparkhaven.writers.transfer.extended import follow
from sparkhaven.writers.transfer.snapshots import path_outside

EXIT_CODES = {
    "done": "done, or nothing to drop",
    "bad_data": "a date failed: intraday still has it",
    "usage": "wrong options, no such table or dates",
    "retry": "a merge runs",
}


def register(app: typer.Typer) -> None:
    dates = group("Move, detach, attach, adopt, drop and expire dates of history.")
    _register_moves(dates)
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

    Its data files stay as they are. They are read. A merge record gets their rows, digests and checksums, and the
    location index names them. A location of another program gets its table.size and table.tbl. Default: every date
    whose history is not as its merge record says.
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
        parts = [
            f"{counted(done.rows, 'row')} without a record",
            f"{counted(done.moved, 'location')} moved",
            f"{counted(done.lost, 'row')} gone",
        ]
        text = ", ".join(parts) if done.differs else "is as its record says"
        cli.result({**shown, "generation": done.generation, "dry_run": dry_run}, f"{done.value}: {text}")
    if not dry_run:
        follow(place, cli.note)
    end = " would be adopted (dry run)" if dry_run else " adopted"
    shown = {"table": name, "dates": adopted, "rows": rows, "dry_run": dry_run}
    cli.result(shown, f"{counted(adopted, 'date')}, {counted(rows, 'row')}{end}")
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
            found=f"{counted(len(old), 'date')} from {old[0]} to {old[-1]}, {counted(rows, 'row')}",
            hint=f"`sparkhaven dates expire {name} --keep {shlex.quote(keep)} --zone {zone} --yes` drops them",
        )
    exit_with(code)


def _later(place: TablePlace) -> str:
    return f"The former files go in an hour, by the next merge or `sparkhaven clean {place.table}`"


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
        cli.result(
            {**shown, "dry_run": dry_run}, f"{value}: {verb} {counted(done.rows, 'row')}, {counted(done.size, 'byte')}"
        )
    if not dry_run:
        follow(place, cli.note)
    cli.result(
        {"table": name, "dates": dates, "rows": rows, "bytes": size, "dry_run": dry_run},
        f"{counted(dates, 'date')}, {counted(rows, 'row')}, {counted(size, 'byte')}"
        + (" (dry run)" if dry_run else f". {_later(place)}" if dates else ""),
    )
    return code, rows


MOST_COPIES = 4  # dates at once: a volume copies no faster with more


def _register_moves(dates: typer.Typer) -> None:
    move_end = help_end(
        "dates move Nyc13.Flight --dates 2013-01-01..2013-03-31 --to archive --dry-run",
        done="done, or the dates are there",
        bad_data="a date failed: damaged, or not merged",
        usage="wrong options, no such table, dates or storage partition, files of another user",
        retry="a merge runs, the volume is not mounted or has no space",
    )
    dates.command(epilog=move_end)(move)
    detach_end = help_end(
        "dates detach Nyc13.Flight --dates 2013-01-01..2013-03-31 --out /mnt/tape --dry-run",
        done="done, or the dates were detached before",
        bad_data="a date failed: damaged, or intraday still has it",
        usage="wrong options, no such table, dates or directory",
        retry="a merge runs, a volume is not mounted or has no space",
    )
    dates.command(epilog=detach_end)(detach)
    attach_end = help_end(
        "dates attach Nyc13.Flight /mnt/tape",
        done="done, or the dates were attached before",
        bad_data="a date failed: damaged, or not detached from this database",
        usage="wrong options, no such table, another table, no detached date in the directory",
        retry="a merge runs, a volume is not mounted or has no space",
    )
    dates.command(epilog=attach_end)(attach)


def move(
    ctx: typer.Context,
    name: TableArgument,
    to: Annotated[str, typer.Option("--to", metavar="PARTITION", help="Storage partition that the dates move to.")],
    dates: DatesOption = None,
    workers: WorkersOption = None,
    stop_on_error: StopOnErrorOption = False,
    dry_run: DryRun = False,
) -> None:
    """Moves dates of history to another storage partition.

    Files are copied as they are, synced, and read back: checksums and digests must be those of the merge. Then one
    merge record switches readers over. Later merges of the date write to the new partition, too. The former files are
    removed an hour later, by the next merge or `clean`. Ingest goes on. Merges of the table are refused.

    `partitions add NS NAME --volume DIR` makes a storage partition on another volume.
    """
    cli: CliContext = ctx.obj
    place = place_of(cli, name)
    values = parse_choice(dates).pick(history_values(place), time.time(), lambda: all_values(place), "merged ")
    results = move_dates(
        place,
        values,
        to,
        clock=time.time,
        workers=workers or min(MOST_COPIES, os.cpu_count() or 1),
        dry_run=dry_run,
        stop_on_error=stop_on_error,
        on_progress=cli.note,
    )
    summary = _Summary(cli, str(place.table), dry_run=dry_run)
    for value, done in zip(values, results, strict=False):
        if isinstance(done, Failure):
            summary.failed(value, done)
            continue
        verb = "is there," if not done.generation else "would move" if dry_run else "moved"
        shown = {"from": list(done.origin), "to": to, "generation": done.generation}
        where = f"{', '.join(done.origin)} to {to}"
        summary.done(value, done.rows, done.size, done.generation, shown, f"{verb} {{}}, {where}")
    if not dry_run:  # a move adopts what stands beside the record
        follow(place, cli.note)
    summary.end(_later(place))


def detach(
    ctx: typer.Context,
    name: TableArgument,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", parser=local_path, help="Directory that the dates go to.")
    ],
    dates: DatesOption = None,
    dry_run: DryRun = False,
) -> None:
    """Takes dates of history out of the database.

    Each gets a directory DIR/NS.T/DATE.gN, with its files as they are and a manifest of checksums, rows and digests.
    Files are linked where DIR is on the same file system, else copied, and read back. Then readers no longer see the
    date. `dates attach` brings it back. A date that is still in intraday is refused.
    """
    cli: CliContext = ctx.obj
    place = place_of(cli, name)
    values = parse_choice(dates).pick(
        history_values(place, detached=True), time.time(), lambda: all_values(place), "merged "
    )
    directory = path_outside(place.fs, place.layout, out)
    results = detach_dates(place, values, directory, clock=time.time, dry_run=dry_run, on_progress=cli.note)
    summary = _Summary(cli, str(place.table), dry_run=dry_run)
    for value, done in zip(values, results, strict=True):
        if isinstance(done, Failure):
            summary.failed(value, done)
            continue
        verb = "detached before," if not done.generation else "would detach" if dry_run else "detached"
        shown = {"generation": done.generation, "path": str(done.path)}
        summary.done(value, done.rows, done.size, done.generation, shown, f"{verb} {{}}, {done.path}")
    if not dry_run:
        follow(place, cli.note)
    summary.end(_later(place))


def attach(
    ctx: typer.Context,
    name: TableArgument,
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", parser=local_path, help="A detached date, or a directory with several.")
    ],
    to: Annotated[
        str | None, typer.Option("--to", metavar="PARTITION", help="Storage partition. Default: as before.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Brings detached dates back into history.

    All files are read first: checksums, rows, digests and columns must be those of the manifest. Then a merge record
    shows them to readers, beside what the date has by now. The directory stays as it is. With --dry-run it is verified.
    Of a directory with several, each part that was detached to it has to be there.
    """
    cli: CliContext = ctx.obj
    place = place_of(cli, name)
    directories = detached_below(place, directory)
    results = attach_dates(place, directories, clock=time.time, partition=to, dry_run=dry_run, on_progress=cli.note)
    summary = _Summary(cli, str(place.table), dry_run=dry_run)
    for path, done in zip(directories, results, strict=True):
        if isinstance(done, Failure):
            summary.failed(path.name, done)
            continue
        verb = "attached before," if not done.generation else "would attach" if dry_run else "attached"
        shown = {"generation": done.generation, "path": str(path)}
        summary.done(done.value, done.rows, done.size, done.generation, shown, f"{verb} {{}}, {path}")
    for value, failure in missing_parts(place, directory, directories) if directories != [directory] else ():
        summary.failed(value, failure)
    if not dry_run:
        follow(place, cli.note)
    summary.end("")


class _Summary:
    """Prints the result of each date, then their sums; the exit code is that of the first that failed."""

    def __init__(self, cli: CliContext, table: str, *, dry_run: bool) -> None:
        self._cli, self._table, self._dry_run = cli, table, dry_run
        self.dates = self._rows = self._size = 0
        self._code = EXIT_DONE

    def failed(self, value: str, failure: Failure) -> None:
        code = report(self._cli, as_ours(failure.error), table=self._table, date=value)
        self._code = self._code or code

    def done(self, value: str, rows: int, size: int, generation: int, shown: Mapping[str, object], text: str) -> None:
        """``generation`` 0: nothing was done. ``text``: with a place for rows and bytes."""
        self.dates, self._rows, self._size = self.dates + bool(generation), self._rows + rows, self._size + size
        sizes = {"table": self._table, "date": value, "rows": rows, "bytes": size}
        line = text.format(f"{counted(rows, 'row')}, {counted(size, 'byte')}")
        self._cli.result({**sizes, **shown, "dry_run": self._dry_run}, f"{value}: {line}")

    def end(self, later: str) -> None:
        text = f"{counted(self.dates, 'date')}, {counted(self._rows, 'row')}, {counted(self._size, 'byte')}"
        sizes = {"table": self._table, "dates": self.dates, "rows": self._rows, "bytes": self._size}
        then = f". {later}" if later and self.dates else ""
        self._cli.result({**sizes, "dry_run": self._dry_run}, text + (" (dry run)" if self._dry_run else then))
        exit_with(self._code)


def place_of(cli: CliContext, name: str) -> TablePlace:
    """The deployed table that a command names."""
    place = TablePlace(Fs(), cli.database(), TableName.parse(name))
    load_deployed(place)
    return place
