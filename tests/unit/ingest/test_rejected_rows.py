"""Rejected rows as data: whole payloads, codes, portions of bounded size, and Parquet rows as text and back."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.ingest.bad_rows import (
    HELD_BYTES,
    MAX_PAYLOAD,
    BadRow,
    MessagePart,
    Rejects,
    as_batch,
    bad_row,
    check_budget,
)
from sparkhaven.ingest.feeds.files.formats.parquet_files import from_row_text
from sparkhaven.ingest.spec import BadRowBudget, StreamSpec
from sparkhaven.ingest.values.typed_rows import Refusal
from sparkhaven.store.errors import ErrorBudgetExceeded
from sparkhaven.store.foreign_parquet import BATCH_ROWS
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.quarantine.rejected_rows import REJECTED, Reason, RejectedRow, decode_rejected, encode_rejected
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.quarantine.row_choice import COLUMNS, QuarantinedRow
from tests.support.ingest.ingest_cases import PLENTY, column, decode_split, file_id, schema, stream, target, write

OVERFLOW = Refusal(Reason.OVERFLOW, "less")


def rejected(path: Path, spec: StreamSpec, table: TableSchema) -> list[dict[str, Any]]:
    """Bad rows of a file as they go to the quarantine."""
    handed: list[BadRow] = []
    rejects = Rejects(spec.bad_rows, sink=handed.extend)
    list(decode_split(Fs(), file_id(path), spec, table, rejects))
    rows: list[dict[str, Any]] = as_batch(handed).to_pylist()
    return rows


@pytest.mark.parametrize(
    ("refusal", "part", "code", "explanation"),
    [
        (OVERFLOW, "value", "overflow", "overflow"),
        (Refusal(Reason.NOT_UTF8, "text", "at byte 6"), "key", "key-not-utf-8", "key: not UTF-8 (at byte 6)"),
        (Refusal(Reason.NOT_JSON, "JSON", "(char 0)"), "value", "not-json", "not JSON ((char 0))"),
        (Refusal(Reason.NOT_IN_CHARSET, "text"), "header", "header-not-in-the-charset", "header: not in the charset"),
    ],
)
def test_a_code_has_no_part_that_differs_from_row_to_row(
    refusal: Refusal, part: MessagePart, code: str, explanation: str
) -> None:
    row = replace(bad_row("f", 1, None, refusal, ""), part=part)
    assert (row.code, row.explanation) == (code, explanation)
    assert as_batch([row]).select(["Reason", "Detail"]).to_pylist() == [{"Reason": code, "Detail": explanation}]


def test_rows_are_handed_on_in_portions_and_shown_without_payload() -> None:
    portions: list[list[BadRow]] = []
    rejects = Rejects(PLENTY, sink=lambda rows: portions.append(list(rows)), header=("a", "b"), time_ns=7)
    rejects.add_all(bad_row("f", n, "v", OVERFLOW, "9", b"x" * (1 << 19)) for n in range(20))
    rejects.flush()
    rejects.flush()
    assert [len(portion) for portion in portions] == [8, 8, 4]
    assert max(sum(len(row.payload or b"") for row in portion) for portion in portions) <= HELD_BYTES
    assert [row.line for portion in portions for row in portion] == [*range(20)]
    assert {(row.header, row.time_ns) for portion in portions for row in portion} == {(("a", "b"), 7)}
    assert [(row.line, row.payload) for row in rejects.rows] == [(n, b"") for n in range(5)]


def test_a_split_that_breaks_the_budget_alone_stops_with_a_sink_too() -> None:
    handed: list[BadRow] = []
    rejects = Rejects(BadRowBudget(3, 1.0), sink=handed.extend)
    with pytest.raises(ErrorBudgetExceeded, match="4 bad") as caught:
        rejects.add_all(bad_row("f", n, "v", OVERFLOW, "9", b"x") for n in range(1, 5))
    assert "f line 1, column v: overflow" in str(caught.value)


def test_payloads_are_whole_up_to_a_mebibyte_then_cut_and_marked(tmp_path: Path) -> None:
    lines = ['{"v":"%s","n":"x"}' % ("9" * size) for size in (10, MAX_PAYLOAD, 17 << 20)]
    path = tmp_path / "a.json"
    write(path, "".join(line + "\n" for line in lines) + '{"v":1}\n')
    rows = rejected(path, stream(), schema(v="int"))
    assert [row["PayloadBytes"] for row in rows] == [len(line) for line in lines]
    assert [row["Payload"] == line[:MAX_PAYLOAD].encode() for row, line in zip(rows, lines, strict=True)] == [True] * 3
    assert max(len(row["Value"].encode()) for row in rows) <= 1024
    assert [row["Reason"] for row in rows] == ["wrong-json-type"] * 2 + ["line-too-long"]
    assert [row["Position"] for row in rows] == [1, 2, 3]
    assert {row["SourceTime"] for row in rows} == {path.stat().st_mtime_ns}


def test_csv_rows_take_the_names_of_their_fields_along(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write(path, 'a,"b,c"\n1,2\nx,3\n')
    (row,) = rejected(path, stream(form="csv"), schema(a="int"))
    assert (row["Payload"], json.loads(row["Header"]), row["Reason"]) == (b"x,3", ["a", "b,c"], "not-a-number")


def test_parquet_rows_have_a_payload_with_every_field(tmp_path: Path) -> None:
    count = BATCH_ROWS + 10
    bad = [3, BATCH_ROWS - 1, BATCH_ROWS, count - 1]
    path = tmp_path / "a.parquet"
    table = pa.table(
        {
            "v": pa.array([2**40 if n in bad else n for n in range(count)]),
            "other": pa.array([f"o{n}" for n in range(count)]),
            "list": pa.array([[n] for n in range(count)]),
        }
    )
    pq.write_table(table, path, row_group_size=1000)
    rows = rejected(path, stream(form="parquet"), schema(v="int"))
    assert [row["Position"] for row in rows] == [n + 1 for n in bad]
    assert [json.loads(row["Payload"]) for row in rows] == [{"v": 2**40, "other": f"o{n}", "list": [n]} for n in bad]


def test_parquet_values_come_back_from_their_text(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    when = dt.datetime(2013, 1, 1, 5, 0, 0, 1, tzinfo=dt.UTC)
    arrays = {
        "bad": pa.array([2**40]),
        "double": pa.array([float("nan")]),
        "short": pa.array([Decimal("12.00")]),
        "Instant": pa.array([when], pa.timestamp("us", "UTC")),
        "String": pa.array(["1e5"]),
        "Boolean": pa.array([False]),
        "long": pa.array([2**62 + 1]),
        "float": pa.array([None], pa.float32()),
    }
    pq.write_table(pa.table(arrays), path)
    (row,) = rejected(path, stream(form="parquet"), schema(bad="int"))
    found = json.loads(row["Payload"], parse_float=Decimal)
    back = {kind: from_row_text(found[kind], target(kind, unit="ms")) for kind in arrays if kind != "bad"}
    assert str(back.pop("double")) == "nan"
    assert back == {
        "short": 12,
        "Instant": 1_357_016_400_000_001_000,
        "String": "1e5",
        "Boolean": False,
        "long": 2**62 + 1,
        "float": None,
    }
    assert isinstance(from_row_text(found["bad"], target("int")), Refusal)


def test_rows_have_the_names_of_their_columns() -> None:
    assert [*RejectedRow.__annotations__] == REJECTED.names
    assert QuarantinedRow.__required_keys__ == {*COLUMNS.names}


def test_scratch_files_come_back_as_they_were() -> None:
    rows: Sequence[BadRow] = [
        bad_row("/feed/a.json", 1, "v", OVERFLOW, "9", b"\xff\x00"),
        replace(
            bad_row("topic/3", 2**40, None, Refusal(Reason.NOT_JSON, "JSON", "x"), "", unit="offset"),
            key=b"",
            time_ns=-1,
        ),
    ]
    table = pa.Table.from_batches([as_batch(rows)])
    assert decode_rejected(encode_rejected(table)) == table
    assert table.schema == REJECTED


def test_rows_of_every_kind_of_column_are_rejected_whole(tmp_path: Path) -> None:
    table = TableSchema("Test", "Rows", (schema().columns[0], column("v", "String", 1, "US_ASCII")))
    path = tmp_path / "a.json"
    write(path, [{"v": "a"}, {"v": "€"}])
    (row,) = rejected(path, stream(), table)
    assert (row["Reason"], row["Detail"]) == ("not-in-the-charset", "not in the charset (U+20AC)")
    assert json.loads(row["Payload"]) == {"v": "€"}


@pytest.mark.parametrize(
    ("bad", "read", "allowed"), [(29, 100, True), (30, 100, False), (7, 24, False), (0, 0, True), (1, 0, False)]
)
def test_the_very_fraction_is_allowed(bad: int, read: int, allowed: bool) -> None:
    with nullcontext() if allowed else pytest.raises(ErrorBudgetExceeded):  # 0.29 * 100 is less than 29
        check_budget([], bad, read, BadRowBudget(1000, 0.29, min_rows=0))
