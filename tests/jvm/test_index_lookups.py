"""Rows of history by an index, as the Spark reader in Java finds them: the rows of the keys, or all where it cannot."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.store.format.column.charset import BY_NAME as CHARSETS
from sparkhaven.writers.partitions import add_partition
from tests.support.spark.pushed_queries import Java, Planned, Row, literal
from tests.support.streams.schema_site import TABLE as SITE_TABLE
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_runs import FS, merge
from tests.unit.writers.merge.test_widened_merge import MIDDLE, NARROW, XML, Widening

pytestmark = pytest.mark.jvm
DAY = "2024-03-05"
SCHEMA = """<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String" columnType="Grouping"/>
  <Column name="N" dataType="long"/><Column name="M" dataType="int"/><Column name="Row" dataType="long"/>
  <DataIndex columns="N"/><DataIndex columns="M,N"/>
</Table>
"""
ROWS, SYMBOLS, NUMBERS = 30_000, 60, 1_000
FORMS = pytest.mark.parametrize("form", ["deephaven", "parquet"])


def history(root: Path, form: str) -> Path:
    """One location in which each symbol comes equally often, and each number; some have none."""
    rows = range(ROWS)
    table = {
        "Sym": [None if row % 7 == 0 else f"S{row % SYMBOLS:02}" for row in rows],
        "N": [None if row % 11 == 0 else row * 7919 % NUMBERS for row in rows],
        "M": pa.array([row % 3 for row in rows], pa.int32()),
        "Row": list(rows),
    }
    db = IntradayRows(root, SCHEMA.encode(), fs=FS)
    db.commit({("a", DAY): pa.table(table)})
    add_partition(FS, db.layout, "NS", "0")
    merge(db.layout, DAY, table=db.table, format=form)
    return next(db.layout.partitions("NS").rglob("table.size")).parent


def equal(column: str, *values: Any, kind: str = "string") -> list[Any]:
    operator = "=" if len(values) == 1 else "IN"
    return [operator, [column, *(literal(value, kind) for value in values)]]


def read(planned: Planned, *conditions: list[Any]) -> list[Row]:
    return planned.read(planned.java.ask(predicates=list(conditions)))


@FORMS
def test_only_rows_of_the_keys_are_read(form: str, java: Java, tmp_path: Path) -> None:
    history(tmp_path, form)
    planned = Planned(tmp_path, java)

    def rows(keeps: Callable[[Row], bool]) -> list[Row]:
        return [row for row in planned.every() if keeps(row)]

    one, none = equal("Sym", "S17"), equal("Sym", "other")
    count = len(rows(lambda row: row["Sym"] == "S17"))
    assert f"read by the driver: {count} rows" in java.ask(predicates=[one], scan=True)["description"]
    several = [f"S{number:02}" for number in range(10, 40)]
    answer = java.ask(predicates=[equal("Sym", *several)], scan=True)
    count = len(rows(lambda row: row["Sym"] in several))
    assert f"1 of 1 locations, {count} of {ROWS} rows" in answer["description"]
    assert answer["same"] and not answer["other"]
    assert read(planned, one) == rows(lambda row: row["Sym"] == "S17")
    assert read(planned, none) == read(planned, equal("N", NUMBERS, kind="bigint")) == []
    assert read(planned, equal("Sym", "S17", "S40", "other", None)) == rows(lambda row: row["Sym"] in ("S17", "S40"))
    few = equal("N", 623, -1, 77, kind="bigint")
    found = read(planned, few)
    assert [row for row in found if row["N"] in (623, 77)] == rows(lambda row: row["N"] in (623, 77))
    assert len(found) < ROWS / 2  # rows between two that are close are read with them
    both = read(planned, one, few)
    assert [row for row in both if row["N"] in (623, 77) and row["Sym"] == "S17"] == rows(
        lambda row: row["N"] in (623, 77) and row["Sym"] == "S17"
    )
    assert len(both) <= len(found)
    either = ["OR", [one, equal("Sym", "S18")]]
    assert read(planned, either) == rows(lambda row: row["Sym"] in ("S17", "S18"))
    for other in (["OR", [one, ["<", ["Row", literal(7, "bigint")]]]], ["NOT", [one]], ["IS_NULL", ["Sym"]]):
        assert read(planned, other) == planned.every()


def test_locations_without_the_key_by_their_statistics_are_not_touched(java: Java, tmp_path: Path) -> None:
    db = IntradayRows(tmp_path, SCHEMA.encode(), fs=FS)
    add_partition(FS, db.layout, "NS", "0")
    for day, first in (("2024-03-05", 0), ("2024-03-06", 5_000)):
        rows = range(first, first + 5_000)
        some = {"Sym": [f"S{row // 500:02}" for row in rows], "M": pa.array([0] * len(rows), pa.int32())}
        db.commit({("a", day): pa.table({**some, "N": list(rows), "Row": list(rows)})})
        merge(db.layout, day, table=db.table)
    planned = Planned(tmp_path, java)
    shutil.rmtree(next(db.layout.partitions("NS").rglob("2024-03-06/T")))
    for asked, count in ((equal("N", 77, kind="bigint"), 1), (equal("Sym", "S03"), 500)):
        answer = java.ask(predicates=[asked], columns=["Row"])
        assert len(answer["values"]) == count == len(planned.read(answer))
    assert "error" in java.ask(predicates=[equal("Sym", "S13")], columns=["Row"])


@FORMS
def test_an_index_with_damage_costs_time_only(form: str, java: Java, tmp_path: Path) -> None:
    location = history(tmp_path, form)
    planned = Planned(tmp_path, java)
    files = sorted(path for path in location.rglob("Index-*/*") if path.suffix in (".dat", ".bytes"))
    assert len(files) == 4 + 3 + 4
    conditions = {
        "Index-Sym": [equal("Sym", "S17")],
        "Index-N": [equal("N", 77, kind="bigint")],
        "Index-M,N": [equal("M", 2, kind="int"), equal("N", 623, kind="bigint")],
    }
    sound = {name: read(planned, *asked) for name, asked in conditions.items()}
    assert all(0 < len(rows) < ROWS / 2 for rows in sound.values())
    for number, path in enumerate(files):
        data, name = path.read_bytes(), path.parent.name
        changed = {
            "first": bytes([data[0] ^ 1]) + data[1:],
            "last": data[:-1] + bytes([data[-1] ^ 1]),
            "cut": data[:-1],
            "other": files[number - 1].read_bytes(),
            "gone": None,
        }
        for damage, other in changed.items():
            path.unlink()
            if other is not None:
                path.write_bytes(other)
            found = read(planned, *conditions[name])
            assert len(found) > len(sound[name]), (path, damage)
            assert {row["Row"] for row in found} >= {row["Row"] for row in sound[name]}
            path.unlink(missing_ok=True)
            path.write_bytes(data)
        assert read(planned, *conditions[name]) == sound[name]


@pytest.mark.parametrize("charset", sorted(CHARSETS))
def test_texts_of_every_charset(charset: str, java: Java, tmp_path: Path) -> None:
    texts = ["", "a", "ab", "zz", "A" * 80]
    texts += ["é", "ÿ"] if charset != "US_ASCII" else []
    texts += ["\ufffd", "\U0001f600", "\uffff"] if charset.startswith("UTF") else []
    schema = SCHEMA.replace('name="N" dataType="long"', f'name="N" dataType="String" encoding="{charset}"')
    schema = schema.replace('columnType="Grouping"', f'columnType="Grouping" encoding="{charset}"')
    db = IntradayRows(tmp_path, schema.encode(), fs=FS)
    rows = range(2_000)
    of_row = {row: None if row % 13 == 0 else texts[row % len(texts)] for row in rows}
    listed = {"Sym": list(of_row.values()), "N": list(of_row.values())[::-1]}
    db.commit({("a", DAY): pa.table(listed | {"M": pa.array(rows, pa.int32()), "Row": list(rows)})})
    add_partition(FS, db.layout, "NS", "0")
    merge(db.layout, DAY, table=db.table)
    planned = Planned(tmp_path, java)
    for text in texts:
        wanted = [row for row in planned.every() if row["Sym"] == text]
        assert read(planned, equal("Sym", text)) == wanted and wanted
        found = read(planned, equal("N", text))
        assert [row for row in found if row["N"] == text] == [row for row in planned.every() if row["N"] == text]


def test_widened_and_renamed_columns(java: Java, tmp_path: Path) -> None:
    site = Widening(tmp_path)
    site.declare(NARROW)
    for name in ("s", "t"):
        site.stream(name)
    for number in ("0", "1"):
        site.do("partitions", "add", "Test", number)
    site.batch("s", 30_000)
    site.merge()

    def read_for_none(column: str, kind: str) -> int:
        """How many rows are read for a number between others that no row has; rows of the others are found."""
        planned = Planned(site.root, java, SITE_TABLE)
        for value in (-4, 0, 8, 30_000, 70_000 if kind == "int" else 7):
            found = read(planned, equal(column, value, kind=kind))
            wanted = [row["A"] for row in planned.every() if row[column] == value]
            assert sorted(row["A"] for row in found if row[column] == value) == sorted(wanted), (column, value)
        return len(read(planned, equal(column, 100, kind=kind)))

    assert read_for_none("I", "smallint") == 0
    site.declare(MIDDLE)
    site.deploy()
    assert read_for_none("I", "int") == 400  # the index has keys of the narrow type
    site.batch("t", 70_000)
    assert read_for_none("I", "int") == 800
    site.merge("--rewrite")
    assert read_for_none("I", "int") == 0
    site.write(XML.format(**MIDDLE).replace('"I"', '"J"'))
    site.deploy("--rename", "I=J")
    assert read_for_none("J", "int") == 0
