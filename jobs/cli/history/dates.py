"""Commands on dates of history: ``dates adopt|drop|expire|move|detach|attach``."""

from __future__ import annotations

import os
import shlex
import time
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
from sparkhaven.writers.removal.history_removal import DroppedDate, drop_history
from sparkhaven.writers.transfer.date_copies import DateCopies, RelocatedDate, move_dates
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
    exit_with(_drop(cli, place, values, reason, dry_run=dry_run).code)


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
    done = _drop(cli, place, old, f"older than {keep}", dry_run=planned)
    if old and not dry_run and not yes and done.code == EXIT_DONE:
        raise SettingsError(
            "the dates that would go are not confirmed",
            where=name,
            expected="--yes",
            found=f"{counted(len(old), 'date')} from {old[0]} to {old[-1]}, {counted(done.rows, 'row')}",
            hint=f"`sparkhaven dates expire {name} --keep {shlex.quote(keep)} --zone {zone} --yes` drops them",
        )
    exit_with(done.code)


def _later(place: TablePlace) -> str:
    return f"The former files go in an hour, by the next merge or `sparkhaven clean {place.table}`"


def _drop(cli: CliContext, place: TablePlace, values: list[str], reason: str, *, dry_run: bool) -> _Summary:
    """Drops dates, or says what that would do."""
    summary = _Summary(cli, place, ("dropped before,", "would drop", "dropped"), dry_run=dry_run)
    for value, done in zip(values, drop_history(place, values, reason, clock=time.time, dry_run=dry_run), strict=True):
        summary.show(value, done)
    summary.end(_later(place))
    return summary


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
    copies = DateCopies(place, time.time, cli.note, dry_run=dry_run)
    at_once = workers or min(MOST_COPIES, os.cpu_count() or 1)
    summary = _Summary(cli, place, ("is there,", "would move", "moved"), dry_run=dry_run)
    results = move_dates(copies, values, to, workers=at_once, stop_on_error=stop_on_error)
    for value, done in zip(values, results, strict=False):
        origin = done.origin if isinstance(done, RelocatedDate) else ()
        summary.show(value, done, where=f"{', '.join(origin)} to {to}", **{"from": [*origin]}, to=to)
    summary.end(_later(place))  # a move adopts what stands beside the record
    exit_with(summary.code)


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
    copies = DateCopies(place, time.time, cli.note, link=True, dry_run=dry_run)
    summary = _Summary(cli, place, ("detached before,", "would detach", "detached"), dry_run=dry_run)
    for value, done in zip(values, detach_dates(copies, values, directory), strict=True):
        path = str(done.path) if isinstance(done, RelocatedDate) else ""
        summary.show(value, done, where=path, path=path)
    summary.end(_later(place))
    exit_with(summary.code)


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
    copies = DateCopies(place, time.time, cli.note, link=True, dry_run=dry_run)
    summary = _Summary(cli, place, ("attached before,", "would attach", "attached"), dry_run=dry_run)
    for path, done in zip(directories, attach_dates(copies, directories, to), strict=True):
        summary.show(path.name, done, where=path, path=str(path))
    for value, failure in missing_parts(place, directory, directories) if directories != [directory] else ():
        summary.show(value, failure)
    summary.end()
    exit_with(summary.code)


class _Summary:
    """Prints the result of each date, then their sums; ``code`` is that of the first that failed.

    ``verbs``: for what was done before, what would be done, and what was done.
    """

    def __init__(self, cli: CliContext, place: TablePlace, verbs: tuple[str, str, str], *, dry_run: bool) -> None:
        self._cli, self._place, self._verbs, self._dry_run = cli, place, verbs, dry_run
        self.dates = self.rows = self.size = 0
        self.code = EXIT_DONE

    def show(self, name: str, done: RelocatedDate | DroppedDate | Failure, **more: object) -> None:
        """``name`` of a date that failed. ``more``: shown beside its size; in ``where`` is the end of the line."""
        if isinstance(done, Failure):
            failed = report(self._cli, as_ours(done.error), table=str(self._place.table), date=name)
            self.code = self.code or failed
            return
        self.dates, self.rows = self.dates + bool(done.generation), self.rows + done.rows
        self.size += done.size
        before, planned, verb = self._verbs
        verb = before if not done.generation else planned if self._dry_run else verb
        where = more.pop("where", None)
        line = f"{done.value}: {verb} {counted(done.rows, 'row')}, {counted(done.size, 'byte')}"
        sizes = {"table": str(self._place.table), "date": done.value, "rows": done.rows, "bytes": done.size}
        shown = {**sizes, "generation": done.generation, **more, "dry_run": self._dry_run}
        self._cli.result(shown, f"{line}, {where}" if where else line)

    def end(self, later: str = "") -> None:
        """Brings the tree beside history in step, and prints the sums."""
        if not self._dry_run:
            follow(self._place, self._cli.note)
        text = f"{counted(self.dates, 'date')}, {counted(self.rows, 'row')}, {counted(self.size, 'byte')}"
        sizes = {"table": str(self._place.table), "dates": self.dates, "rows": self.rows, "bytes": self.size}
        then = f". {later}" if later and self.dates else ""
        self._cli.result({**sizes, "dry_run": self._dry_run}, text + (" (dry run)" if self._dry_run else then))


def place_of(cli: CliContext, name: str) -> TablePlace:
    """The deployed table that a command names."""
    place = TablePlace(Fs(), cli.database(), TableName.parse(name))
    load_deployed(place)
    return place
