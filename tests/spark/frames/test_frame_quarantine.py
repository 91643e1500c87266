"""Rows of data frames that cannot be stored, in a real Delta: quarantined once, whatever is sent again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from sparkhaven.jobs.cli.main import app
from sparkhaven.jobs.dataframes.frame_writer import deephaven_writer, write_frame
from sparkhaven.readers import open_table
from sparkhaven.store.errors import ErrorBudgetExceeded, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.writers.merge.date_merges import merge_dates
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.quarantine.table import Quarantine
from sparkhaven.writers.removal.removal_proof import States, prove
from sparkhaven.writers.removal.row_removal import truncate
from tests.support.disks.model_fs import Crash, CrashingFs
from tests.support.spark.delta_cases import same_for_spark
from tests.support.spark.one_session import one_session

pytestmark = pytest.mark.spark

TABLE, STREAM = TableName("Test", "Fill"), "fills"
SCHEMA = b"""<Table namespace="Test" name="Fill" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="N" dataType="long"/>
  <Column name="Small" dataType="short"/>
  <Column name="At" dataType="Instant"/>
  <Column name="Px" dataType="double"/>
  <Column name="Ratio" dataType="float"/>
  <Column name="Src" dataType="String"/>
  <Column name="Ascii" dataType="String" symbolTable="None" encoding="US_ASCII"/>
  <Column name="Side" dataType="char"/>
