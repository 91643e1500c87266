"""Which offsets of a feed come next: pure functions from positions and the broker's view to ranges.

A position is the next offset to read of a partition. It comes from the commit log. Where the log has none, it comes
from the start rule of the feed if the stream has not begun, else it is the beginning of the partition; and that is
written down by a range without messages, so that a restart before the first message begins at the same place. A
position never moves by itself: messages that are gone are an error, or with ``allow_gap`` a jump that is recorded.

Also here: where partitions begin that no epoch has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from operator import itemgetter

from sparkhaven.ingest.content.raw_file import SMALL_BATCH as SMALL_BYTES
from sparkhaven.ingest.feeds.kafka.broker.errors import (
    end_before_position,
    partition_name,
    recreated,
    retention_passed,
    topic_gone,
)
from sparkhaven.ingest.feeds.kafka.broker.topics import KafkaTopics, OffsetBounds, TopicView, partition_ends
from sparkhaven.ingest.feeds.kafka.options import Start
from sparkhaven.store.epochs.state.log_values import LastMessage, OffsetRange
from sparkhaven.store.epochs.state.offsets import OffsetEnd, TopicPartition
from sparkhaven.store.errors import SettingsError

SMALL_BATCH = 20_000  # messages up to which one task does a batch alone
LEAST_PIECE = 20_000  # messages for which a partition is cut between two tasks
UNEVEN = 0.15  # part of a fair share that a task may have too much before a partition is cut


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset of a partition, in the topic of this id ("" = unknown), and the last message before it."""

    offset: int
    topic_id: str = ""
    last: LastMessage | None = None

    @classmethod
    def of(cls, end: OffsetEnd) -> Position:
        """A committed one."""
        return cls(end.stop, end.topic_id, end.last)


def verified(
    positions: Mapping[TopicPartition, Position], view: Mapping[str, TopicView], *, allow_gap: bool = False
) -> dict[TopicPartition, Position]:
    """The positions of the viewed topics, each proven to be readable; moved behind a gap where that is allowed.

    Raises PositionGapError, a different one for each way in which a topic and a position can disagree, and FeedError
    for a partition that is gone.
    """
    readable: dict[TopicPartition, Position] = {}
    for (topic, partition), position in positions.items():
        if topic not in view:
            continue  # no longer of this feed
        topic_view = view[topic]
        bounds = topic_view.partitions.get(partition)
        if position.topic_id and topic_view.topic_id and position.topic_id != topic_view.topic_id:
            if not allow_gap:
                raise recreated(topic, position.topic_id, topic_view.topic_id)
            if bounds is not None:
                readable[topic, partition] = Position(bounds.beginning, topic_view.topic_id)
            continue
        if bounds is None:
            raise topic_gone(partition_name(topic, partition))
        if position.offset > bounds.end:  # allow_gap does not help: it would have to go back
            raise end_before_position(topic, partition, position.offset, bounds.end)
        if position.offset < bounds.beginning:
            if not allow_gap:
                raise retention_passed(topic, partition, position.offset, bounds.beginning)
            position = replace(position, offset=bounds.beginning)
        readable[topic, partition] = replace(position, topic_id=topic_view.topic_id or position.topic_id)
    return readable


def read_before(positions: Mapping[TopicPartition, Position], view: Mapping[str, TopicView]) -> list[OffsetRange]:
    """Ranges without messages at the positions before which the broker should still have the last message."""
    begins = {(topic, n): bounds.beginning for topic, state in view.items() for n, bounds in state.partitions.items()}
    return [
        OffsetRange(*partition, position.offset, position.offset, position.topic_id, after=position.last)
        for partition, position in sorted(positions.items(), key=itemgetter(0))
        if position.last is not None and begins.get(partition, position.offset) <= position.last.offset
    ]


def newcomers(positions: Mapping[TopicPartition, Position], view: Mapping[str, TopicView]) -> list[TopicPartition]:
    """Partitions without a position, in order."""
    return sorted(partition for partition in partition_ends(view) if partition not in positions)


def lag(positions: Mapping[TopicPartition, Position], view: Mapping[str, TopicView]) -> dict[TopicPartition, int]:
    """Offsets between each position and the end of its partition; compaction may have left fewer messages."""
    return {
        partition: max(0, view[partition[0]].partitions[partition[1]].end - position.offset)
        for partition, position in positions.items()
        if partition[0] in view and partition[1] in view[partition[0]].partitions
    }


def fair_amounts(waiting: Mapping[TopicPartition, int], limit: int | None) -> dict[TopicPartition, int]:
    """How much of each partition a batch of ``limit`` messages takes: equal shares, and what a short partition leaves
    of its share goes to the others, so that none waits for another's backlog."""
    if limit is None or sum(waiting.values()) <= limit:
        return {partition: amount for partition, amount in waiting.items() if amount}
    amounts: dict[TopicPartition, int] = {}
    left = limit
    todo = sorted((amount, partition) for partition, amount in waiting.items() if amount)
    for done, (amount, partition) in enumerate(todo):
        share = left // (len(todo) - done)
        amounts[partition] = min(amount, share)
        left -= amounts[partition]
    return {partition: amount for partition, amount in amounts.items() if amount}


def next_ranges(
    positions: Mapping[TopicPartition, Position],
    waiting: Mapping[TopicPartition, int],
    limit: int | None,
    unwritten: Sequence[TopicPartition],
) -> list[OffsetRange]:
    """The ranges of the next batch in order. ``unwritten`` partitions have a range even if it is empty."""
    amounts = fair_amounts(waiting, limit)
    partitions = sorted({*amounts, *unwritten})
    return [
        OffsetRange(*partition, position.offset, position.offset + amounts.get(partition, 0), position.topic_id)
        for partition, position in ((partition, positions[partition]) for partition in partitions)
    ]


