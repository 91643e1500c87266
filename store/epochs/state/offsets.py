"""Positions of a source with offsets: how far each partition of each topic is committed.

A position is one number per topic partition. A proposed range is classified against the committed ``end`` of its
partition, by the resume rules (``ResumeRule``):

======  ==================================================  ====================================================
rule    a proposed range                                    resolution
======  ==================================================  ====================================================
R1      starts at ``end``                                   ``fresh``
R2      is the last committed range, same digest            ``taken``: a no-op, whatever the batch id
R3      is the last committed range, other digest           PositionGapError: the source is not repeatable
R4      starts before ``end`` and stops after it            ``cut``: only the part from ``end`` on is fresh
R5      stops at or before ``end``                          ``taken``
R6      starts after ``end``                                PositionGapError, unless a gap permits exactly this jump
R7      batch id restarted, new query id                    ignored
R9      of a partition never seen                           ``fresh``, from wherever it starts
======  ==================================================  ====================================================

A range with another topic id than the committed one is of a recreated topic: its offsets are other messages, so it is a
PositionGapError unless a gap with the new id permits the jump. A range without messages, ``start == stop``, records
where a partition begins. Ranges of one partition in one batch are consecutive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sparkhaven.store.epochs.state.file_positions import Resolution
from sparkhaven.store.epochs.state.log_values import (
    REBUILT,
    REQUEUED,
    VERSIONS,
    LastMessage,
    OffsetRange,
    PositionKind,
    PositionSource,
    Split,
    source_of,
    unpacked,
)
from sparkhaven.store.epochs.state.resume_rules import ResumeRule
from sparkhaven.store.errors import PositionGapError
from sparkhaven.store.layout import stream_of

_WITHOUT_NAME = (PositionKind.VERSIONS, PositionKind.REQUEUED, PositionKind.REBUILT)
TopicPartition = tuple[str, int]
GAP_HINT = (
    "messages between the two were deleted before they were read, or the source started elsewhere. Restore them,"
    " or set allow_gap in the stream file, which records the gap in the epoch"
)


def settle_hint(table: object, stream: str) -> str:
    return (
        f"state them: `sparkhaven recover {table} {stream} --from-locations --taken-until TIME` (of files), or instead"
        " of the time --position TOPIC/PARTITION=OFFSET (the next one to read), or --accept-positions"
    )


@dataclass(frozen=True, slots=True)
class OffsetEnd:
    """Offsets below ``stop`` are committed; the last range began at ``last_start`` and had this ``digest``.

    ``last``: the last message before ``stop``, where the source tells it.
    """

    stop: int
    topic_id: str
    last_start: int
    digest: str
    last: LastMessage | None = None


class Offsets(Mapping[TopicPartition, OffsetEnd]):
    """The end of every partition that was ever read, by (topic, partition)."""

    __slots__ = ("_ends",)

    def __init__(self, ends: Mapping[TopicPartition, OffsetEnd] | None = None) -> None:
        self._ends: dict[TopicPartition, OffsetEnd] = dict(ends or {})

    def __getitem__(self, partition: TopicPartition) -> OffsetEnd:
        return self._ends[partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(sorted(self._ends))

    def __len__(self) -> int:
        return len(self._ends)

    def __repr__(self) -> str:
        return f"Offsets({self._ends})"

    def positions(self) -> dict[str, int]:
        """The committed ends of the feed for display: ``{"topic/partition": stop}``.

        For a versioned table: ``version`` (or ``snapshot``, of a version) and ``file`` to read next.
        """
        ends = {
            f"{topic}/{part}": self._ends[topic, part].stop
            for topic, part in self
            if source_of(topic).kind not in _WITHOUT_NAME
        }
        if self.versions is not None:
            position = unpacked(self.versions.stop)
            ends |= {"snapshot" if position.snapshot else "version": position.version, "file": position.file}
        return ends

    def end_of(self, source: PositionSource) -> OffsetEnd | None:
        return self._ends.get((source.topic, 0))

    @property
    def versions(self) -> OffsetEnd | None:
        return self.end_of(VERSIONS)

    @property
    def requeued(self) -> int:
        """Number of rows requeued so far: the position of the next one."""
        end = self.end_of(REQUEUED)
        return end.stop if end else 0

    @property
    def unsettled(self) -> OffsetEnd | None:
        """The mark of a log that was rebuilt without positions, or None.

        ``stop``: the epoch up to which rows were found; ``last_start``: the one up to which positions are known.
        """
        return self.end_of(REBUILT)

    def require_settled(self, log: Path) -> None:
        """PositionGapError: the log was rebuilt and its source positions are not stated yet."""
        end = self.unsettled
        if end is not None:
            raise PositionGapError(
                "the commit log was rebuilt from locations, and their source positions are not known",
                where=log,
                expected="positions of the rows up to the rebuilt epoch",
                found=f"rows up to epoch {end.stop}, positions up to epoch {end.last_start}",
                hint=settle_hint(*stream_of(log)),
            )

    def classify(self, ranges: Iterable[OffsetRange], gaps: Iterable[OffsetRange] = ()) -> Resolution:
        """Classifies the ranges of a batch, in their order; ``gaps`` are permitted jumps.

        A gap is a jump from its ``start``, the committed end, to its ``stop``, where a range of the batch begins. A gap
        that matches no range is a PositionGapError, because it would be recorded without having happened.
        """
        given = tuple(ranges)
        permitted = {(gap.topic, gap.partition, gap.start, gap.stop): gap for gap in gaps}
        ends: dict[TopicPartition, OffsetEnd] = {}
        named: dict[TopicPartition, OffsetRange] = {}
        resolved: dict[OffsetRange, OffsetRange | None] = {}
        for proposed in sorted(given, key=_order):
            partition = proposed.topic, proposed.partition
            _require_once(proposed, named.get(partition))
            named[partition] = proposed
            end = ends.get(partition) or self._ends.get(partition)
            gap = permitted.get((*partition, end.stop, proposed.start)) if end else None
            if end is not None and gap is not None and gap.topic_id == proposed.topic_id:
                del permitted[(*partition, gap.start, gap.stop)]
                fresh: OffsetRange | None = proposed
            else:
                fresh = _fresh_part(proposed, end)
            resolved[proposed] = fresh
            if fresh is not None:
                ends[partition] = _end_of(fresh, end)
        for gap in permitted.values():
            raise PositionGapError(
                "a permitted gap does not match a range",
                where=gap.path,
                expected="a range after it",
                found="no such range",
            )
        kept = [(proposed, resolved[proposed]) for proposed in given]
        fresh_parts: tuple[Split, ...] = tuple(fresh for _, fresh in kept if fresh is not None)
        taken: tuple[Split, ...] = tuple(proposed for proposed, fresh in kept if fresh is None)
        cut = tuple((proposed, fresh) for proposed, fresh in kept if fresh is not None and fresh != proposed)
        return Resolution(fresh_parts, taken, cut=cut)

    def jumps(self, ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
        """The gaps that a batch of these ranges needs: offsets missing before a range, or a recreated topic."""
        ends: dict[TopicPartition, OffsetEnd] = {}
        gaps = []
        for proposed in sorted(ranges, key=_order):
            partition = proposed.topic, proposed.partition
            end = ends.get(partition) or self._ends.get(partition)
            jump = end is not None and (proposed.start > end.stop or _recreated(proposed, end))
            if jump and end is not None:
                gaps.append(replace(proposed, start=end.stop, stop=proposed.start, digest="", last=None))
            if jump or end is None or proposed.stop > end.stop:
                ends[partition] = _end_of(proposed, end)
        return tuple(gaps)

    def take(self, ranges: Iterable[OffsetRange]) -> None:
        for taken in sorted(ranges, key=_order):
            partition = taken.topic, taken.partition
            self._ends[partition] = _end_of(taken, self._ends.get(partition))


def _fresh_part(proposed: OffsetRange, end: OffsetEnd | None) -> OffsetRange | None:
    if end is None:
        return proposed
    if _recreated(proposed, end):
        raise PositionGapError(
            "topic recreated (topic id changed) since its last epoch",
            where=proposed.path,
            expected=f"topic id {end.topic_id}, from offset {end.stop}",
            found=f"topic id {proposed.topic_id}",
            rule=ResumeRule.GAP.cited,
            hint="its offsets are other messages now. Read it as a new stream, or set allow_gap to continue with the"
            " new topic from its first offset",
        )
    if proposed.stop <= end.stop:
        last = (proposed.start, proposed.stop) == (end.last_start, end.stop)
        if last and proposed.digest and end.digest and proposed.digest != end.digest:
            raise PositionGapError(
                "committed offsets were read again with other messages. The source is not repeatable",
                where=proposed.path,
                expected=f"digest {end.digest}",
                found=f"digest {proposed.digest}",
                rule=ResumeRule.CHANGED.cited,
                hint="nothing was committed. Find out what changed the source, then roll back or take it as a new one",
            )
        return None
    if proposed.start > end.stop:
        raise PositionGapError(
            "the source does not continue where the last epoch ends",
            where=proposed.path,
            expected=f"offset {end.stop}",
            found=f"offset {proposed.start}",
            rule=ResumeRule.GAP.cited,
            hint=GAP_HINT,
        )
    return proposed if proposed.start == end.stop else replace(proposed, start=end.stop, digest="", after=end.last)


def _require_once(proposed: OffsetRange, before: OffsetRange | None) -> None:
    if not 0 <= proposed.start <= proposed.stop:
        raise PositionGapError("a batch has an invalid range", where=proposed.path, expected="0 <= start <= stop")
    if before is not None and proposed.start < before.stop:
        raise PositionGapError(
            "a batch names some offsets twice",
            where=proposed.path,
            expected=f"offset {before.stop} or later, after {before.path}",
            found=f"offset {proposed.start}",
            hint="delete Spark's checkpoint of this stream. The commit log decides what is taken",
        )


def _end_of(taken: OffsetRange, before: OffsetEnd | None) -> OffsetEnd:
    topic_id = taken.topic_id or (before.topic_id if before else "")
    goes_on = before is not None and not _recreated(taken, before)
    last = taken.last or (before.last if before is not None and goes_on else None)
    return OffsetEnd(taken.stop, topic_id, taken.start, taken.digest, last)


def _recreated(proposed: OffsetRange, end: OffsetEnd) -> bool:
    return bool(proposed.topic_id and end.topic_id and proposed.topic_id != end.topic_id)


def _order(split: OffsetRange) -> tuple[str, int, int, int]:
    return (split.topic, split.partition, split.start, split.stop)


def encode_offsets(offsets: Offsets) -> list[list[str | int]]:
    """[[topic, partition, stop, topic id, last start, digest, *last message], ...] in order."""
    return [
        [topic, partition, end.stop, end.topic_id, end.last_start, end.digest, *encode_last(end.last)]
        for (topic, partition), end in offsets.items()
    ]


def decode_offsets(value: Iterable[Sequence[str | int]]) -> Offsets:
    """The inverse of ``encode_offsets``; TypeError or ValueError where a part is missing."""
    ends = {}
    for topic, partition, stop, topic_id, last_start, digest, *last in value:
        end = OffsetEnd(int(stop), str(topic_id), int(last_start), str(digest), decode_last(last))
        ends[str(topic), int(partition)] = end
    return Offsets(ends)


def encode_last(last: LastMessage | None) -> list[int]:
    """[offset, leader epoch, time in ms, CRC-32]; nothing for none."""
    return [] if last is None else [last.offset, last.epoch, last.time_ms, last.crc]


def decode_last(value: Sequence[str | int]) -> LastMessage | None:
    """The inverse of ``encode_last``; TypeError or ValueError for other than four numbers."""
    if not value:
        return None
    offset, epoch, time_ms, crc = map(int, value)
    return LastMessage(offset, epoch, time_ms, crc)
