from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from sparkhaven.ingest.feeds.kafka.broker.reader import KafkaReader
from tests.support.kafka.fake_brokers import Brokers
from tests.support.kafka.fetched import Made, fetching


@pytest.fixture
def made() -> Iterator[Made]:
    """Makes a reader for brokers."""
    with ExitStack() as stack:

        def make(opened: Brokers, *arguments: Any, **options: Any) -> KafkaReader:
            reader = fetching(opened, *arguments, **options)
            stack.callback(reader.close)
            return reader

        yield make