def small_batch(bytes_per_message: float | None) -> int:
    """Messages up to which one task does a batch alone; fewer where they are known to be heavy."""
    return SMALL_BATCH if bytes_per_message is None else min(SMALL_BATCH, int(SMALL_BYTES / bytes_per_message))


def share_out(ranges: Sequence[OffsetRange], tasks: int, small: int = SMALL_BATCH) -> list[tuple[OffsetRange, ...]]:
    """At most ``tasks`` runs of the ordered ranges, about even in messages; one if there are few.

    Order is kept over the runs. A partition is cut only where whole partitions would make the runs uneven, because
    its rows have to be brought together again.
    """
    borders = [0, *accumulate(whole.stop - whole.start for whole in ranges)]
    total = borders[-1]
    if not ranges or tasks <= 1 or total <= small:
        return [tuple(ranges)] if ranges else []
    share = total / tasks
    cuts = set()
    for cut in range(1, tasks):
        even = round(share * cut)
        near = min(borders, key=lambda border: abs(border - even))
        cuts.add(near if abs(near - even) <= max(UNEVEN * share, LEAST_PIECE) else even)
    runs: list[list[OffsetRange]] = [[]]
    for whole, (first, last) in zip(ranges, pairwise(borders), strict=True):
        start = whole.start
        for cut in sorted(cut for cut in cuts if first < cut <= last):
            stop = whole.start + cut - first
            if stop > start:
                runs[-1].append(replace(whole, start=start, stop=stop))
            if runs[-1] and cut < total:
                runs.append([])
            start = stop
        if start < whole.stop or whole.start == whole.stop:
            runs[-1].append(replace(whole, start=start))
    return [tuple(run) for run in runs if run]


def first_offsets(
    start: Start,
    partitions: Sequence[TopicPartition],
    view: Mapping[str, TopicView],
    topics: KafkaTopics,
    *,
    begun: bool,
    allow_gap: bool = False,
) -> dict[TopicPartition, Position]:
    """Where each of ``partitions`` begins.

    ``begun``: the stream has an epoch, or has looked at its topics before; then these partitions are newcomers, and all
    that is in them came, or became part of the feed, after the stream had begun: they are read from their beginning,
    except where the feed names an offset. SettingsError for a named offset that its partition does not have, or that
    its group has committed behind the end; PositionGapError where retention has passed what a group has committed,
    unless ``allow_gap``.
    """
    if not partitions:
        return {}
    bounds = {partition: view[partition[0]].partitions[partition[1]] for partition in partitions}
    offsets: Mapping[TopicPartition, int | None] = {}
    if start.kind == "offsets":
        offsets = _given(start, partitions, view)
    elif begun or (start.kind == "timestamp" and (start.at_ms or 0) <= 0):
        pass  # no message is older than 1970: a broker takes such a time for an offset's name
    elif start.kind == "latest":
        offsets = {partition: positions.end for partition, positions in bounds.items()}
    elif start.kind == "timestamp":
        later = topics.at_time(partitions, start.at_ms or 0)
        offsets = {
            partition: bounds[partition].end if offset is None else offset for partition, offset in later.items()
        }
    elif start.kind == "committed":
        offsets = _of_group(topics.committed(partitions), bounds, allow_gap=allow_gap)
    chosen = {partition: offsets.get(partition) for partition in partitions}
    return {
        partition: Position(bounds[partition].beginning if offset is None else offset, view[partition[0]].topic_id)
        for partition, offset in chosen.items()
    }


def _of_group(
    offsets: Mapping[TopicPartition, int | None], bounds: Mapping[TopicPartition, OffsetBounds], *, allow_gap: bool
) -> dict[TopicPartition, int | None]:
    """What a group has committed, as far as its partitions have it."""
    there: dict[TopicPartition, int | None] = {}
    for (topic, partition), offset in offsets.items():
        messages = bounds[topic, partition]
        if offset is not None and offset > messages.end:
            raise SettingsError(
                "the partition has no such start offset",
                where=f"feed.start, {topic}:{partition}",
                expected=f"offsets {messages.beginning} to {messages.end}",
                found=f"offset {offset}",
                hint="the group of `group.id` has committed it in another log of this topic. Set the offsets of the"
                " group anew, or write another feed.start",
            )
        if offset is not None and offset < messages.beginning and not allow_gap:
            raise retention_passed(topic, partition, offset, messages.beginning)
        there[topic, partition] = None if offset is None else max(offset, messages.beginning)
    return there


def _given(
    start: Start, partitions: Sequence[TopicPartition], view: Mapping[str, TopicView]
) -> dict[TopicPartition, int | None]:
    offsets: dict[TopicPartition, int | None] = {}
    for topic, partition, offset in start.offsets:
        bounds = view[topic].partitions.get(partition) if topic in view else None
        if bounds is None or not bounds.beginning <= offset <= bounds.end:
            possible = _partitions(topic, view) if bounds is None else f"offsets {bounds.beginning} to {bounds.end}"
            if (topic, partition) in partitions or bounds is None:
                raise SettingsError(
                    "the partition has no such start offset",
                    where=f"feed.start {topic}:{partition}",
                    expected=possible,
                    found=f"{f'partition {partition}' if topic in view else f'topic {topic}'}, which is not there"
                    if bounds is None
                    else f"offset {offset}",
                    hint="correct feed.start, which holds for partitions without an epoch",
                )
        offsets[topic, partition] = offset
    return offsets


def _partitions(topic: str, view: Mapping[str, TopicView]) -> str:
    if topic not in view:
        return f"a topic of this feed: {', '.join(sorted(view)) or 'it has none yet'}"
    return f"a partition of {topic}: 0 to {len(view[topic].partitions) - 1}"
