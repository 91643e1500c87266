"""Merges into Parquet: what other readers find in ``table.parquet``, its row groups, its indexes, its bytes."""

from __future__ import annotations

import errno
import json
import random
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.errors import ValidationFailedError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import decode_record, encode_record, newest
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.writers.merge.sources.merge_source import BlockSizes
from sparkhaven.writers.merge.sources.sort_keys import SortKey
from sparkhaven.writers.merge.write import parquet_check
from sparkhaven.writers.merge.write.parquet_check import row_groups
from tests.support.disks.model_fs import QuickFs
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import (
    DAY,
    SCHEMA,
    TABLE,
    as_table,
    comparable,
    naive_order,
    random_row,
    read_location,
)
from tests.support.writers.merge_runs import FS, history_bytes, make, merge, same
from tests.support.writers.parquet_places import SIDECAR, merged, places, plain
from tests.support.writers.removals import empty

INDEX_FILES = [
    SIDECAR,
    "Index-Sym/Sym.bytes",
    "Index-Sym/Sym.dat",
    "Index-Sym/dh_begin_pos.dat",
    "Index-Sym/dh_end_pos.dat",
    "Index-Sym/table.size",
    "Index-Sym/table.tbl",
]


def files(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())


@pytest.mark.slow
@pytest.mark.parametrize("sort", [[], [("Venue", True), ("F", False)]], ids=str)
def test_every_reader_finds_the_rows_of_the_column_files(tmp_path: Path, sort: list[tuple[str, bool]]) -> None:
    db, rows = make(tmp_path, 300, seed=5)
    keys = tuple(SortKey(*key) for key in sort)
    (done,) = merge(db.layout, format="both", sort=keys)
    assert (done.outcome, done.format) == ("merged", "both")
    total = 0
    for output, place in zip(merged(db).outputs, places(db), strict=True):
        mine = read_location(db.layout, db.schema, LocationKey(output.internal, DAY))
        syms = {row["Sym"] for row in mine}
        same(mine, naive_order([row for row in rows if row["Sym"] in syms], sort))
        path = place / "table.parquet"
        same(plain(pq.read_table(path, partitioning=None)), mine)
        with duckdb.connect() as connection:
            connection.execute("set TimeZone = 'UTC'")
            query = f"select * from read_parquet('{path}', hive_partitioning=false)"
            same(plain(connection.sql(query).to_arrow_table()), mine)
        total += len(mine)
    assert total == 300
    both = open_table(tmp_path, str(TABLE)).to_arrow(tier="history")
    merge(db.layout, format="parquet", sort=keys, rewrite=True)
    for place in places(db):
        assert files(place) == sorted([*INDEX_FILES, "table.parquet", "table.size", "table.tbl"])
    alone = open_table(tmp_path, str(TABLE))
    same(plain(alone.to_arrow(tier="history")), plain(both))
    assert alone.to_arrow().schema == both.schema
    batches = pa.Table.from_batches(alone.to_batches(batch_rows=7, dictionaries=False), None)
    same(plain(batches), plain(both))
    where = "I > 5 and Sym in ('a', 'b', '') or Flag is null"
    assert alone.count(where=where) == len([None for r in rows if _holds(r)]) > 0


def _holds(row: dict[str, Any]) -> bool:
    return (row["I"] is not None and row["I"] > 5 and row["Sym"] in ("a", "b", "")) or row["Flag"] is None


def test_footer_types_and_records(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 200, partitions=1)
    merge(db.layout, format="parquet", sort=(SortKey("L", True),))
    (place,), (output,) = places(db), merged(db).outputs
    path = place / "table.parquet"
    found = pq.ParquetFile(path)
    assert json.loads(found.metadata.metadata[b"deephaven"]) == {
        "version": "sparkhaven-1",
        "dataIndexes": [{"columns": ["Sym"], "indexTablePath": SIDECAR}],
        "sortingColumns": [
            {"columnName": "Sym", "sortDirection": "Ascending"},
            {"columnName": "L", "sortDirection": "Descending"},
        ],
    }
    fields = {column.name: column for column in (found.schema.column(i) for i in range(len(found.schema)))}
    assert list(fields) == [column.name for column in db.schema.stored]  # and no partitioning column
    assert all(column.max_definition_level == 1 for column in fields.values())
    types = {name: (str(c.physical_type), str(c.logical_type)) for name, c in fields.items()}
    instant = "Timestamp(isAdjustedToUTC=true, timeUnit=nanoseconds, is_from_converted_type=false, "
    assert types["T"] == ("INT64", instant + "force_set_converted_type=false)")
    assert types["C"] == ("INT32", "Int(bitWidth=16, isSigned=false)")
    assert types["Sym"] == types["Note"] == ("BYTE_ARRAY", "String")
    part = found.metadata.row_group(0).column(0)
    assert (part.compression, part.has_offset_index, part.has_column_index) == ("SNAPPY", True, True)
    assert part.statistics.has_min_max
    ids = [int(found.schema_arrow.field(c.name).metadata[b"PARQUET:field_id"]) for c in db.schema.stored]
    assert ids == [column.id for column in db.schema.stored]
    assert list(output.files) == ["table.parquet"]
    assert sorted(output.indexes) == INDEX_FILES
    size = table_size.load(FS, place)
    assert size is not None
    assert size.data_file_sizes == {"table.parquet": path.stat().st_size}
    assert size.data_indexes == {"Index-Sym": len(set(pq.read_table(path)["Sym"].to_pylist()))}
    assert size.sorted_columns == {"Sym": "Ascending", "L": "Descending"}
    record = merged(db)
    assert decode_record(encode_record(record), "there") == record


