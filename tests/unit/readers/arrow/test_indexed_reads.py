"""Reads by grouping: only rows with the keys are read, and an index that is missing or damaged costs time only."""

from __future__ import annotations

import shutil
from collections import OrderedDict
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven.readers import open_table
from sparkhaven.readers.arrow.pinned_table import filter_of
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.expressions.predicate.expression import parse_predicate
from sparkhaven.store.format.column.region import MANY_SYMBOLS
from sparkhaven.store.scan import narrowing
from sparkhaven.store.scan.checksums import MEMORY
from sparkhaven.store.scan.location_files import LocationFiles
from sparkhaven.store.scan.narrowing import Worth, narrowed
from sparkhaven.writers.partitions import add_partition
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_runs import FS, merge

DAY = "2024-03-05"
SCHEMA = b"""<Table namespace="Test" name="Every" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String" columnType="Grouping"/>
  <Column name="Size" dataType="int"/>
  <Column name="Note" dataType="String" symbolTable="None" encoding="UTF_8"/>
</Table>
"""
ROWS = 3000
FORMS = pytest.mark.parametrize("form", ["deephaven", "parquet"])
WHERE = "Sym = 'S017'"


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrowing, "_remembered", OrderedDict())


def built(root: Path, form: str, *, symbols: int = 100, rows: int = ROWS, schema: bytes = SCHEMA) -> Path:
    """History of rows in which each symbol comes equally often, in turn, and every tenth row has none."""
    syms = [None if row % 10 == 9 else f"S{row % symbols:03}" for row in range(rows)]
    notes = [None if row % 7 == 0 else "" if row % 11 == 0 else f"note {row}" for row in range(rows)]
    db = IntradayRows(root, schema, fs=FS)
    db.commit({("a", DAY): pa.table({"Sym": syms, "Size": pa.array(range(rows), pa.int32()), "Note": notes})})
    add_partition(FS, db.layout, "Test", "0")
    merge(db.layout, format=form)
    return next(db.layout.partitions("Test").rglob("table.size")).parent


def sizes(root: Path, where: str) -> tuple[list[int], int]:
    """What a read gives, and how many rows it read for that."""
    counted: list[int] = []
    table = open_table(root, "Test.Every", checksum_verify="open")
    batches = table.to_batches(["Size", "Note", "Sym"], where=where, on_read=counted.append)
    rows = batches.read_all().sort_by("Size")
    for size, note in zip(rows["Size"].to_pylist(), rows["Note"].to_pylist(), strict=True):
        assert note == (None if size % 7 == 0 else "" if size % 11 == 0 else f"note {size}")
    return rows["Size"].to_pylist(), sum(counted)


@FORMS
def test_equality_on_a_grouping_column_reads_the_rows_of_its_group(tmp_path: Path, form: str) -> None:
    built(tmp_path, form)
    wanted = [row for row in range(ROWS) if row % 100 == 17]
    assert sizes(tmp_path, WHERE) == (wanted, len(wanted))
    assert open_table(tmp_path, "Test.Every").count(where=WHERE) == len(wanted)
    assert sizes(tmp_path, "Sym = 'none'") == ([], 0)
    assert sizes(tmp_path, "Sym is null")[1] == ROWS // 10


@FORMS
def test_several_keys_and_other_conditions_read_the_rows_of_the_keys(tmp_path: Path, form: str) -> None:
    built(tmp_path, form)
    listed = "Sym in ('S003', 'S050', 'S020', 'other')"
    wanted = [row for row in range(ROWS) if row % 100 in (3, 20, 50)]
    assert sizes(tmp_path, listed) == (wanted, 90)
    assert sizes(tmp_path, f"{listed} and Size < 1000") == ([row for row in wanted if row < 1000], 90)
    assert sizes(tmp_path, f"{listed} or Size < 10")[1] == ROWS
    either = "Sym = 'S001' and Size > 5 or Sym = 'S002' and Size % 2 = 0"
    assert sizes(tmp_path, either) == ([row for row in range(ROWS) if row % 100 in (1, 2) and row > 1], 60)


