"""Column files of the other byte order, as other writers make them: Java says who reads them, and reports no damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.store.format.column.prefix import DATA_OFFSET
from tests.support.spark.pushed_queries import Java, Planned
from tests.support.tables.big_endian import big_endian
from tests.support.tables.small_tables import SmallTable

pytestmark = pytest.mark.jvm
DAY = "2026-11-20"


def test_java_names_the_reader_that_knows_them(tmp_path: Path, java: Java) -> None:
    small = SmallTable(tmp_path)
    small.add("a", DAY, {"Size": [1, 2]})
    Planned(small.root, java)
    assert java.ask(columns=["Size"])["values"] == [["1"], ["2"]]
    big_endian(small.location("a", DAY), small.schema.column("Size"), DATA_OFFSET)
    for _ in range(2):
        error = java.ask(columns=["Size"])["error"]
        assert error.startswith("SettingsError: the reader in Java does not read column files of this byte order")
        assert "found: BIG_ENDIAN" in error and "reader=python" in error and "Size.dat" in error
