"""What can be wrong between a topic and our position in it: one error for each case, with what to do about it.

``Troubles`` remembers why a connection was lost, so that a wait that only ran out of time can say it.

The committed offset is never left by itself. Where messages are gone, or are not those that were read before, the
stream stops; ``allow_gap`` lets it go on behind a gap, which is then recorded in the epoch.
"""

from __future__ import annotations

import kafka.errors as kp

from sparkhaven.ingest.feeds.kafka.client_settings import ClientTerms, client_terms
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.store.epochs.state.log_values import LastMessage
from sparkhaven.store.epochs.state.resume_rules import ROLL_BACK
from sparkhaven.store.errors import (
    FeedError,
    FeedSettingsError,
    PositionGapError,
    RetryableFeedError,
    SettingsError,
    SparkhavenError,
)

DENIED = (kp.AuthorizationError, kp.SaslAuthenticationFailedError, kp.UnsupportedSaslMechanismError)
_GONE = (kp.UnknownTopicOrPartitionError, kp.InvalidTopicError)
OTHER_TOPIC = (kp.UnknownTopicIdError, kp.InconsistentTopicIdError)
_DAMAGED = (kp.CorruptRecordError, kp.InvalidRecordError, kp.UnsupportedCompressionTypeError)


class Troubles:
    """The last connection trouble of a client, and the ``count`` of all.

    ``denied`` is a password or right that is wrong, which waiting does not fix. It is believed when it comes a second
    time: a broker that goes down while a client says who it is looks the same once.
    """

    def __init__(self, feed: KafkaOptions) -> None:
        self._feed = feed
        self._last: str | None = None
        self._refusals = 0
        self.count = 0
        self.denied: kp.KafkaError | None = None

    def note(self, error: kp.KafkaError) -> None:
        """Remembers a trouble."""
        self.count += 1
        self._last = self._feed.client.hide(told(error))
        if isinstance(error, DENIED):
            self._refusals += 1
            if self._refusals > 1:
                self.denied = error

    def take(self, otherwise: str) -> str:
        """What the last one was."""
        return self._last or otherwise


def terms_of(feed: KafkaOptions) -> ClientTerms:
    """What the client's settings mean; SettingsError for those that are not known or not the user's."""
    try:
        return client_terms(feed.client)
    except ValueError as error:
        raise SettingsError(
            "the Kafka client refuses its settings",
            where="feed.client",
            expected="names and values of Java's consumer",
            found=feed.client.hide(str(error)),
            hint="correct feed.client. The reference of stream files has a table of the names",
        ) from None


def passes(error: kp.KafkaError) -> bool:
    """Whether asking again may mend an error; a login that is refused is counted by ``Troubles``."""
    login = kp.SaslAuthenticationFailedError, kp.UnsupportedSaslMechanismError
    again = error.retriable or isinstance(error, (kp.KafkaProtocolError, kp.UnknownBrokerIdError, *login))
    return again and not isinstance(error, OTHER_TOPIC)


def told(error: BaseException) -> str:
    """What an error says, without the library's words around it."""
    if isinstance(error, kp.BrokerResponseError) and not error.args:
        return f"{error.message}: {error.description}"
    return str(error.args[0]) if error.args else type(error).__name__


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
        expected=f"offset {ours}, where the last epoch ends, or the group that the feed starts from",
        found=f"the first message has offset {beginning}. {beginning - ours} offsets are lost",
        hint="get the messages from another copy of the topic, or set allow_gap = true in [feed] to record the gap and"
        " continue behind it. Raise the topic's retention",
    )


def retention_overtook(topic: str, partition: int, ours: int, beginning: int) -> SparkhavenError:
    """The broker has deleted messages that were planned to be read, and a gap is allowed: the next start plans it."""
    return RetryableFeedError(
        "messages were deleted while they waited to be read. Retention has passed the batch",
        where=partition_name(topic, partition),
        expected=f"offset {ours}, where the batch begins",
        found=f"the first message has offset {beginning}. {beginning - ours} offsets are lost",
        hint="start the stream again. It goes on behind the gap, as allow_gap says. Raise the topic's retention",
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


def translated(error: kp.KafkaError, where: str, feed: KafkaOptions, text: str | None = None) -> SparkhavenError:
    """Any other error of the client; ``text`` is what is known of it, if not what it says itself."""
    text = text or feed.client.hide(told(error))
    if isinstance(error, _GONE):
        return topic_gone(where)
    if isinstance(error, DENIED):
        return denied(where, text)
    if isinstance(error, kp.UnsupportedForMessageFormatError | kp.IncompatibleBrokerVersion):
        return FeedError(
            "the messages cannot be read", where=where, expected="Kafka 2.1 or later, messages of 0.11 or later",
            found=text, hint="write the topic anew by a producer of today, and read that one",
        )  # fmt: skip
    if isinstance(error, _DAMAGED):
        return FeedError(
            "a message is damaged", where=where, expected="a message whose checksum holds", found=text,
            hint="read what the broker logs about its segments. Nothing of this batch was committed",
        )  # fmt: skip
    return unreachable("the broker cannot be read", place_of(where, feed), text)