@FORMS
@pytest.mark.parametrize(
    ("indexes", "where", "read"),
    [
        (["Size"], "Size in (7, 1700, -1)", 2),
        (["Note"], "Note = 'note 15'", 1),
        (["Note"], "Note is null", 429),
        (["Size,Note"], "Size = 15 and Note = 'note 15'", 1),
        (["Size,Note"], "Size = 15", 1),
        (["Note,Size"], "Note = '' and Size in (11, 22)", 2),
        (["Note,Size"], "Size in (11, 22)", ROWS),
        (["Size", "Note"], "Size = 15 or Note = 'note 16'", 2),
        (["Size", "Note"], "Size = 15 or Size > 2000", ROWS),
    ],
)
def test_other_indexes_give_the_rows_that_match(
    tmp_path: Path, form: str, indexes: list[str], where: str, read: int
) -> None:
    elements = "".join(f'<DataIndex columns="{columns}"/>' for columns in indexes)
    built(tmp_path, form, schema=SCHEMA.replace(b"</Table>", f"{elements}</Table>".encode()))
    table = open_table(tmp_path, "Test.Every")
    everything = table.to_arrow(["Size", "Note"]).sort_by("Size")
    wanted = parse_predicate(where, table.schema).filter(everything.unify_dictionaries())
    assert sizes(tmp_path, where) == (wanted["Size"].to_pylist(), read)


def test_a_read_of_few_rows_takes_only_their_symbols(tmp_path: Path) -> None:
    built(tmp_path, "deephaven", symbols=MANY_SYMBOLS + 100, rows=2 * MANY_SYMBOLS + 200)
    for where, keys in ((WHERE, ["S017"]), ("Sym in ('S017', 'S4000')", ["S017", "S4000"])):
        table = open_table(tmp_path, "Test.Every").to_arrow(["Sym"], where=where)
        assert table["Sym"].chunk(0).dictionary.to_pylist() == keys
        assert table["Sym"].to_pylist() == [key for key in keys for _ in range(2)]


def test_long_ranges_are_slices_of_their_own(tmp_path: Path) -> None:
    built(tmp_path, "deephaven")
    pinned = pinned_of(open_table(tmp_path, "Test.Every"))
    predicate = parse_predicate("Sym in ('S003', 'S050')", pinned.schema)
    where, whole = filter_of(predicate, pinned.schema), pinned.plan().slices
    assert where is not None
    slices = narrowed(LocationFiles(FS, MEMORY), pinned.schema, whole, where, Worth(long=10))
    assert [(slice_.count, slice_.selected) for slice_ in slices] == [(30, None), (30, None)]
    (one,) = pinned.plan(where=predicate).slices
    assert one.selected is not None
    assert (len(one.selected), one.count) == (2, 60)


@pytest.mark.parametrize("damage", ["other key", "other border", "cut", "gone"])
def test_damaged_grouping_costs_time_only(tmp_path: Path, damage: str) -> None:
    """Of a location as earlier releases wrote it, without ``Index-Sym``."""
    location = built(tmp_path, "deephaven", symbols=1000)
    shutil.rmtree(location / "Index-Sym")
    wanted = sizes(tmp_path, WHERE)[0]
    assert sizes(tmp_path, WHERE)[1] == len(wanted)
    (path,) = location.glob("*.ovr")
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        other = {
            "other key": data.replace(b"S017", b"S01x"),
            "other border": data.replace((303).to_bytes(8, "big"), (304).to_bytes(8, "big")),
            "cut": data[:-1],
        }[damage]
        assert other != data
        path.write_bytes(other)
    narrowing._remembered.clear()
    assert sizes(tmp_path, WHERE) == (wanted, ROWS)


@pytest.mark.parametrize("damage", ["other key", "other position", "cut", "gone", "other column"])
@FORMS
def test_a_damaged_index_costs_time_only(tmp_path: Path, form: str, damage: str) -> None:
    """Column files have the grouping in their prefix too."""
    location = built(tmp_path, form)
    wanted = sizes(tmp_path, WHERE)[0]
    index = location / "Index-Sym"
    name = {"other position": "dh_begin_pos.dat", "other column": "dh_end_pos.dat"}.get(damage, "Sym.bytes")
    data = (index / name).read_bytes()
    if damage == "gone":
        (index / name).unlink()
    else:
        other = {
            "other key": data.replace(b"S017", b"S01x"),
            "other position": data[:-1] + b"\x01",
            "cut": data[:-1],
            "other column": (index / "dh_begin_pos.dat").read_bytes(),
        }[damage]
        assert other != data
        (index / name).write_bytes(other)
    assert sizes(tmp_path, WHERE) == (wanted, ROWS if form == "parquet" else len(wanted))


def test_damaged_rows_are_an_error_also_by_an_index(tmp_path: Path) -> None:
    location = built(tmp_path, "deephaven")
    data = bytearray((location / "Size.dat").read_bytes())
    data[-1] ^= 1
    (location / "Size.dat").write_bytes(data)
    with pytest.raises(CorruptFileError, match=r"checksum does not match"):
        sizes(tmp_path, WHERE)
