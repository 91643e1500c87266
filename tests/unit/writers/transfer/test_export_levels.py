"""Exports with columns as directories: pyarrow, DuckDB and our import find the rows; what cannot be one is refused."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.format.parquet.trees import decode_manifest
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.transfer.export_plan import MOST_PARTS
from tests.support.commands import run, run_json
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_runs import FS, merge

NAME = TableName("Test", "Levels")
DAYS = ("2024-03-05", "2024-03-06")
SCHEMA = b"""<Table namespace="Test" name="Levels" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Venue" dataType="String" columnType="Grouping"/><Column name="Level" dataType="int"/>
  <Column name="Open" dataType="boolean"/><Column name="Expiry" dataType="LocalDate"/>
  <Column name="N" dataType="long"/><Column name="Px" dataType="double"/>
</Table>"""
TYPES = {"Venue": "string", "Level": "int32", "Open": "bool", "Expiry": "date32", "N": "int64", "Px": "double"}
BY = ("Venue", "Level", "Open", "Expiry")
LAYOUTS = {
    "kv": ["kv"],
    "metadata": ["metadata"],
    "hive": ["hive"],
    "leaves": ["hive", "--leaf", "deephaven"],
}
Row = dict[str, Any]


def table_of(rows: list[Row]) -> pa.Table:
    fields = [pa.field(name, pa.type_for_alias(kind)) for name, kind in TYPES.items()]
    return pa.Table.from_pylist([{name: row[name] for name in TYPES} for row in rows], pa.schema(fields))


def sorted_rows(table: pa.Table) -> list[Row]:
    return sorted(table.select(["Date", *TYPES]).to_pylist(), key=lambda row: row["N"])


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Row]]:
    """A merged date with late rows, and one that is intraday."""
    root, rng = tmp_path_factory.mktemp("levels") / "db", random.Random(3)
    db, rows = IntradayRows(root, SCHEMA, fs=FS), list[Row]()
    add_partition(FS, db.layout, "Test", "0")

    def put(day: str, source: str, count: int) -> None:
        fresh = [
            {
                "Date": day,
                "Venue": rng.choice(["XNAS", "a b", "q'\"x", "\u00fc"]),
                "Level": rng.choice([-1, 0, 7]),
                "Open": rng.random() < 0.5,
                "Expiry": dt.date(2024, 6, rng.choice([1, 15])),
                "N": len(rows) + number,
                "Px": rng.choice([None, 1.5, number / 4]),
            }
            for number in range(count)
        ]
        db.commit({(source, day): table_of(fresh)})
        rows.extend(fresh)

    put(DAYS[0], "a", 50)
    merge(db.layout, DAYS[0], table=NAME)
    put(DAYS[0], "b", 20)
    put(DAYS[1], "a", 40)
    db.log.close()
    return root, rows


def exported(root: Path, out: Path, layout: str, by: str) -> Path:
    done = run(root, "export", str(NAME), "--out", str(out), "--by", by, "--layout", *LAYOUTS[layout])
    assert done.exit_code == 0, done.stderr
    return out


def leaves(rows: list[Row], *by: str) -> list[str]:
    """The directories that there are to be."""

    def text(value: Any) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    return sorted({"/".join(f"{name}={text(row[name])}" for name in ("Date", *by)) for row in rows})


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_import_finds_the_rows(source: tuple[Path, list[Row]], tmp_path: Path, layout: str) -> None:
    root, rows = source
    tree = exported(root, tmp_path / "tree", layout, ",".join(BY))
    manifest = decode_manifest((tree / "_manifest.json").read_bytes(), tree)
    assert sorted(leaf.path.rpartition("/")[0] for leaf in manifest.leaves) == leaves(rows, *BY)
    other = Layout(tmp_path / "other")
    FS.mkdirs(other.root)
    deploy(FS, other, SCHEMA)
    add_partition(FS, other, "Test", "0")
    done = run(other.root, "import", str(NAME), "--from", str(tree))
    assert done.exit_code == 0, done.stderr
    assert sorted_rows(open_table(other.root, str(NAME)).to_arrow()) == rows


@pytest.mark.parametrize("layout", ["kv", "metadata", "hive"])
@pytest.mark.parametrize("by", [("Venue",), ("Level", "Venue"), BY], ids="+".join)
def test_pyarrow_and_duckdb_find_the_rows(
    source: tuple[Path, list[Row]], tmp_path: Path, layout: str, by: tuple[str, ...]
) -> None:
    root, rows = source
    tree = exported(root, tmp_path / "tree", layout, ",".join(by))
    levels = pa.schema([("Date", pa.string()), *((name, pa.type_for_alias(TYPES[name])) for name in by)])
    partitioning = ds.partitioning(levels, flavor="hive")
    if layout == "metadata":
        found = ds.parquet_dataset(tree / "_metadata", partitioning=partitioning).to_table()
        common = pq.read_schema(tree / "_common_metadata")
        assert [field.name for field in common][: len(levels)] == ["Date", *by]
        assert [common.field(name).type for name in ("Date", *by)] == [field.type for field in levels]
    else:
        found = ds.dataset(tree, format="parquet", partitioning=partitioning).to_table()
    assert sorted_rows(found) == rows
    kinds = {"string": "varchar", "int32": "integer", "bool": "boolean", "date32": "date"}
    types = {"Date": "varchar"} | {name: kinds[TYPES[name]] for name in by}
    with duckdb.connect() as connection:
        options = f"hive_partitioning=true, hive_types={types}"
        files = f"{tree}/**/*.parquet"
        read = connection.sql(f"select * from read_parquet('{files}', {options})").to_arrow_table()
    assert sorted_rows(read) == rows


def test_the_same_export_again_changes_nothing_and_other_directories_are_another(
    source: tuple[Path, list[Row]], tmp_path: Path
) -> None:
    root, rows = source
    tree = exported(root, tmp_path / "tree", "kv", "Venue")
    words = ("export", str(NAME), "--out", str(tree))
    code, told = run_json(root, *words, "--by", "Venue")
    assert (code, told["outcome"], told["by"]) == (0, "unchanged", ["Venue"])
    assert told["files"] == len(leaves(rows, "Venue"))
    assert run(root, *words, "--by", "Level").exit_code == 2
    assert run(root, *words).exit_code == 2


def refused(root: Path, out: Path, *words: str) -> str:
    done = run(root, "export", str(NAME), "--out", str(out), *words)
    assert done.exit_code == 2 and not out.exists() and not out.with_name(f".{out.name}.export").exists()
    return str(done.stderr)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--by", "Venue", "--layout", "flat"], "columns cannot be directories"),
        (["--by", "Venue", "--layout", "nested"], "columns cannot be directories"),
        (["--by", "Venue,Venue"], "columns cannot be directories"),
        (["--by", "Px"], "a column cannot be directories"),
        (["--by", "Date"], "a column cannot be directories"),
        (["--by", "Nope"], "Nope"),
        (["--by", "Venue,Level,Open,Expiry", "--columns", "Venue,Level"], "no column of the files is chosen"),
    ],
)
def test_columns_that_cannot_be_directories(
    source: tuple[Path, list[Row]], tmp_path: Path, words: list[str], what: str
) -> None:
    assert what in refused(source[0], tmp_path / "out", *words)


@pytest.mark.parametrize(
    ("venue", "what"),
    [
        (None, "null and the empty text"),
        ("", "null and the empty text"),
        ("a/b", "cannot become a path"),
        ("..", "cannot become a path"),
        ("%41", "would be read as another one"),
        ("__HIVE_DEFAULT_PARTITION__", "would be read as another one"),
        ("a=b", "would be read as another one"),
    ],
)
def test_values_that_cannot_be_directories(tmp_path: Path, venue: str | None, what: str) -> None:
    db = IntradayRows(tmp_path / "db", SCHEMA, fs=FS)
    row = {"Venue": venue, "Level": 1, "Open": True, "Expiry": None, "N": 1, "Px": None}
    db.commit({("a", DAYS[0]): table_of([row])})
    assert what in refused(db.root, tmp_path / "out", "--by", "Venue")


def test_too_many_directories(tmp_path: Path) -> None:
    db = IntradayRows(tmp_path / "db", SCHEMA, fs=FS)
    row = {"Venue": "a", "Open": True, "Expiry": None, "Px": None}
    db.commit({("a", DAYS[0]): table_of([row | {"Level": n, "N": n} for n in range(MOST_PARTS + 1)])})
    assert "too many directories" in refused(db.root, tmp_path / "out", "--by", "Level,Open")
