"""One broker for all tests of a run: on free loopback ports, with its data below pytest's directory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jobs.demo.broker import Broker
from store.io.fs import Fs


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Started once; the tests make topics with names of their own."""
    with Broker(Fs(), tmp_path_factory.mktemp("broker")) as made:
        yield made
