"""Read-only checks of the files of a stream: torn tails, stray files, positions that were committed twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from sparkhaven.readers.checks.findings import CheckFinding, finding, from_error
from sparkhaven.store.epochs.files.failure_note import SUFFIX, failed_streams, read_failure
from sparkhaven.store.epochs.files.head import open_head
from sparkhaven.store.epochs.files.lock import in_progress, read_lock
from sparkhaven.store.epochs.files.removals import read_removals
from sparkhaven.store.epochs.reading.log_reader import read_files
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_read
from sparkhaven.store.epochs.recovery.rebuild import REPLACED
from sparkhaven.store.epochs.state.log_records import CommitRecord
from sparkhaven.store.epochs.state.log_values import Batch, FileId
from sparkhaven.store.epochs.state.offsets import Offsets, settle_hint
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import PositionGapError, SparkhavenError
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.quarantine.ledger import read_ledger

TWICE = "roll the stream back to the epoch before this one"
LOOKS = 5
UNSAID = ("rejected",)  # heads of earlier releases do not have it
STREAM_FILES = (".log", ".checkpoint", ".head", ".lock", ".removals", ".quarantine", ".removed")


def stray_stream_files(place: TablePlace) -> Iterator[CheckFinding]:
    streams = list_streams(place)
    names = place.fs.names(place.streams)
    removed = [name.removesuffix(".removed") for name in names if name.endswith(".removed")]
    known = {stream + suffix for stream in streams for suffix in STREAM_FILES}
    known |= {stream + suffix for stream in removed for suffix in (".removed", ".quarantine")}
    known |= {stream + SUFFIX for stream in failed_streams(place)}
    unfinished = {stream + suffix: stream for stream in removed for suffix in STREAM_FILES}
    for name in names:
        if name.startswith(REPLACED):
            what = "files that a rebuild of a commit log has replaced"
            yield finding("note", place.streams / name, what, hint="remove them once the table is verified")
            continue
        if name not in known and (stream := unfinished.get(name) or _unborn(place, name)):
            what = "left over from an interrupted removal, or from a start that was killed before its first epoch"
            hint = f"`sparkhaven streams remove {place.table} {stream}` removes it"
            yield finding("note", place.streams / name, what, hint=hint)
            continue
        temporary = ".tmp-" in name
        if name not in known and not (temporary and in_progress(place.fs, place.streams / name)):
            yield finding(
                "note" if temporary else "warning",
                place.streams / name,
                "left over from an interrupted replace" if temporary else "file of no stream",
                hint=f"`sparkhaven inspect {place.streams / name}` shows it",
            )


def _unborn(place: TablePlace, name: str) -> str | None:
    """The stream of a lock or a removals file without content; no log was there when it was created."""
    stat = place.fs.stat(place.streams / name)
    stream, dot, suffix = name.rpartition(".")
    return stream if dot + suffix in (".lock", ".removals") and stat is not None and not stat.size else None


def check_log(place: StreamPlace) -> Iterator[CheckFinding]:
    path = place.stream_log
    files = read_files(place, whole=True)
    removals = read_removals(place)
    yield from _torn(path, files.found.end, files.found.rest)
    yield from _torn(place.stream_removals, removals.end, removals.torn)
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
                yield finding(
                    "error",
                    path,
                    f"a source file was ingested twice: {file.path}",
                    at=position,
                    expected="once",
                    found=f"{before.size} bytes in epoch {epoch}, {file.size} bytes in epoch {record.epoch}",
                    hint="roll the stream back to the epoch before the second one",
                )
            taken[file.path] = (file, record.epoch)
        horizon = record.horizon
        yield from _offsets(path, position, offsets, record.batch)
        rows = sum(report.rows - report.base_rows for report in record.batch.reports)
        if rows != record.batch.rows:
            what = "rows of an epoch do not add up"
            yield finding("error", path, what, at=position, expected=record.batch.rows, found=rows)


def check_positions(place: StreamPlace, state: StreamState) -> Iterator[CheckFinding]:
    """A rebuilt commit log whose source positions were not given yet."""
    open_since = state.offsets.unsettled
    if open_since is not None:
        yield finding(
            "warning",
            place.stream_log,
            "the commit log was rebuilt and its source positions are unknown. The stream ingests nothing",
            expected=f"positions up to epoch {open_since.stop}",
            found=f"positions up to epoch {open_since.last_start}",
            hint=settle_hint(place.table, place.stream),
        )


def check_withdrawn(place: StreamPlace, state: StreamState) -> Iterator[CheckFinding]:
    """Locations with withdrawn rows, of which engines that read the files by themselves see a part only."""
    for key, location in sorted(state.locations.items()):
        if location.withdrawn:
            yield finding(
                "note",
                place.intraday_location(key),
                "rows are withdrawn. Programs that read the files by themselves see those before the first of them",
                expected=f"{location.rows} rows in its files",
                found=f"{location.withdrawn.rows} withdrawn rows, the first is row {location.withdrawn.start}",
                hint=f"`sparkhaven merge {place.table} --dates {key.value}` writes the date without them",
            )


def check_failures(place: TablePlace) -> Iterator[CheckFinding]:
    """Notes of the last failures of streams that cannot be read."""
    for stream in failed_streams(place):
        path = place.of_stream(stream).stream_failure
        try:
            read_failure(place.of_stream(stream))
        except (SparkhavenError, OSError) as error:
            hint = "remove it. Nothing depends on it"
            yield finding("note", path, "the note of a stream's last failure is damaged", found=error, hint=hint)


def check_removals(place: StreamPlace, state: StreamState) -> Iterator[CheckFinding]:
    """Removals of a location that another epoch of the same number created: an older log was restored."""
    path = place.stream_removals
    for _, removal in read_removals(place).entries:
        location = state.locations.get(removal.key)
        if location is not None and location.since == removal.since and not removal.means(location):
            yield finding(
                "warning",
                path,
                "the commit log was restored from an older copy and continued. Epoch numbers were reused",
                at=f"{removal.phase} of {removal.key.internal}/{removal.key.value}, epoch {removal.epoch}",
                expected=f"a location that epoch {location.since} created at {location.made_ms} ms",
                found=f"one that it created at {removal.made_ms} ms",
                hint="compare the table with the source. The removal does not apply to this location, and rows of"
                " epochs that the copy lacks are lost unless their source was read again",
            )


def check_beside(place: StreamPlace, state: StreamState) -> Iterator[CheckFinding]:
    """The ledger of the quarantine, and whether the lock can be taken: files that only a writer needs."""
    path = place.stream_quarantine
    try:
        if read_ledger(place) is None and state.rejected:
            yield finding(
                "warning",
                path,
                "the ledger of the quarantine is missing",
                expected=f"a ledger, because rows were rejected in epoch {state.rejected}",
                found="nothing",
                hint="the next start of the stream writes it again from the commit log",
            )
    except (SparkhavenError, OSError) as error:
        yield from_error(error, path)
    lock = place.stream_lock
    try:
        read_lock(place.fs, lock)
    except OSError as error:
        yield from_error(error, lock)


def check_head(place: StreamPlace) -> Iterator[CheckFinding]:
    """A head that differs from the log, or is damaged. An outdated head is not used, and is no finding."""
    path = place.stream_head
    if place.fs.stat(path) is None:
        return
    try:
        open_head(place.fs.read(path), path)
    except (SparkhavenError, OSError) as error:
        yield finding("note", path, "head is damaged. Readers ignore it, the stream replaces it", found=error)
        return
    for _ in range(LOOKS):
        whole, quick = (load_read(place, cached=cached) for cached in (False, True))
        if (whole.state.n, whole.removals_end) != (quick.state.n, quick.removals_end):
            continue  # it was written to in between
        names = (field.name for field in fields(whole.state) if field.name not in UNSAID)
        differ = [name for name in names if getattr(whole.state, name) != getattr(quick.state, name)]
        if differ:
            yield finding(
                "error",
                path,
                "head differs from the commit log",
                expected="the state of the log",
                found=f"other {', '.join(differ)}",
                hint="delete it: it is a cache of checkpoint and log",
            )
        return


def _offsets(path: Path, position: str, offsets: Offsets, batch: Batch) -> Iterator[CheckFinding]:
    """Ranges must continue those of the epoch before, except for gaps; adds them to ``offsets``."""
    try:
        resolution = offsets.classify(batch.ranges, batch.gaps)
    except PositionGapError as error:
        what = f"offsets of an epoch do not continue those of the one before: {error.what}"
        source = f"{error.where}, {error.found}" if error.found else error.where
        yield finding("error", path, what, at=position, expected=error.expected, found=source, hint=TWICE)
    else:
        for proposed, rest in [*((again, None) for again in resolution.taken), *resolution.cut]:
            expected = f"from offset {rest.start} on" if rest else "no offset of them"
            source, what = getattr(proposed, "path", None), "offsets were ingested twice"
            yield finding("error", path, what, at=position, expected=expected, found=source, hint=TWICE)
    offsets.take(batch.ranges)


def _torn(path: Path, end: int, rest: int) -> Iterator[CheckFinding]:
    if rest:
        yield finding(
            "warning",
            path,
            "last record is torn. It was never committed, recovery drops it",
            at=f"byte {end}",
            found=f"{rest} bytes",
            hint="run `sparkhaven recover` if no stream is running",
        )
