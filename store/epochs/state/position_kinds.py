"""Kinds of source positions, and how the commit log spells what they are of.

The log has one form for all of them: a range of whole numbers, of a partition of a topic. Positions that are no offsets
have a name in the place of the topic that begins with ``@``, which no Kafka topic can have.

A position in a versioned table is one whole number for (version, file), so that ranges can be classified. The files of
version ``v`` lie at ``(v, 0)``, ``(v, 1)``, ...; after the last of them comes ``(v + 1, 0)``, so a range continues over
versions that add no files. A stream that begins with the table's content reads a snapshot of version ``v`` first: its
files lie at ``(v, SNAPSHOT)``, ``(v, SNAPSHOT + 1)``, ..., and after them comes ``(v + 1, 0)`` too. A position reads as
a decimal number: 12000000003 is version 12, file 3; 12500000003 is file 3 of its snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
