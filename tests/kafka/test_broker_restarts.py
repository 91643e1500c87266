"""A broker that dies and comes back while ranges are read: every message comes, once and in order."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from sparkhaven.ingest.feeds.kafka.broker.reader import KafkaReader
from sparkhaven.ingest.feeds.kafka.options import ClientSettings, KafkaOptions, ReadLimits
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.io.fs import Fs
from tests.support.kafka.messages import messages
from tests.support.kafka.topics import make_topic, send
from tests.support.servers.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.jvm]

COUNT = 6000


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One that these tests may kill."""
    quick = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "300"}
    with Broker(Fs(), tmp_path_factory.mktemp("restarted"), settings=quick) as made:
        yield made


def test_each_message_comes_once(own_broker: Broker) -> None:
    topics = [make_topic(own_broker.bootstrap, 2) for _ in range(2)]
    for topic in topics:
        for partition in (0, 1):
            for start in range(0, COUNT, 500):  # in batches of their own
                values = [b"%d" % n + b"x" * 200 for n in range(start, start + 500)]
                send(own_broker.bootstrap, topic, values, partition)
    client = ClientSettings((("max.partition.fetch.bytes", "100000"),))
    feed = KafkaOptions(own_broker.bootstrap, tuple(topics), client=client, limits=ReadLimits(messages=700))
    reader = KafkaReader(feed, patience=120)
    read = reader.read(OffsetRange(topics[0], 1, 10, COUNT - 10))
    offsets = next(read).offsets.tolist()
    own_broker.kill()
    back = threading.Thread(target=own_broker.start)
    back.start()
    for some in read:
        offsets += some.offsets.tolist()
    assert offsets == list(range(10, COUNT - 10))
    back.join()
    for topic in topics:
        for partition in (0, 1):
            whole = messages(reader, OffsetRange(topic, partition, 0, COUNT))
            assert [int((message.value or b"").rstrip(b"x")) for message in whole] == list(range(COUNT))
    own_broker.stop()
    own_broker.start()
    assert len(messages(reader, OffsetRange(topics[0], 1, 100, 200))) == 100, "what was known ends with the connection"
    reader.close()
