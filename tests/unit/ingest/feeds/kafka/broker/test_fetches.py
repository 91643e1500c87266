"""Ranges from brokers in memory: each message once, whoever leads and whatever breaks."""

from __future__ import annotations

import time

import pytest

from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.errors import FeedError, FeedSettingsError, PositionGapError, RetryableFeedError
from tests.support.kafka.fake_brokers import (
    FETCH,
    KAFKA_21,
    KAFKA_31,
    NOT_LEADER,
    PARTITION,
    TOPIC,
    UNKNOWN_TOPIC,
    brokers,
    offsets,
)
from tests.support.kafka.fetched import ID, Made, fetching, fill, read
from tests.support.kafka.record_batches import Rec, batch


@pytest.mark.parametrize("versions", [KAFKA_21, KAFKA_31])
def test_ranges_that_follow_overlap_and_jump(made: Made, versions: dict[int, tuple[int, int]]) -> None:
    with brokers(versions=versions) as opened:
        fill(opened)
        reader, topic_id = made(opened), ID if versions is KAFKA_31 else ""
        for start, stop in [(0, 10), (10, 400), (400, 401), (500, 503), (3, 7), (990, 1000), (0, 1000), (17, 17)]:
            assert read(reader, start, stop, topic_id) == list(range(start, stop)), (start, stop)
        (message,) = [some.at(23) for some in reader.read(OffsetRange(TOPIC, PARTITION, 23, 24, topic_id))]
        assert (message.value, message.key, message.time_ms) == (b"23", b"k", 1_795_255_200_003)


def test_a_range_that_follows_asks_for_nothing_that_is_here(made: Made) -> None:
    with brokers() as opened:
        fill(opened)
        reader = made(opened)
        assert read(reader, 0, 5) == list(range(5))
        (one,) = opened.fetches
        assert read(reader, 5, 900) == list(range(5, 900))
        assert opened.fetches == [one], "all came with the first answer"


def test_the_next_portion_is_asked_for_while_the_last_is_decoded_and_no_more(made: Made) -> None:
    with brokers() as opened:
        fill(opened, 4000)
        reader = made(opened, **{"max.partition.fetch.bytes": "20000"})
        read(reader, 0, 4000)
        asked = offsets(opened.fetches)
        assert asked == sorted(set(asked)) and len(asked) > 3 and asked[-1] < 4000
        del opened.fetches[:]
        read(reader, 0, 10)  # what lies behind it is not asked for, but for the rest of its portion
        time.sleep(0.05)
        assert offsets(opened.fetches) == [0]
        assert opened.fetches[0].size == 20_000
        assert all(one.committed for one in opened.fetches)


@pytest.mark.parametrize("failure", ["end", "half", "garbage"])
def test_a_connection_that_is_lost(made: Made, failure: str) -> None:
    with brokers() as opened:
        fill(opened, 3000)
        opened.failures = [None, failure, None, failure, failure, None]  # type: ignore[list-item]
        reader = made(opened, **{"max.partition.fetch.bytes": "5000"})
        assert read(reader, 0, 3000) == list(range(3000))
        assert not opened.failures


def test_a_connection_that_ended_between_two_ranges(made: Made) -> None:
    with brokers() as opened:
        fill(opened)
        reader = made(opened)
        assert read(reader, 0, 1000) == list(range(1000))
        opened.disconnect(0)
        fill(opened, 10, start=1000)
        assert read(reader, 1000, 1010) == list(range(1000, 1010))


def test_a_broker_that_does_not_answer_is_left(made: Made) -> None:
    with brokers() as opened:
        fill(opened)
        opened.failures = ["silent"]
        reader = made(opened, patience=20, **{"request.timeout.ms": "100", "fetch.max.wait.ms": "10"})
        assert read(reader, 0, 100) == list(range(100)) and len(opened.fetches) == 2


def test_a_leader_that_moves(made: Made) -> None:
    with brokers(3) as opened:
        fill(opened, 500)
        reader = made(opened)
        assert read(reader, 0, 500) == list(range(500))
        opened.partition.leader, opened.partition.epoch = 2, 6
        opened.partition.epoch_ends = {5: 500}
        fill(opened, 500, start=500)
        assert read(reader, 500, 1000) == list(range(500, 1000))
        assert [one.node for one in opened.fetches][::2] == [0, 2] and opened.fetches[-1].epoch == 6


