"""The table that queries ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tables.rising_table import rising
from tests.support.tables.small_tables import SmallTable


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    return rising(tmp_path / "db")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> SmallTable:
    """The same for tests that leave it as it is."""
    return rising(tmp_path_factory.mktemp("kept"))
