"""The trees are made once a process."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.witness.damage import Trees
from tests.support.witness.page import place
from tests.support.witness.trees import make_trees


@pytest.fixture(scope="session")
def trees() -> Iterator[Trees]:
    """The same database at three times."""
    with tempfile.TemporaryDirectory(dir=place()) as base:
        yield make_trees(Path(base) / "trees")