def test_a_leader_that_dies(made: Made) -> None:
    with brokers(3) as opened:
        fill(opened, 500)
        opened.partition.leader = 1
        reader = made(opened)
        assert read(reader, 0, 400) == list(range(400))
        opened.kill(1)
        opened.partition.leader, opened.partition.epoch, opened.partition.epoch_ends = 2, 6, {5: 500}
        fill(opened, 500, start=500)
        assert read(reader, 400, 1000) == list(range(400, 1000))


def test_a_broker_of_the_settings_that_dies_while_others_live(made: Made) -> None:
    with brokers(2) as opened:
        fill(opened, 500)
        opened.partition.leader = 1
        reader = made(opened)
        assert read(reader, 0, 500) == list(range(500))
        opened.kill(0)
        opened.disconnect(1)
        fill(opened, 500, start=500)
        assert read(reader, 500, 1000) == list(range(500, 1000))


@pytest.mark.parametrize(("ends", "words"), [({5: 480}, "truncated: epoch 5 ends at 480"), ({}, "OUT_OF_RANGE")])
def test_a_new_leader_that_lacks_what_was_read(made: Made, ends: dict[int, int], words: str) -> None:
    with brokers(2) as opened:
        fill(opened, 500)
        reader = made(opened)
        assert read(reader, 0, 500) == list(range(500))
        opened.partition.leader, opened.partition.epoch, opened.partition.epoch_ends = 1, 6, ends
        fill(opened, 500, start=500)
        with pytest.raises(PositionGapError, match="another message at an offset that was read") as caught:
            read(reader, 500, 1000)
        assert words in str(caught.value.found) and "offset 499 " in str(caught.value.expected)


def test_errors_that_pass(made: Made) -> None:
    with brokers() as opened:
        fill(opened)
        opened.partition.errors = [NOT_LEADER, 9, 5, 56, 74, 75, 78, 3, 0]
        assert read(made(opened), 0, 1000) == list(range(1000))


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [(29, FeedSettingsError, "refuses access"), (2, FeedError, "damaged"), (-1, RetryableFeedError, "cannot be read")],
)
def test_errors_that_do_not(made: Made, code: int, kind: type[Exception], words: str) -> None:
    with brokers() as opened:
        fill(opened)
        opened.partition.errors = [code]
        reader = made(opened)
        with pytest.raises(kind, match=words):
            read(reader, 0, 1000)
        assert read(reader, 0, 1000) == list(range(1000)), "it works on after an error"


def test_a_position_that_is_not_there(made: Made) -> None:
    with brokers() as opened:
        fill(opened)
        reader = made(opened)
        opened.partition.low = 100
        with pytest.raises(PositionGapError, match="Retention has passed") as caught:
            read(reader, 50, 200)
        assert "offset 100. 50 offsets" in str(caught.value.found)
        with pytest.raises(PositionGapError, match="ends before the committed position"):
            read(reader, 3000, 3010)


def test_a_partition_that_ends_before_the_range_does(made: Made) -> None:
    with brokers() as opened:
        fill(opened, 100)
        with pytest.raises(RetryableFeedError, match="no message came") as caught:
            read(made(opened, patience=0.2), 50, 200)
        assert "known to end at 100" in str(caught.value)


def test_a_topic_that_is_gone(made: Made) -> None:
    with brokers() as opened:
        fill(opened, 100)
        reader = made(opened)
        assert read(reader, 0, 100) == list(range(100))
        opened.partition.errors, opened.partition.topic_error = [UNKNOWN_TOPIC], UNKNOWN_TOPIC
        fill(opened, 100, start=100)
        with pytest.raises(FeedSettingsError, match="no such topic"):
            read(reader, 100, 200)
        new = made(opened, patience=0.2)  # which has never seen it: a broker may not know it yet
        with pytest.raises(RetryableFeedError, match="no message came") as caught:
            read(new, 0, 100)
        assert "UNKNOWN_TOPIC_OR_PARTITION" in str(caught.value)


