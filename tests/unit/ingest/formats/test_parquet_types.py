"""Parquet of other writers: types that Arrow names otherwise, what a footer says of old timestamps, columns twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.raw_file import PlannedFile
from sparkhaven.ingest.feeds.base import route
from sparkhaven.ingest.feeds.files.decode import requeue_file_rows
from sparkhaven.ingest.feeds.files.feed import FilesFeed
from sparkhaven.ingest.feeds.files.formats.decoding import Decoding
from sparkhaven.ingest.feeds.files.formats.parquet_files import first_rows
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.spec import ColumnSpec, StreamSpec, TextForm
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.store.errors import FeedError, SchemaMismatchError
from sparkhaven.store.io.fs import Fs
from tests.support.commands import run
from tests.support.ingest.inferring import infer_and_new
from tests.support.ingest.ingest_cases import PLENTY, decode, file_id, schema, stream, values
from tests.support.ingest.parquet_footers import enum_file

UUID = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
AT = 1_795_185_000_000_000_000  # 2026-11-20T14:30:00Z


def _decoded(path: Path, kind: str, *columns: ColumnSpec, **feed: Any) -> tuple[list[Any], list[str]]:
    spec = _spec(*columns, **feed)
    rejects = Rejects(PLENTY)
    feed_of = FilesFeed(spec)
    routed = list(route(feed_of.decode(Fs(), file_id(path), schema(v=kind), rejects, lambda: 0.0), rejects))
    return values(routed), [str(row) for row in rejects.rows]


def _spec(*columns: ColumnSpec, **feed: Any) -> StreamSpec:
    made = stream(*columns, form="parquet")
    return StreamSpec(made.stream, made.table, FilesOptions("/feed", "parquet", **feed), made.partition, columns)


DUCKDB = [
    ("'{\"a\":1}'::JSON", "String", ['{"a":1}']),
    (f"'{UUID}'::UUID", "String", [UUID]),
    ("'b'::mood", "String", ["b"]),
    ("1::UTINYINT", "Boolean", [True]),
    ("4294967295::UINTEGER", "long", [2**32 - 1]),
    ("time '09:30:00'", "long", [34_200_000_000]),
    ("date '2026-11-20'", "int", [20_777]),
    ("1.5::decimal(4, 1)", "double", [1.5]),
]


@pytest.mark.parametrize(("expression", "kind", "expected"), DUCKDB, ids=[case[0] for case in DUCKDB])
def test_what_duckdb_writes(tmp_path: Path, expression: str, kind: str, expected: list[Any]) -> None:
    path = tmp_path / "a.parquet"
    with duckdb.connect() as connection:
        connection.execute("create type mood as enum ('a', 'b')")
        connection.execute(f"copy (select {expression} as v) to '{path}' (format parquet)")
    assert _decoded(path, kind) == (expected, [])


POLARS = [
    (polars.Series(["AAPL", None, ""]), "String", ["AAPL", None, ""]),
    (polars.Series(["a", None], dtype=polars.Categorical), "String", ["a", None]),
    (polars.Series(["b", None], dtype=polars.Enum(["a", "b"])), "String", ["b", None]),
    (polars.Series([b"x", None]), "String", ["x", None]),
    (polars.Series([0, 1, None], dtype=polars.UInt8), "Boolean", [False, True, None]),
    (polars.Series([None, None]), "Instant", [None, None]),
]


@pytest.mark.parametrize(("series", "kind", "expected"), POLARS, ids=[str(case[0].dtype)[:20] for case in POLARS])
def test_what_polars_writes(tmp_path: Path, series: polars.Series, kind: str, expected: list[Any]) -> None:
    path = tmp_path / "a.parquet"
    polars.DataFrame({"v": series}).write_parquet(path)
    assert _decoded(path, kind, binary_as_text=True) == (expected, [])


def test_enum_of_the_standard_is_text(tmp_path: Path) -> None:
    path = enum_file(tmp_path / "a.parquet", [b"BUY", None])
    assert _decoded(path, "String") == (["BUY", None], [])
    found, bad = _decoded(enum_file(tmp_path / "b.parquet", [b"\xff", b"BUY"]), "String")
    assert found == ["BUY"] and "not UTF-8 (at byte 0)" in bad[0]


def test_an_interval_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"copy (select interval '1 day' as v) to '{path}' (format parquet)")
    with pytest.raises(SchemaMismatchError, match="cannot be read"):
        _decoded(path, "String", binary_as_text=True)


def _old(path: Path, footer: dict[str, str], zone: str | None = None, **options: Any) -> Path:
    table = pa.table({"v": pa.array([AT // 1000, None], pa.timestamp("us", zone))})
    pq.write_table(table.replace_schema_metadata(footer), path, use_deprecated_int96_timestamps=True, **options)
    return path


@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_int96_of_spark_is_an_instant_whatever_the_zone_of_the_column(tmp_path: Path, zone: str | None) -> None:
    path = _old(tmp_path / "a.parquet", {"org.apache.spark.version": "4.2.0"})
    assert _decoded(path, "Instant", ColumnSpec("v", zone=zone)) == ([AT, None], [])


def test_int96_of_arrow_is_what_its_own_schema_says(tmp_path: Path) -> None:
    zoned = _old(tmp_path / "a.parquet", {}, "America/New_York")
    assert _decoded(zoned, "Instant", ColumnSpec("v", zone="Asia/Tokyo")) == ([AT, None], [])
    local = _old(tmp_path / "b.parquet", {})
    found, bad = _decoded(local, "Instant")
    assert found == [None] and "has no time zone" in bad[0] and "a zone for the column" in bad[0]
    assert _decoded(local, "Instant", ColumnSpec("v", zone="Asia/Tokyo"))[0] == [AT - 9 * 3600 * 10**9, None]


def test_int96_of_an_unknown_writer_is_not_proposed_a_zone_that_may_be_wrong(tmp_path: Path) -> None:
    path = _old(tmp_path / "a.parquet", {}, store_schema=False)
    found, bad = _decoded(path, "Instant")
    assert found == [None] and "INT96" in bad[0] and 'zone = "UTC" if the writer stores instants' in bad[0]


def _with_columns(path: Path, names: list[str], *columns: Any) -> Path:
    pq.write_table(pa.Table.from_arrays([pa.array(column) for column in columns], names=names), path)
    return path


def test_a_wanted_column_twice_refuses_the_file_by_name(tmp_path: Path) -> None:
    path = _with_columns(tmp_path / "a.parquet", ["v", "w", "w"], [1], [2], [3])
    with pytest.raises(FeedError, match="has a column twice") as caught:
        decode(file_id(path), stream(form="parquet"), schema(v="int", w="int"))
    assert (caught.value.where, caught.value.column, caught.value.exit_code) == (str(path), "w", 1)


def test_a_column_twice_that_nobody_takes_is_no_fault(tmp_path: Path) -> None:
    path = _with_columns(tmp_path / "a.parquet", ["v", "x", "x", "x.y"], [1, 2**40], [1, 2], [3, 4], [5, 6])
    routed, rejects = decode(file_id(path), stream(form="parquet"), schema(v="int"))
    assert values(routed) == [1]
    (row,) = rejects.rows
    assert (row.line, row.explanation) == (2, "overflow")
    assert json.loads(row.payload or b"") == {"v": 2**40, "x": 2, "x (2)": 4, "x.y": 6}


def _requeued(path: Path, kind: str, *columns: ColumnSpec, **feed: Any) -> tuple[list[Any], list[str]]:
    """What is stored of the rejected rows when they are decoded once more, and why others are not."""
    spec, table, found = _spec(*columns, **feed), schema(v=kind), Rejects(PLENTY)
    list(route(FilesFeed(_spec(**feed)).decode(Fs(), file_id(path), table, found, lambda: 0.0), found))
    rows = [
        {"Payload": row.payload, "Position": row.line, "SourcePartition": "a", "SourceTime": 0, "Header": None}
        for row in found.rows
    ]
    again = Rejects(PLENTY)
    back = requeue_file_rows(
        "a", rows, Decoding(spec, spec.feed, tuple(resolve_targets(spec, table)), strict=spec.strict), 0, again
    )  # type: ignore[arg-type]
    return back.rows.columns[0].to_pylist(), [row.explanation for row in again.rows]


def test_a_requeue_rounds_no_more_than_the_feed(tmp_path: Path) -> None:
    path = _with_columns(tmp_path / "a.parquet", ["v"], [0.1, 0.5])
    assert _requeued(path, "float") == ([], ["not exactly representable"])
    assert _requeued(path, "float", ColumnSpec("v", lossy=True)) == ([0.10000000149011612], [])
    whole = _with_columns(tmp_path / "b.parquet", ["v"], [2**53 + 1, 2**53])
    assert _requeued(whole, "double") == ([], ["not exactly representable"])


def test_bytes_that_are_no_text_stay_refused_in_a_requeue(tmp_path: Path) -> None:
    path = _with_columns(tmp_path / "a.parquet", ["v"], [b"\xff", b"a"])
    assert _requeued(path, "String", binary_as_text=True) == ([], ["wrong JSON type (object)"])


def test_values_that_have_no_column_type_are_kept_as_texts_where_asked(tmp_path: Path) -> None:
    spec = ColumnSpec("v", form=TextForm(as_text=True))
    days = pa.array([20_777], pa.int32()).view(pa.date32())
    for column, expected in (
        (pa.array([[1, 2]]), "[1,2]"), (pa.array([{"a": "é", "b": None}]), '{"a":"é","b":null}'),
        (pa.array([1.5]), "1.5"), (pa.array([float("nan")]), "NaN"), (days, "2026-11-20"), (pa.array([True]), "true"),
        (pa.array([34_200], pa.time32("s")), "09:30:00"),
    ):  # fmt: skip
        path = _with_columns(tmp_path / "a.parquet", ["v"], column)
        assert _decoded(path, "String", spec) == ([expected], [])


def test_infer_leaves_no_type_out(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    columns = {
        "view": pa.array(["AAPL", None], pa.string_view()), "uuid": pa.array([bytes(16), None], pa.uuid()),
        "json": pa.array(['{"a":1}', None], pa.json_()), "time": pa.array([1, None], pa.time64("us")),
        "span": pa.array([1, None], pa.duration("us")), "half": pa.array([1.5, None], pa.float32()).cast(pa.float16()),
        "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())), "price": pa.array([0.0, 1.0]),
    }  # fmt: skip
    pq.write_table(pa.table(columns), path)
    found = infer_and_new(tmp_path, path)
    assert found.bad == [] and "left out" not in found.xml
    assert found.types == {
        "view": "String", "uuid": "String", "json": "String", "time": "LocalTime", "span": "long", "half": "float",
        "map": "String", "price": "double",
    }  # fmt: skip


def test_infer_refuses_a_column_twice(tmp_path: Path) -> None:
    path = _with_columns(tmp_path / "a.parquet", ["v", "v"], [1], [2])
    found = run(tmp_path, "schema", "infer", str(path), "--table", "T.T")
    assert found.exit_code == 1 and f"feed file has a column twice\n  where: {path}" in found.output


def test_a_sample_of_bytes_and_of_texts_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    broken = pa.array([b"a", b"\xffb", None]).view(pa.string())
    fixed, odd = pa.array([b"IBM ", None, b"AAPL"], pa.binary(4)), pa.array([b"\xff", None, b"a"])
    pq.write_table(pa.table({"broken": broken, "fixed": fixed, "odd": odd}), path)
    columns, count, whole = first_rows(PlannedFile(Fs(), file_id(path)), 10, bytes_too=True)
    assert (count, whole) == (3, True)
    assert columns["broken"].array.to_pylist() == ["a", "\ufffdb", None]
    assert columns["fixed"].array.to_pylist() == ["IBM ", None, "AAPL"]
    assert columns["odd"].array.type == pa.binary()


def test_a_file_without_rows_has_its_types(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    columns = {"uuid": pa.array([], pa.uuid()), "view": pa.array([], pa.string_view()), "n": pa.array([], pa.int8())}
    pq.write_table(pa.table(columns), path)
    found, count, _ = first_rows(PlannedFile(Fs(), file_id(path)), 10)
    assert (
        count == 0 and {name: str(part.array.type) for name, part in found.items()}["uuid"] == "extension<arrow.uuid>"
    )