@pytest.mark.parametrize("codec", ["SNAPPY", "GZIP", "ZSTD", "LZ4_RAW", "UNCOMPRESSED"])
def test_the_schema_chooses_format_and_codec(tmp_path: Path, codec: str) -> None:
    head = f'storageType="NestedPartitionedOnDisk" defaultMergeFormat="Parquet"><MergeAttributes codec="{codec}"/>'
    db = IntradayRows(tmp_path, SCHEMA.replace(b'storageType="NestedPartitionedOnDisk">', head.encode()), fs=FS)
    db.commit({("a", DAY): as_table([random_row(random.Random(1)) for _ in range(20)])})
    (done,) = merge(db.layout)
    assert done.format == "parquet"
    (place,) = places(db)
    for name in ("table.parquet", SIDECAR):
        found = pq.ParquetFile(place / name).metadata.row_group(0).column(0).compression
        assert found == {"LZ4_RAW": "LZ4"}.get(codec, codec)
    (again,) = merge(db.layout, rewrite=True, format="deephaven")
    assert again.format == "deephaven"
    assert not (places(db)[0] / "table.parquet").exists()


def test_row_groups_end_where_large_groups_begin() -> None:
    starts = np.array([0, 90, 130, 300, 301], np.int64)
    assert list(row_groups(320, starts, 100)) == [(0, 90), (90, 130), (130, 230), (230, 320)]
    assert list(row_groups(250, None, 100)) == [(0, 100), (100, 200), (200, 250)]
    assert list(row_groups(10, np.arange(10), 4)) == [(0, 4), (4, 8), (8, 10)]
    assert list(row_groups(205, np.array([0, 2, 203]), 100)) == [(0, 100), (100, 200), (200, 205)]  # none of 2 rows


@pytest.mark.slow
def test_small_row_groups_and_blocks_hold_the_same_rows(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 4000, partitions=1)
    merge(db.layout, format="parquet", sizes=BlockSizes(group_rows=500, rows=300, texts=100))
    (place,), (output,) = places(db), merged(db).outputs
    found = pq.ParquetFile(place / "table.parquet")
    sizes = [found.metadata.row_group(i).num_rows for i in range(found.num_row_groups)]
    table = found.read()
    syms = table["Sym"].to_pylist()
    borders = {i for i in range(1, len(syms)) if syms[i] != syms[i - 1]}
    cuts = np.cumsum(sizes)[:-1].tolist()
    assert len(sizes) > 8
    assert max(sizes) <= 500
    assert all(cut in borders for cut in cuts)  # no group has 500 rows here
    assert [(s.start, s.stop) for s in output.stats["I"]] == [(a, min(a + 300, 4000)) for a in range(0, 4000, 300)]
    assert [(s.start, s.stop) for s in output.stats["Note"]] == [(s.start, s.stop) for s in output.stats["I"]]
    assert sum(s.nulls for s in output.stats["Note"]) == table["Note"].null_count
    same(plain(table), naive_order(rows, []))
    part = open_table(tmp_path, str(TABLE))
    same(plain(part.to_arrow(table.column_names, tier="history")), naive_order(rows, []))
    assert part.count(where="I > 2000000000", tier="history") == sum((r["I"] or 0) > 2_000_000_000 for r in rows)


@pytest.mark.slow
def test_bytes_do_not_depend_on_workers_or_memory(tmp_path: Path) -> None:
    found = []
    for number, options in enumerate(({}, {"workers": 3, "memory": 1}, {"memory": 1})):
        db, _ = make(tmp_path / str(number), 900)
        merge(db.layout, format="both", **options)
        found.append(history_bytes(db.layout))
    assert any(name.endswith("table.parquet") for name in found[0])
    assert found[0] == found[1] == found[2]


