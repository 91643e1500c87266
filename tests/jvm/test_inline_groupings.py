"""Groupings in the begin of a column file: the Spark reader in Java refuses what Python's readers refuse, no more."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.column.prefix import DATA_OFFSET, decode_prefix, encode_prefix
from sparkhaven.store.types.model import Column
from sparkhaven.writers.partitions import add_partition
from tests.support.spark.pushed_queries import Java, Planned
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_runs import FS, merge

pytestmark = pytest.mark.jvm
DAY = "2024-03-05"
SCHEMA = """<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${{autobalance_single}}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="K" dataType="{kind}" columnType="Grouping"/>
</Table>
"""
MOMENT = datetime(2026, 11, 20, tzinfo=UTC)
KEYS: dict[str, list[Any]] = {
    "String": ["", "a", "\0é\U0001f600"],
    "Boolean": [True, False],
    "byte": [-1, 5],
    "char": [65, 0x20AC],
    "short": [-300, 5],
    "int": [-70_000, 5],
    "long": [-(2**40), 5],
    "float": [float("nan"), -0.0, 1.5],
    "double": [float("nan"), float("-inf"), 1.5],
    "Instant": [MOMENT],
}


@pytest.mark.parametrize("null", [True, False])
@pytest.mark.parametrize("kind", KEYS)
def test_the_same_bytes_are_damage(kind: str, null: bool, java: Java, tmp_path: Path) -> None:
    db = IntradayRows(tmp_path, SCHEMA.format(kind=kind).encode(), fs=FS)
    (column,) = db.schema.grouping
    keys = pa.array([*KEYS[kind], *[None] * null] * 2, column.type.arrow)
    db.commit({("a", DAY): pa.table({"K": keys})})
    add_partition(FS, db.layout, "NS", "0")
    merge(db.layout, DAY, table=db.table)
    (path,) = db.layout.partitions("NS").rglob("T/K.dat")
    planned, data = Planned(tmp_path, java), path.read_bytes()
    prefix = decode_prefix(data[:DATA_OFFSET], path)
    assert prefix.metadata is not None and len(prefix.metadata.entries) == len(KEYS[kind]) + null
    assert len(java.ask(columns=["K"])["values"]) == len(planned.every())
    refused = 0
    for place in (*range(_first(column), prefix.length + 2), DATA_OFFSET - 1):
        for bit in (1, 0x80):
            changed = bytearray(data)
            changed[place] ^= bit
            path.write_bytes(changed)
            answer = java.ask(columns=["K"])
            assert ("error" in answer) is _is_damaged(bytes(changed[:DATA_OFFSET])), (place, bit)
            if "error" in answer:
                assert "CorruptFileError: prefix is damaged" in answer["error"]
                refused += 1
    assert refused > prefix.length - _first(column)  # what remains are other numbers and texts


def _first(column: Column) -> int:
    """The byte at which a grouping begins."""
    return len(encode_prefix(column).rstrip(b"\0")) - 2  # null, and the end of the map


def _is_damaged(begin: bytes) -> bool:
    try:
        decode_prefix(begin, "file")
    except SparkhavenError:
        return True
    return False
