"""Dates of history as wholes: dropped, adopted, moved, detached and attached; and files that nothing reads removed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sparkhaven.ingest.settings import parse_period
from sparkhaven.jobs.date_choice import DateChoice, end_of, zone_named
from sparkhaven.jobs.session.spark_or_local import HistoryRun
from sparkhaven.store.errors import SettingsError, SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.dropped_tables import TableDrop, doomed, dropped_tables
from sparkhaven.store.merges.merge_records import all_values
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.seen_history import history_values
from sparkhaven.store.schema.deployed.deploy import deployed_tables, load_deployed
from sparkhaven.writers.merge.adoption import AdoptedDate, adopt_dates
from sparkhaven.writers.merge.publish.publish_phase import Replaced, clean
from sparkhaven.writers.merge.write.phases import Failure
from sparkhaven.writers.removal.history_removal import DroppedDate, drop_history
from sparkhaven.writers.removal.table_removal import finish_drop
from sparkhaven.writers.transfer.date_copies import DateCopies, RelocatedDate, move_dates
from sparkhaven.writers.transfer.detached_dates import attach_dates, detach_dates, detached_below, missing_parts
from sparkhaven.writers.transfer.extended import follow
from sparkhaven.writers.transfer.snapshots import path_outside

MOST_COPIES = 4  # dates at once: a volume copies no faster with more
DROPPED = "dropped by command"


@dataclass(frozen=True, slots=True)
class HistoryDate:
    """What was done with a date of history, or why it failed: then nothing was.

    ``generation`` 0: it was so before. ``origin``: the storage partitions that it has left. ``path``: its directory
    outside of the database.
    """

    date: str
    rows: int = 0
    bytes: int = 0
    generation: int = 0
    origin: tuple[str, ...] = ()
    path: Path | None = None
    error: SparkhavenError | OSError | None = None

    @classmethod
    def of(cls, date: str, done: DroppedDate | RelocatedDate | Failure, path: Path | None = None) -> HistoryDate:
        if isinstance(done, Failure):
            return cls(date, path=path, error=done.error)
        origin = done.origin if isinstance(done, RelocatedDate) else ()
        return cls(done.value, done.rows, done.size, done.generation, origin, path)


def merged_dates(place: TablePlace, choice: DateChoice, *, detached: bool = False) -> list[str]:
    """The chosen dates that history has, or with ``detached`` had; TableNotFoundError, SettingsError."""
    load_deployed(place)
    known = history_values(place, detached=detached)
    return choice.pick(known, time.time(), lambda: all_values(place), "merged ")


def expired_dates(place: TablePlace, keep: str, zone: str) -> list[str]:
    """The dates of history whose day has ended a period ago in a time zone. SettingsError: no period, no zone."""
    load_deployed(place)
    try:
        period = parse_period(keep)
    except ValueError as error:
        expected = "like 400d, 36h, '6 months' or '2 years'"
        raise SettingsError("--keep is no period", expected=expected, found=repr(keep), hint=str(error)) from error
    where, now_s = zone_named(zone, "--zone is not a time zone"), time.time()
    ends = ((value, end_of(value, where, period)) for value in history_values(place))
    return [value for value, end in ends if end is not None and end <= now_s]


def drop(place: TablePlace, dates: Sequence[str], reason: str, run: HistoryRun) -> Iterator[HistoryDate]:
    """Drops dates of history; raises what ``drop_history`` raises."""
    results = drop_history(place, dates, reason, clock=time.time, dry_run=run.dry_run)
    yield from (HistoryDate.of(date, done) for done, date in zip(results, dates, strict=False))
    _followed(place, run)


def adopt(place: TablePlace, choice: DateChoice | None, run: HistoryRun, *, accept_loss: bool) -> Iterator[AdoptedDate]:
    """Writes records of history that differs from them. Default: of all such dates. Raises as ``adopt_dates``."""
    load_deployed(place)
    choose: Callable[[list[str]], Sequence[str]] | None = (
        None if choice is None else partial(choice.pick, now_s=time.time())
    )
    yield from adopt_dates(place, choose, clock=time.time, accept_loss=accept_loss, dry_run=run.dry_run)
    _followed(place, run)


def move(place: TablePlace, dates: Sequence[str], to: str, run: HistoryRun) -> Iterator[HistoryDate]:
    """Moves dates to a storage partition, up to ``run.workers`` at once; raises what ``move_dates`` raises."""
    copies = DateCopies(place, time.time, run.note, dry_run=run.dry_run)
    at_once = run.workers or min(MOST_COPIES, os.cpu_count() or 1)
    results = move_dates(copies, dates, to, workers=at_once, stop_on_error=run.stop_on_error)
    yield from (HistoryDate.of(date, done) for done, date in zip(results, dates, strict=False))
    _followed(place, run)  # a move adopts what stands beside the record


def detach(place: TablePlace, dates: Sequence[str], out: Path, run: HistoryRun) -> Iterator[HistoryDate]:
    """Takes dates out, to a directory outside of the database; raises what ``detach_dates`` raises."""
    directory = path_outside(place.fs, place.layout, out)
    copies = DateCopies(place, time.time, run.note, link=True, dry_run=run.dry_run)
    results = detach_dates(copies, dates, directory)
    for done, date in zip(results, dates, strict=True):
        yield HistoryDate.of(date, done, None if isinstance(done, Failure) else done.path)
    _followed(place, run)


def attach(place: TablePlace, directory: Path, partition: str | None, run: HistoryRun) -> Iterator[HistoryDate]:
    """Brings detached dates back, and tells of parts that are missing beside them; raises as ``attach_dates``."""
    load_deployed(place)
    directories = detached_below(place, directory)
    copies = DateCopies(place, time.time, run.note, link=True, dry_run=run.dry_run)
    results = attach_dates(copies, directories, partition)
    for path, done in zip(directories, results, strict=True):
        yield HistoryDate.of(path.name, done, path)
    missing: Iterable[tuple[str, Failure]] = (
        missing_parts(place, directory, directories) if directories != [directory] else ()
    )
    for date, failure in missing:
        yield HistoryDate.of(date, failure)
    _followed(place, run)


@dataclass(frozen=True, slots=True)
class CleanedTable:
    """What was removed of a table, or with a dry run would be: ``removed`` generations of history.

    ``waiting``: those in their grace period. ``drop``: of a dropped table its record. ``error``: why it failed.
    """

    table: TableName
    removed: tuple[Replaced, ...] = ()
    waiting: tuple[Replaced, ...] = ()
    drop: TableDrop | None = None
    error: SparkhavenError | None = None


def clean_tables(layout: Layout, name: str | None, *, dry_run: bool = False) -> Iterator[CleanedTable]:
    """Removes replaced generations of history, and files of dropped tables, once no reader can be using them.

    ``name``: only of this table. An error of one does not stop the others. TableNotFoundError: there is no such table.
    """
    fs, named = Fs(), None if name is None else TableName.parse(name)
    dropped, deployed = dropped_tables(fs, layout), deployed_tables(fs, layout)
    for table in dropped if named is None else [named]:
        try:
            drop = _finished_drop(TablePlace(fs, layout, table), dry_run=dry_run)
        except SparkhavenError as error:
            yield CleanedTable(table, error=error)
        else:
            if drop is not None:
                yield CleanedTable(table, drop=drop)
    if named is not None:
        if named in dropped and named not in deployed:
            return
        load_deployed(TablePlace(fs, layout, named))
    for table in deployed if named is None else [named]:
        try:
            removed, waiting = clean(TablePlace(fs, layout, table), time.time, dry_run=dry_run)
        except SparkhavenError as error:
            yield CleanedTable(table, error=error)
        else:
            yield CleanedTable(table, tuple(removed), tuple(waiting))


def _finished_drop(place: TablePlace, *, dry_run: bool) -> TableDrop | None:
    """Goes on with the drop of a table; None: it is not dropped, or was created again since."""
    drop = doomed(place)
    if drop is None or place.fs.stat(place.schema) is not None:
        return None
    return drop if dry_run else finish_drop(place, drop, clock=time.time)


def _followed(place: TablePlace, run: HistoryRun) -> None:
    if not run.dry_run:
        follow(place, run.note)
