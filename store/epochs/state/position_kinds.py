"""Kinds of source positions, and how the commit log spells what they are of.

The log has one form for all of them: a range of whole numbers, of a partition of a topic. Positions that are no offsets
have a name in the place of the topic that begins with ``@``, which no Kafka topic can have.
"""

from __future__ import annotations

from enum import StrEnum

from sparkhaven.store.types.frozen import frozen


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


@frozen
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
