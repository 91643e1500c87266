"""Rows of data frames that cannot be stored: each with its own content and place, whatever repeats."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.feeds.base import route
from sparkhaven.ingest.feeds.frames import FrameBatch, FramesFeed, FramesOptions, fit_frame, frame_columns
from sparkhaven.ingest.spec import BadRowBudget, Clock, InternalRule, PartitionSpec, StreamSpec, ValueRule
from sparkhaven.store.errors import ErrorBudgetExceeded, SchemaMismatchError, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from tests.support.ingest.ingest_cases import schema

NS = 10**9
DAY = 86_400 * NS
TABLE = schema(n="int", at="Instant", src="String")
PARTITION = PartitionSpec(
    InternalRule("column", "src"), ValueRule("at"), Clock("fixed", 10 * DAY), max_past_s=2 * 86_400.0
)
SPEC = StreamSpec("s", "T.T", FramesOptions(), PARTITION, bad_rows=BadRowBudget(100, 1.0))


def decode(
    rows: list[tuple[int, int | None, str | None]],
    numbers: list[int],
    closed: frozenset[LocationKey] = frozenset(),
    spec: StreamSpec = SPEC,
) -> tuple[list[tuple[str, str, list[int]]], list[Any]]:
    """Locations with their values of ``n``, and the bad rows."""
    n, at, src = zip(*rows, strict=True)
    stamps = pa.array([None if t is None else t * DAY for t in at], pa.timestamp("ns", "UTC"))
    batch = pa.RecordBatch.from_pydict({"n": pa.array(n, pa.int64()), "at": stamps, "src": pa.array(src, pa.string())})
    quarantined: list[Any] = []
    rejects = Rejects(spec.bad_rows, sink=quarantined.extend)
    split = FrameBatch(batch, "t/0", np.array(numbers, np.int64), "offset")
    blocks = FramesFeed(spec).decode(Fs(), split, TABLE, rejects, time.time)
    found = [
        (routed.key.internal, routed.key.value, routed.batch.column("n").to_pylist())
        for routed in route(blocks, rejects, closed)
    ]
    return found, quarantined


def test_rows_of_one_offset_are_each_parked_with_their_own_content() -> None:
    rows = [(1, 9, "a"), (2**31, 9, "a"), (3, None, "a"), (4, 1, "a"), (5, 9, None), (6, 9, "b")]
    found, quarantined = decode(rows, [7, 7, 7, 8, 8, 8])
    assert found == [("a", "1970-01-10", [1]), ("b", "1970-01-10", [6])]
    reported = [(row.line, row.code, json.loads(row.payload)["n"]) for row in quarantined]
    assert reported == [
        (7, "overflow", 2**31),
        (7, "null-partition-value", 3),
        (8, "instant-out-of-bounds", 4),
        (8, "null-internal-partition", 5),
    ]
    assert {row.unit for row in quarantined} == {"offset"}


def test_rows_for_a_date_that_was_truncated_are_late() -> None:
    rows = [(1, 9, "a"), (2, 8, "a"), (3, 9, "b")]
    closed = frozenset({LocationKey("a", "1970-01-10"), LocationKey("x", "1970-01-10")})
    found, quarantined = decode(rows, [5, 6, 7], closed)
    assert found == [("a", "1970-01-09", [2]), ("b", "1970-01-10", [3])]
    assert [(row.line, row.code, json.loads(row.payload)["n"]) for row in quarantined] == [(5, "late", 1)]
    strict = replace(SPEC, partition=replace(PARTITION, late="fail"))
    with pytest.raises(ErrorBudgetExceeded, match="a date that the stream refuses") as caught:
        decode(rows, [5, 6, 7], closed, strict)
    assert caught.value.where == "t/0 offset 5"


def test_bounds_that_fail_name_the_position_of_the_row() -> None:
    strict = replace(SPEC, partition=replace(PARTITION, bounds="fail"))
    with pytest.raises(ErrorBudgetExceeded) as caught:
        decode([(1, 9, "a"), (2, 1, "a")], [40, 41], spec=strict)
    assert caught.value.where == "t/0 offset 41"


def test_a_used_column_twice_is_refused_and_another_one_is_no_fault() -> None:
    fields = [("n", "int"), ("x", "int"), ("x", "int")]
    assert frame_columns(fields, ["n"]) == {"n": "int", "x": "int"}
    with pytest.raises(SchemaMismatchError, match="a column twice") as caught:
        frame_columns(fields, ["n", "x"])
    assert caught.value.column == "x"
    batch = pa.RecordBatch.from_arrays([pa.array([2**40]), pa.array([1]), pa.array([2])], ["n", "x", "x"])
    rejects = Rejects(BadRowBudget(9, 1.0))
    spec = replace(SPEC, partition=PartitionSpec(InternalRule("fixed", "0"), ValueRule(fixed="d")))
    split = FrameBatch(batch, "t/0", np.array([1], np.int64), "row")
    assert not list(route(FramesFeed(spec).decode(Fs(), split, schema(n="int"), rejects, time.time), rejects))
    assert json.loads(rejects.rows[0].payload or b"") == {"n": 2**40, "x": 1, "x (2)": 2}


@pytest.mark.parametrize("used", [["p", "n"], ["n", "P"]])
def test_columns_that_differ_in_case_are_refused_where_one_is_used(used: list[str]) -> None:
    fields = [("n", "int"), ("p", "double"), ("P", "double"), ("x", "int"), ("X", "int")]
    with pytest.raises(SchemaMismatchError, match="differ in case only") as caught:
        frame_columns(fields, used)
    column = next(name for name in used if name != "n")
    assert (caught.value.column, caught.value.found, caught.value.expected) == (column, "p, P", f"one column {column}")
    assert "toDF" in str(caught.value.hint)
    assert frame_columns(fields, ["n"]) == dict(fields)


@pytest.mark.parametrize(("lossy", "taken"), [((), False), (("px",), True), (True, True)])
def test_lossy_of_a_frame(lossy: Any, taken: bool) -> None:
    table, spec = schema(px="float"), replace(SPEC, feed=FramesOptions(lossy=lossy))
    spec = replace(spec, partition=PartitionSpec(InternalRule("fixed", "0"), ValueRule(fixed="d")))
    fitted = fit_frame(spec, table, {"px": "double"})
    split = FrameBatch(pa.RecordBatch.from_pydict({"px": [0.1]}), "t/0", np.array([1], np.int64), "row")
    rejects = Rejects(BadRowBudget(9, 1.0))
    routed = list(route(FramesFeed(fitted).decode(Fs(), split, table, rejects, time.time), rejects))
    assert [part.batch["px"].to_pylist() for part in routed] == ([[0.10000000149011612]] if taken else [])


def test_lossy_names_a_float_or_double() -> None:
    with pytest.raises(SettingsError, match="lossy names a column") as caught:
        fit_frame(
            replace(SPEC, feed=FramesOptions(lossy=("n",))), TABLE, {"n": "int", "at": "timestamp", "src": "string"}
        )
    assert caught.value.found == "n"