</Table>
"""
DDL = "N bigint, Small int, At timestamp, Px double, Ratio double, Src string, Ascii string, Side string"
DDL += ", part int, off bigint"
AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
DAY = AT.date().isoformat()
ROUTE: dict[str, Any] = {
    "schema": SCHEMA,
    "internal": "Src",
    "value": "At",
    "bounds": {"clock": "2026-11-21T00:00:00Z", "max_past": "2 days"},
    "bad_rows": {"max_fraction": 1.0},
}
POSITIONS = {"positions": {"partition": "part", "offset": "off"}}
WRONG: list[tuple[str, Any, str]] = [
    ("N", -(2**63), "equals-the-null-value-of-the-type"),
    ("Small", 40_000, "overflow"),
    ("Small", -32_768, "equals-the-null-value-of-the-type"),
    ("At", None, "null-partition-value"),
    ("At", AT - timedelta(days=9), "instant-out-of-bounds"),
    ("Px", -1.7976931348623157e308, "equals-the-null-value-of-the-type"),
    ("Ratio", 1e39, "overflow"),
    ("Src", None, "null-internal-partition"),
    ("Src", "", "cannot-name-an-internal-partition"),
    ("Ascii", "€", "not-in-the-charset"),
    ("Ascii", "\0", "reads-back-as-the-empty-string"),
    ("Side", "BB", "not-one-character"),
]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with one_session() as spark:
        yield spark


def row(number: int, **changed: Any) -> dict[str, Any]:
    values = {"N": number, "Small": 1, "At": AT, "Px": float("nan"), "Ratio": 0.5, "Src": "a", "Ascii": "x"}
    return {**values, "Side": "B", "part": 0, "off": number, **changed}


def frame_of(spark: SparkSession, rows: list[dict[str, Any]], ddl: str = DDL) -> DataFrame:
    names = [part.split()[0] for part in ddl.split(", ")]
    return spark.createDataFrame([tuple(each[name] for name in names) for each in rows], ddl)


def mixed(start: int = 0) -> list[dict[str, Any]]:
    """Each wrong value behind a good row; the offset of a row is its number."""
    found = []
    for place, (name, value, _) in enumerate(WRONG):
        found += [row(start + 2 * place), row(start + 2 * place + 1, **{name: value})]
    return found


def numbers(root: Path) -> list[int]:
    return sorted(open_table(root, str(TABLE)).to_arrow(["N"])["N"].to_pylist())


def quarantined(spark: SparkSession, root: Path) -> list[tuple[str, int, str, int]]:
    """Source partition, position, reason and epoch of what is in the quarantine."""
    layout = Layout(root)
    parked = Quarantine(StreamPlace(Fs(), layout, TABLE, STREAM), layout.quarantine(STREAM), clock=lambda: 0.0)
    rows = same_for_spark(spark, parked) if parked.exists else []
    return sorted((r["SourcePartition"], r["Position"], r["Reason"], r["Epoch"]) for r in rows)


def test_by_position_each_wrong_row_is_parked_once_and_its_neighbours_are_stored(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows, count = mixed(), 2 * len(WRONG)
    options = ROUTE | POSITIONS
    done = write_frame(frame_of(spark, rows), tmp_path, str(TABLE), STREAM, **options)
    assert (done.epoch, done.rows, done.rejected) == (1, len(WRONG), len(WRONG))
    expected = [("source/0", 2 * n + 1, code, 1) for n, (_, _, code) in enumerate(WRONG)]
    assert (numbers(tmp_path), quarantined(spark, tmp_path)) == ([*range(0, count, 2)], expected)

    # a truncated date takes no more rows, where that was chosen
    options |= {"bounds": {**ROUTE["bounds"], "late": "quarantine"}}
    layout = Layout(tmp_path)
    add_partition(Fs(), layout, TABLE.namespace, "0")
    executor = LocalExecutor(1)
    for result in merge_dates(
        TablePlace(Fs(), layout, TABLE), [DAY], MergeOptions(), executor=executor, clock=lambda: 2e9
    ):
        assert result.error is None
    place = TablePlace(Fs(), layout, TABLE)
    truncate(States(place), proof=prove(place, DAY), clock=lambda: 2e9)
    more = [row(count), row(count + 1, Src="b"), row(count + 2, At=AT - timedelta(days=1))]
    tight: dict[str, Any] = options | {"bad_rows": {"max_rows": 0}}
    with pytest.raises(ErrorBudgetExceeded, match="more bad rows"):
        write_frame(frame_of(spark, more), tmp_path, str(TABLE), STREAM, **tight)

    # all of it again, and more: what is committed is not checked again
    done = write_frame(frame_of(spark, rows + more).repartition(2), tmp_path, str(TABLE), STREAM, **options)
    assert (done.epoch, done.rows, done.rejected) == (2, 2, 1)
    assert quarantined(spark, tmp_path) == [*expected, ("source/0", count, "late", 2)]
    assert numbers(tmp_path) == [*range(0, count, 2), count + 1, count + 2]


def test_without_positions_a_batch_and_its_wrong_rows_are_known_by_content(spark: SparkSession, tmp_path: Path) -> None:
    frame = frame_of(spark, mixed()).drop("part", "off").coalesce(1)
    for label in ("one", "one", "two"):
        write_frame(frame, tmp_path, str(TABLE), STREAM, label=label, **ROUTE)
    found = quarantined(spark, tmp_path)
    expected = [(f"@write {label}/0/task 0", n) for n, label in ((1, "one"), (2, "two"))]
    assert sorted({(place, epoch) for place, _, _, epoch in found}) == expected
    assert [code for _, _, code, _ in found] == [code for _, _, code in WRONG] * 2
    assert numbers(tmp_path) == sorted([*range(0, 2 * len(WRONG), 2)] * 2)


def test_rows_of_a_batch_that_died_go_before_it_comes_again(spark: SparkSession, tmp_path: Path) -> None:
    frame = frame_of(spark, [row(0), row(1, Small=40_000), row(2)])
    options: dict[str, Any] = ROUTE | POSITIONS
    writer = deephaven_writer(tmp_path, str(TABLE), STREAM, **options)
    writer._fs = CrashingFs(crash_at="commit-record:before")
    with pytest.raises(Crash):
        writer.write(frame, None, "q", 0)
    assert quarantined(spark, tmp_path) == [("source/0", 1, "overflow", 1)]
    mended = frame_of(spark, [row(0), row(1), row(2, Side="")])
    with deephaven_writer(tmp_path, str(TABLE), STREAM, **options) as again:
        again.write(mended, None, "q", 0)
    assert (numbers(tmp_path), quarantined(spark, tmp_path)) == ([0, 1], [("source/0", 2, "not-one-character", 1)])


def run(root: Path, *words: str, code: int = 0) -> tuple[list[dict[str, Any]], str]:
    done = CliRunner().invoke(app, ["--root", str(root), *words, "--json"])
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_commands_list_and_drop_such_rows_and_do_not_send_them_again(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    options: dict[str, Any] = ROUTE | POSITIONS | {"bad_rows": {"max_fraction": 0.5, "quarantine": place}}
    with pytest.raises(SettingsError, match="max_rows"):
        deephaven_writer(tmp_path, str(TABLE), STREAM, **(options | {"bad_rows": {"max_rows": "many"}}))
    rows = [row(0), row(1, Small=40_000), row(2), row(3, Side="BB")]
    write_frame(frame_of(spark, rows), tmp_path / "db", str(TABLE), STREAM, **options)
    listed, _ = run(tmp_path / "db", "quarantine", "list", str(TABLE), STREAM)
    assert [(each["position"], each["reason"], each["column"]) for each in listed] == [
        (1, "overflow", "Small"),
        (3, "not-one-character", "Side"),
    ]
    whole = json.loads(listed[0]["payload"])
    assert (whole["Small"], whole["N"], whole["Px"], whole["off"]) == (40_000, 1, "NaN", 1)
    for dry in ((), ("--dry-run",)):
        _, reported = run(tmp_path / "db", "quarantine", "requeue", str(TABLE), STREAM, *dry, code=2)
        assert "rows of data frames cannot be requeued" in reported and "write_frame(" in reported
    ((dropped,), _) = run(tmp_path / "db", "quarantine", "drop", str(TABLE), STREAM, "--reason", "overflow")
    assert dropped["dropped"] == 1
    assert len(run(tmp_path / "db", "quarantine", "list", str(TABLE), STREAM)[0]) == 1
