"""Where partitions begin that no epoch has: by the start rule of the feed, or at their beginning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkhaven.ingest.feeds.kafka.broker.topics import KafkaTopics, TopicView
from sparkhaven.ingest.feeds.kafka.options import Start
from sparkhaven.ingest.feeds.kafka.planner import Position
from sparkhaven.store.epochs.state.offsets import TopicPartition
from sparkhaven.store.errors import SettingsError


def first_offsets(
    start: Start,
    partitions: Sequence[TopicPartition],
    view: Mapping[str, TopicView],
    topics: KafkaTopics,
    *,
    begun: bool,
) -> dict[TopicPartition, Position]:
    """Where each of ``partitions`` begins.

    ``begun``: the stream has an epoch, or has looked at its topics before; then these partitions are newcomers, and all
    that is in them came, or became part of the feed, after the stream had begun: they are read from their beginning,
    except where the feed names an offset. SettingsError for a named offset that its partition does not have.
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
        offsets = topics.committed(partitions)
    chosen = {partition: offsets.get(partition) for partition in partitions}
    return {
        partition: Position(bounds[partition].beginning if offset is None else offset, view[partition[0]].topic_id)
        for partition, offset in chosen.items()
    }


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
