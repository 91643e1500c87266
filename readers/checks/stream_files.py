"""Read-only checks of the files of a stream: torn tails, stray files, positions that were committed twice.

Also of the directories of intraday data that no commit log has.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path

from sparkhaven.readers.checks.findings import Finding, finding, from_error
from sparkhaven.store.epochs.files.head import open_head
from sparkhaven.store.epochs.files.lock import in_progress, read_lock
from sparkhaven.store.epochs.files.removals import read_removals
from sparkhaven.store.epochs.files.stream_notes import FAILED, failed_streams, read_failure
from sparkhaven.store.epochs.reading.log_reader import read_files
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_read
from sparkhaven.store.epochs.recovery.rebuild import REPLACED
from sparkhaven.store.epochs.recovery.set_aside import SET_ASIDE, list_set_aside
from sparkhaven.store.epochs.recovery.witnesses import Witnesses
from sparkhaven.store.epochs.state.log_records import CommitRecord
from sparkhaven.store.epochs.state.log_values import Batch, FileId
from sparkhaven.store.epochs.state.offsets import Offsets, settle_hint
from sparkhaven.store.epochs.state.removed_locations import DOOMED
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import PositionGapError, SparkhavenError
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.quarantine.ledger import read_ledger

LOOKS = 5
STREAM_FILES = (".log", ".checkpoint", ".head", ".lock", ".removals", ".quarantine", ".removed")


def stray_stream_files(place: TablePlace) -> Iterator[Finding]:
    """Files beside commit logs that are of no stream, or are left over."""
    streams = list_streams(place)
    names = place.fs.names(place.streams)
    removed = [name.removesuffix(".removed") for name in names if name.endswith(".removed")]
    known = {stream + suffix for stream in streams for suffix in STREAM_FILES}
    known |= {stream + suffix for stream in removed for suffix in (".removed", ".quarantine")}
    known |= {stream + FAILED for stream in failed_streams(place)}
    unfinished = {stream + suffix: stream for stream in removed for suffix in STREAM_FILES}
    for name in names:
        path = place.streams / name
        if name.startswith(REPLACED):
            yield finding("N311", path)
        elif name in known:
            continue
        elif stream := unfinished.get(name) or _unborn(place, name):
            yield finding("N312", path, table=place.table, stream=stream)
        elif ".tmp-" not in name:
            yield finding("W207", path, "file of no stream")
        elif not in_progress(place.fs, path):
            yield finding("N208", path)


def _unborn(place: TablePlace, name: str) -> str | None:
    """The stream of a lock or a removals file without content; no log was there when it was created."""
    stat = place.fs.stat(place.streams / name)
    stream, dot, suffix = name.rpartition(".")
    return stream if dot + suffix in (".lock", ".removals") and stat is not None and not stat.size else None


def check_log(place: StreamPlace) -> Iterator[Finding]:
    path = place.stream_log
    files = read_files(place, whole=True)
    removals = read_removals(place)
    yield from torn(path, files.found.end, files.found.rest)
    yield from torn(place.stream_removals, removals.end, removals.torn)
    base = files.checkpoint.state
    taken: dict[str, tuple[FileId, int]] = {file.path: (file, base.epoch) for file in base.files}
    horizon, offsets = base.horizon, base.offsets
    bytes_at = {record.n: start for record, (start, _) in zip(files.records, files.places, strict=True)}
    for record in files.chain():
        if not isinstance(record, CommitRecord):
            continue
        position = f"epoch {record.epoch}, byte {bytes_at[record.n]}"
        for file in record.batch.files:
            before, epoch = taken.get(file.path, (None, 0))
            if before is not None and before.mtime_ns >= horizon:  # an older one was forgotten: its name may be reused
                again = f"{before.size} bytes in epoch {epoch}, {file.size} bytes in epoch {record.epoch}"
                yield finding("E302", path, at=position, expected="once", found=again, file=file.path)
            taken[file.path] = (file, record.epoch)
        horizon = record.horizon
        yield from _offsets(path, position, offsets, record.batch)
        rows = sum(report.rows - report.base_rows for report in record.batch.reports)
        if rows != record.batch.rows:
            yield finding("E304", path, at=position, expected=record.batch.rows, found=rows)


def check_positions(place: StreamPlace, state: StreamState) -> Iterator[Finding]:
    """A rebuilt commit log whose source positions were not given yet."""
    open_since = state.offsets.unsettled
    if open_since is not None:
        known, there = f"positions up to epoch {open_since.stop}", f"positions up to epoch {open_since.last_start}"
        hint = settle_hint(place.table, place.stream)
        yield finding("W305", place.stream_log, expected=known, found=there, hint=hint)


def check_withdrawn(place: StreamPlace, state: StreamState) -> Iterator[Finding]:
    """Locations with withdrawn rows, of which engines that read the files by themselves see a part only."""
    for key, location in sorted(state.locations.items()):
        if location.withdrawn:
            there = f"{location.withdrawn.rows} withdrawn rows, the first is row {location.withdrawn.start}"
            rows, where = f"{location.rows} rows in its files", place.intraday_location(key)
            yield finding("N234", where, expected=rows, found=there, table=place.table, date=key.value)


def check_failures(place: TablePlace) -> Iterator[Finding]:
    """Notes of the last failures of streams that cannot be read."""
    for stream in failed_streams(place):
        path = place.of_stream(stream).stream_failure
        try:
            read_failure(place.of_stream(stream))
        except (SparkhavenError, OSError) as error:
            yield finding("N313", path, found=error)


def check_removals(place: StreamPlace, state: StreamState) -> Iterator[Finding]:
    """Removals of a location that another epoch of the same number created: an older log was restored."""
    path = place.stream_removals
    for _, removal in read_removals(place).entries:
        location = state.locations.get(removal.key)
        if location is not None and location.since == removal.since and not removal.means(location):
            entry = f"{removal.phase} of {removal.key.internal}/{removal.key.value}, epoch {removal.epoch}"
            origin = f"a location that epoch {location.since} created at {location.made_ms} ms"
            yield finding("W306", path, at=entry, expected=origin, found=f"one that it created at {removal.made_ms} ms")


def check_beside(place: StreamPlace, state: StreamState) -> Iterator[Finding]:
    """The ledger of the quarantine, and whether the lock can be taken: files that only a writer needs."""
    path = place.stream_quarantine
    try:
        if read_ledger(place) is None and state.rejected:
            wanted = f"a ledger, because rows were rejected in epoch {state.rejected}"
            yield finding("W307", path, expected=wanted, found="nothing")
    except (SparkhavenError, OSError) as error:
        yield from_error(error, path)
    lock = place.stream_lock
    try:
        read_lock(place.fs, lock)
    except OSError as error:
        yield from_error(error, lock)


def check_head(place: StreamPlace) -> Iterator[Finding]:
    """A head that differs from the log, or is damaged. An outdated head is not used, and is no finding."""
    path = place.stream_head
    if place.fs.stat(path) is None:
        return
    try:
        open_head(place.fs.read(path), path)
    except (SparkhavenError, OSError) as error:
        yield finding("N308", path, found=error)
        return
    for _ in range(LOOKS):
        whole, quick = (load_read(place, cached=cached) for cached in (False, True))
        if (whole.state.n, whole.removals_end) != (quick.state.n, quick.removals_end):
            continue  # it was written to in between
        names = (field.name for field in fields(whole.state))
        differ = [name for name in names if getattr(whole.state, name) != getattr(quick.state, name)]
        if differ:
            yield finding("E308", path, expected="the state of the log", found=f"other {', '.join(differ)}")
        return


def _offsets(path: Path, position: str, offsets: Offsets, batch: Batch) -> Iterator[Finding]:
    """Ranges must continue those of the epoch before, except for gaps; adds them to ``offsets``."""
    try:
        resolution = offsets.classify(batch.ranges, batch.gaps)
    except PositionGapError as error:
        what = f"offsets of an epoch do not continue those of the one before: {error.what}"
        source = f"{error.where}, {error.found}" if error.found else error.where
        yield finding("E303", path, what, at=position, expected=error.expected, found=source)
    else:
        for proposed, rest in [*((again, None) for again in resolution.taken), *resolution.cut]:
            expected = f"from offset {rest.start} on" if rest else "no offset of them"
            source = getattr(proposed, "path", None)
            yield finding("E303", path, at=position, expected=expected, found=source)
    offsets.take(batch.ranges)


def torn(path: Path, end: int, rest: int) -> Iterator[Finding]:
    """Bytes behind the last whole record of a log."""
    if rest:
        yield finding("W310", path, at=f"byte {end}", found=f"{rest} bytes")


def check_witnesses(place: TablePlace, states: Sequence[StreamState]) -> Iterator[Finding]:
    """Files that name more than a commit log has. A stream whose log cannot be read is reported before."""
    damaged = {*list_streams(place)} - {state.stream for state in states}
    try:
        for witness in Witnesses(place, states).all():
            if witness.stream not in damaged:
                yield from_error(witness.error(), witness.path, "E301")
    except (SparkhavenError, OSError) as error:
        yield from_error(error, place.merges)


def check_intraday_directories(place: TablePlace, located: Container[LocationKey]) -> Iterator[Finding]:
    """Locations that were set aside, and directories of intraday data that no commit log has."""
    aside: set[tuple[LocationKey, str]] = set()
    try:
        for note in list_set_aside(place):
            aside.add((note.key, Path(note.path).name))
            location = f"{note.internal}/{note.value}"
            yield finding("W230", note.path, found=note.reason, rows=note.rows, location=location, stream=note.stream)
    except (SparkhavenError, OSError) as error:
        yield from_error(error, place.set_aside)
    root = place.intraday
    for internal in place.fs.names(root):
        if internal in (".streams", ".set-aside"):
            continue
        for value in place.fs.names(root / internal) if place.fs.is_dir(root / internal) else [None]:
            key = LocationKey(internal, value or "")
            names = place.fs.names(root / internal / value) if value else []
            moved = list(_moved(place, key, names, aside))
            yield from (defect for defect in moved if defect is not None)
            if key not in located and not (moved and len(names) == len(moved)):
                yield finding("W229", root / internal / value if value else root / internal)


def _moved(
    place: TablePlace, key: LocationKey, names: Iterable[str], aside: Container[tuple[LocationKey, str]]
) -> Iterator[Finding | None]:
    """Names in the directory of a date that were set aside; None for one that its note reports."""
    directory = place.intraday / key.internal / key.value
    for name in names:
        if (key, name) in aside:
            yield None
        elif name.startswith(SET_ASIDE):
            yield finding("N231", directory / name)
        elif name.startswith(DOOMED):
            yield finding("N232", directory / name, table=place.table, date=key.value)
