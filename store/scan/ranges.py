"""From a snapshot to the row ranges of files that a read must open.

A snapshot is the table's schema and one state per stream, as loaded at open; nothing here looks at the disk except
for merge records of the dates that a read may touch. Skipping is sound: a row range is left out only if the dates,
the sources or the committed statistics prove that no row of it can be in the result.

How each row comes once in tier ``all``: a date whose newest usable merge record says that the first ``n`` rows of
an intraday location (known by stream, internal partition and the epoch that made it) are merged gives the record's
outputs, and of that location the rows from ``n`` on. A record is usable if the snapshot holds every row that it took
in, and has withdrawn exactly those of them that the record left out as withdrawn; else an older record, or intraday
alone, gives the same rows. Of intraday the withdrawn rows are left out.

Tier ``history`` is what was merged when the table was opened: a later merge may give the rows of then, and no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sparkhaven.store.epochs.state.locations import Locations
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.errors import CorruptFileError, SettingsError, counted
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.merges.history import has_all_rows
from sparkhaven.store.merges.merge_records import (
    MergeInput,
    MergeRecord,
    all_values,
    merged_rows,
    newest,
    record_missing,
)
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.checksums import MEMORY
from sparkhaven.store.scan.history_pins import HistoryPin, Opened, moved
from sparkhaven.store.scan.location_files import LocationFiles
from sparkhaven.store.scan.narrowing import Filter, narrowed, value_stats
from sparkhaven.store.scan.seen_history import SeenDate, refuse_newer, see_date, standing_values
from sparkhaven.store.scan.selection import (
    Selection,
    Tier,
    refuse_merged_sources,
    refuse_unknown_sources,
    refuse_unknown_values,
)
from sparkhaven.store.scan.slices import NamesOfNow, Slice
from sparkhaven.store.scan.standing import Dated, dated_partitions
from sparkhaven.store.types.model import TableSchema


class Stream(Protocol):
    """What a scan needs of a stream's state."""

    @property
    def stream(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def locations(self) -> Locations: ...


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table at one moment: its schema, and its streams at their pinned epochs, by name.

    ``history``: as it was then. None: as it is when it is read. ``opened_ns``: when it was opened, likewise.
    """

    table: TableName
    schema: TableSchema
    streams: tuple[Stream, ...]
    history: HistoryPin | None = None
    opened_ns: int | None = None

    @property
    def epochs(self) -> dict[str, int]:
        return {stream.stream: stream.epoch for stream in self.streams}


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What a read opens, ordered by (value, history before intraday, internal partition, row).

    ``rows`` is the sum over the slices. ``unmerged``: what merge records took in from streams beyond the snapshot, or
    from streams that it does not have. ``records``: the merge records that decide what is read of their dates.
    ``differing``: dates whose history is not as their records say, or has none.
    """

    slices: tuple[Slice, ...]
    rows: int
    unmerged: tuple[tuple[Path, MergeInput], ...] = ()
    records: tuple[MergeRecord, ...] = ()
    differing: tuple[SeenDate, ...] = ()


def make_plan(
    place: TablePlace,
    snapshot: Snapshot,
    *,
    tier: Tier = "all",
    selection: Selection | None = None,
    where: Filter | None = None,
    files: LocationFiles | None = None,
) -> ReadPlan:
    """Row ranges that can hold rows of the read.

    Reads merge records of selected dates only, and of files with rows only indexes, which ``files`` opens. Raises
    TableNotFoundError for a date or a source that the table does not have; SettingsError for an epoch whose rows are
    only in newer history, and for a source whose rows are merged, hence no longer kept apart; SnapshotMovedError for a
    table that was dropped since. What stands in history
    without a record is read too; CorruptFileError where it may have the rows that intraday has.
    """
    selection = selection or Selection()
    intraday = {value for stream in snapshot.streams for value in stream.locations.dates()}
    dated: Dated = {} if tier == "intraday" else dated_partitions(place)
    merged = set() if tier == "intraday" else set(all_values(place))
    if not merged and tier != "intraday" and snapshot.history is not None:
        snapshot.history.refuse_dropped(place)
    unrecorded = {value for value in dated.keys() - merged if selection.takes_value(value)}
    merged |= standing_values(place, unrecorded, dated)
    values = merged if tier == "history" else merged | intraday
    refuse_unknown_values(snapshot.table, selection, tier, values, intraday | merged)
    known: set[str] = set()
    names = NamesOfNow(snapshot.schema)
    if selection.sources is not None:
        known |= {key.internal for stream in snapshot.streams for key in stream.locations}
    slices: list[Slice] = []
    unmerged: list[tuple[Path, MergeInput]] = []
    records: list[MergeRecord] = []
    differing: list[SeenDate] = []
    came: set[str] = set()
    for value in selection.taken(values):
        if where is not None and not where.may_match(value_stats(snapshot.schema, value, 0, 1)):
            continue
        located = _located_at(snapshot, value)
        record = usable_record(place, snapshot, value, unmerged, tier) if value in merged else None
        if record is None and tier != "intraday" and any(location.truncated for _, location in located):
            raise record_missing(place, value)
        if value in merged:
            seen = see_date(place, value, record, dated, snapshot.opened_ns)
            if seen.unvouched and record is None and tier == "all":
                refuse_doubled(place, seen, (location for _, location in located))
            if not seen.as_recorded:
                differing.append(seen)
            known |= {output.internal for output in seen.locations}
            if record is None and not seen.locations and _came(place, snapshot, value):
                came.add(value)
            slices += _history(place.layout, snapshot, seen, names)
        if record is not None:
            records.append(record)
            known |= {output.internal for output in record.outputs}
        if tier != "history":
            slices += _remainder(place.layout, snapshot, located, record, names)
            if record is not None:
                refuse_merged_sources(selection.sources or (), record)
    if came:
        then = values - came if tier == "history" else values - (came - intraday)
        refuse_unknown_values(snapshot.table, selection, tier, then, intraday | (merged - came))
    if selection.sources is not None:
        refuse_unknown_sources(place, selection.sources, known)
    slices = [slice_ for slice_ in slices if selection.takes_source(slice_.key.internal)]
    if where is not None:
        slices = narrowed(files or LocationFiles(place.fs, MEMORY), snapshot.schema, slices, where)
    rows = sum(slice_.count for slice_ in slices)
    return ReadPlan(tuple(slices), rows, tuple(unmerged), tuple(records), tuple(differing))


def usable_record(
    place: TablePlace,
    snapshot: Snapshot,
    value: str,
    unmerged: list[tuple[Path, MergeInput]] | None = None,
    tier: Tier = "all",
) -> MergeRecord | None:
    """The newest complete merge record of a date all of whose input rows are in the snapshot; None if there is none.

    In tier ``history`` also one that has the rows which were merged when the table was opened, and no others.

    To ``unmerged`` come inputs of streams that the snapshot does not have, or not up to that epoch.
    An older snapshot may use an older record whose locations are still there, or none. So does one whose history has
    other rows now. SettingsError: rows that it should show beside that record may have left intraday, or the files of
    the record are gone, which by a command or a rule had other rows than intraday.
    SnapshotMovedError: the record that it had is replaced by one with other rows, and its files are gone; or by one
    that has adopted what came, went or was changed after the table was opened.
    """
    newer: list[MergeInput] = []
    opened = snapshot.history.opened(place, value) if snapshot.history is not None else None
    changed, columns = False, frozenset(column.id for column in snapshot.schema.stored)
    record = newest(place, value)
    epochs = snapshot.epochs
    while record is not None:
        beyond = [taken for taken in record.inputs if taken.epoch > epochs.get(taken.stream, -1)]
        if unmerged is not None and beyond:
            path = place.merges / value / f"{record.generation}.json"
            unmerged += ((path, taken) for taken in beyond)
        if opened is not None and (
            not opened.shows(record, columns)
            or _later(snapshot, opened, record)
            or (tier == "history" and not opened.merged_as_much(record))
        ):
            changed = True
        elif all(_holds(snapshot, value, taken) for taken in record.inputs):
            if not newer or _stands(place, record):
                for internal in opened.changed_by_hand(record) if opened is not None else ():
                    refuse_newer(place, LocationKey(internal, value), snapshot.opened_ns)
                _refuse_left(place, snapshot, value, newer, record)
                return record
            if changed and opened is not None and not opened.is_newer(record):
                raise moved(place, record)
            if not has_all_rows(record):
                raise SettingsError(
                    "the epoch can no longer be read. History of then had other rows than intraday, and is replaced",
                    where=place.merges / value / f"{record.generation}.json",
                    found=f"epochs {snapshot.epochs}",
                    hint=NEWER,
                )
        # those that the snapshot holds may have been truncated since; none of its epochs has imported rows
        later = _later(snapshot, opened, record)
        newer += (t for t in record.inputs if not changed or (t.epoch >= 0 and t.stream not in later))
        record = newest(place, value, below=record.generation)
    _refuse_left(place, snapshot, value, newer)
    return None


def _came(place: TablePlace, snapshot: Snapshot, value: str) -> bool:
    """Whether a date of history that came after the table was opened, and that the snapshot has not at all."""
    opened = snapshot.history.opened(place, value) if snapshot.history is not None else None
    return opened is not None and opened.record is None


def _later(snapshot: Snapshot, opened: Opened | None, record: MergeRecord) -> set[str]:
    """The streams of a record that began after the table was opened.

    One that was removed before has its rows in the record of then.
    """
    if opened is None or not opened.is_newer(record):
        return set()
    known = {"", *snapshot.epochs, *(taken.stream for taken in (opened.record.inputs if opened.record else ()))}
    return {taken.stream for taken in record.inputs} - known


NEWER = "read a newer epoch. `sparkhaven stats` shows which dates are merged"


def _refuse_left(
    place: TablePlace, snapshot: Snapshot, value: str, newer: Sequence[MergeInput], record: MergeRecord | None = None
) -> None:
    """SettingsError: ``newer`` merges took rows that the snapshot has, ``record`` has not, and intraday has no more."""
    own = {taken.key: taken for taken in record.inputs} if record else {}
    for taken in newer:
        mine, location = own.get(taken.key), _located(snapshot, value, taken)[1]
        if (mine.rows if mine else 0) >= taken.rows or not _has_left(snapshot, value, taken):
            continue
        here = location if location is not None and location.since == taken.since else None
        if taken.epoch < 0:
            raise SettingsError(
                "the epoch cannot be read. Its history has imported rows, and a later merge took others beside them",
                where=place.merges / value,
                found=f"epochs {snapshot.epochs}",
                hint=NEWER,
            )
        if here is None or mine is None or here.epoch > mine.epoch:
            raise SettingsError(
                "the epoch can no longer be read. Its rows were merged later and removed from intraday",
                where=place.intraday_location(LocationKey(taken.internal, value)),
                found=f"epochs {snapshot.epochs}",
                hint=NEWER,
            )


def _located(snapshot: Snapshot, value: str, taken: MergeInput) -> tuple[Stream | None, LocationState | None]:
    stream = next((s for s in snapshot.streams if s.stream == taken.stream), None)
    return stream, stream.locations.get(LocationKey(taken.internal, value)) if stream else None


def _holds(snapshot: Snapshot, value: str, taken: MergeInput) -> bool:
    stream, location = _located(snapshot, value, taken)
    if stream is None:
        return True  # the stream no longer exists, only its history does
    if location is None or location.truncated or location.since > taken.since:
        return stream.epoch >= taken.epoch  # removed with proof after the merge, unless the snapshot is older
    if location.since != taken.since or location.rows < taken.rows:
        return False
    return taken.leaves_out(location.withdrawn)


def _has_left(snapshot: Snapshot, value: str, taken: MergeInput) -> bool:
    """Whether a location existed at the snapshot, but its rows of then are no longer in intraday."""
    stream, location = _located(snapshot, value, taken)
    if stream is None:
        return True
    return taken.since <= stream.epoch and (location is None or location.truncated or location.since > taken.since)


def _stands(place: TablePlace, record: MergeRecord) -> bool:
    """Whether the locations of a replaced record are all still there; they go some time after they were replaced."""
    keys = [LocationKey(output.internal, record.value) for output in record.outputs if output.rows]
    return all(place.fs.stat(place.history_location(key)) is not None for key in keys)


def _located_at(snapshot: Snapshot, value: str) -> list[tuple[str, LocationState]]:
    """The locations of a date, with their streams; those of other dates are not decoded."""
    located = [(stream.stream, location) for stream in snapshot.streams for location in stream.locations.of_date(value)]
    if len(snapshot.streams) == 1:
        return located  # in this order already
    return sorted(located, key=lambda pair: (pair[1].key.internal, pair[0]))


def refuse_doubled(place: TablePlace, seen: SeenDate, located: Iterable[LocationState]) -> None:
    """CorruptFileError: history without a record stands beside intraday rows, which may be the same."""
    location = seen.unvouched[0]
    rows = sum(location.rows for location in located)
    if rows:
        raise CorruptFileError(
            "history of the date has no merge record, and may have the rows that are intraday too",
            where=place.history_location(location.key),
            expected=f"a record in {place.merges / seen.value}",
            found=f"none, and {counted(rows, 'row')} of the date in intraday",
            hint="if a merge has written it, restore the record from a copy. Else "
            f"`sparkhaven dates adopt {place.table} --dates {seen.value}` counts both. Until then name a tier to read",
        )


def _history(layout: Layout, snapshot: Snapshot, seen: SeenDate, names: NamesOfNow) -> list[Slice]:
    table = snapshot.table
    slices = []
    for out in seen.locations:
        key, rows = LocationKey(out.internal, seen.value), (0, out.rows, out.rows)
        path, newer = str(layout.history_location(table, key)), names.newer(out.named_by)
        committed = out.files, names.stats(out.named_by, out.stats), newer
        indexes = {} if newer else out.indexes
        slices.append(Slice("history", None, key, path, *rows, *committed, indexes, named_by=out.named_by))
    return slices


def _remainder(
    layout: Layout,
    snapshot: Snapshot,
    located: Sequence[tuple[str, LocationState]],
    record: MergeRecord | None,
    names: NamesOfNow,
) -> list[Slice]:
    """Slices of intraday, each from the row after those that the record took in."""
    merged = merged_rows(record)
    slices = []
    for stream, location in located:
        start = merged.get((stream, location.key.internal, location.since), 0)
        path = layout.intraday_path(snapshot.table, location.key)
        slice_ = intraday_slice(path, stream, location, start, location.rows, names)
        if slice_ is not None:
            slices.append(slice_)
    return slices


def intraday_slice(
    path: str, stream: str, location: LocationState, start: int, stop: int, names: NamesOfNow
) -> Slice | None:
    """The rows of the location at ``path`` in ``[start, stop)`` that were not withdrawn; None: no row.

    ``names``: of the schema that reads it.
    """
    if start >= stop:
        return None
    rows, named_by = location.rows, location.named_by
    committed = location.files, names.stats(named_by, location.stats), names.newer(named_by)
    part = start, stop, rows
    whole = Slice("intraday", stream, location.key, path, *part, *committed, named_by=named_by)
    return whole.limited(location.withdrawn.outside(start, stop)) if location.withdrawn else whole
