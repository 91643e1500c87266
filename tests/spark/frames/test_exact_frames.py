"""Every Spark type into every column type through the four ways to write frames: exact, or refused. Real Spark."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import sparkhaven
from sparkhaven import errors
from sparkhaven.store.conversions.conversion_table import COLUMNS, PARTITION, rule, source_of
from tests.contracts.test_conversions import SPARK, same, values
from tests.support.ingest.conversions.values import BAD, expected, sources

pytestmark = pytest.mark.spark

DAY = "2026-11-20"
NONE, LOSSY = frozenset[str](), frozenset({"lossy"})
ARRAYS = {name: array for name, array in sources().items() if name in SPARK.keys() - {"null"}}
Door = Callable[[DataFrame, Path, bytes, bool], None]


def cells(given: frozenset[str]) -> dict[str, tuple[pa.Array, str, list[Any]]]:
    """Source, column type and stored values of each cell that takes some, by the name of its column."""
    made = {}
    for source, array in ARRAYS.items():
        for column in COLUMNS:
            if column == PARTITION or not rule(source_of(array.type), column).takes(given):
                continue
            if (source, column) == ("int64", "Instant"):
                continue  # a bigint is nanoseconds, and has a test of its own
            wanted = [expected(value, array.type, column, given) for value in values(array)]
            kept = [row for row, value in enumerate(wanted) if value != BAD]
            name = f"{source}_{column}".replace(" ", "_")
            made[name] = array.take(pa.array(kept)), column, [wanted[row] for row in kept]
    return made


def schema(columns: dict[str, str]) -> bytes:
    """A table of these columns and ``n``."""
    stored = "".join(f'<Column name="{name}" dataType="{kind}"/>' for name, kind in {"n": "int", **columns}.items())
    return (
        '<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">'
        '<Partitions keyFormula="${autobalance_single}"/>'
        '<Column name="Date" dataType="String" columnType="Partitioning"/>'
        f"{stored}</Table>"
    ).encode()


def options(lossy: bool) -> dict[str, Any]:
    return {"internal": {"fixed": "a"}, "value": {"fixed": DAY}, "lossy": lossy}


def texts(place: Path, table: bytes, lossy: bool) -> dict[str, str]:
    (place / "t.schema").write_bytes(table)
    given = {"root": str(place / "db"), "schema": str(place / "t.schema"), "stream": "s", "lossy": str(lossy).lower()}
    return given | {"internal": '{"fixed": "a"}', "value": f'{{"fixed": "{DAY}"}}'}


def saved(frame: DataFrame, place: Path, table: bytes, lossy: bool) -> None:
    frame.write.format("deephaven").mode("append").options(**texts(place, table, lossy)).save("NS.T")


def framed(frame: DataFrame, place: Path, table: bytes, lossy: bool) -> None:
    sparkhaven.write_frame(frame, place / "db", "NS.T", "s", schema=table, **options(lossy))


def followed(frame: DataFrame, place: Path) -> Any:
    """The frame as a stream of files."""
    frame.coalesce(1).write.parquet(str(place / "feed"))
    stream = frame.sparkSession.readStream.schema(frame.schema).parquet(str(place / "feed"))
    return stream.writeStream.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True)


def sunk(frame: DataFrame, place: Path, table: bytes, lossy: bool) -> None:
    writing = followed(frame, place).format("deephaven").options(**texts(place, table, lossy))
    writing.start("NS.T").awaitTermination(120)


def batched(frame: DataFrame, place: Path, table: bytes, lossy: bool) -> None:
    with sparkhaven.deephaven_writer(place / "db", "NS.T", "s", schema=table, **options(lossy)) as writer:
        followed(frame, place).foreachBatch(writer).start().awaitTermination(120)


DOORS: dict[str, Door] = {"df.write": saved, "write_frame": framed, "writeStream": sunk, "deephaven_writer": batched}


@pytest.mark.parametrize("lossy", [False, True], ids=["exact", "lossy"])
@pytest.mark.parametrize("door", DOORS)
def test_every_cell_stores_what_it_holds(spark: SparkSession, tmp_path: Path, door: str, lossy: bool) -> None:
    made = cells(LOSSY if lossy else NONE)
    count = max(len(array) for array, _, _ in made.values())
    columns = {"n": pa.array(range(count), pa.int32())}
    for name, (array, _, _) in made.items():
        columns[name] = array.take(pa.array([*range(len(array)), *[None] * (count - len(array))], pa.int64()))
    frame = spark.createDataFrame(pa.table(columns))
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    assert {types[name] for name in made} >= {"boolean", "tinyint", "bigint", "double", "decimal(38,2)", "timestamp"}
    DOORS[door](frame, tmp_path, schema({name: kind for name, (_, kind, _) in made.items()}), lossy)
    table = sparkhaven.open_table(tmp_path / "db", "NS.T").to_arrow(dictionaries=False).sort_by("n")
    wrong = {}
    for name, (array, kind, wanted) in made.items():
        column = table[name].cast(pa.int64()) if kind == "Instant" else table[name]
        pairs = zip(column.to_pylist(), [*wanted, *[None] * (count - len(array))], strict=True)
        wrong[name] = [(found, want) for found, want in pairs if not same(found, want)]
    assert {name: pairs for name, pairs in wrong.items() if pairs} == {}
    assert len(made) > 40


REFUSED = [
    (pa.array([0.1]), "float"),
    (pa.array([1e39]), "float"),
    (pa.array([2**53 + 1], pa.int64()), "double"),
    (pa.array([2**24 + 1], pa.int32()), "float"),
    (pa.array([2**63 - 1], pa.int64()), "float"),
    (pa.array([Decimal("0.10")], pa.decimal128(38, 2)), "double"),
    (pa.array([Decimal("9007199254740993")], pa.decimal128(38, 0)), "double"),
    (pa.array([Decimal("0.1")], pa.decimal128(3, 1)), "float"),
    (pa.array([0.5]), "int"),
    (pa.array([float("nan")]), "long"),
    (pa.array([Decimal("0.5")], pa.decimal128(3, 1)), "long"),
    (pa.array([40_000], pa.int32()), "short"),
    (pa.array([2], pa.int8()), "Boolean"),
]


@pytest.mark.parametrize("door", DOORS)
def test_a_value_that_is_not_exact_is_refused_with_nothing_stored(
    spark: SparkSession, tmp_path: Path, door: str
) -> None:
    chosen = REFUSED if door == "write_frame" else REFUSED[2:7:4] if door == "df.write" else REFUSED[2:3]
    for number, (array, kind) in enumerate(chosen):
        place = tmp_path / str(number)
        place.mkdir()
        frame = spark.createDataFrame(pa.table({"n": pa.array([0], pa.int32()), "v": array}))
        with pytest.raises(Exception) as caught:
            DOORS[door](frame, place, schema({"v": kind}), False)
        found = errors.from_spark(caught.value)
        assert isinstance(found, errors.ErrorBudgetExceeded), (array, kind, caught.value)
        assert sparkhaven.open_table(place / "db", "NS.T").count() == 0
        if kind in ("float", "double") and number < 3:
            DOORS["write_frame"](frame, place, schema({"v": kind}), True)
            (stored,) = sparkhaven.open_table(place / "db", "NS.T").to_arrow("v")["v"].to_pylist()
            assert stored == expected(values(array)[0], array.type, kind, LOSSY)


def test_a_bigint_is_an_instant_in_nanoseconds_and_other_types_are_none(spark: SparkSession, tmp_path: Path) -> None:
    ns = pa.array([1, -1, 2**63 - 1, None], pa.int64())
    frame = spark.createDataFrame(pa.table({"n": pa.array(range(4), pa.int32()), "v": ns}))
    framed(frame, tmp_path, schema({"v": "Instant"}), False)
    table = sparkhaven.open_table(tmp_path / "db", "NS.T").to_arrow().sort_by("n")
    assert table["v"].cast(pa.int64()).to_pylist() == ns.to_pylist()
    for source, array in ARRAYS.items():
        for column in COLUMNS:
            if column == PARTITION or rule(source_of(array.type), column).takes() or source == "int64":
                continue
            place = tmp_path / f"{source}_{column}"
            place.mkdir()
            frame = spark.createDataFrame(pa.table({"n": pa.array([0], pa.int32()), "v": array.slice(0, 1)}))
            if source == "local us":  # Spark takes it for a timestamp of the session's zone
                frame = frame.withColumn("v", frame.v.cast("timestamp_ntz"))
            with pytest.raises(errors.SchemaMismatchError, match=f"cannot be stored as {column}"):
                framed(frame, place, schema({"v": column}), False)