def test_nobody_is_there(made: Made) -> None:
    with brokers() as opened:
        opened.close()
        with pytest.raises(RetryableFeedError, match="no message came") as caught:
            read(made(opened, patience=0.3), 0, 5)
        assert "refused" in str(caught.value) and opened.bootstrap in str(caught.value)


@pytest.mark.parametrize("newer", [False, True])
def test_topics_by_name_and_by_id(made: Made, newer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with brokers(versions=KAFKA_31 if newer else KAFKA_21) as opened:
        fill(opened)
        reader, topic_id = made(opened), ID
        asked: list[OffsetRange] = []
        monkeypatch.setattr(reader, "_prove", asked.append)
        assert read(reader, 0, 100, topic_id) == list(range(100)) and len(asked) == (not newer)
        (one,) = opened.fetches
        assert (one.version, one.topic) == ((13, opened.partition.topic_id) if newer else (10, TOPIC.encode()))
        if newer:
            opened.partition.topic_id = b"another topic id"
            with pytest.raises(RetryableFeedError, match="cannot be read"):  # nobody says what became of it
                read(reader, 900, 1010, topic_id)
            assert len(asked) == 1


def test_formats_of_before_are_refused_with_a_way_out(made: Made) -> None:
    with brokers() as opened:
        fill(opened, 100)
        old = bytearray(batch(100, [Rec(0, b"new")]))
        old[16] = 1
        opened.partition.put(100, 100, bytes(old))
        reader = made(opened)
        assert read(reader, 0, 100) == list(range(100))
        with pytest.raises(FeedError, match="the messages cannot be read") as caught:
            read(reader, 100, 101)
        assert "before Kafka 0.11" in str(caught.value.found)


def test_brokers_that_are_too_old_are_refused(made: Made) -> None:
    with brokers(versions={**KAFKA_21, FETCH: (0, 8)}) as opened:
        fill(opened, 100)
        with pytest.raises(FeedError, match="the messages cannot be read") as caught:
            read(made(opened), 5, 8, "")
        assert "Kafka 2.1" in str(caught.value.expected)


def test_a_replica_of_this_rack_is_read_and_the_leader_where_it_is_behind(made: Made) -> None:
    with brokers(2) as opened:
        fill(opened, 500)
        opened.partition.replica, opened.partition.replica_end = ("one", 1), 300
        reader = made(opened, **{"client.rack": "one"})
        assert read(reader, 0, 300) == list(range(300))
        assert [(asked.node, asked.rack) for asked in opened.fetches] == [(0, "one"), (1, "one")]
        opened.partition.replica_end = 250  # it was lost, and made anew
        opened.partition.replica = None
        assert read(reader, 300, 500) == list(range(300, 500))
        assert [asked.node for asked in opened.fetches][2:] == [1, 0]
        assert read(made(opened), 0, 500) == list(range(500)) and opened.fetches[-1].rack == ""


def test_a_replica_is_read_for_a_while_only(made: Made) -> None:
    with brokers(2) as opened:
        fill(opened, 500)
        opened.partition.replica, opened.partition.replica_end = ("one", 1), 500
        reader = made(opened, **{"client.rack": "one", "metadata.max.age.ms": "100"})
        assert read(reader, 0, 10) == list(range(10))
        time.sleep(0.15)
        fill(opened, 10, start=500)
        opened.partition.replica_end = 510
        assert read(reader, 500, 510) == list(range(500, 510))
        assert [asked.node for asked in opened.fetches] == [0, 1, 0, 1]


def test_all_partitions_share_one_connection_to_a_broker(made: Made) -> None:
    with brokers() as opened:
        fill(opened)
        reader = made(opened)
        read(reader, 0, 10)
        read(reader, 10, 1000)
        open_ones = [one for one in opened.connections[0] if one.fileno() >= 0]
        assert len(open_ones) == 1


@pytest.mark.parametrize("way", ["closed", "forgotten"])
def test_a_reader_that_ends_leaves_no_connection(way: str) -> None:
    with brokers() as opened:
        fill(opened)
        reader = fetching(opened)
        read(reader, 0, 10)
        (connection,) = reader._link._manager._conns.values()
        socket = connection.transport._sock
        if way == "closed":
            reader.close()
        del reader
        assert socket.fileno() == -1
