"""One JVM for the tests that ask a plan what Spark would ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.spark.pushed_queries import Java


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    running = Java(tmp_path_factory.mktemp("classes"))
    yield running
    running.close()
