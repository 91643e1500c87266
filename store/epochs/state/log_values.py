"""Values of a commit log: reports of a batch, and the state that they add up to.

State is bounded by the data: per location and file one length and one running CRC-32 of the committed data
region, per column statistics merged into row ranges, and for the source a bounded set of positions.
Single epochs are kept apart only between the rollback floor and now, by ``store.epochs.log``.

The log has one form for all kinds of positions: a range of whole numbers, of a partition of a topic. Positions that are
no offsets have a name in the place of the topic that begins with ``@``, which no Kafka topic can have.

A position in a versioned table is one whole number for (version, file), so that ranges can be classified. The files of
version ``v`` lie at ``(v, 0)``, ``(v, 1)``, ...; after the last of them comes ``(v + 1, 0)``, so a range continues over
versions that add no files. A stream that begins with the table's content reads a snapshot of version ``v`` first: its
files lie at ``(v, SNAPSHOT)``, ``(v, SNAPSHOT + 1)``, ..., and after them comes ``(v + 1, 0)`` too. A position reads as
a decimal number: 12000000003 is version 12, file 3; 12500000003 is file 3 of its snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from struct import pack
from zlib import crc32

from sparkhaven.store.layout import LocationKey
from sparkhaven.store.types.committed_columns import FileState, RangeStats
from sparkhaven.store.types.row_ranges import NO_ROWS, RowRanges


@dataclass(frozen=True, slots=True)
class LocationState:
    """One committed location. ``since``: the epoch that created it; ``epoch``: the last that changed it.

    ``made_ms``: time of the commit that created it, which distinguishes it from one with the same epoch in a log that
    was later restored from a copy; 0 = unknown. ``truncated``: it has 0 rows and takes no more until it is deleted.
    ``withdrawn``: those of the ``rows`` in its files that no reader shows any more (``log_records.Withdrawn``).
    ``schema_version``: that of the last change. ``begun_by``: that of the commit that created it, where it was another.
    """

    key: LocationKey
    since: int
    epoch: int
    rows: int
    files: Mapping[str, FileState]
    stats: Mapping[str, tuple[RangeStats, ...]] = field(default_factory=dict)
    schema_version: int = 1
    time_ms: int = 0
    truncated: bool = False
    made_ms: int = 0
    withdrawn: RowRanges = NO_ROWS
    begun_by: int | None = None

    @property
    def named_by(self) -> int:
        """The version of the schema by which its files are named (``Column.at``): the one that created it."""
        return self.schema_version if self.begun_by is None else self.begun_by

    @property
    def shown_rows(self) -> int:
        """The rows that readers show."""
        return self.rows - self.withdrawn.rows


@dataclass(frozen=True, slots=True)
class LocationReport:
    """What a task appended to one location: ``base_*`` is what it started from, the rest the new totals.

    ``base_epoch`` is 0 for a new location. ``stats`` covers the appended rows only, one entry a column.
    """

    key: LocationKey
    base_epoch: int
    base_rows: int
    rows: int
    files: Mapping[str, FileState]
    stats: Mapping[str, RangeStats]


@dataclass(frozen=True, slots=True, order=True)
class FileId:
    """Identity of a feed file: absolute path, size in bytes, modification time in ns since the epoch."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True, order=True)
class FilePart(FileId):
    """The rows of a file that begin in bytes ``[start, stop)``; ``size`` is that of the file. Not itself a position."""

    start: int
    stop: int

    @property
    def whole(self) -> FileId:
        return FileId(self.path, self.size, self.mtime_ns)


class PositionKind(StrEnum):
    """What the numbers of a range count."""

    OFFSETS = "offsets"
    VERSIONS = "versions"
    REQUEUED = "requeued"
    REBUILT = "rebuilt"
    BATCHES = "batches"
    LABEL = "label"