@pytest.mark.slow
@pytest.mark.parametrize("first", ["deephaven", "parquet", "both"])
@pytest.mark.parametrize("then", ["deephaven", "parquet"])
def test_history_is_merged_again_in_another_format(tmp_path: Path, first: str, then: str) -> None:
    db, rows = make(tmp_path, 260)
    merge(db.layout, format=first)
    before = merged(db)
    empty(db)  # so that history alone has the rows
    db.log.close()
    db.log = db.open()
    more = [random_row(random.Random(8)) for _ in range(40)]
    db.commit({("c", DAY): as_table(more)})
    (late,) = merge(db.layout, format="parquet")
    assert late.outcome == "supplement"
    assert sum(o.rows for o in merged(db).outputs) == 300
    (done,) = merge(db.layout, rewrite=True, format=then)
    assert (done.outcome, done.rows_out, done.format) == ("merged", 300, then)
    after = merged(db)
    assert after.source == "history"
    assert {o.internal for o in after.outputs}.isdisjoint({o.internal for o in before.outputs})
    wanted = "table.parquet" if then == "parquet" else "Sym.dat"
    assert all(wanted in o.files for o in after.outputs)
    found = plain(open_table(tmp_path, str(TABLE)).to_arrow())
    assert sorted(map(str, map(_comparable, found))) == sorted(map(str, map(_comparable, [*rows, *more])))
    (nothing,) = merge(db.layout, format="both")
    assert nothing.outcome == "nothing"  # another format alone is no reason: --rewrite asks for it


def _comparable(row: dict[str, Any]) -> dict[str, Any]:
    return {name: comparable(row[name]) for name in sorted(row) if name != "Date"}


def test_a_column_that_is_newer_than_the_file_is_null(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 30, partitions=1)
    merge(db.layout, format="parquet")
    empty(db)
    deploy(
        FS,
        db.layout,
        SCHEMA.replace(
            b"</Table>", b'<Column name="New" dataType="int"/><Column name="Text" dataType="String"/></Table>'
        ),
    )
    table = open_table(tmp_path, str(TABLE))
    assert table.to_arrow(["New", "Text"]).to_pylist() == [{"New": None, "Text": None}] * 30
    assert table.count(where="New is null and Text is null") == 30
    (done,) = merge(db.layout, rewrite=True, format="deephaven")
    assert done.rows_out == 30


def test_directories_with_the_characters_of_a_pattern(tmp_path: Path) -> None:
    db = IntradayRows(tmp_path / "it's [a-z]*?", SCHEMA, fs=FS)
    day = "Date=[x]*"
    db.commit({("a", day): as_table([random_row(random.Random(1)) for _ in range(20)])})
    (done,) = merge(db.layout, day, format="parquet")
    assert (done.outcome, done.rows_out) == ("merged", 20)


@pytest.mark.parametrize("name", ["table.parquet", SIDECAR, "Index-Sym/dh_end_pos.dat", "Index-Sym/Sym.bytes"])
def test_a_staged_file_that_reads_back_otherwise_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A file of a merge of other rows takes the place of the one that was written."""
    db, _ = make(tmp_path / "one", 60, partitions=1)
    other, _ = make(tmp_path / "other", 60, seed=2, partitions=1)
    merge(other.layout, format="parquet")
    wrong = (places(other)[0] / name).read_bytes()
    if name.endswith(".bytes"):  # the same keys: one of them has another letter
        wrong = wrong.replace(b"zz", b"zy")
    real = parquet_check.check_parquet

    def damaged(fs: Any, task: parquet_check.ParquetCheck) -> Any:
        place = task.plan.destinations[0].stage(TABLE, DAY)
        assert (place / name).read_bytes() != wrong
        (place / name).write_bytes(wrong)
        return real(fs, task)

    monkeypatch.setattr("sparkhaven.writers.merge.write.parquet_check.check_parquet", damaged)
    with pytest.raises(ValidationFailedError):
        merge(db.layout, format="parquet")
    assert newest(db.place, DAY) is None


class FullFs(QuickFs):
    """No room for ``table.parquet`` beyond a number of bytes."""

    def __init__(self, room: int) -> None:
        self.room, self.after = room, 0

    def write_at(self, path: Path, offset: int, data: bytes | memoryview) -> None:
        if path.name == "table.parquet" and offset + len(data) > self.room:
            self.after += 1
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        super().write_at(path, offset, data)


@pytest.mark.parametrize("room", [0, 3000])
def test_a_full_disk_ends_the_merge_with_that_error_once(tmp_path: Path, room: int) -> None:
    db, _ = make(tmp_path, 200, partitions=1)
    fs = FullFs(room)
    with pytest.raises(OSError, match="No space left"):
        merge(db.layout, fs=fs, format="parquet", sizes=BlockSizes(piece=1000))
    assert fs.after == 1
    assert newest(db.place, DAY) is None
    (done,) = merge(db.layout, format="parquet")
    assert done.outcome == "merged"
