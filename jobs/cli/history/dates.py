"""Commands on dates of history: ``dates adopt|drop|expire|move|detach|attach``."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext
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
from sparkhaven.jobs.date_choice import parse_choice
from sparkhaven.jobs.operations import history_dates
from sparkhaven.jobs.operations.history_dates import DROPPED, HistoryDate, expired_dates, merged_dates
from sparkhaven.jobs.session.spark_or_local import HistoryRun
from sparkhaven.store.errors import EXIT_DONE, SettingsError, counted
from sparkhaven.store.io.local_path import local_path

EXIT_CODES = {
    "done": "done, or nothing to drop",
    "bad_data": "a date failed: intraday still has it",
    "usage": "wrong options, no such table or dates",
    "retry": "a merge runs",
}


@dataclass(frozen=True, slots=True)
class Verbs:
    """What is said of a date: that it was done before, would be done, or was done. ``later``: former files go later."""

    before: str
    planned: str
    done: str
    later: bool = True


DROPPED_VERBS = Verbs("dropped before,", "would drop", "dropped")


def register(app: typer.Typer) -> None:
    dates = group("Move, detach, attach, adopt, drop and expire dates of history.")
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
    bad_data = "a location is damaged, or rows of a merge are gone"
    dates.command(epilog=help_end("dates adopt Nyc13.Flight --dry-run", **EXIT_CODES | {"bad_data": bad_data}))(adopt)
    dates.command(epilog=help_end("dates drop Nyc13.Flight --dates 2013-07-04 --dry-run", **EXIT_CODES))(drop)
    dates.command(epilog=help_end("dates expire Nyc13.Flight --keep 400d --dry-run", **EXIT_CODES))(expire)
    app.add_typer(dates, name="dates")


def drop(
    cli: CliContext,
    name: TableArgument,
    dates: DatesOption = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the record.")] = DROPPED,
    dry_run: DryRun = False,
) -> None:
    """Drops dates of history.

    Readers no longer see them. Their files are removed an hour later, by the next merge or `clean`. The merge records
    stay, with the rows and digests that were dropped. A date that is still in intraday is refused.
    """
    table_place = cli.place(name)
    done = history_dates.drop(
        table_place, merged_dates(table_place, parse_choice(dates)), reason, _run(cli, dry_run=dry_run)
    )
    _show(cli, name, done, DROPPED_VERBS, dry_run=dry_run)


def adopt(
    cli: CliContext,
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
    adopted, rows = 0, 0
    choice = None if dates is None else parse_choice(dates)
    run = _run(cli, dry_run=dry_run)
    for done in history_dates.adopt(cli.place(name), choice, run, accept_loss=accept_loss):
        if done.error is not None:
            cli.report(done.error, table=name, date=done.value)
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
    end = " would be adopted (dry run)" if dry_run else " adopted"
    shown = {"table": name, "dates": adopted, "rows": rows, "dry_run": dry_run}
    cli.result(shown, f"{counted(adopted, 'date')}, {counted(rows, 'row')}{end}")


def expire(
    cli: CliContext,
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
    table_place = cli.place(name)
    old = expired_dates(table_place, keep, zone)
    planned = dry_run or not yes
    done = history_dates.drop(table_place, old, f"older than {keep}", _run(cli, dry_run=planned))
    rows = _show(cli, name, done, DROPPED_VERBS, dry_run=planned)
    if old and not dry_run and not yes and cli.code == EXIT_DONE:
        raise SettingsError(
            "the dates that would go are not confirmed",
            where=name,
            expected="--yes",
            found=f"{counted(len(old), 'date')} from {old[0]} to {old[-1]}, {counted(rows, 'row')}",
            hint=f"`sparkhaven dates expire {name} --keep {shlex.quote(keep)} --zone {zone} --yes` drops them",
        )


def move(
    cli: CliContext,
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
    table_place = cli.place(name)
    values = merged_dates(table_place, parse_choice(dates))
    run = _run(cli, workers, stop_on_error=stop_on_error, dry_run=dry_run)

    results = history_dates.move(table_place, values, to, run)
    _show(cli, name, results, Verbs("is there,", "would move", "moved"), dry_run=dry_run, to=to)


def detach(
    cli: CliContext,
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
    table_place = cli.place(name)
    values = merged_dates(table_place, parse_choice(dates), detached=True)
    results = history_dates.detach(table_place, values, out, _run(cli, dry_run=dry_run))
    _show(cli, name, results, Verbs("detached before,", "would detach", "detached"), dry_run=dry_run)


def attach(
    cli: CliContext,
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
    results = history_dates.attach(cli.place(name), directory, to, _run(cli, dry_run=dry_run))
    _show(cli, name, results, Verbs("attached before,", "would attach", "attached", later=False), dry_run=dry_run)


def _show(
    cli: CliContext, name: str, results: Iterable[HistoryDate], verbs: Verbs, *, dry_run: bool, to: str | None = None
) -> int:
    """Prints what was done with each date, then the sums; the rows."""
    dates, rows, size = 0, 0, 0
    for done in results:
        if done.error is not None:
            cli.report(done.error, table=name, date=done.date)
            continue
        dates, rows, size = dates + bool(done.generation), rows + done.rows, size + done.bytes
        verb = verbs.before if not done.generation else verbs.planned if dry_run else verbs.done
        record: dict[str, object] = {"table": name, "date": done.date, "rows": done.rows, "bytes": done.bytes}
        text = f"{done.date}: {verb} {counted(done.rows, 'row')}, {counted(done.bytes, 'byte')}"
        if done.path is not None:
            record, text = {**record, "path": str(done.path)}, f"{text}, {done.path}"
        if to is not None:
            record, text = {**record, "from": [*done.origin], "to": to}, f"{text}, {', '.join(done.origin)} to {to}"
        cli.result({**record, "generation": done.generation, "dry_run": dry_run}, text)
    then = f". The former files go in an hour, by the next merge or `sparkhaven clean {name}`"
    text = f"{counted(dates, 'date')}, {counted(rows, 'row')}, {counted(size, 'byte')}"
    record = {"table": name, "dates": dates, "rows": rows, "bytes": size, "dry_run": dry_run}
    cli.result(record, text + (" (dry run)" if dry_run else then if verbs.later and dates else ""))
    return rows


def _run(
    cli: CliContext, workers: int | None = None, *, stop_on_error: bool = False, dry_run: bool = False
) -> HistoryRun:
    return HistoryRun("local", workers, stop_on_error, dry_run, note=cli.note)