_SPELLED = {
    PositionKind.OFFSETS: "",
    PositionKind.VERSIONS: "@delta",
    PositionKind.REQUEUED: "@quarantine",
    PositionKind.REBUILT: "@rebuilt",
    PositionKind.BATCHES: "@query ",
    PositionKind.LABEL: "@write ",
}


@dataclass(frozen=True, slots=True)
class PositionSource:
    """What positions are of: ``name`` is that of a topic, a query or a label, else empty.

    ``VERSIONS`` are files of a Delta table, ``REQUEUED`` rows of the stream's quarantine. The stop of ``REBUILT`` is
    the epoch up to which rows were found without their source positions.
    """

    kind: PositionKind
    name: str = ""

    @property
    def topic(self) -> str:
        """Its spelling in the commit log."""
        return _SPELLED[self.kind] + self.name


VERSIONS = PositionSource(PositionKind.VERSIONS)
REQUEUED = PositionSource(PositionKind.REQUEUED)
REBUILT = PositionSource(PositionKind.REBUILT)
_WHOLE = {source.topic: source for source in (VERSIONS, REQUEUED, REBUILT)}


def source_of(topic: str) -> PositionSource:
    """The inverse of ``PositionSource.topic``; what is not ours is a topic."""
    if (source := _WHOLE.get(topic)) is not None:
        return source
    for kind in (PositionKind.BATCHES, PositionKind.LABEL):
        if topic.startswith(_SPELLED[kind]):
            return PositionSource(kind, topic.removeprefix(_SPELLED[kind]))
    return PositionSource(PositionKind.OFFSETS, topic)


TABLE = VERSIONS.topic  # in the place of a topic; the id of the table is the topic id
FILES = 1_000_000_000  # positions of a version
SNAPSHOT = 500_000_000  # first position of a version's snapshot, and more than a version can add files


@dataclass(frozen=True, slots=True)
class VersionPosition:
    """The next file to read: of what a version adds, or of the snapshot that a stream began with."""

    version: int
    file: int
    snapshot: bool = False

    def __str__(self) -> str:
        return f"version {self.version}, file {self.file}" + (" of its snapshot" if self.snapshot else "")


def packed(version: int, file: int = 0, *, snapshot: bool = False) -> int:
    """The position of a file as one number; ValueError for more files than a version can have."""
    if not 0 <= file < SNAPSHOT or version < 0:
        raise ValueError(f"not a position of a table: version {version}, file {file}")
    return version * FILES + (SNAPSHOT if snapshot else 0) + file


def unpacked(position: int) -> VersionPosition:
    version, file = divmod(position, FILES)
    return VersionPosition(version, file - SNAPSHOT, True) if file >= SNAPSHOT else VersionPosition(version, file)


