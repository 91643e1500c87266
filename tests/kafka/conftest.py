"""One broker for all tests of this folder: on free loopback ports, with its data below pytest's directory.

It is stopped after the last of them, with the readers that a process keeps: an idle broker that is asked for messages
fifty times a second by each of them takes a quarter of a core from the tests that follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkhaven.ingest.feeds.kafka.broker.reader_pool import KEPT
from sparkhaven.store.io.fs import Fs
from tests.support.servers.broker import Broker

HERE = Path(__file__).parent
MADE: list[Broker] = []


@pytest.fixture(scope="session")
def kept_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Made once; its topics and ports stay when it is started again."""
    MADE.append(Broker(Fs(), tmp_path_factory.mktemp("broker")))
    yield MADE[0]
    MADE.pop().stop()


@pytest.fixture(scope="module")
def broker(kept_broker: Broker) -> Broker:
    """Running; the tests make topics with names of their own."""
    if kept_broker.pid is None:
        kept_broker.start()
    return kept_broker


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    if nextitem is None or HERE not in nextitem.path.parents:
        KEPT.close()
        for broker in MADE:
            broker.stop()
