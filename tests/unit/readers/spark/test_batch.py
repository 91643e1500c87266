"""What plans and reads a batch query of Spark, without a JVM: processes pickle the same things to each other."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from sparkhaven.jobs.dataframes.source import DeephavenSource
from sparkhaven.readers import open_table
from sparkhaven.readers.spark.batch import SnapshotReader
from sparkhaven.store.errors import (
    SchemaMismatchError,
    SchemaParseError,
    SettingsError,
    SnapshotMovedError,
    TableNotFoundError,
)
from sparkhaven.writers.merge.date_merges import merge_dates
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from tests.support.tables.small_tables import SmallTable

DAY, NEXT = "2026-11-20", "2026-11-21"
START = datetime(2026, 11, 20, tzinfo=UTC)
KINDS = """<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Flag" dataType="Boolean"/><Column name="B" dataType="byte"/><Column name="C" dataType="char"/>
  <Column name="S" dataType="short"/><Column name="I" dataType="int"/><Column name="L" dataType="long"/>
  <Column name="F" dataType="float"/><Column name="D" dataType="double"/><Column name="At" dataType="Instant"/>
  <Column name="Sym" dataType="String"/><Column name="Note" dataType="String" symbolTable="None"/>
</Table>
"""


def rows(count: int, first: int = 0) -> dict[str, list[Any]]:
    numbers = range(first, first + count)
    return {
        "Sym": [None if n % 5 == 0 else f"s{n % 3}" for n in numbers],
        "Size": [None if n % 7 == 0 else n for n in numbers],
        "Px": [n / 4 for n in numbers],
        "At": [START + timedelta(seconds=n) for n in numbers],
        "Live": [n % 2 == 0 for n in numbers],
        "Note": [f'é"\\{n}' for n in numbers],
    }


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    table = SmallTable(tmp_path / "db")
    table.add("a", DAY, rows(30))
    table.add("b", DAY, rows(20, 100))
    table.add("a", NEXT, rows(10, 1000))
    return table


def planned(place: Path, **options: str) -> tuple[SnapshotReader, list[InputPartition]]:
    """The reader as workers get it, and the tasks: through as many pickles as in Spark."""
    source = DeephavenSource({"root": str(place), "path": "NS.T"} | options)
    schema = source.schema()
    reader = pickle.loads(pickle.dumps(source)).reader(StructType.fromJson(schema.jsonValue()))
    assert isinstance(reader, SnapshotReader)
    found: tuple[SnapshotReader, list[InputPartition]] = pickle.loads(pickle.dumps((reader, reader.partitions())))
    return found


def read(place: Path, **options: str) -> pa.Table:
    reader, tasks = planned(place, **options)
    return pa.Table.from_batches([batch for task in tasks for batch in reader.read(task)])


def test_a_frame_has_the_rows_of_open_table(small: SmallTable) -> None:
    expected = open_table(small.root, "NS.T").to_arrow(dictionaries=False)
    found = read(small.root)
    assert found.column_names == expected.column_names
    assert found.to_pylist() == expected.to_pylist()
    assert read(small.root, columns="Px,Date").to_pylist() == expected.select(["Px", "Date"]).to_pylist()


@pytest.mark.parametrize(
    "options", [{"dates": NEXT}, {"sources": "b"}, {"dates": f"{DAY}..{DAY}", "sources": '["a"]'}, {"tier": "intraday"}]
)
def test_options_select_as_open_table_does(small: SmallTable, options: dict[str, str]) -> None:
    wanted = {"dates": NEXT} if options == {"dates": NEXT} else {}
    wanted |= {"sources": options["sources"].strip('["]')} if "sources" in options else {}
    wanted |= {"dates": options["dates"]} if "dates" in options else {}
    expected = open_table(small.root, "NS.T").to_arrow("Px", **wanted)
    assert read(small.root, columns="Px", **options).to_pylist() == expected.to_pylist()


def test_history_as_parquet_is_read_as_column_files(small: SmallTable) -> None:
    expected = sorted(read(small.root).to_pylist(), key=lambda row: row["Px"])
    options, now = MergeOptions(format="parquet"), lambda: small.now
    days = DAY, NEXT
    for done in merge_dates(small.place, days, options, executor=LocalExecutor(), clock=now):
        assert (done.error, done.format) == (None, "parquet")
    for more in ({}, {"taskBytes": "1048576"}):
        reader, tasks = planned(small.root, **more)
        assert all([*slice_.files] == ["table.parquet"] for task in tasks for slice_ in task.slices)  # type: ignore[attr-defined]
        found = pa.Table.from_batches([batch for task in tasks for batch in reader.read(task)])
        assert sorted(found.to_pylist(), key=lambda row: row["Px"]) == expected
    kept = [row for row in expected if (row["Size"] or 0) > 104]
    one = read(small.root, columns="Px,Sym", where="Size > 104")
    assert sorted(one["Px"].to_pylist()) == [row["Px"] for row in kept]


WHERE = [
    f"Date = '{NEXT}'",
    f"Date <> '{NEXT}'",
    "Sym in ('s1', 's2')",
    "Size > 104",
    "Px <= 2.5",
    "Size is null",
    "Sym is not null",
    "Sym is null",
    "Size = 3",
    "Live",
    "\"At\" = '2026-11-20T00:00:03Z'",
    "Note = 'é\"\\3'",
]


@pytest.mark.slow
@pytest.mark.parametrize("where", WHERE)
def test_the_option_where_reads_only_rows_that_match(small: SmallTable, where: str) -> None:
    expected = open_table(small.root, "NS.T").to_arrow("Px", where=where)
    assert 0 < expected.num_rows < 60
    assert read(small.root, columns="Px", where=where).to_pylist() == expected.to_pylist()


def test_a_reader_takes_nothing_of_one_query_into_the_next(small: SmallTable) -> None:
    assert SnapshotReader.pushFilters is DataSourceReader.pushFilters  # Spark keeps the reader for all queries
    source = DeephavenSource({"root": str(small.root), "path": "NS.T", "columns": "Px"})
    reader = source.reader(source.schema())
    first, again = reader.partitions(), reader.partitions()
    assert pickle.dumps(first) == pickle.dumps(again)
    rows_read = [
        [batch.to_pylist() for task in tasks for batch in reader.read(task)] for tasks in (first, again, first)
    ]
    assert rows_read[0] == rows_read[1] == rows_read[2] and sum(map(len, rows_read[0])) == 60


def test_no_plan_is_made_for_a_stream(small: SmallTable, tmp_path: Path) -> None:
    asked = {"sparkhaven.plan": str(tmp_path / "plan"), "sparkhaven.jar": "of this release"}
    source = DeephavenSource({"root": str(small.root), "path": "NS.T", "start": "latest", "where": "Px > 2"} | asked)
    assert len(source.schema()) == 7
    assert (tmp_path / "plan").read_bytes() == b"SHVREASNstreams are read by Python"


def test_a_date_that_no_row_can_match_is_not_even_a_task(small: SmallTable) -> None:
    _, tasks = planned(small.root, where="Size > 999")
    assert {slice_.key.value for task in tasks for slice_ in task.slices} == {NEXT}
    assert planned(small.root, where="Size > 1000000")[1] == []


def test_a_read_pins_what_was_there_at_load(small: SmallTable) -> None:
    source = DeephavenSource({"root": str(small.root), "path": "NS.T", "columns": "Px"})
    schema = source.schema()
    before = open_table(small.root, "NS.T").count()
    small.add("a", DAY, rows(5, 5000))
    small.add("c", NEXT, rows(5, 6000))
    again = pickle.loads(pickle.dumps(source))
    reader = again.reader(schema)
    assert sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task)) == before
    assert again._table is None  # so that the snapshot does not travel to every task


def test_a_pinned_read_outlives_the_epochs_that_are_kept(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "db")
    small.log(keep_epochs=1)
    small.add("a", DAY, rows(4))
    source = DeephavenSource({"root": str(small.root), "path": "NS.T"})
    schema = source.schema()
    for _ in range(5):
        small.add("a", DAY, rows(4))
    assert small.log().compact_if_due(now=True)
    with pytest.raises(TableNotFoundError):
        open_table(small.root, "NS.T", epoch=1)
    reader = pickle.loads(pickle.dumps(source)).reader(schema)
    assert sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task)) == 4


def test_a_rollback_meanwhile_is_an_error_and_no_mixture(small: SmallTable) -> None:
    reader, tasks = planned(small.root)
    small.log().rollback(1)
    with pytest.raises(SnapshotMovedError, match="rolled back"):
        for task in tasks:
            list(reader.read(task))


@pytest.mark.slow
def test_small_locations_share_tasks_and_large_ones_are_divided(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "db")
    small.commit(*(small.append(f"p{n}", DAY, rows(2)) for n in range(100)))
    _, tasks = planned(small.root)
    assert len(tasks) < 20
    assert sum(len(task.slices) for task in tasks) == 100
    small.add("large", NEXT, {"Size": pa.array(range(1_000_000), pa.int32())})
    options = {"dates": NEXT, "columns": "Size", "taskBytes": str(1 << 20)}
    _, tasks = planned(small.root, **options)
    assert 3 < len(tasks) < 9
    assert read(small.root, **options)["Size"].equals(pa.chunked_array([pa.array(range(1_000_000), pa.int32())]))


def test_an_instant_with_nanoseconds_needs_another_type(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "db", KINDS)
    exact, finer = 1_700_000_000_123_456_000, -1_500
    small.add("a", DAY, {"At": pa.array([exact, None, finer], pa.int64()).cast(pa.timestamp("ns", "UTC"))})
    with pytest.raises(SchemaMismatchError, match=r"(?s)nanoseconds.*instant=long.*instant=timestamp-truncate"):
        read(small.root, columns="At")
    assert read(small.root, columns="At", instant="long")["At"].to_pylist() == [exact, None, finer]
    rounded = read(small.root, columns="At", instant="timestamp-truncate")["At"].cast(pa.int64()).to_pylist()
    assert rounded == [exact // 1000, None, -2]  # towards minus infinity


def test_a_char_is_a_text_or_its_number(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "db", KINDS)
    small.add("a", DAY, {"C": [65, None, 0x20AC]})
    assert read(small.root, columns="C")["C"].to_pylist() == ["A", None, "€"]
    assert read(small.root, columns="C", char="int")["C"].to_pylist() == [65, None, 0x20AC]
    small.add("a", DAY, {"C": [0xD800]})
    with pytest.raises(SchemaMismatchError, match=r"(?s)surrogate U\+D800.*char=int"):
        read(small.root, columns="C")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"tiers": "all"}, SettingsError, "did you mean 'tier'"),
        ({"tier": "today"}, SettingsError, "unknown tier"),
        ({"epoch": "x"}, SettingsError, "option 'epoch' is not JSON"),
        ({"epoch": '{"s": -1}'}, SettingsError, "option 'epoch' is not an epoch"),
        ({"start": "latest"}, SettingsError, "option 'start' is for streams"),
        ({"maxRowsPerTrigger": "5"}, SettingsError, "'maxRowsPerTrigger' is for streams"),
        ({"taskBytes": "0"}, SettingsError, "is not a whole number from 1 on"),
        ({"taskBytes": "1"}, SettingsError, "'taskBytes' is not at least 1048576 (1 MiB)"),
        ({"taskBytes": "1048575"}, SettingsError, "Leave it out"),
        ({"location": "NS.T"}, SettingsError, "CREATE TEMPORARY VIEW v USING deephaven OPTIONS (root"),
        ({"Owner": "me"}, SettingsError, "a table of Spark's catalog cannot have this format"),
        ({"option.root": "/db"}, SettingsError, "CREATE TEMPORARY VIEW"),
        ({"skipSetAside": "yes"}, SettingsError, "is not true or false"),
        ({"instant": "ns"}, SettingsError, "timestamp | long"),
        ({"columns": "[1]"}, SettingsError, "option 'columns' is not a list of names"),
        ({"columns": "Pz"}, SchemaMismatchError, "no column 'Pz'"),
        ({"where": "Pz > 1"}, SchemaParseError, "Pz"),
        ({"root": ""}, SettingsError, "SPARKHAVEN_ROOT"),
        ({"path": "NS.U"}, TableNotFoundError, "NS.U"),
        ({"dates": "2020-01-01"}, TableNotFoundError, "no partition"),
        ({"dates": "2020-13-01"}, SettingsError, "malformed date"),
        ({"where": "Sym = AAPL"}, SchemaParseError, "in SQL: Sym = 'AAPL'"),
    ],
)
def test_an_option_that_cannot_be_used_is_reported(
    small: SmallTable, options: dict[str, str], error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as caught:
        read(small.root, **options)
    assert words in str(caught.value)


def test_the_schema_that_a_user_gives_must_be_that_of_the_table(small: SmallTable) -> None:
    source = DeephavenSource({"root": str(small.root), "path": "NS.T", "columns": "Px,Size"})
    given = StructType().add("Px", "double").add("Size", "integer")
    assert len(source.reader(given).partitions()) == 1  # no call of schema() before
    with pytest.raises(SchemaMismatchError, match="Px float"):
        source.reader(StructType().add("Px", "float").add("Size", "integer"))


def test_an_empty_table_gives_no_rows(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "db")
    small.log()
    reader, tasks = planned(small.root)
    assert tasks == [] and list(reader.read(InputPartition(None))) == []
