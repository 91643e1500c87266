"""The Kafka feed passes the suite of all feeds, with a real broker."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from sparkhaven.testing import PlannedFeedCase, PlannedFeedContract, Row
from tests.support.kafka.topics import make_topic, send
from tests.support.servers.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.jvm]


class KafkaCase(PlannedFeedCase):
    """One message for each row, in a topic of its own."""

    on_this_machine = False
    small = ({"rows": 1}, {"bytes": 1})

    def __init__(self, base: Path, bootstrap: str) -> None:
        self._bootstrap, self._topic = bootstrap, make_topic(bootstrap)
        keys = {"type": "kafka", "bootstrap": bootstrap, "topics": [self._topic]}
        super().__init__(base, keys, {**keys, "topics": ["no-such-topic"]})

    def add(self, rows: Sequence[Row]) -> None:
        send(self._bootstrap, self._topic, [json.dumps(row) for row in rows])


class TestKafka(PlannedFeedContract):
    @pytest.fixture
    def case(self, tmp_path: Path, broker: Broker) -> KafkaCase:
        return KafkaCase(tmp_path, broker.bootstrap)
