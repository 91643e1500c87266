"""The Kafka feed passes the suite of all feeds, with a real broker."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from sparkhaven.ingest.spec.payload_formats import Limit
from tests.support.ingest.feed_contract import PlannedCase, PlannedContract, rows_of
from tests.support.kafka.topics import make_topic, send
from tests.support.servers.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.jvm]


class KafkaCase(PlannedCase):
    """One message for each row, in a topic of its own."""

    on_this_machine = False
    small = (Limit(rows=1), Limit(bytes=1))

    def __init__(self, base: Path, bootstrap: str) -> None:
        self._bootstrap, self._topic = bootstrap, make_topic(bootstrap)
        keys = {"type": "kafka", "bootstrap": bootstrap, "topics": [self._topic]}
        self.open(base, keys, {**keys, "topics": ["no-such-topic"]})

    def add(self, numbers: Sequence[int]) -> None:
        send(self._bootstrap, self._topic, [json.dumps(row) for row in rows_of(numbers)])


class TestKafka(PlannedContract):
    @pytest.fixture
    def case(self, tmp_path: Path, broker: Broker) -> KafkaCase:
        return KafkaCase(tmp_path, broker.bootstrap)
