"""Trees that are damaged, do not fit, or mean harm; and imports that are killed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.store.errors import (
    CorruptFileError,
    InvalidNameError,
    LockLostError,
    SchemaMismatchError,
    SettingsError,
    SnapshotMovedError,
    SparkhavenError,
    TableNotFoundError,
)
from sparkhaven.store.layout import LocationKey, TableName
from sparkhaven.store.merges.merge_records import lock_table, newest
from sparkhaven.store.places import TablePlace
from tests.support.disks.contents import hidden
from tests.support.disks.model_fs import Crash, KillingFs, QuickFs
from tests.support.examples import share_of, some_of
from tests.support.writers.export_cases import export, two_days
from tests.support.writers.import_cases import bring, empty, small, values, write
from tests.support.writers.merge_cases import TABLE
from tests.support.writers.merge_runs import FS

NS_T = TableName("NS", "T")


@pytest.mark.parametrize("cut", [0, 3, 11, -1, -9, "half", "flip"])
def test_a_damaged_file_is_named_and_nothing_is_published(tmp_path: Path, cut: Any) -> None:
    layout = small(tmp_path / "db")
    path = write(tmp_path / "tree" / "Date=d" / "a.parquet", list(range(5000)))
    if cut == "flip":
        pq.write_table(pq.read_table(path, partitioning=None), path, write_page_checksum=True)
        data = path.read_bytes()
        middle = len(data) // 2
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
    else:
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2 if cut == "half" else cut])
    with pytest.raises(CorruptFileError) as caught:
        bring(layout, tmp_path / "tree")
    assert str(path) in str(caught.value.where)
    assert newest(TablePlace(FS, layout, NS_T), "d") is None
    system = layout.system("NS")
    assert hidden(system) == [] if cut == "flip" else not system.exists()


def metadata_of(tree: Path, *names: str) -> None:
    """Writes a ``_metadata`` whose row groups name these files."""
    metas = []
    for name in names:
        meta = pq.read_metadata(next(tree.rglob("*.parquet")))
        meta.set_file_path(name)
        metas.append(meta)
    pq.write_metadata(metas[0].schema.to_arrow_schema(), tree / "_metadata", metadata_collector=metas)


def test_metadata_with_a_damaged_chunk_is_named(tmp_path: Path) -> None:
    layout = small(tmp_path / "db")
    write(tmp_path / "tree" / "Date=d" / "a.parquet", [1])
    metadata_of(tmp_path / "tree", "Date=d/a.parquet")
    path = tmp_path / "tree" / "_metadata"
    data = path.read_bytes()
    optional = data.index(b"\x25\x02\x18")  # a leaf that has nulls, and histograms of its levels
    path.write_bytes(data[: optional + 1] + b"\0" + data[optional + 2 :])
    with pytest.raises(CorruptFileError, match="damaged") as caught:
        bring(layout, tmp_path / "tree")
    assert str(path) in str(caught.value.where)


def test_metadata_out_of_step_with_its_files(tmp_path: Path) -> None:
    layout = small(tmp_path / "db")
    write(tmp_path / "tree" / "Date=d" / "a.parquet", [1])
    metadata_of(tmp_path / "tree", "Date=d/a.parquet", "Date=d/a.parquet")
    with pytest.raises(CorruptFileError, match="damaged"):
        bring(layout, tmp_path / "tree")
    metadata_of(tmp_path / "tree", "Date=d/gone.parquet")
    with pytest.raises(CorruptFileError, match="damaged"):
        bring(layout, tmp_path / "tree")
    metadata_of(tmp_path / "tree", "d/a.parquet")  # a bare value, and no such file
    (tmp_path / "tree" / "Date=d").rename(tmp_path / "tree" / "d")
    assert [each.value for each in bring(layout, tmp_path / "tree")] == ["d"]


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (["Date=d/Other=x/a.parquet"], SettingsError),
        (["Date=d/a.parquet", "Date=d/b.orc"], SettingsError),
        (["Date=d/a.parquet", "b.parquet"], SettingsError),
        (["Date=__HIVE_DEFAULT_PARTITION__/a.parquet"], SettingsError),
        (["Date=%2e%2e/a.parquet"], InvalidNameError),
        (["Date=a%2Fb/a.parquet"], InvalidNameError),
        (["Date=/a.parquet"], InvalidNameError),
        (["0/d/Other/table.parquet"], SettingsError),
        (["_a.parquet", ".b.parquet"], SettingsError),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else "",
)
def test_trees_that_do_not_fit(tmp_path: Path, names: list[str], error: type[SparkhavenError]) -> None:
    layout = small(tmp_path / "db")
    for name in names:
        write(tmp_path / "tree" / name, [1])
    with pytest.raises(error) as caught:
        bring(layout, tmp_path / "tree")
    assert caught.value.expected
    assert caught.value.found
    assert caught.value.hint


def test_no_tree_an_empty_one_and_an_unknown_layout(tmp_path: Path) -> None:
    layout = small(tmp_path / "db")
    with pytest.raises(TableNotFoundError):
        bring(layout, tmp_path / "none")
    (tmp_path / "tree").mkdir()
    with pytest.raises(SettingsError, match="not recognised"):
        bring(layout, tmp_path / "tree")
    with pytest.raises(TableNotFoundError, match="no Parquet files"):
        bring(layout, tmp_path / "tree", tree_layout="kv")
    with pytest.raises(SettingsError, match="unknown --layout"):
        bring(layout, tmp_path / "tree", tree_layout="tree")
    write(tmp_path / "tree" / "Date=d" / "a.parquet", pa.array([], pa.int32()), sym=[])
    with pytest.raises(SchemaMismatchError):  # ``Sym`` of no rows is of type null, and ``Y`` is none of ours
        write(tmp_path / "tree" / "Date=e" / "a.parquet", [1], Y=[1])
        bring(layout, tmp_path / "tree")


def test_rows_without_a_date_and_with_a_hostile_one(tmp_path: Path) -> None:
    layout = small(tmp_path / "db")
    write(tmp_path / "tree" / "a.parquet", [1, 2], Date=["d", None])
    with pytest.raises(SchemaMismatchError, match="no partition value"):
        bring(layout, tmp_path / "tree")
    write(tmp_path / "tree" / "a.parquet", [1, 2], Date=["d", "../../x"])
    with pytest.raises(InvalidNameError):
        bring(layout, tmp_path / "tree")


def test_a_locations_table_out_of_step(tmp_path: Path) -> None:
    db, _ = two_days(tmp_path / "db", 20)
    out, other = tmp_path / "out", empty(tmp_path / "other")
    export(db.root, out, layout="hive", leaf="deephaven")
    (leaf,) = (path for path in (out / "Date=2024-03-06").iterdir())
    column = leaf / "L.dat"
    column.write_bytes(column.read_bytes()[:-8] + b"\1\2\3\4\5\6\7\0")
    with pytest.raises(CorruptFileError, match="differs from what was committed"):
        bring(other, out, table=str(TABLE))
    shutil.rmtree(leaf)
    with pytest.raises(CorruptFileError, match="is not there"):
        bring(other, out, table=str(TABLE))


class ChangingFs(QuickFs):
    """Someone writes to the tree while it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def step(self, name: str) -> None:
        if name == "import-convert:before":
            write(self._path, [1, 2, 3, 4])


