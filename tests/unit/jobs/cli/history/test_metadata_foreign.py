"""`sparkhaven metadata` of trees that other programs wrote: named, mended from what is there, never guessed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.store.errors import UnsupportedVersionError
from sparkhaven.store.format.index.tlmi import IndexEntry, decode_tlmi, encode_tlmi
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.definition import SPLAYED
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.column_file import read_column
from sparkhaven.store.schema.document.schema_file import parse_schema
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.transfer.locations import ForeignLocations
from sparkhaven.writers.transfer.tree_writer import write_column_leaf
from tests.support.commands import run, run_json
from tests.support.disks.model_fs import QuickFs
from tests.support.writers.merge_runs import FS

NAME = TableName("Other", "Trades")
DAYS = ("2024-03-05", "2024-03-06")
SCHEMA = parse_schema(
    b'<Table namespace="Other" name="Trades" storageType="NestedPartitionedOnDisk">'
    b'<Column name="Date" dataType="String" columnType="Partitioning"/><Column name="N" dataType="long"/></Table>',
    "Other.Trades.schema",
).schema
LOCATIONS = (
    '<Table namespace="Other" name="Trades" storageType="SplayedOnDisk"><Column name="Day" dataType="LocalDate"/>'
    '<Column name="Hour" dataType="int"/><Column name="Filename" dataType="String" symbolTable="None"/>'
    '<Column name="Size" dataType="long"/><Column name="Format" dataType="String"/>'
    '<Column name="LastModifiedNanos" dataType="long"/><Column name="ColumnVersion" dataType="int"/>'
    '<Column name="RowGroupSizes" dataType="long[]"/></Table>'
)


def numbers(count: int) -> pa.Table:
    return pa.table({"N": pa.array(range(count), pa.int64())})


def result(root: Path, command: str, *words: str) -> tuple[int, dict[str, Any]]:
    return run_json(root, "metadata", command, str(NAME), *words)


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


# --- location indexes


@pytest.fixture
def history(tmp_path: Path) -> Layout:
    """Two dates, one of column files and one of Parquet, in two partitions; no schema, no log, no index."""
    layout = Layout(tmp_path)
    write_column_leaf(FS, layout.history_location(NAME, LocationKey("0", DAYS[0])), SCHEMA, numbers(5).to_batches(), 77)
    for internal, rows in (("0", 3), ("1", 4)):
        location = layout.history_location(NAME, LocationKey(internal, DAYS[1]))
        location.mkdir(parents=True)
        pq.write_table(numbers(rows), location / "table.parquet")
    return layout


def wanted(layout: Layout) -> list[IndexEntry]:
    entries = [IndexEntry(LocationKey("0", DAYS[0]), 5, 77, "DEEPHAVEN")]
    for internal, rows in (("0", 3), ("1", 4)):
        key = LocationKey(internal, DAYS[1])
        file = layout.history_location(NAME, key) / "table.parquet"
        entries.append(IndexEntry(key, rows, file.stat().st_mtime_ns // 1_000_000, "PARQUET"))
    return entries


def stored(layout: Layout) -> list[IndexEntry]:
    path = layout.metadata_index(NAME)
    return decode_tlmi(path.read_bytes(), path)


def test_an_index_is_written_from_the_directories(history: Layout) -> None:
    before = contents(history.root)
    assert [part["kind"] for part in result(history.root, "validate")[1]["differences"]] == ["lost"]
    code, told = result(history.root, "update", "--dry-run")
    assert (code, told["written"], contents(history.root)) == (0, False, before)
    assert result(history.root, "update")[1]["written"] is True
    assert stored(history) == wanted(history)
    assert result(history.root, "validate") == (0, {"table": str(NAME), "entries": 3, "differences": []})
    assert {path: data for path, data in contents(history.root).items() if path in before} == before
    listed = result(history.root, "list")[1]
    assert [(entry["date"], entry["rows"]) for entry in listed["entries"]] == [(DAYS[0], 5), (DAYS[1], 3), (DAYS[1], 4)]


def test_each_kind_of_difference(history: Layout) -> None:
    path = history.metadata_index(NAME)
    path.parent.mkdir(parents=True)
    first, second, _ = wanted(history)
    stray = IndexEntry(LocationKey("9", DAYS[0]), 1, 1)
    changed = [IndexEntry(first.key, 6, 78, "PARQUET"), second, stray]
    path.write_bytes(encode_tlmi(changed))
    code, told = result(history.root, "validate")
    assert (code, [part["kind"] for part in told["differences"]]) == (1, ["size", "format", "time", "missing", "extra"])
    assert result(history.root, "update")[1]["written"] is True
    assert stored(history) == wanted(history)


def test_a_deployed_schema_alone_hides_no_row(history: Layout, tmp_path: Path) -> None:
    """Nothing of ours has merged these rows: an index from merge records would be empty."""
    file = tmp_path.with_name("Other.Trades.schema")
    file.write_text(
        '<Table namespace="Other" name="Trades" storageType="NestedPartitionedOnDisk"><Column name="Date"'
        ' dataType="String" columnType="Partitioning"/><Column name="N" dataType="long"/></Table>'
    )
    assert run(history.root, "schema", "deploy", str(file)).exit_code == 0
    assert result(history.root, "update")[0] == 0
    assert stored(history) == wanted(history)


def test_an_index_of_another_version_is_not_replaced(history: Layout) -> None:
    path = history.metadata_index(NAME)
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes.fromhex("db2b b2db 0000 0003 0000 0000"))
    done = run(history.root, "metadata", "update", str(NAME))
    assert done.exit_code == 1 and "unknown version" in done.stderr
    assert path.read_bytes() == bytes.fromhex("db2b b2db 0000 0003 0000 0000")


@pytest.mark.parametrize("content", [b"", b"\xdb\x2b\xb2\xdb"])
def test_a_damaged_index_is_written_again(history: Layout, content: bytes) -> None:
    path = history.metadata_index(NAME)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert [part["kind"] for part in result(history.root, "update")[1]["differences"]] == ["damaged"]
    assert stored(history) == wanted(history)


def without_record(location: Path) -> None:
    (location / "table.size").unlink()


def without_file(location: Path) -> None:
    (location / "N.dat").unlink()


def with_another_record(location: Path) -> None:
    (location / "table.size").write_bytes(b"\xac\xed\x00\x05sr\x00\x07foreign")


def emptied(location: Path) -> None:
    shutil.rmtree(location)
    location.mkdir()


def generation(location: Path) -> None:
    later = location.parents[1].with_name("0.g2") / location.parent.name
    shutil.copytree(location.parent, later)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (without_record, "rows of a location are not known"),
        (without_file, "not as its record says"),
        (with_another_record, ""),
        (emptied, "rows of a location are not known"),
        (generation, "not known which generation counts"),
    ],
)
def test_what_cannot_be_known_is_named_and_nothing_is_written(
    history: Layout, change: Callable[[Path], None], what: str
) -> None:
    change(history.history_location(NAME, LocationKey("0", DAYS[0])))
    before = contents(history.root)
    for command in ("validate", "update"):
        done = run(history.root, "metadata", command, str(NAME))
        assert done.exit_code == 1 and what in done.stderr and str(history.root) in done.stderr, done.stderr
        assert contents(history.root) == before


def test_patterns_find_foreign_tables_and_others_are_unknown(history: Layout) -> None:
    for words in ("Other", "Oth*.Tr*", "Other.Trades"):
        assert run_json(history.root, "metadata", "list", words)[1]["table"] == str(NAME)
    assert run(history.root, "metadata", "list", "Nobody").exit_code == 2


# --- Locations tables


def locations_schema() -> TableSchema:
    return parse_schema(LOCATIONS.encode(), "Other.Trades.schema").schema


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with two levels of directories, a leaf of each kind, and a Locations table that lacks one of them."""
    root = Layout(tmp_path).extended(NAME)
    for hour, rows in ((7, 5), (8, 6)):
        leaf = root / f"Day={DAYS[0]}" / f"Hour={hour}" / "part-0.parquet"
        leaf.parent.mkdir(parents=True)
        pq.write_table(numbers(rows), leaf, row_group_size=4)
    write_column_leaf(FS, root / f"Day={DAYS[1]}" / "Hour=-1" / "cols", SCHEMA, numbers(9).to_batches(), 5)
    written(root, rows_on_disk(root)[:2])
    return root