@dataclass(frozen=True, slots=True)
class LastMessage:
    """The last message that was read of a partition: a log that has another one at its offset is not the one we read.

    ``epoch``: of the leader that took it, -1 = unknown. ``time_ms``: its timestamp, -1 for none. ``crc``: CRC-32 of key
    and value. All of them are of the message and not of its batch, which the broker writes anew when it compacts.
    Of a Delta table it is the last version: ``offset`` is its number, and ``crc`` that of its file.
    """

    offset: int
    epoch: int
    time_ms: int
    crc: int

    @classmethod
    def of(cls, offset: int, epoch: int, time_ms: int, key: bytes | None, value: bytes | None) -> LastMessage:
        """The one with this key and value."""
        crc = 0
        for part in (key, value):
            crc = crc32(pack("<q", -1 if part is None else len(part)), crc)
            crc = crc32(part or b"", crc)
        return cls(offset, epoch, time_ms, crc)

    def same(self, other: LastMessage) -> bool:
        """Whether a message that was found at the offset is this one."""
        known = self.epoch < 0 or other.epoch < 0 or self.epoch == other.epoch
        return known and (self.offset, self.time_ms, self.crc) == (other.offset, other.time_ms, other.crc)

    def __str__(self) -> str:
        epoch = f", leader epoch {self.epoch}" if self.epoch >= 0 else ""
        return f"offset {self.offset} with checksum {self.crc:08x}, time {self.time_ms} ms{epoch}"


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Messages ``[start, stop)`` of one partition of a topic, whatever of them exists (compaction leaves holes).

    ``topic_id``: the broker's id of the topic, which changes if the topic is recreated; "" = unknown. ``digest``
    identifies the content if a source has no other proof; "" = not computed. ``last``: the last message in it, once it
    was read. ``after``: the one that was read before it, which the log must still have.
    """

    topic: str
    partition: int
    start: int
    stop: int
    topic_id: str = ""
    digest: str = ""
    last: LastMessage | None = field(default=None, compare=False)
    after: LastMessage | None = field(default=None, compare=False)

    @property
    def source(self) -> PositionSource:
        """What the range is of: a topic, versions of a table, requeued rows, batches of a query, or a label."""
        return source_of(self.topic)

    @property
    def path(self) -> str:
        if self.source.kind is PositionKind.VERSIONS:
            return f"Delta table from {unpacked(self.start)} to {unpacked(self.stop)}"
        return f"{self.place} [{self.start}, {self.stop})"

    @property
    def messages(self) -> int:
        """Offsets from start to stop; 0 of a table that is followed by version, where positions are no offsets."""
        return 0 if self.source.kind is PositionKind.VERSIONS else self.stop - self.start

    @property
    def place(self) -> str:
        return f"{self.topic}/{self.partition}"


Split = FileId | OffsetRange
"""What a task reads: the unit of a source position."""


MAX_IGNORED = 50
IGNORED = "ignored."
"""Prefix of a field name in the counts of a batch: number of rows in which it was present and not stored."""
ABSENT = "absent."
"""Prefix of a column's name: number of rows that have no field for it."""
UNKNOWN_FIELDS, ABSENT_FIELDS = "ignored_fields", "absent_fields"
"""Keys of their sums."""


REJECTED = "rejected"
"""Key of the number of rejected rows in the counts of a batch."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What the driver commits as one epoch."""

    query_id: str
    batch_id: int
    files: tuple[FileId, ...]
    reports: Sequence[LocationReport]
    schema_version: int
    rows: int
    counts: dict[str, int] = field(default_factory=dict)  # ignored fields, rejected rows, ...
    time_ms: int = 0
    ranges: tuple[OffsetRange, ...] = ()
    gaps: tuple[OffsetRange, ...] = ()  # jumps over offsets, by permission: from ``start`` to ``stop``

    @property
    def ignored(self) -> dict[str, int]:
        return ignored_in(self.counts)

    @property
    def splits(self) -> tuple[Split, ...]:
        return (*self.files, *self.ranges)


def rejected_in(counts: Mapping[str, int]) -> dict[str, int]:
    """Rejected rows among the counts of a batch or a run, by reason code."""
    prefix = f"{REJECTED}."
    return {name.removeprefix(prefix): rows for name, rows in counts.items() if name.startswith(prefix)}


def ignored_in(counts: Mapping[str, int]) -> dict[str, int]:
    """The fields among the counts of a batch or a run that were not stored, with the rows that had them."""
    return {name.removeprefix(IGNORED): rows for name, rows in counts.items() if name.startswith(IGNORED)}


def absent_in(counts: Mapping[str, int]) -> dict[str, int]:
    """The columns among the counts whose field rows lacked, with the number of these rows."""
    return {name.removeprefix(ABSENT): rows for name, rows in counts.items() if name.startswith(ABSENT)}


def add_count(counts: dict[str, int], name: str, amount: int) -> None:
    """Adds to a named sum; of fields that were not stored, and of absent ones, only so many get a sum of their own."""
    for prefix in (IGNORED, ABSENT):
        is_new = name not in counts and name.startswith(prefix)
        if is_new and sum(key.startswith(prefix) for key in counts) >= MAX_IGNORED:
            return
    if amount:
        counts[name] = counts.get(name, 0) + amount