def test_a_file_that_changes_meanwhile(tmp_path: Path) -> None:
    layout = small(tmp_path / "db")
    path = write(tmp_path / "tree" / "Date=d" / "a.parquet", [1, 2, 3])
    with pytest.raises(SparkhavenError) as caught:
        bring(layout, tmp_path / "tree", fs=ChangingFs(path))
    assert isinstance(caught.value, SnapshotMovedError) or "another number of rows" in caught.value.what
    assert newest(TablePlace(FS, layout, NS_T), "d") is None


def test_the_lock_of_the_table(tmp_path: Path) -> None:
    layout = small(tmp_path / "db")
    write(tmp_path / "tree" / "Date=d" / "a.parquet", [1])
    with lock_table(TablePlace(FS, layout, NS_T)), pytest.raises(LockLostError):
        bring(layout, tmp_path / "tree")


@pytest.mark.slow
def test_killed_at_any_change_the_next_import_ends_it(tmp_path: Path) -> None:
    write(tmp_path / "tree" / "Date=d" / "a.parquet", [3, None, 2], sym=["b", "a", None])
    whole = small(tmp_path / "whole")
    bring(whole, tmp_path / "tree")
    counting, seen = KillingFs(), 0
    bring(small(tmp_path / "count"), tmp_path / "tree", fs=counting)
    assert counting.changes > 20
    for call in some_of(range(1, counting.changes + 1)):
        layout = small(tmp_path / f"db{call}")
        with pytest.raises(Crash):
            bring(layout, tmp_path / "tree", fs=KillingFs(crash_after=call - 1))
        before = newest(TablePlace(FS, layout, NS_T), "d") is not None
        seen += before
        assert values(layout) == ([2, None, 3] if before else [])
        (done,) = bring(layout, tmp_path / "tree")
        assert done.outcome in ("imported", "unchanged")
        assert values(layout) == [2, None, 3]
        place = layout.history_location(NS_T, LocationKey("0", "d"))
        assert (place / "X.dat").read_bytes() == (
            whole.history_location(NS_T, LocationKey("0", "d")) / "X.dat"
        ).read_bytes()
        assert hidden(layout.system("NS")) == []
    assert seen >= share_of(2, 1)
