"""Exported trees: what pyarrow and DuckDB find in each layout, and the files that describe a tree."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.digest import digest_array, to_hex
from sparkhaven.store.errors import SchemaMismatchError, SettingsError, TableNotFoundError
from sparkhaven.store.format.parquet.trees import decode_manifest
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.tbl import decode_tbl
from sparkhaven.store.scan.column_file import read_column
from tests.support.tables import naive_reader
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.export_cases import NEXT, by_duckdb, by_pyarrow, export, files, found, two_days, wanted
from tests.support.writers.merge_cases import ARROW, DAY, SCHEMA, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS

LAYOUTS = ["nested", "flat", "kv", "metadata"]


@pytest.mark.parametrize("leaf", ["parquet", "deephaven"])
def test_a_hive_tree_has_a_locations_table_of_its_leaves(tmp_path: Path, leaf: str) -> None:
    db, rows = two_days(tmp_path / "db")
    out = tmp_path / "out"
    done = export(db.root, out, layout="hive", leaf=leaf)
    place = out / ".locations_table"
    names = [f"Date={day}/part-{done.plan.id}-00000" + (".parquet" if leaf == "parquet" else "") for day in (DAY, NEXT)]
    assert naive_reader.read(place, "Filename", "blob", 2) == names
    assert naive_reader.read(place, "Date", "blob", 2) == [DAY, NEXT]
    assert naive_reader.read(place, "Size", "long", 2) == [75, 15]
    assert naive_reader.read(place, "Format", "blob", 2) == [leaf.upper()] * 2
    assert naive_reader.read(place, "ColumnVersion", "int", 2) == [None if leaf == "parquet" else 1] * 2
    modified = [(out / name).stat().st_mtime_ns for name in names]
    assert naive_reader.read(place, "LastModifiedNanos", "long", 2) == modified
    definition = decode_tbl((place / "table.tbl").read_bytes(), place)
    assert definition.storage_type == 4
    if leaf == "parquet":
        assert found(by_duckdb(out, "kv")) == wanted(rows)
        return
    size = table_size.load(FS, out / names[0])
    assert size is not None
    assert size.size == 75
    columns = {c.name: read_column(FS, out / names[0], c, size.data_file_sizes, 75) for c in db.schema.stored}
    whole = pa.table({"Date": [DAY] * 75, **columns})
    assert found(whole) == wanted([row for row in rows if row[0] == DAY])
    assert [c.name for c in decode_tbl((out / names[0] / "table.tbl").read_bytes(), out).columns] == ["Date", *ARROW]


def test_the_manifest_has_rows_and_digests_of_each_file(tmp_path: Path) -> None:
    db, rows = two_days(tmp_path / "db")
    out = tmp_path / "out"
    export(db.root, out, layout="flat", codec="ZSTD")
    manifest = decode_manifest((out / "_manifest.json").read_bytes(), out)
    table = open_table(db.root, str(TABLE)).to_arrow()
    assert (manifest.table, manifest.layout, manifest.rows) == (str(TABLE), "flat", len(rows))
    assert manifest.epochs == {"rows": 3}
    for column in db.schema.stored:
        whole = sum(digest_array(column, chunk) for chunk in table[column.name].chunks) % (1 << 128)
        assert manifest.digests[column.name] == to_hex(whole)
    for leaf in manifest.leaves:
        path = out / leaf.path
        assert path.stat().st_size == leaf.bytes
        metadata = pq.read_metadata(path)
        assert metadata.num_rows == leaf.rows
        assert metadata.row_group(0).column(0).compression == "ZSTD"
        assert set(pq.read_table(path)["Date"].to_pylist()) == {leaf.value}
        assert json.loads(metadata.metadata[b"deephaven"]) == {"version": "sparkhaven-1"}


def test_metadata_files_name_every_row_group_and_the_partitioning_column(tmp_path: Path) -> None:
    db, _ = two_days(tmp_path / "db")
    out = tmp_path / "out"
    export(db.root, out, layout="metadata")
    whole, common = pq.read_metadata(out / "_metadata"), pq.read_metadata(out / "_common_metadata")
    names = [column.name for column in db.schema.stored]
    assert whole.schema.names == names
    assert common.schema.names == ["Date", *names]
    assert common.num_row_groups == 0
    paths = [whole.row_group(index).column(0).file_path for index in range(whole.num_row_groups)]
    assert paths == sorted(name for name in files(out) if name.endswith(".parquet"))
    per_file = {b"deephaven_per_file_" + path.replace("/", "_").encode() for path in paths}
    assert {key for key in whole.metadata if key.startswith(b"deephaven")} == {b"deephaven", *per_file}


def test_columns_dates_and_tier_are_chosen(tmp_path: Path) -> None:
    db, _ = two_days(tmp_path / "db")
    out = tmp_path / "out"
    export(db.root, out, layout="kv", columns=("T", "Date", "Sym"), dates=(DAY,), tier="history")
    table = by_pyarrow(out, "kv")
    assert table.schema.names == ["T", "Sym", "Date"]
    assert set(table["Date"].to_pylist()) == {DAY}
    assert table.num_rows == 60
    with pytest.raises(SchemaMismatchError, match="no column of the files"):
        export(db.root, tmp_path / "none", layout="kv", columns=("Date",))
    with pytest.raises(TableNotFoundError):
        export(db.root, tmp_path / "none", layout="kv", dates=("2020-01-01",))
    with pytest.raises(TableNotFoundError, match="no rows to export"):
        export(db.root, tmp_path / "none", layout="kv", dates=("2020-01-01..2020-02-01",))
    with pytest.raises(SettingsError, match="layout kv has Parquet files"):
        export(db.root, tmp_path / "none", layout="kv", leaf="deephaven")
    assert not (tmp_path / "none").exists()


def test_row_groups_join_small_locations_and_end_at_a_bound(tmp_path: Path) -> None:
    db = IntradayRows(tmp_path / "db", SCHEMA, fs=FS)
    rng = random.Random(3)
    rows: list[tuple[str, dict[str, Any]]] = []
    for number in range(12):
        part = [random_row(rng) for _ in range(5)]
        db.commit({(f"s{number:02}", DAY): as_table(part)})
        rows += [(DAY, row) for row in part]
    out = tmp_path / "out"
    done = export(db.root, out, layout="kv", group_rows=23)
    path = out / f"Date={DAY}" / f"part-{done.plan.id}-00000.parquet"
    metadata = pq.read_metadata(path)
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [25, 25, 10]
    assert found(by_pyarrow(out, "kv")) == wanted(rows)


@pytest.mark.slow
def test_values_with_the_characters_of_paths_and_patterns(tmp_path: Path) -> None:
    db = IntradayRows(tmp_path / "it's [a-z]*?", SCHEMA, fs=FS)
    rng = random.Random(1)
    rows = [(value, random_row(rng)) for value in ("a-b", "[x]", "it's ü", "2024-03-05 07h")]
    for value, row in rows:
        db.commit({("a", value): as_table([row])})
    for layout in LAYOUTS:
        out = tmp_path / layout
        export(db.root, out, layout=layout)
        assert found(by_pyarrow(out, layout)) == wanted(rows), layout


def test_a_column_that_no_row_of_a_date_has_is_null(tmp_path: Path) -> None:
    db = IntradayRows(tmp_path / "db", SCHEMA, fs=FS)
    row = random_row(random.Random(1))
    db.commit({("a", DAY): as_table([row]).select([name for name in ARROW if name not in ("Venue", "Note", "L")])})
    export(db.root, tmp_path / "out", layout="kv")
    assert found(by_duckdb(tmp_path / "out", "kv")) == wanted([(DAY, row | {"Venue": None, "Note": None, "L": None})])
