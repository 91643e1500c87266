"""Indexes of merges into Parquet, read by code that shares nothing with what wrote them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.tbl import decode_tbl
from sparkhaven.writers.merge.write import work_shares
from sparkhaven.writers.merge.write.indexes import KeyRows, symbol_groups
from tests.support.tables import naive_reader
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.naive_rowset import naive_ranges
from tests.support.writers.merge_cases import DAY, SCHEMA, as_table, comparable, random_row
from tests.support.writers.merge_runs import FS, history_bytes, make, merge
from tests.support.writers.parquet_places import SIDECAR, places, plain


@pytest.mark.slow
def test_an_independent_reader_finds_the_rows_of_each_key_by_the_indexes(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 700, partitions=2)
    merge(db.layout, format="parquet")
    for place in places(db):
        syms = pq.read_table(place / "table.parquet", columns=["Sym"])["Sym"].to_pylist()
        sidecar = pq.ParquetFile(place / SIDECAR)
        assert sidecar.num_row_groups == 1
        assert json.loads(sidecar.metadata.metadata[b"deephaven"]) == {
            "version": "sparkhaven-1",
            "columnTypes": [
                {
                    "columnName": "dh_row_set",
                    "codec": {
                        "codecName": "io.deephaven.engine.table.impl.dataindex.RowSetCodec",
                        "dataType": "io.deephaven.engine.rowset.RowSet",
                    },
                }
            ],
            "sortingColumns": [{"columnName": "Sym", "sortDirection": "Ascending"}],
        }
        index = sidecar.read().to_pylist()
        found = {row["Sym"]: naive_ranges(row["dh_row_set"]) for row in index}
        wanted = {sym: [(syms.index(sym), len(syms) - 1 - syms[::-1].index(sym))] for sym in syms}
        assert found == wanted
        assert list(found) == list(dict.fromkeys(syms))
        directory = place / "Index-Sym"
        begins = naive_reader.read(directory, "dh_begin_pos", "long", len(index))
        ends = naive_reader.read(directory, "dh_end_pos", "long", len(index))
        keys = naive_reader.read(directory, "Sym", "blob", len(index))
        assert {key: [(a, b - 1)] for key, a, b in zip(keys, begins, ends, strict=True)} == wanted
        size = table_size.load(FS, directory)
        assert size is not None
        assert (size.size, size.sorted_columns) == (len(index), {"Sym": "Ascending"})
        definition = decode_tbl((directory / "table.tbl").read_bytes(), directory)
        assert definition.storage_type == 4
        assert [c.name for c in definition.columns] == ["Sym", "dh_begin_pos", "dh_end_pos"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Boolean", "byte", "char", "short", "int", "long", "float", "double", "Instant"])
def test_indexes_over_keys_of_every_type(tmp_path: Path, kind: str) -> None:
    name = {"Boolean": "Flag", "Instant": "T"}.get(kind, kind[0].upper())
    schema = SCHEMA.replace(b'"Sym" dataType="String" columnType="Grouping"', b'"Sym" dataType="String"')
    schema = schema.replace(b"autobalance_by_first_grouping_column", b"autobalance_single")
    schema = schema.replace(
        f'"{name}" dataType="{kind}"'.encode(), f'"{name}" dataType="{kind}" columnType="Grouping"'.encode()
    )
    db = IntradayRows(tmp_path, schema, fs=FS)
    rng = random.Random(4)
    rows = [random_row(rng) for _ in range(120)] * 2
    db.commit({("a", DAY): as_table(rows)})
    merge(db.layout, format="parquet")
    (place,) = places(db)
    values = plain(pq.read_table(place / "table.parquet", columns=[name]))
    index = plain(pq.read_table(place / f".dh_metadata/indexes/{name}/index_{name}_table.parquet", columns=[name]))
    sets = pq.read_table(place / f".dh_metadata/indexes/{name}/index_{name}_table.parquet")["dh_row_set"].to_pylist()
    assert len(index) == len({comparable(row[name]) for row in rows})
    for row, data in zip(index, sets, strict=True):
        ((first, last),) = naive_ranges(data)
        assert {comparable(values[at][name]) for at in range(first, last + 1)} == {comparable(row[name])}
    assert sum(b - a + 1 for data in sets for a, b in naive_ranges(data)) == 240


@pytest.mark.parametrize("options", [{}, {"workers": 2, "parallel_rows": 10}, {"memory": 1, "workers": 2}])
def test_keys_that_the_order_tells_are_those_that_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, int]
) -> None:
    told, read = (make(tmp_path / name, 400)[0].layout for name in ("told", "read"))
    known: list[KeyRows | None] = []

    def noted(*given: Any) -> KeyRows | None:
        known.append(symbol_groups(*given))
        return known[-1]

    monkeypatch.setattr(work_shares, "symbol_groups", noted)
    merge(told, **options)
    assert known
    assert None not in known
    monkeypatch.setattr(work_shares, "symbol_groups", lambda *_: None)
    merge(read, **options)
    assert history_bytes(told) == history_bytes(read)
    assert any("Index-Sym" in name for name in history_bytes(told))
