"""A filter keeps the same rows with indexes and without, whatever it is, and whichever columns are indexed."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkhaven.readers import open_table
from sparkhaven.readers.arrow.pinned_table import filter_of
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store.expressions.predicate.expression import parse_predicate
from sparkhaven.store.scan.checksums import MEMORY
from sparkhaven.store.scan.location_files import LocationFiles
from sparkhaven.store.scan.narrowing import Worth, narrowed
from sparkhaven.writers.partitions import add_partition
from tests.support.readers.indexed_pairs import instant
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, SCHEMA, STRINGS, as_table, comparable, random_row
from tests.support.writers.merge_runs import FS, merge

KEYS = ["Sym", "Venue", "Flag", "B", "C", "S", "I", "L", "F", "D", "T"]
INDEXES = st.lists(st.lists(st.sampled_from([*KEYS, "Note"]), min_size=1, max_size=3, unique=True), max_size=2)
SLOW = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
TYPES = dict(
    zip(
        KEYS,
        ["String", "String", "Boolean", "byte", "char", "short", "int", "long", "float", "double", "Instant"],
        strict=True,
    )
)


def schema_of(grouping: str, indexes: list[list[str]]) -> bytes:
    """The schema with another grouping column, and with indexes."""
    text = SCHEMA.replace(b'"Sym" dataType="String" columnType="Grouping"', b'"Sym" dataType="String"')
    text = text.replace(b"autobalance_by_first_grouping_column", b"autobalance_single")
    plain = f'"{grouping}" dataType="{TYPES[grouping]}"'
    elements = "".join(f'<DataIndex columns="{",".join(columns)}"/>' for columns in indexes)
    text = text.replace(b"</Table>", f"{elements}</Table>".encode())
    return text.replace(plain.encode(), f'{plain} columnType="Grouping"'.encode())


def literal(column: str, value: Any) -> str:
    if column == "C":
        return str(value)
    if column == "T":
        return str(instant(value).where)
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else json.dumps(value)


def leaf(data: st.DataObject, rows: list[dict[str, Any]], indexed: list[str]) -> str:
    column = data.draw(st.sampled_from([*KEYS, "Note"]) | st.sampled_from(indexed))
    values = [row[column] for row in rows if row[column] is not None]
    finite = [value for value in values if not isinstance(value, float) or abs(value) < float("inf")]
    others = (
        STRINGS if column in ("Sym", "Venue", "Note") else [True, False] if column == "Flag" else [0, 0, 1, 7, -(2**31)]
    )
    value = st.sampled_from(finite or others) | st.sampled_from(others)
    kind = data.draw(st.sampled_from(["=", "=", "in", "is null", "<>", "<"]))
    if kind == "is null":
        return f"{column} is null"
    if kind == "in":
        listed = ", ".join(literal(column, data.draw(value)) for _ in range(data.draw(st.integers(1, 3))))
        return f"{column} in ({listed})"
    sign = "=" if column == "Flag" and kind == "<" else kind
    return f"{column} {sign} {literal(column, data.draw(value))}"


def expression(data: st.DataObject, rows: list[dict[str, Any]], indexed: list[str], depth: int = 2) -> str:
    kind = data.draw(st.sampled_from(["leaf", "leaf", "and", "or", "not"])) if depth else "leaf"
    if kind == "leaf":
        return leaf(data, rows, indexed)
    if kind == "not":
        return f"not ({expression(data, rows, indexed, depth - 1)})"
    sides = [expression(data, rows, indexed, depth - 1) for _ in range(2)]
    return f"({sides[0]}) {kind} ({sides[1]})"


def values(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(map(comparable, row.values())) for row in table.to_pylist()]


@pytest.mark.slow
@SLOW
@given(st.sampled_from(KEYS), INDEXES, st.sampled_from(["deephaven", "parquet", "both"]), st.integers(0, 99), st.data())
def test_a_filter_keeps_the_same_rows_with_indexes_and_without(
    grouping: str, indexes: list[list[str]], form: str, seed: int, data: st.DataObject
) -> None:
    rng = random.Random(seed)
    rows = [random_row(rng) for _ in range(rng.randint(1, 60))] * 2
    with tempfile.TemporaryDirectory() as root:
        db = IntradayRows(Path(root), schema_of(grouping, indexes), fs=FS)
        db.commit({("a", DAY): as_table(rows)})
        add_partition(FS, db.layout, "Test", "0")
        merge(db.layout, format=form)
        table = open_table(root, "Test.Every")
        everything = table.to_arrow()
        pinned, whole = pinned_of(table), pinned_of(table).plan().slices
        worth = Worth(data.draw(st.sampled_from([1, 4096]), "what is long"), scattered=0)
        for _ in range(4):
            where = expression(data, rows, [grouping, *(name for columns in indexes for name in columns)])
            wanted = parse_predicate(where, table.schema).filter(everything)
            assert values(table.to_arrow(where=where)) == values(wanted), where
            predicate = parse_predicate(where, table.schema)
            filtered = filter_of(predicate, table.schema)
            assert filtered is not None
            slices = narrowed(LocationFiles(FS, MEMORY), table.schema, whole, filtered, worth)
            batches = list(pinned.read(slices, where=predicate, batch_rows=7))
            assert values(pa.Table.from_batches(batches, everything.schema)) == values(wanted), where
