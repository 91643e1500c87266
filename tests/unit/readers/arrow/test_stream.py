"""A table as an Arrow stream: duckdb, polars, pandas and pyarrow take it as it is."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest

from sparkhaven.readers import Snapshot, open_table
from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.testing import make_table
from tests.support.tables.small_tables import SmallTable
from tests.support.writers.merge_cases import ARROW, random_row
from tests.support.writers.merge_cases import SCHEMA as EVERY

D1, D2, D3 = "2024-03-05", "2024-03-06", "2024-03-07"


def rows(count: int, seed: int) -> dict[str, list[Any]]:
    rng = random.Random(seed)
    made = [random_row(rng) for _ in range(count)]
    return {name: pa.array([row[name] for row in made], ARROW[name]).to_pylist() for name in ARROW}


@pytest.fixture
def every(tmp_path: Path) -> SmallTable:
    """Every column type; the first date is in history, the second in both tiers, the third intraday."""
    made = SmallTable(tmp_path, EVERY.decode())
    for number, date in enumerate((D1, D2, D3)):
        made.add("a", date, rows(40, number))
        made.add("b", date, rows(30, 10 + number))
    for date in (D1, D2):
        made.merge_by_hand(date)
    made.add("a", D2, rows(20, 20))
    return made


def by_duckdb(table: Snapshot) -> pa.Table:
    with duckdb.connect() as connection:
        connection.register("mine", table)
        connection.execute("set TimeZone = 'UTC'")
        return connection.sql("from mine").to_arrow_table()


CONSUMERS: dict[str, Callable[[Snapshot], pa.Table]] = {
    "duckdb": by_duckdb,
    "polars": lambda table: polars.DataFrame(table).to_arrow(),
    "pandas": lambda table: pa.Table.from_pandas(pa.table(table).to_pandas(types_mapper=_nullable)),
    "pyarrow": pa.table,
    "pyarrow reader": lambda table: pa.RecordBatchReader.from_stream(table).read_all(),
}


def _nullable(kind: pa.DataType) -> Any:
    import pandas

    return pandas.ArrowDtype(kind)


@pytest.mark.slow
@pytest.mark.parametrize("consumer", CONSUMERS)
def test_every_type_arrives_with_nulls_from_both_tiers(every: SmallTable, consumer: str) -> None:
    table = open_table(every.root, "Test.Every")
    expected = table.to_arrow(dictionaries=False)
    assert expected.num_rows == 230 and all(column.null_count for column in expected.columns[1:])
    for _ in range(2):  # each stream is a new one
        found = CONSUMERS[consumer](table)
        assert repr(found.cast(expected.schema).to_pylist()) == repr(expected.to_pylist())


def test_nanoseconds_are_exact_in_each_consumer(tmp_path: Path) -> None:
    made = SmallTable(tmp_path)
    made.add("a", D1, {"At": [1_700_000_000_000_000_123]})
    table = open_table(tmp_path, "NS.T")
    with duckdb.connect() as connection:
        connection.register("mine", table)
        assert connection.sql('select epoch_ns("At") from mine').fetchall() == [(1_700_000_000_000_000_123,)]
    assert polars.DataFrame(table)["At"].cast(polars.Int64).to_list() == [1_700_000_000_000_000_123]
    assert pa.table(table).to_pandas()["At"][0].value == 1_700_000_000_000_000_123


def test_a_frame_of_pandas_has_what_numpy_cannot_hold(tmp_path: Path) -> None:
    longs, clock = [2**53 + 1, None], pa.array([1, None], pa.time64("ns"))
    make_table(tmp_path, "NS.T", pa.table({"Long": longs, "Longs": [longs, None], "Clock": clock, "Int": [1, 2]}))
    snapshot = open_table(tmp_path, "NS.T")
    frame = snapshot.to_pandas(columns := ["Long", "Longs", "Clock", "Int"])
    assert [str(kind) for kind in frame.dtypes] == ["Int64", "object", "time64[ns][pyarrow]", "int64"]
    found = pa.Table.from_pandas(frame, snapshot.arrow_schema(columns), preserve_index=False)
    assert found.equals(snapshot.to_arrow(columns))
    assert snapshot.to_pandas("Long")["Long"].to_list()[0] == 2**53 + 1  # no other column


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_a_table_without_rows(tmp_path: Path, consumer: str) -> None:
    made = SmallTable(tmp_path, EVERY.decode())
    made.log().close()
    table = open_table(tmp_path, "Test.Every")
    found = CONSUMERS[consumer](table)
    assert found.num_rows == 0
    assert found.column_names == table.arrow_schema().names


@pytest.mark.slow
@pytest.mark.parametrize("consumer", CONSUMERS)
def test_a_snapshot_stays_while_a_writer_commits(every: SmallTable, consumer: str) -> None:
    table = open_table(every.root, "Test.Every")
    every.append("a", D3, rows(5, 30))
    assert CONSUMERS[consumer](table).num_rows == 230
    every.add("b", D3, rows(5, 31))
    every.add("new", D3, rows(5, 32))
    assert CONSUMERS[consumer](table).num_rows == 230
    assert CONSUMERS[consumer](open_table(every.root, "Test.Every")).num_rows == 240


def test_texts_can_be_grouped_and_compared(every: SmallTable) -> None:
    table = open_table(every.root, "Test.Every")
    assert pa.table(table).group_by("Date").aggregate([("I", "count")]).num_rows == 3
    frame = pa.table(table).to_pandas()
    assert len(frame[frame["Date"] > D1]) == 160


def test_batches_with_columns_and_where_are_a_stream_too(every: SmallTable) -> None:
    table = open_table(every.root, "Test.Every")
    found = polars.DataFrame(table.to_batches(["Sym", "I"], where="I > 0", dates=D2))
    expected = table.to_arrow(["Sym", "I"], where="I > 0", dates=D2)
    assert found.rows() == list(zip(*(column.to_pylist() for column in expected.columns), strict=True))


def test_a_requested_schema_is_honoured(every: SmallTable) -> None:
    table = open_table(every.root, "Test.Every")
    own = table.arrow_schema(dictionaries=False)
    wanted = own.set(1, pa.field("Sym", pa.dictionary(pa.int32(), pa.string()))).set(
        3, pa.field("Note", "large_string")
    )
    wanted = wanted.set(wanted.get_field_index("I"), pa.field("I", pa.int64()))
    found = pa.RecordBatchReader.from_stream(table, schema=wanted).read_all()
    assert found.schema == wanted
    assert repr(found.cast(own).to_pylist()) == repr(table.to_arrow(dictionaries=False).to_pylist())


def test_a_requested_schema_that_does_not_fit_is_reported(every: SmallTable) -> None:
    every.add("c", D3, {"L": [1 << 40]})
    table = open_table(every.root, "Test.Every")
    own = table.arrow_schema(dictionaries=False)
    with pytest.raises(SchemaMismatchError, match="other fields than the table"):
        pa.RecordBatchReader.from_stream(table, schema=pa.schema([("I", pa.int32())]))
    unlike = own.set(own.get_field_index("T"), pa.field("T", pa.list_(pa.int8())))
    with pytest.raises(SchemaMismatchError, match="cannot be cast"):
        pa.RecordBatchReader.from_stream(table, schema=unlike)
    narrow = own.set(own.get_field_index("L"), pa.field("L", pa.int8()))
    with pytest.raises(pa.ArrowInvalid, match="not in range"):
        pa.RecordBatchReader.from_stream(table, schema=narrow).read_all()


@pytest.mark.slow
@pytest.mark.parametrize("consumer", CONSUMERS)
def test_a_damaged_file_is_reported_in_mid_stream(every: SmallTable, consumer: str) -> None:
    table = open_table(every.root, "Test.Every")
    path = every.location("b", D3) / "L.dat"
    path.unlink()
    with pytest.raises(Exception, match="a committed file is missing") as caught:
        CONSUMERS[consumer](table)
    assert str(path) in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("consumer", CONSUMERS)
def test_rows_that_left_the_snapshot_are_reported(every: SmallTable, consumer: str) -> None:
    table = open_table(every.root, "Test.Every")
    every.log().rollback(5)
    with pytest.raises(Exception, match=r"rolled back|was removed|left the snapshot"):
        CONSUMERS[consumer](table)
