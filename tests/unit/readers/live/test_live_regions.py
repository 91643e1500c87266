"""Columns as an engine may read them from memory, and the class that does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkhaven.readers.live import service as memory_regions
from sparkhaven.readers.live.live_column import Plain
from sparkhaven.readers.live.service import KINDS, REGIONS, Regions, _flat, is_plain
from sparkhaven.store.errors import SnapshotMovedError
from sparkhaven.store.io.fs import MAP_FROM
from sparkhaven.store.layout import Layout
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.live_tables import NULLS, Engine
from tests.support.writers.merge_cases import ARROW, DAY, SCHEMA, as_table
from tests.support.writers.merge_runs import FS, make

ROWS = MAP_FROM + 5
ROW = {"Sym": "s", "Venue": "v", "Note": "n", "Flag": True, "B": 1, "C": 2, "S": 3, "I": 4, "L": 5, "F": 6.0, "D": 7.0}
TEXTS = ["a", None, "", "\U0001f600", "é" * 3]


def rows(count: int) -> pa.Table:
    """Every third row is all null."""
    pattern = as_table([{**ROW, "T": 8}, {**ROW, "T": 9, "Venue": "w"}, dict.fromkeys(ARROW)])
    return pattern.take(pa.array(np.arange(count) % 3))


def plain(root: Path, name: str) -> Plain | None:
    attached = Engine(root, fs=FS).attach("Test_Every")
    (place,) = attached.sizes
    return attached.backend.plain(attached.key, place, name)


def test_columns_are_their_files_with_nulls_as_an_engine_has_them(tmp_path: Path) -> None:
    db = IntradayRows(tmp_path, SCHEMA, fs=FS)
    wanted = rows(ROWS)
    db.commit({("a", DAY): wanted})
    for column in db.schema.stored:
        found = plain(tmp_path, column.name) if is_plain(column) else None
        if column.name in ("Note", "Flag"):
            assert found is None
            continue
        assert found is not None and found.rows == ROWS
        kind = ARROW[column.name]
        if pa.types.is_string(kind):
            values = [None if code < 0 else found.texts[code].as_py() for code in np.frombuffer(found.data, np.int32)]
        else:
            array = pa.Array.from_buffers(pa.int64() if pa.types.is_timestamp(kind) else kind, ROWS, [None, found.data])
            values = [None if value == NULLS[column.name] else value for value in array.to_pylist()]
        given = wanted[column.name]
        assert values == (given.cast(pa.int64()) if pa.types.is_timestamp(kind) else given).to_pylist(), column.name


def test_small_files_and_parquet_and_wrong_codes_are_not_plain(tmp_path: Path) -> None:
    make(tmp_path / "small", 30)
    assert Engine(tmp_path / "small").attach("Test_Every").count == 30
    attached = Engine(tmp_path / "small").attach("Test_Every")
    assert [attached.backend.plain(attached.key, place, "L") for place in attached.sizes] == [None] * len(
        attached.sizes
    )

    db = IntradayRows(tmp_path / "wrong", SCHEMA, fs=FS)
    db.commit({("a", DAY): rows(ROWS)})
    file = next(Layout(tmp_path / "wrong").root.rglob("Venue.dat"))
    with file.open("r+b") as out:
        out.seek(-4, 2)
        out.write((2).to_bytes(4, "little"))
    assert plain(tmp_path / "wrong", "Venue") is None
    assert plain(tmp_path / "wrong", "Sym") is not None


def test_an_end_releases_once_and_what_has_ended_is_not_plain(tmp_path: Path) -> None:
    db = IntradayRows(tmp_path, SCHEMA, fs=FS)
    for _ in range(2):
        db.commit({("a", DAY): rows(ROWS)})
    engine = Engine(tmp_path, fs=FS)
    attached = engine.attach("Test_Every")
    released: list[int] = []
    attached.backend.at_release(attached.key, lambda: released.append(1))
    db.log.rollback(1)
    engine.look()
    assert released == [1]
    with pytest.raises(SnapshotMovedError):
        attached.backend.plain(attached.key, next(iter(attached.sizes)), "L")
    attached.backend.at_release(attached.key, lambda: released.append(2))
    assert released == [1, 2]


def test_texts_by_length_and_bytes() -> None:
    array = pa.array(["cut", *TEXTS]).slice(1)
    lengths, octets = _flat(array)
    assert lengths is not None and octets is not None
    sizes, found, at = np.frombuffer(lengths, np.int32).tolist(), [], 0
    for size in sizes:
        found.append(None if size < 0 else octets.slice(at, size).to_pybytes().decode())
        at += max(size, 0)
    assert found == TEXTS
    assert at == octets.size
    assert _flat(array.slice(0, 0)) == (None, None)


def test_the_class_has_a_region_of_each_type() -> None:
    text = REGIONS.read_text(encoding="utf-8")
    for name in {chunk for chunk, _ in KINDS.values()}:
        assert text.count(f"class {name}Region extends Region<NumberPage>") == 1
        assert text.count(f"made instanceof ColumnRegion{name})") == text.count(f" get{name}(long row) {{\n") // 2 == 1


def test_an_engine_without_what_the_class_needs_reads_by_pages_and_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: Any) -> Any:
        raise RuntimeError("no such class\n\tat a stack")

    monkeypatch.setattr(memory_regions, "compiled", refused)
    notes: list[str] = []
    made = Regions(None, Engine.__new__(Engine), 1 << 30, notes.append)  # type: ignore[arg-type]
    table = object()
    assert made.serve(table, None) is table  # type: ignore[arg-type]
    assert notes == ["this engine reads by pages, which is slower: no such class"]


def test_texts_take_an_eighth_of_the_heap_and_give_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_regions, "compiled", lambda *_: None)
    made = Regions(None, None, 800, print)  # type: ignore[arg-type]
    assert made.take(60) and made.take(40)
    assert not made.take(1)
    made.take(-40)
    assert made.take(40)
