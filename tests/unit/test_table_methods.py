"""``Table.append`` takes anything that gives Arrow, exactly and without Spark; options are checked by their names."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pytest

import sparkhaven
from sparkhaven.jobs.settings.keywords import by_keywords
from tests.support.places import REPOSITORY

SCHEMA = b"""<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
<Partitions keyFormula="${autobalance_single}"/><Column name="Date" dataType="String" columnType="Partitioning"/>
<Column name="Sym" dataType="String"/><Column name="Size" dataType="long"/><Column name="At" dataType="Instant"/>
<Column name="Note" dataType="String" symbolTable="None"/></Table>"""
RULES: dict[str, Any] = {"internal": "Sym", "value": {"column": "At", "zone": "UTC"}, "bounds": {"max_past": "3650d"}}
NANOSECOND = 1_763_632_800_123_456_789


def rows(**columns: Any) -> pa.Table:
    at = pa.array([NANOSECOND, NANOSECOND + 1], pa.timestamp("ns", "UTC"))
    return pa.table({"Sym": ["a", "b"], "Size": [1, 2], "At": at, "Note": ["x", None]} | columns)


@pytest.fixture
def table(tmp_path: Path) -> sparkhaven.Table:
    return sparkhaven.Database(tmp_path / "db").create_table(SCHEMA)


def shown(table: sparkhaven.Table) -> list[tuple[Any, ...]]:
    found = table.to_arrow(["Sym", "Size", "At", "Note"], dictionaries=False)
    at = found["At"].cast(pa.int64()).to_pylist()
    return sorted(zip(found["Sym"].to_pylist(), found["Size"].to_pylist(), at, found["Note"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    "given",
    [
        rows(),
        rows().to_batches()[0],
        rows().to_reader(),
        polars.DataFrame(rows()),
        rows(Sym=pa.array(["a", "b"]).dictionary_encode(), Size=pa.array([1, 2], pa.uint32())),
        rows(Sym=pa.array(["a", "b"], pa.large_string()), Note=pa.array(["x", None], pa.string_view())),
    ],
    ids=["table", "batch", "reader", "polars", "dictionary and unsigned", "large and viewed"],
)
def test_what_gives_arrow_is_stored_exactly(table: sparkhaven.Table, given: Any) -> None:
    done = table.append(given, "s", **RULES)
    assert (done.rows, done.epoch) == (2, 1)
    assert shown(table) == [("a", 1, NANOSECOND, "x"), ("b", 2, NANOSECOND + 1, None)]
    assert table.snapshot().sources() == ["a", "b"]


def test_a_label_is_written_once(table: sparkhaven.Table) -> None:
    assert table.append(rows(), "s", label="first", **RULES).epoch == 1
    assert table.append(rows(), "s", label="first", **RULES).epoch is None
    with pytest.raises(sparkhaven.errors.PositionGapError, match="other rows were written"):
        table.append(rows(Size=[1, 3]), "s", label="first", **RULES)
    assert table.snapshot().count() == 2
    assert table.epochs()["rows"].to_pylist() == [2]


def test_a_value_that_does_not_fit_stores_nothing(table: sparkhaven.Table) -> None:
    with pytest.raises(sparkhaven.errors.SparkhavenError):
        table.append(rows(Size=pa.array([1, 2**63], pa.uint64())), "s", **RULES)
    with pytest.raises(sparkhaven.errors.SchemaMismatchError, match="columns of the data frame are not those"):
        table.append(rows().drop_columns(["Size"]), "s", **RULES)
    assert table.snapshot().epochs == {}


def test_options_are_checked_by_their_names(table: sparkhaven.Table) -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'ignored'.*did you mean ignore"):
        table.append(rows(), "s", ignored=["x"], **RULES)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="missing the keyword arguments internal, value"):
        table.append(rows(), "s")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Table.merge\(\) got an unexpected keyword argument 'dedup'"):
        table.merge("2026-11-20", dedup="Sym")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Table.snapshot\(\)"):
        table.snapshot(asof="2026")  # type: ignore[call-arg]


@pytest.mark.slow
def test_an_append_needs_no_spark(tmp_path: Path) -> None:
    code = (
        "import sys, sparkhaven\n"
        f"table = sparkhaven.Database({str(tmp_path)!r}).create_table({SCHEMA!r})\n"
        "row = {'Sym': ['a'], 'Size': [1], 'At': [1763632800000000000], 'Note': ['x']}\n"
        "table.append(row, 's', internal='Sym', value={'fixed': '2026-11-20'})\n"
        "table.merge('2026-11-20'), table.validate('2026-11-20'), table.truncate('2026-11-20')\n"
        "assert 'pyspark' not in sys.modules and len(table.snapshot()) == 1"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPOSITORY)


@pytest.mark.parametrize("method", ["to_arrow", "merge", "validate", "truncate"])
def test_a_date_of_python_is_told_how_it_is_written(table: sparkhaven.Table, method: str) -> None:
    table.append(rows(), stream="s", **RULES)
    with pytest.raises(sparkhaven.errors.SettingsError, match="writes a date of Python") as found:
        getattr(table, method)(dates=[date(2025, 11, 20)])
    assert "datetime.date(2025, 11, 20)" in str(found.value.found)


def test_a_directory_of_something_else_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "some.file").write_text("")
    with pytest.raises(sparkhaven.errors.TableNotFoundError, match="the directory is no database"):
        sparkhaven.Database(tmp_path).tables()


def test_messages_name_keywords_in_place_of_options(table: sparkhaven.Table, tmp_path: Path) -> None:
    table.append(rows(), stream="s", **RULES)
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: table.rewrite_columns(dates="2026-11-20"), "one of add=, drop=, rename=, retype= and set="),
        (lambda: table.drop_rejected("s"), "reason=, source=, epoch=, state=, or everything="),
        (lambda: table.export(tmp_path / "e", layout="kv", leaf="deephaven"), "layout= hive"),
        (lambda: table.merge(), "dates= D|A..B or closed="),
    ]
    for call, named in calls:
        with pytest.raises(sparkhaven.errors.SparkhavenError) as error:
            call()
        assert named in str(error.value) and not re.search(r"(?<!\w)--[a-z]", re.sub("`[^`]*`", "", str(error.value)))
    assert by_keywords("`sparkhaven read T --out F`, or --as-of T, --date D") == (
        "`sparkhaven read T --out F`, or as_of= T, dates= D"
    )
