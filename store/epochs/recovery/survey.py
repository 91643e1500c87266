"""Surveys a stream whose commit log is lost or outdated: its locations, and all files that name it. Reads only.

What a location records in ``table.size`` is rows, lengths and checksums of its files, epoch, schema version and stream;
all bytes are compared with the checksums. The epoch that made it, which merge records know it by, is that of the newest
state that can be read, of the merge record, or else the epoch that is recorded.

The epochs that files beside a commit log name: head, quarantine ledger and removals.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store.epochs.files.head import open_head
from sparkhaven.store.epochs.files.published_size import TABLE_SIZE, data_start, read_mark, walk_locations
from sparkhaven.store.epochs.files.removals import read_removals
from sparkhaven.store.epochs.files.stream_notes import RemovedStream, read_removed
from sparkhaven.store.epochs.reading.stream_state import known_state
from sparkhaven.store.epochs.recovery.set_aside import gone_after_merge
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.removed_locations import Named, Removal, RemovalPhase
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import CorruptFileError, FormatError
from sparkhaven.store.format.table.table_size import TableSize, decode
from sparkhaven.store.framing import HEAD_MAGIC, HEADER, read_header
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import MergeInput, all_values, newest
from sparkhaven.store.native.checked_columns import checksum
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.quarantine.ledger import read_ledger
from sparkhaven.store.types.row_ranges import NO_ROWS, RowRanges


def named_by_head(fs: Fs, path: Path, *, beyond: int = 0) -> int:
    """The epoch of a head that is later than ``beyond``, else 0; also 0 for a missing or damaged head."""
    try:
        epoch = read_header(fs.read_range(path, 0, HEADER.size), HEAD_MAGIC, path)
        if epoch > beyond:
            open_head(fs.read(path), path)
            return epoch
    except (OSError, FormatError):
        pass
    return 0


def named_by_ledger(place: StreamPlace) -> int:
    """The newest epoch that a quarantine ledger proves; 0 for a missing or damaged ledger.

    Rows are written to quarantine under the number of the epoch to be committed, so the one before it is committed.
    """
    try:
        ledger = read_ledger(place)
        return max(ledger.newest - 1, ledger.seen) if ledger is not None else 0
    except (OSError, CorruptFileError):
        return 0


def named_beyond(place: TablePlace, state: StreamState, removals: Named) -> int:
    """The newest epoch that removals or other files beside a log name, if it is beyond the log, else 0."""
    own = place.of_stream(state.stream)
    head = named_by_head(place.fs, own.stream_head, beyond=state.epoch)
    named = max(removals.epoch, head, named_by_ledger(own))
    return named if named > state.epoch else 0


@dataclass(frozen=True, slots=True)
class StreamSurvey:
    """The sources for rebuilding a log.

    ``known``: the newest readable state. ``epoch``, ``generation``: the newest that any file names. ``damaged``:
    location -> defect. ``unpublished``: locations of the stream without a record of their committed rows. ``missing``:
    locations of the known state that do not exist. ``merged``: what history has of each location. ``deleted``: those of
    the known state that history has whole, and whose directories are gone: the state is older than their removal.
    """

    known: StreamState
    epoch: int
    generation: int
    locations: dict[LocationKey, LocationState]
    damaged: dict[LocationKey, str]
    unpublished: tuple[Path, ...]
    missing: tuple[LocationKey, ...]
    merged: Mapping[LocationKey, MergeInput]
    deleted: frozenset[LocationKey] = frozenset()

    @property
    def rows(self) -> int:
        return sum(location.shown_rows for location in self.locations.values())

    @property
    def complete(self) -> bool:
        """Whether the known state is the newest, so that its positions are those of all rows."""
        same = all(_same(self.known.locations.get(key), now) for key, now in self.locations.items())
        newest = self.known.epoch >= self.epoch and self.known.generation >= self.generation
        return newest and same and self.known.offsets.unsettled is None


def find(place: StreamPlace) -> StreamSurvey:
    """Reads every location of the stream, all bytes. Changes nothing."""
    known = known_state(place)
    tombstones = read_removed_locations(place)
    merged = _merged(place)
    named = [known.epoch, Named.by(tombstones or ()).epoch, *(taken.epoch for taken in merged.values())]
    named.append(named_by_head(place.fs, place.stream_head))
    named.append(named_by_ledger(place))
    locations: dict[LocationKey, LocationState] = {}
    damaged: dict[LocationKey, str] = {}
    unpublished: list[Path] = []
    for key in walk_locations(place):
        directory = place.intraday_location(key)
        try:
            record = decode(place.fs.read(directory / TABLE_SIZE), directory / TABLE_SIZE)
        except (FileNotFoundError, NotADirectoryError, FormatError):
            if _mark(place.fs, directory) == place.stream or key in known.locations:
                unpublished.append(directory)
            continue
        if record.stream != place.stream:
            continue
        named.append(record.epoch or 0)
        then = known.locations.get(key)
        wrong = _wrong(place.fs, directory, record) or _ambiguous(key, record, then, tombstones, merged)
        wrong = wrong or _unknown_withdrawals(record, then)
        if wrong is not None:
            damaged[key] = wrong
        else:
            locations[key] = _location(place, key, record, then, tombstones or (), merged)
    there = {*locations, *damaged}
    missing = {key: loc for key, loc in known.locations.items() if key not in there and not loc.truncated}
    deleted = {key for key, loc in missing.items() if key in merged and gone_after_merge(place, loc, merged[key])}
    removed = _removed(place)
    named.append(removed.epoch)
    generation = max(known.generation, removed.generation, _lock_generation(place.fs, place.stream_lock))
    generation = max(generation, Named.by(tombstones or ()).generation)
    return StreamSurvey(
        known,
        max(named),
        generation,
        locations,
        damaged,
        tuple(unpublished),
        tuple(sorted({*missing} - deleted)),
        merged,
        frozenset(deleted),
    )


def _removed(place: StreamPlace) -> RemovedStream:
    try:
        return read_removed(place) or RemovedStream(0, 0, 0)
    except FormatError:
        return RemovedStream(0, 0, 0)


def _same(then: LocationState | None, now: LocationState) -> bool:
    return then is not None and (then.rows, dict(then.files)) == (now.rows, now.files)


def _wrong(fs: Fs, directory: Path, record: TableSize) -> str | None:
    if record.truncated:
        return None
    for name, size in sorted(record.data_file_sizes.items()):
        stat = fs.stat(directory / name)
        start = data_start(name)
        if stat is None or stat.size < start + size:
            return f"{name} has {stat.size if stat else 0} bytes for {start + size}"
        crc = checksum(fs, directory / name, start, size)
        if name in record.checksums and crc != record.checksums[name]:
            return f"{name} does not have the checksum in its table.size"
    return None


def _location(
    place: TablePlace,
    key: LocationKey,
    record: TableSize,
    then: LocationState | None,
    tombstones: Collection[Removal],
    merged: Mapping[LocationKey, MergeInput],
) -> LocationState:
    files, epoch, taken = record.files, record.epoch or 0, merged.get(key)
    gone = {removal.since for removal in tombstones if (removal.key, removal.phase) == (key, RemovalPhase.DELETE)}
    since = epoch
    grown = then is not None and then.since not in gone and _holds(place.fs, place.intraday_location(key), then, record)
    if grown and then is not None:
        since = then.since
    elif taken is not None and taken.since not in gone and (record.truncated or record.rows >= taken.rows):
        since = taken.since
    emptied = any(
        (s.key, s.since, s.phase) == (key, since, RemovalPhase.TRUNCATE) for s in tombstones if s.since not in gone
    )
    same = then is not None and grown and dict(then.files) == files
    truncated = record.truncated or emptied
    return LocationState(
        key=key,
        since=since,
        epoch=epoch,
        rows=0 if truncated else record.rows,
        files={} if truncated else files,
        stats=then.stats if then is not None and same and not truncated else {},
        schema_version=record.schema_version or 1,
        time_ms=record.last_modified_ms,
        truncated=truncated,
        withdrawn=NO_ROWS if truncated else _withdrawn(record, then if grown else None),
        begun_by=record.begun_by,
    )


def _withdrawn(record: TableSize, then: LocationState | None) -> RowRanges:
    """The withdrawn rows of a location: of its record, or of the known state where it knows them."""
    if then is not None and _withdraws(record, then):
        return then.withdrawn
    return record.withdrawn_rows or NO_ROWS


def _withdraws(record: TableSize, then: LocationState) -> bool:
    """Whether the withdrawn rows of the known state are those that the record names, or are newer than it."""
    return record.withdraws(then.withdrawn) or then.epoch > (record.epoch or 0)


def _unknown_withdrawals(record: TableSize, then: LocationState | None) -> str | None:
    """Which rows were withdrawn only the log says, where they are not few; a record tells whether it is those."""
    if record.truncated or not record.withdrawn or record.withdrawn_rows is not None:
        return None
    if then is not None and _withdraws(record, then):
        return None
    return f"{record.withdrawn} of its {record.rows} rows are withdrawn, and which ones is not known without the log"


def _holds(fs: Fs, directory: Path, then: LocationState, record: TableSize) -> bool:
    if record.truncated or then.truncated:
        return record.truncated
    for name, state in then.files.items():
        if record.data_file_sizes.get(name, -1) < state.size:
            return False
        if checksum(fs, directory / name, data_start(name), state.size) != state.crc:
            return False
    return record.rows >= then.rows


def _ambiguous(
    key: LocationKey,
    record: TableSize,
    then: LocationState | None,
    tombstones: Collection[Removal] | None,
    merged: Mapping[LocationKey, MergeInput],
) -> str | None:
    """Whether it cannot be decided if the rows of a merged date are the merged ones or later ones."""
    taken = merged.get(key)
    if taken is None or then is not None or tombstones or record.truncated or record.rows < taken.rows:
        return None
    if (record.epoch, record.rows) == (taken.epoch, taken.rows):
        return None
    return (
        f"its {record.rows} rows begin with the {taken.rows} merged ones or came after them, and the removals are lost"
    )


def _mark(fs: Fs, directory: Path) -> str | None:
    try:
        mark = read_mark(fs, directory)
    except OSError:
        return None
    return mark.stream if mark is not None else None


def read_removed_locations(place: StreamPlace) -> tuple[Removal, ...] | None:
    try:
        return tuple(removal for _, removal in read_removals(place).entries)
    except FormatError:
        return None


def _merged(place: StreamPlace) -> dict[LocationKey, MergeInput]:
    merged = {}
    for value in all_values(place):
        record = newest(place, value)
        inputs = record.inputs if record is not None else ()
        merged.update({LocationKey(taken.internal, value): taken for taken in inputs if taken.stream == place.stream})
    return merged


def _lock_generation(fs: Fs, path: Path) -> int:
    try:
        return int(json.loads(fs.read(path))["generation"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
