"""Sources are named by the value from the data, or by their directory; what may mean two is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.errors import SettingsError, TableNotFoundError
from sparkhaven.store.layout import LocationKey, encode_internal
from tests.support.commands import run, run_json
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.small_tables import SmallTable
from tests.support.writers.merge_cases import DAY, TABLE, as_table
from tests.support.writers.merge_runs import make, merge

VALUES = ["NYSE Arca", "a/b", "Börse", ".hidden", "50%", "BRK.B", "x=y", "~", "日本", "a,b", "+1"]
DATE = "2026-11-20"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallTable:
    """Each value with as many rows as its place in the list says."""
    small = SmallTable(tmp_path_factory.mktemp("sources"))
    for number, value in enumerate(VALUES, 1):
        small.add(encode_internal(value), DATE, {"Size": [number] * number})
    small.log().close()
    return small


@pytest.mark.parametrize("value", VALUES)
def test_a_source_is_its_value_or_its_directory(small: SmallTable, value: str) -> None:
    opened, rows = open_table(small.root, "NS.T"), VALUES.index(value) + 1
    assert opened.count(sources=value) == opened.count(sources=[encode_internal(value)]) == rows
    assert opened.count(sources=[value, encode_internal(value)]) == rows
    assert run_json(small.root, "read", "NS.T", "--source", value)[1]["rows"] == rows
    assert run_json(small.root, "read", "NS.T", "--source", value, "--source", "BRK.B")[1]["rows"] in (rows, rows + 6)


def test_a_source_that_is_not_there_is_named_as_it_was_typed(small: SmallTable) -> None:
    with pytest.raises(TableNotFoundError, match="no source 'NYSE Arco'") as caught:
        open_table(small.root, "NS.T").count(sources="NYSE Arco")
    assert "NYSE%20Arca" in str(caught.value)


def test_what_may_mean_two_sources_is_refused(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    small.add("a%20b", DATE, {"Size": [1]})
    opened = open_table(small.root, "NS.T")
    assert opened.count(sources="a%20b") == opened.count(sources="a b") == 1
    small.add("a%2520b", DATE, {"Size": [2, 3]})
    small.log().close()
    opened = open_table(small.root, "NS.T")
    with pytest.raises(SettingsError, match="two sources that 'a%20b' may mean") as caught:
        opened.count(sources="a%20b")
    assert caught.value.expected == "'a b' for directory a%20b, or 'a%2520b' for directory a%2520b"
    assert opened.count(sources="a b") == 1
    assert opened.count(sources="a%2520b") == 2
    found = run(small.root, "read", "NS.T", "--source", "a%20b")
    assert (found.exit_code, "'a b'" in found.stderr, "'a%2520b'" in found.stderr) == (2, True, True)


@pytest.fixture
def merged(tmp_path: Path) -> IntradayRows:
    """A merged date with rows of two sources, of which one has a value that is no name of a directory."""
    db, rows = make(tmp_path, 30)
    db.commit({("a%20b", DAY): as_table(rows[:10]), ("a%2520b", DAY): as_table(rows[:5])})
    db.log.close()
    merge(db.layout, DAY)
    return db


@pytest.mark.slow
def test_a_truncate_takes_the_value(merged: IntradayRows) -> None:
    words = "truncate", str(TABLE), "--dates", DAY, "--source"
    code, value = run_json(merged.root, *words, "a%20b")
    assert (code, value["error"]["what"]) == (2, f"{TABLE} has two sources that 'a%20b' may mean")
    code, value = run_json(merged.root, *words, "a b")
    assert (code, value["locations"]) == (0, [{"stream": "rows", "source": "a%20b", "rows": 10}])
    code, value = run_json(merged.root, "delete", *words[1:], "a b", "--grace", "0")
    assert (code, value["rows"]) == (0, 10)
    assert not merged.layout.intraday_location(TABLE, LocationKey("a%20b", DAY)).exists()


def test_rows_of_a_merged_source_are_not_told_apart_by_its_value(merged: IntradayRows) -> None:
    with pytest.raises(SettingsError, match="cannot be distinguished"):
        open_table(merged.root, str(TABLE)).count(sources="a b")
