"""Columns whose rows come from the sources' files to their places at once, and damage of these files."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import get_ident
from typing import Any, TypeVar

import pytest

from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.writers.merge.plan.merge_proof import Digests
from sparkhaven.writers.merge.sources.merge_source import SIZES
from sparkhaven.writers.merge.sources.sort_keys import SortKey
from sparkhaven.writers.merge.write.column_writes import ColumnWriter
from sparkhaven.writers.partitions import add_partition
from tests.support.disks.contents import flip
from tests.support.disks.model_fs import QuickFs
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table, random_row
from tests.support.writers.merge_runs import history_bytes, merge

T = TypeVar("T")
SORT = (SortKey("D", True), SortKey("Venue"))
MOVED = replace(SIZES, moved_rows=1)
FIXED = {"Flag", "B", "C", "S", "I", "L", "F", "D", "T"}


class Noting(QuickFs):
    """Notes which files are read by the core, and which by themselves; damages one before it is read, or after."""

    def __init__(self, before: Path | None = None, after: Path | None = None) -> None:
        self.placed: list[Path] = []
        self.others: list[str] = []
        self._before, self._after = before, after

    def read_together(self, paths: Sequence[str], read: Callable[[], T]) -> T:
        if str(self._before) in paths:
            flip(Path(str(self._before)), -1)
        found = super().read_together(paths, read)
        if str(self._after) in paths:
            flip(Path(str(self._after)), -1)
        self.placed += map(Path, paths)
        return found

    def open(self, path: Path) -> Any:
        self.others.append(f"{path.parent.parent.parent.name}/{path.name}")
        return super().open(path)


def make(root: Path, partitions: int = 1) -> Layout:
    rng = random.Random(9)
    db = IntradayRows(root, SCHEMA)
    db.commit({(f"s{n}", DAY): as_table([random_row(rng) for _ in range(150 + n)]) for n in range(3)})
    for name in range(partitions):
        add_partition(QuickFs(), db.layout, "Test", str(name))
    return db.layout


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"workers": 2, "parallel_rows": 10}])
def test_placed_rows_are_the_same_and_verified(tmp_path: Path, partitions: int, options: dict[str, int]) -> None:
    one, other, fs = make(tmp_path / "one", partitions), make(tmp_path / "other", partitions), Noting()
    merge(one, sort=SORT, **options)
    merge(other, sort=SORT, sizes=MOVED, fs=fs, **options)
    assert history_bytes(one) == history_bytes(other)
    if options != {"workers": 2}:  # then columns are read while others are put in order
        assert {path.stem for path in fs.placed} == FIXED | {"Sym", "Venue"}
        sources = {path.parent.parent.parent.name for path in fs.placed}
        read_again = {name for name in fs.others if name.split("/")[0] in sources}
        assert not {name for name in read_again if name.endswith(".dat") and "Note" not in name}


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize(("workers", "beside"), [(1, False), (2, True)])
def test_symbols_are_hashed_while_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int, workers: int, beside: bool
) -> None:
    one, other = make(tmp_path / "one", partitions), make(tmp_path / "other", partitions)
    options = {"workers": workers, "parallel_rows": 10}
    merge(one, sort=SORT, sizes=MOVED, **options)
    threads: dict[str, dict[str, int]] = {"hashed": {}, "written": {}}
    counted, write = Digests.counted, ColumnWriter._write_ranks

    def noted_hash(self: Any, column: Any, *others: Any) -> None:
        threads["hashed"].setdefault(column.name, get_ident())  # later they are hashed as they are read back
        counted(self, column, *others)

    def noted_write(self: Any, column: Any, *others: Any) -> None:
        threads["written"][column.name] = get_ident()
        write(self, column, *others)

    monkeypatch.setattr(Digests, "counted", noted_hash)
    monkeypatch.setattr(ColumnWriter, "_write_ranks", noted_write)
    merge(other, sort=SORT, sizes=replace(MOVED, hashed_beside=0), **options)
    assert history_bytes(one) == history_bytes(other)
    assert set(threads["written"]) == set(threads["hashed"]) == {"Sym", "Venue"}
    assert [threads["written"][name] != thread for name, thread in threads["hashed"].items()] == [beside] * 2


@pytest.mark.parametrize("name", ["D.dat", "L.dat", "Sym.dat"])
@pytest.mark.parametrize("damage", [lambda path: flip(path, -1), lambda path: path.write_bytes(path.read_bytes()[:-1])])
def test_damage_of_a_source_is_said(tmp_path: Path, name: str, damage: Callable[[Path], object]) -> None:
    found = []
    for sizes in (SIZES, MOVED):
        layout = make(tmp_path / str(sizes.moved_rows))
        path = layout.intraday_location(TABLE, LocationKey("s1", DAY)) / name
        damage(path)
        with pytest.raises(SparkhavenError) as caught:
            merge(layout, sort=SORT, sizes=sizes)
        assert "s1" in str(caught.value)
        assert history_bytes(layout) == {}
        found.append(str(caught.value).replace(str(layout.root), ""))
    assert found[0] == found[1]


def test_what_is_damaged_once_it_is_placed_has_no_effect(tmp_path: Path) -> None:
    layout = make(tmp_path / "db")
    path = layout.intraday_location(TABLE, LocationKey("s1", DAY)) / "L.dat"
    fs = Noting(after=path)
    merge(layout, sort=SORT, sizes=MOVED, fs=fs)
    assert path in fs.placed


def test_what_is_damaged_before_it_is_placed_is_said(tmp_path: Path) -> None:
    layout = make(tmp_path / "db")
    path = layout.intraday_location(TABLE, LocationKey("s1", DAY)) / "L.dat"
    with pytest.raises(SparkhavenError, match="differs from what was committed"):
        merge(layout, sort=SORT, sizes=MOVED, fs=Noting(before=path))
    assert history_bytes(layout) == {}
