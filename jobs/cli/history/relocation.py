"""Commands on where dates of history lie: ``dates move|detach|attach``."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext, exit_with, report
from sparkhaven.jobs.cli.options import (
    DatesOption,
    DryRun,
    StopOnErrorOption,
    TableArgument,
    WorkersOption,
    help_end,
)
from sparkhaven.jobs.date_choice import parse_choice
from sparkhaven.store.errors import EXIT_DONE
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.io.system_errors import as_ours
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.merge_records import all_values
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.seen_history import history_values
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.writers.merge.write.phases import Failure
from sparkhaven.writers.transfer.attach import attach_dates, detached_below, missing_parts
from sparkhaven.writers.transfer.detach import detach_dates
from sparkhaven.writers.transfer.extended import follow
from sparkhaven.writers.transfer.move import move_dates
from sparkhaven.writers.transfer.snapshot import path_outside

MOST_COPIES = 4  # dates at once: a volume copies no faster with more


def register(dates: typer.Typer) -> None:
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
    summary.end("The former files go in an hour, by the next merge or `clean`")


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
    summary.end("The former files go in an hour, by the next merge or `clean`")


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
        line = text.format(f"{rows:,} rows, {size:,} bytes")
        self._cli.result({**sizes, **shown, "dry_run": self._dry_run}, f"{value}: {line}")

    def end(self, later: str) -> None:
        text = f"{self.dates:,} dates, {self._rows:,} rows, {self._size:,} bytes"
        sizes = {"table": self._table, "dates": self.dates, "rows": self._rows, "bytes": self._size}
        then = f". {later}" if later and self.dates else ""
        self._cli.result({**sizes, "dry_run": self._dry_run}, text + (" (dry run)" if self._dry_run else then))
        exit_with(self._code)


def place_of(cli: CliContext, name: str) -> TablePlace:
    """The deployed table that a command names."""
    place = TablePlace(Fs(), cli.database(), TableName.parse(name))
    load_deployed(place)
    return place