def rows_on_disk(root: Path) -> list[dict[str, Any]]:
    """What the table is to say, by plain Python."""

    def row(day: str, hour: int, leaf: str, rows: int, groups: list[int] | None) -> dict[str, Any]:
        name = f"Day={day}/Hour={hour}/{leaf}"
        return {
            "Day": date.fromisoformat(day),
            "Hour": hour,
            "Filename": name,
            "Size": rows,
            "Format": "DEEPHAVEN" if groups is None else "PARQUET",
            "LastModifiedNanos": (root / name).stat().st_mtime_ns,
            "ColumnVersion": 1 if groups is None else None,
            "RowGroupSizes": groups,
        }

    return [
        row(DAYS[0], 7, "part-0.parquet", 5, [4, 1]),
        row(DAYS[0], 8, "part-0.parquet", 6, [4, 2]),
        row(DAYS[1], -1, "cols", 9, None),
    ]


def written(root: Path, rows: list[dict[str, Any]], name: str = ".locations_table") -> None:
    shutil.rmtree(root / name, ignore_errors=True)
    schema = locations_schema()
    arrays = [pa.array([row[c.name] for row in rows], c.type.arrow) for c in schema.columns]
    batch = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in schema.columns])
    write_column_leaf(FS, root / name, schema, [batch], 5, SPLAYED)


