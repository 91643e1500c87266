"""Which foreign values a column takes, and that every other one is refused with column, file and row group."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.store.errors import CorruptFileError, FeedError, SchemaMismatchError
from sparkhaven.store.layout import LocationKey, TableName
from sparkhaven.writers.transfer.leaf_readers import FoundLeaf, LeafReader
from tests.support.ingest.ingest_cases import schema as schema_of
from tests.support.ingest.parquet_footers import enum_file
from tests.support.processes import open_below, wait_until
from tests.support.writers.import_cases import bring, small, values, write
from tests.support.writers.merge_runs import FS

TAKEN: list[tuple[str, pa.Array, list[Any]]] = [
    ("Boolean", pa.array([True, False, None]), [True, False, None]),
    ("byte", pa.array([-127, 127, None], pa.int64()), [-127, 127, None]),
    ("short", pa.array([1, None], pa.uint8()), [1, None]),
    ("int", pa.array([2**31 - 1, -(2**31) + 1], pa.int64()), [2**31 - 1, -(2**31) + 1]),
    ("int", pa.array([None, None], pa.null()), [None, None]),
    ("long", pa.array([2**63 - 1, None], pa.uint64()), [2**63 - 1, None]),
    ("long", pa.array([7, None], pa.int32()).dictionary_encode(), [7, None]),
    ("char", pa.array(["a", "€", None]), [97, 0x20AC, None]),
    ("char", pa.array([0, 65534, None], pa.int32()), [0, 65534, None]),
    ("float", pa.array([0.5, -math.inf, None], pa.float64()), [0.5, -math.inf, None]),
    ("Boolean", pa.array([1, 0, None], pa.uint8()), [True, False, None]),
    ("int", pa.array([1.0, -0.0]), [1, 0]),
    ("int", pa.array([decimal.Decimal("1.0")]), [1]),
    ("double", pa.array([1, 2**53]), [1.0, 2.0**53]),
    ("double", pa.array([0.1, None], pa.float32()), [0.10000000149011612, None]),
    ("Instant", pa.array([1, None], pa.timestamp("s", "UTC")), [10**9, None]),
    ("Instant", pa.array([-1], pa.timestamp("us", "America/New_York")), [-1000]),
    ("String", pa.array(["a", "", None, "\U0001f600"], pa.large_string()), ["a", "", None, "\U0001f600"]),
    ("String", pa.array(["b", None, "b"]).dictionary_encode(), ["b", None, "b"]),
]


@pytest.mark.parametrize(("kind", "array", "expected"), TAKEN, ids=lambda value: str(getattr(value, "type", ""))[:30])
def test_exact_values_are_taken(tmp_path: Path, kind: str, array: pa.Array, expected: list[Any]) -> None:
    layout = small(tmp_path / "db", kind + '" encoding="UTF_8' if kind == "String" else kind)
    write(tmp_path / "tree" / "Date=d" / "a.parquet", array)
    bring(layout, tmp_path / "tree")
    assert values(layout) == expected


REFUSED: list[tuple[str, pa.Array]] = [
    ("Boolean", pa.array([1, 2])),
    ("byte", pa.array([1, 128], pa.int64())),
    ("byte", pa.array([1, -128], pa.int8())),
    ("int", pa.array([1, 2**31], pa.int64())),
    ("int", pa.array([1.0, 2.5])),
    ("int", pa.array(["1"])),
    ("int", pa.array([decimal.Decimal("1.5")])),
    ("long", pa.array([1, 2**63], pa.uint64())),
    ("long", pa.array([1, -(2**63)], pa.int64())),
    ("char", pa.array(["a", "ab"])),
    ("char", pa.array(["a", ""])),
    ("char", pa.array(["a", "\U0001f600"])),
    ("char", pa.array([1, 0xFFFF], pa.int32())),
    ("float", pa.array([0.5, 0.1], pa.float64())),
    ("float", pa.array([0.5, 1e300], pa.float64())),
    ("double", pa.array([0.5, -1.7976931348623157e308], pa.float64())),
    ("double", pa.array([1, 2**53 + 1])),
    ("Instant", pa.array([1, 2], pa.timestamp("us"))),
    ("Instant", pa.array([1, 2**62], pa.timestamp("us", "UTC"))),
    ("Instant", pa.array([1, 2])),
    ("Instant", pa.array([dt.date(2024, 1, 1)])),
    ("String", pa.array([b"a"])),
    ("String", pa.array(["a", "\x00"])),
    ("String", pa.array([{"a": 1}])),
    ("String", pa.array([["a"]])),
    ('String" encoding="US_ASCII', pa.array(["a", "é"])),
    ('String" symbolTable="None" encoding="ISO_8859_1', pa.array(["a", "€"])),
]


@pytest.mark.parametrize(("kind", "array"), REFUSED, ids=lambda value: str(getattr(value, "type", value))[:30])
def test_other_values_are_refused_with_their_place(tmp_path: Path, kind: str, array: pa.Array) -> None:
    layout = small(tmp_path / "db", kind)
    path = write(tmp_path / "tree" / "Date=d" / "a.parquet", array)
    with pytest.raises(SchemaMismatchError) as caught:
        bring(layout, tmp_path / "tree")
    error = caught.value
    assert str(path) in str(error.where)
    assert "row group 0" in str(error.where)
    assert "column X" in error.what
    assert error.expected
    assert error.found
    assert error.hint
    assert not layout.history_location(TableName("NS", "T"), LocationKey("0", "d")).exists()
    assert values(layout) == []


def test_the_place_names_row_group_and_row(tmp_path: Path) -> None:
    layout = small(tmp_path / "db", "byte")
    path = tmp_path / "tree" / "Date=d" / "a.parquet"
    path.parent.mkdir(parents=True)
    numbers = pa.array([*range(100), 200, *range(9)])
    pq.write_table(pa.table({"Sym": ["a"] * 110, "X": numbers}), path, row_group_size=40)
    with pytest.raises(SchemaMismatchError) as caught:
        bring(layout, tmp_path / "tree")
    assert str(caught.value.where).endswith("column X, row group 2, row 20 of it")


@pytest.mark.parametrize("spark", [True, False])
def test_int96_is_an_instant_where_spark_has_written_it(tmp_path: Path, spark: bool) -> None:
    layout = small(tmp_path / "db", "Instant")
    path = tmp_path / "tree" / "Date=d" / "a.parquet"
    path.parent.mkdir(parents=True)
    table = pa.table({"Sym": ["a", "a", "a"], "X": pa.array([1, None, 10**15 + 1], pa.timestamp("us"))})
    if spark:
        table = table.replace_schema_metadata({"org.apache.spark.version": "4.2.0"})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    if spark:
        bring(layout, tmp_path / "tree")
        assert values(layout) == [1000, None, 10**18 + 1000]
        far = pa.table({"Sym": ["a"], "X": pa.array([253402214400000000], pa.timestamp("us"))})  # 9999-12-31
        pq.write_table(far.replace_schema_metadata(table.schema.metadata), path, use_deprecated_int96_timestamps=True)
        with pytest.raises(SchemaMismatchError, match="column X"):
            bring(layout, tmp_path / "tree", replace=True)
    else:
        with pytest.raises(SchemaMismatchError, match="column X"):
            bring(layout, tmp_path / "tree")


def test_int96_keeps_its_nanoseconds(tmp_path: Path) -> None:
    layout = small(tmp_path / "db", "Instant")
    path = tmp_path / "tree" / "Date=d" / "a.parquet"
    path.parent.mkdir(parents=True)
    counts = [1, None, -1, 1_770_000_000_123_456_789]
    table = pa.table({"Sym": ["a"] * 4, "X": pa.array(counts, pa.timestamp("ns"))})
    table = table.replace_schema_metadata({"org.apache.spark.version": "4.2.0"})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    bring(layout, tmp_path / "tree")
    assert values(layout) == counts


def test_batches_of_wide_texts_are_bounded_by_bytes(tmp_path: Path) -> None:
    path, texts = tmp_path / "a.parquet", [f"{n:08}" * 2000 for n in range(4000)]  # 64 MB
    pq.write_table(pa.table({"X": texts}), path, use_dictionary=False, compression="zstd")
    reader = LeafReader(FS, FoundLeaf(path, path.name, "d"), schema_of(X="String"))
    batches = [rows.columns[0] for rows in reader.read("d")]
    assert [text for array in batches for text in array.to_pylist()] == texts
    assert max(array.nbytes for array in batches) < 32 << 20


def test_a_file_that_was_read_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"X": [1, 2, 3, 4]}), path, row_group_size=2)
    for _ in range(3):
        reader = LeafReader(FS, FoundLeaf(path, path.name, "d"), schema_of(X="long"))
        assert [rows.columns[0].to_pylist() for rows in reader.read("d")] == [[1, 2], [3, 4]]
        del reader
    wait_until(lambda: not open_below(tmp_path), 30)  # a thread of Arrow may be the last that holds it


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (["Sym"], "lacks a column"),
        (["Sym", "x"], "lacks a column"),
        (["Sym", "X", "Y"], "has a column that the table lacks"),
    ],
)
def test_columns_are_those_of_the_table(tmp_path: Path, names: list[str], what: str) -> None:
    layout = small(tmp_path / "db")
    path = tmp_path / "tree" / "Date=d" / "a.parquet"
    path.parent.mkdir(parents=True)
    arrays = [pa.array(["a"]) if name == "Sym" else pa.array([1]) for name in names]
    pq.write_table(pa.Table.from_arrays(arrays, names), path)
    with pytest.raises(SchemaMismatchError, match=what):
        bring(layout, tmp_path / "tree", dry_run=True)


def test_a_file_with_a_column_twice_is_refused_as_feeds_do(tmp_path: Path) -> None:
    layout = small(tmp_path / "db")
    path = tmp_path / "tree" / "Date=d" / "a.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array([1]), pa.array([1])], ["Sym", "X", "X"]), path)
    with pytest.raises(FeedError, match="has a column twice") as caught:
        bring(layout, tmp_path / "tree", dry_run=True)
    assert (caught.value.exit_code, caught.value.where, caught.value.column) == (1, str(path), "X")


def test_a_date_that_names_no_directory_is_refused(tmp_path: Path) -> None:
    layout = small(tmp_path / "db")
    path = tmp_path / "tree" / "a.parquet"
    path.parent.mkdir(parents=True)
    for days, fits in ((20_777, True), (2_932_896, True), (2_932_897, False), (2**31 - 1, False)):
        date = pa.array([days], pa.int32()).view(pa.date32())
        pq.write_table(pa.table({"Date": date, "Sym": ["a"], "X": [1]}), path)
        if fits:
            assert bring(layout, tmp_path / "tree")[0].given[0] == 1
        else:
            with pytest.raises(SchemaMismatchError, match="stored exactly in column Date"):
                bring(layout, tmp_path / "tree")


def test_logical_types_that_arrow_reads_as_bytes(tmp_path: Path) -> None:
    schema = schema_of(v="String")
    path = enum_file(tmp_path / "a.parquet", [b"BUY", None])
    (rows,) = LeafReader(FS, FoundLeaf(path, path.name, "d"), schema).read("d")
    assert rows.columns[0].to_pylist() == ["BUY", None]
    damaged = enum_file(tmp_path / "b.parquet", [b"\xff"])
    with pytest.raises(CorruptFileError):
        list(LeafReader(FS, FoundLeaf(damaged, damaged.name, "d"), schema).read("d"))
