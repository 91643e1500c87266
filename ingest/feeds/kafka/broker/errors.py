"""What can be wrong between a topic and our position in it: one error for each case, with what to do about it.

The committed offset is never left by itself. Where messages are gone, or are not those that were read before, the
stream stops; ``allow_gap`` lets it go on behind a gap, which is then recorded in the epoch.
"""

from __future__ import annotations

from confluent_kafka import KafkaError

from sparkhaven.ingest.feeds.kafka.broker.clients import DENIED
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.store.epochs.state.log_values import LastMessage
from sparkhaven.store.epochs.state.resume_rules import ROLL_BACK
from sparkhaven.store.errors import FeedError, FeedSettingsError, PositionGapError, RetryableFeedError, SparkhavenError

_GONE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})


def partition_name(topic: str, partition: int) -> str:
    """How a partition is named in messages and offsets."""
    return f"{topic}/{partition}"


def place_of(name: str, feed: KafkaOptions) -> str:
    """Where a topic or partition is: its name, and the address that was asked."""
    return name if name == feed.bootstrap else f"{name} at {feed.bootstrap}"


def retention_passed(topic: str, partition: int, ours: int, beginning: int) -> SparkhavenError:
    """The broker has deleted messages that we have not read."""
    return PositionGapError(
        "messages were deleted before they were read. Retention has passed the committed position",
        where=partition_name(topic, partition),
        expected=f"offset {ours}, where the last epoch ends",
        found=f"the first message has offset {beginning}. {beginning - ours} offsets are lost",
        hint="get the messages from another copy of the topic, or set allow_gap = true in [feed] to record the gap and"
        " continue behind it. Raise the topic's retention",
    )


def end_before_position(topic: str, partition: int, ours: int, end: int) -> SparkhavenError:
    """The log is shorter than what we have read: the broker was restored from a backup, or lost its disk."""
    return PositionGapError(
        "the partition ends before the committed position. The broker has lost messages that are in the table",
        where=partition_name(topic, partition),
        expected=f"an end at or after offset {ours}, where the last epoch ends",
        found=f"end at offset {end}",
        hint=f"was the broker restored from a backup? {ROLL_BACK} at or before this end, or read the topic as a new"
        " stream. New messages under offsets that were read before would be lost",
    )


def log_replaced(topic: str, partition: int, last: LastMessage, theirs: object) -> SparkhavenError:
    """The log has another message where one was read: it was put back to an older copy and has grown past it."""
    return PositionGapError(
        "the partition has another message at an offset that was read before. Its log was put back to an older copy, or"
        " the broker has lost messages otherwise, and has taken new ones since",
        where=partition_name(topic, partition),
        expected=last,
        found=theirs,
        hint="the table has messages that the broker has lost, and lacks others that have their offsets now."
        f" {ROLL_BACK} before the two parted, or read the topic as a new stream",
    )


def recreated(topic: str, our_id: str, their_id: str) -> SparkhavenError:
    return PositionGapError(
        "the topic was recreated. Its topic id changed",
        where=topic,
        expected=f"topic id {our_id}",
        found=f"topic id {their_id}",
        hint="read it as a new stream, or set allow_gap = true in [feed] to continue with the new topic from its start",
    )


def topic_gone(name: str) -> SparkhavenError:
    return FeedSettingsError(
        "there is no such topic, or it has no such partition",
        where=name,
        found="nothing at the broker",
        hint="correct feed.topics or feed.bootstrap, or create the topic. A topic that is recreated is another one",
    )


def unreachable(problem: str, where: str, answer: str) -> SparkhavenError:
    return RetryableFeedError(
        problem,
        where=where,
        found=answer,
        hint="check that the broker runs and can be reached from this machine, then start the stream again",
    )


def denied(where: str, text: str) -> SparkhavenError:
    """Name, password or rights are not those that the broker asks for."""
    return FeedSettingsError(
        "the broker refuses access", where=where, found=text, hint="correct feed.client, or the broker's ACLs"
    )


def translated(error: KafkaError, where: str, text: str, feed: KafkaOptions) -> SparkhavenError:
    """Any other error of the client; ``text`` is what it says, without secrets."""
    code = error.code()
    if code in _GONE:
        return topic_gone(where)
    if code in DENIED:
        return denied(where, text)
    if code in (KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError.INVALID_MSG):
        return FeedError(
            "a message is damaged", where=where, expected="a message whose checksum holds", found=text,
            hint="read what the broker logs about its segments. Nothing of this batch was committed",
        )  # fmt: skip
    return unreachable("the broker cannot be read", place_of(where, feed), text)
