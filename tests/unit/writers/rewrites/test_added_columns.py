"""A column that comes after a date was merged: corrections and proofs of that date hold, whatever its type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparkhaven
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.writers.partitions import add_partition

D = "2026-11-20"
SCHEMA = """<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
<Partitions keyFormula="${{autobalance_single}}"/><Column name="Date" dataType="String" columnType="Partitioning"/>
<Column name="Id" dataType="int"/>{added}</Table>"""
RULES: dict[str, Any] = {"internal": {"fixed": "a"}, "value": {"fixed": D}}
ADDED = {
    "StringSet": pa.array([["b", "a"]], pa.list_(pa.string())),
    "String": pa.array(["x"]),
    "double": pa.array([1.5]),
    "int[]": pa.array([[1, 2]], pa.list_(pa.int32())),
    "LocalTime": pa.array([1], pa.time64("ns")),
}


@pytest.mark.parametrize("late", ["no later rows", "merged later rows", "waiting later rows"])
@pytest.mark.parametrize("kind", ADDED)
def test_a_date_without_a_newer_column_is_corrected_and_proved(tmp_path: Path, kind: str, late: str) -> None:
    database = sparkhaven.Database(tmp_path / "db")
    table = database.create_table(SCHEMA.format(added="").encode())
    add_partition(Fs(), Layout(tmp_path / "db"), "NS", "0")
    table.append({"Id": pa.array([1, 2, 3], pa.int32())}, "s", **RULES)
    table.merge(D)
    database.create_table(SCHEMA.format(added=f'<Column name="New" dataType="{kind}"/>').encode())
    expected: dict[int, Any] = {1: None, 2: None, 3: None}
    if late != "no later rows":
        table.append({"Id": pa.array([4], pa.int32()), "New": ADDED[kind]}, "s", **RULES)
        expected[4] = table.to_arrow(["New"], where="Id = 4")["New"][0].as_py()
    if late == "merged later rows":
        table.merge(D)

    def proved() -> None:
        assert [date.validation is not None and date.validation.passed for date in table.validate(D)] == [True]
        found = table.to_arrow(["Id", "New"], dictionaries=False).to_pydict()
        assert {i: value or None for i, value in zip(found["Id"], found["New"], strict=True)} == expected

    proved()
    assert table.delete_rows("Id = 2").rows == 1
    del expected[2]
    proved()
    table.rewrite_columns(D, set={"Id": "CASE WHEN Id = 3 THEN 30 ELSE Id END"})
    expected[30] = expected.pop(3)
    proved()
    table.merge(D, rewrite=True)
    proved()
    (truncated,) = table.truncate(D)
    assert truncated.removed is not None
    assert truncated.removed.rows == (3 if late == "no later rows" else 4)
    proved()
