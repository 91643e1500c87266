"""What is committed of a table: its locations, their files, and what is asked of one file.

``verify``, ``scrub``, ``inspect`` and the checks of trees beside history ask the same of a file: that it is there, that
it has its committed length, and that its bytes have their checksum. They choose how deep, and which files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal

from sparkhaven.readers.checks.findings import Finding, finding, from_error
from sparkhaven.store.epochs.files.published_size import record_bytes
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.read_only_roots import in_copy
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges import merge_records as merges
from sparkhaven.store.merges.merge_records import MergeOutput
from sparkhaven.store.native.checked_columns import checksum
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.scan.column_file import column_header
from sparkhaven.store.scan.seen_history import SeenDate, see_date
from sparkhaven.store.scan.standing import dated_partitions
from sparkhaven.store.types.committed_columns import UNKNOWN, FileState, RangeStats
from sparkhaven.store.types.model import NOW
from sparkhaven.store.user_tables import UserTable, intraday_location, load_user_table, splayed_of

Crc = Callable[[Fs, Path, int, int], int]
"""The CRC-32 of some bytes of a file, from a byte on so many."""


@dataclass(frozen=True, slots=True)
class CommittedFile:
    """A file, and its committed bytes: ``state.size`` with this CRC-32, from the start of its data on.

    ``whole``: from its first byte on, and the file has no more than these. So are the files of indexes and of trees.
    ``continued``: a later snapshot may have added bytes, which belong to that.
    """

    path: Path
    state: FileState
    whole: bool = False
    continued: bool = False

    def start(self, fs: Fs) -> int:
        """Where the data begins: behind the prefix of a ``.dat``. CorruptFileError: the prefix is damaged."""
        has_prefix = self.path.suffix == ".dat" and not self.whole
        return column_header(fs, self.path).data_offset if has_prefix else 0


@dataclass(frozen=True, slots=True)
class Expected:
    """The committed state of a location, by the commit log (intraday) or the merge record (history).

    Not ``vouched``: by what the location says of itself, which another program may have written.
    """

    tier: Literal["intraday", "history"]
    directory: Path
    rows: int
    files: Mapping[str, FileState]
    stats: Mapping[str, Sequence[RangeStats]]
    epoch: int | None = None
    truncated: bool = False
    published: bytes | None = None  # content of ``table.size``, where it follows from the log
    indexes: Mapping[str, FileState] = field(default_factory=dict)  # files of indexes, by their path below the location
    vouched: bool = True
    named_by: int = NOW  # the version of the schema by which the files are named

    @property
    def key(self) -> LocationKey:
        """The storage partition and value of its directory."""
        return LocationKey(self.directory.parent.parent.name, self.directory.parent.name)

    @property
    def committed(self) -> Iterator[CommittedFile]:
        """Its files, and those of its indexes."""
        yield from (CommittedFile(self.directory / name, state) for name, state in self.files.items())
        yield from (CommittedFile(self.directory / name, state, whole=True) for name, state in self.indexes.items())


def check_file(fs: Fs, file: CommittedFile, crc: Crc | None = None, *, hint: str | None = None) -> Iterator[Finding]:
    """What is wrong with a committed file.

    Args:
        fs: The file system.
        file: The file, and what is committed of it.
        crc: Reads its bytes, as ``checksum`` does. None: they are not read.
        hint: What to do about a file that is lost or damaged.

    Returns:
        The findings: E203 to E206 and W206; E201 for a damaged prefix, E202 where the system does not read it.
    """
    state, stat = file.state, fs.stat(file.path)
    if stat is None or stat.is_dir:
        there = "nothing" if stat is None else "a directory"
        yield finding("E203", file.path, expected=f"{state.size} bytes", found=there, hint=hint)
        return
    try:
        start = file.start(fs)
    except (SparkhavenError, OSError) as error:
        yield from_error(error, file.path)
        return
    end, sizes = start + state.size, {"expected": f"{start + state.size} bytes", "found": f"{stat.size} bytes"}
    if stat.size < end:
        yield finding("E204", file.path, at=f"byte {stat.size}", **sizes, hint=hint)
        return
    if stat.size > end and not (file.continued or (not file.whole and in_copy(file.path))):
        longer, todo = ("E206", hint) if file.whole else ("W206", None)
        yield finding(longer, file.path, at=f"byte {end}", **sizes, hint=todo)
        if file.whole:
            return
    if crc is None or state.crc == UNKNOWN:
        return
    try:
        now = crc(fs, file.path, start, state.size)
    except (SparkhavenError, OSError) as error:
        yield from_error(error, file.path)
        return
    if now != state.crc:
        sums = {"expected": f"CRC-32 {state.crc:08x}", "found": f"CRC-32 {now:08x}"}
        yield finding("E205", file.path, at=f"bytes {start} to {end}", **sums, hint=hint)


def deep_crc(deep: bool) -> Crc | None:
    """Reads bytes where a check is deep."""
    return checksum if deep else None


def intraday_location_of(place: StreamPlace, location: LocationState) -> Expected:
    """What the commit log says of a location."""
    directory, published = place.intraday_location(location.key), record_bytes(place.stream, location)
    committed = location.rows, location.files, location.stats, location.epoch, location.truncated
    return Expected("intraday", directory, *committed, published, named_by=location.named_by)


def intraday_locations(place: TablePlace, state: StreamState) -> Iterator[tuple[LocationState, Expected]]:
    """The locations of a stream, by key."""
    of_stream = place.of_stream(state.stream)
    for _, location in sorted(state.locations.items()):
        yield location, intraday_location_of(of_stream, location)


def history_locations(place: TablePlace, seen: SeenDate) -> Iterator[Expected]:
    """The locations of a date where they stand; those that are gone, and those without rows; those without a record."""
    empty = () if seen.record is None else (output for output in seen.record.outputs if not output.rows)
    for output in (*seen.outputs, *seen.gone, *empty):
        yield _history(place, LocationKey(output.internal, seen.value), output)
    for location in seen.unvouched:
        files, named = dict(location.files), location.named_by
        output = MergeOutput(location.key.internal, location.rows, files=files, named_by=named)
        yield _history(place, location.key, output, vouched=False)


def _history(place: TablePlace, key: LocationKey, output: MergeOutput, *, vouched: bool = True) -> Expected:
    committed, named = (output.rows, output.files, output.stats), output.named_by
    directory = place.history_location(key)
    return Expected("history", directory, *committed, indexes=output.indexes, vouched=vouched, named_by=named)


def saved_locations(place: TablePlace, table: UserTable) -> Iterator[Expected]:
    """The locations of a user table that saves have committed, by key."""
    for key, held in sorted(table.locations.items()):
        directory = (splayed_of(place, table.since) or place.splayed) if table.splayed else place.user_location(key)
        yield Expected("history", directory, held.rows, held.files, {})


def committed_files(place: TablePlace) -> tuple[list[CommittedFile], list[Finding]]:
    """All files of a table whose checksum is known, by path; and the records that could not be read."""
    files: list[CommittedFile] = []
    unread: list[Finding] = []
    parts: tuple[tuple[Path, Iterator[Expected | Finding]], ...] = (
        (place.streams, _of_streams(place)),
        (place.merges, _of_history(place)),
        (place.user_definition, _of_users(place)),
    )
    for where, locations in parts:
        try:
            for location in locations:
                if isinstance(location, Finding):
                    unread.append(location)
                else:
                    files += (file for file in location.committed if file.state.crc != UNKNOWN)
        except (SparkhavenError, OSError) as error:
            unread.append(from_error(error, where))
    return sorted(files, key=lambda file: file.path), unread


def _of_streams(place: TablePlace) -> Iterator[Expected]:
    for stream in list_streams(place):
        state = load_stream(place.of_stream(stream), cached=False)
        yield from (expected for location, expected in intraday_locations(place, state) if not location.truncated)


def _of_history(place: TablePlace) -> Iterator[Expected | Finding]:
    dated = dated_partitions(place)
    for value in merges.all_values(place):
        try:
            yield from history_locations(place, see_date(place, value, merges.newest(place, value), dated))
        except (SparkhavenError, OSError) as error:
            yield from_error(error, place.merges / value)


def _of_users(place: TablePlace) -> Iterator[Expected]:
    table = load_user_table(place)
    if table is None:
        return
    intraday: Iterable[Expected] = (
        Expected("intraday", intraday_location(place, key), held.rows, held.files, {})
        for key, held in table.intraday.items()
    )
    yield from chain(saved_locations(place, table), intraday)