def read(root: Path, name: str = ".locations_table") -> list[dict[str, Any]]:
    record = table_size.load(FS, root / name)
    assert record is not None
    columns = {
        column.name: read_column(FS, root / name, column, record.data_file_sizes, record.size).to_pylist()
        for column in locations_schema().columns
    }
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def kinds(told: dict[str, Any]) -> list[tuple[str, str]]:
    return [(part["kind"], part["leaf"].rpartition("/")[0]) for part in told["locations"]["differences"]]


@pytest.mark.parametrize("name", [".locations_table", ".location_table"])
def test_a_locations_table_is_written_from_its_tree(tree: Path, tmp_path: Path, name: str) -> None:
    (tree / ".locations_table").rename(tree / name)
    lacks = [("missing", f"Day={DAYS[1]}/Hour=-1")]
    before = contents(tmp_path)
    assert result(tmp_path, "validate")[0] == 1 and kinds(result(tmp_path, "validate")[1]) == lacks
    assert kinds(result(tmp_path, "update", "--dry-run")[1]) == lacks
    assert contents(tmp_path) == before
    code, told = result(tmp_path, "update")
    assert (code, told["locations"]["written"], kinds(told)) == (0, True, lacks)
    assert read(tree, name) == rows_on_disk(tree)
    assert sorted(path.name for path in tree.iterdir()) == [name, f"Day={DAYS[0]}", f"Day={DAYS[1]}"]
    assert result(tmp_path, "validate")[0] == 0
    assert [entry["rows"] for entry in result(tmp_path, "list")[1]["locations"]["entries"]] == [5, 6, 9]


@pytest.mark.parametrize(
    ("column", "value", "kind"),
    [
        ("Size", 7, "size"),
        ("Hour", 6, "format"),
        ("Day", date(2020, 1, 1), "format"),
        ("Format", "DEEPHAVEN", "format"),
        ("LastModifiedNanos", 5, "time"),
        ("Filename", "Day=x/gone", "extra"),
    ],
)
def test_a_row_that_differs_is_told_and_mended(
    tree: Path, tmp_path: Path, column: str, value: object, kind: str
) -> None:
    first, *others = rows_on_disk(tree)
    written(tree, [{**first, column: value}, *others])
    told = [part[0] for part in kinds(result(tmp_path, "validate")[1])]
    assert kind in told and len(told) <= 2
    assert result(tmp_path, "update")[0] == 0
    assert read(tree) == rows_on_disk(tree)


def test_of_two_rows_for_a_leaf_the_last_counts(tree: Path, tmp_path: Path) -> None:
    first, *others = rows_on_disk(tree)
    written(tree, [{**first, "Size": 1}, *others, first])
    assert result(tmp_path, "validate")[0] == 0


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda root: (root / f"Day={DAYS[0]}" / "Hour=%37").mkdir(), "two ways"),
        (lambda root: (root / "Day=__HIVE_DEFAULT_PARTITION__").mkdir(), "two ways"),
        (lambda root: (root / f"Day={DAYS[1]}" / "Hour=-1" / "cols" / "table.size").unlink(), "rows of a leaf"),
        (lambda root: (root / f"Day={DAYS[0]}" / "Minute=3").mkdir(), "contradicts itself"),
        (lambda root: (root / f"Day={DAYS[0]}" / "Hour=7" / "notes.txt").write_text("x"), "does not fit"),
        (lambda root: (root / f"Day={DAYS[0]}" / "Hour=x" / "a").mkdir(parents=True), "names no value of column Hour"),
        (lambda root: (root / ".locations_table" / "table.tbl").unlink(), "has no definition"),
        (lambda root: (root / ".location_table").mkdir(), "two Locations tables"),
    ],
)
def test_what_a_tree_does_not_tell_is_named_and_nothing_is_written(
    tree: Path, tmp_path: Path, change: Callable[[Path], object], what: str
) -> None:
    change(tree)
    before = contents(tree)
    for command in ("validate", "update"):
        done = run(tmp_path, "metadata", command, str(NAME))
        assert done.exit_code in (1, 2) and what in done.stderr, done.stderr
        assert contents(tree) == before


def test_without_an_exchange_of_directories_nothing_is_changed(tree: Path, tmp_path: Path) -> None:
    class OldFs(QuickFs):
        def exchange(self, one: Path, other: Path) -> bool:
            return False

    before = contents(tmp_path)
    table = ForeignLocations(TablePlace(OldFs(), Layout(tmp_path), NAME))
    with pytest.raises(UnsupportedVersionError, match="cannot exchange two directories"):
        table.write(now_ms=1)
    assert contents(tmp_path) == before
