"""Data frames of numbered rows, and the table that must come of them."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sparkhaven.jobs.dataframes.frame_writer import FrameWriter, deephaven_writer
from sparkhaven.readers import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace, TablePlace
from tests.support.streams.stream_logs import open_stream_log

TABLE, STREAM = TableName("Test", "Quote"), "frames"
SCHEMA = b"""<Table namespace="Test" name="Quote" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="N" dataType="long"/>
  <Column name="Small" dataType="short"/>
  <Column name="At" dataType="Instant"/>
  <Column name="Px" dataType="double"/>
  <Column name="Sym" dataType="String"/>
  <Column name="Note" dataType="String" symbolTable="None"/>
  <Column name="Side" dataType="char"/>
  <Column name="Live" dataType="Boolean"/>
</Table>
"""
DDL = "N bigint, Small int, At timestamp, Px double, Sym string, Note string, Side string, Live boolean"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START = datetime(2026, 11, 20, tzinfo=UTC)
ROUTE: dict[str, Any] = {
    "schema": SCHEMA,
    "internal": "Sym",
    "value": "At",
    "bounds": {"max_past": "36500d", "max_future": "36500d"},
}
POSITIONS = {"partition": "part", "offset": "off"}


def row(number: int) -> dict[str, Any]:
    """A row whose other values follow from its number."""
    return {
        "N": number,
        "Small": number % 100,
        "At": START + timedelta(hours=number, microseconds=number),
        "Px": number / 8,
        "Sym": "ab"[number % 2],
        "Note": None if number % 3 == 0 else f"é{number}",
        "Side": "BS"[number % 2],
        "Live": None if number % 5 == 0 else number % 2 == 0,
    }


def put(feed: Path, name: str, numbers: range, place: tuple[int, int] | None = None) -> None:
    """A file of rows; ``place`` is partition and offset of the first."""
    feed.mkdir(exist_ok=True)
    rows = []
    for step, number in enumerate(numbers):
        extra = {} if place is None else {"part": place[0], "off": place[1] + step}
        rows.append(json.dumps({**row(number), **extra}, default=str) + "\n")
    path = feed / name
    path.write_text("".join(rows), encoding="utf-8")
    stamp = 1_700_000_000 + int("".join(filter(str.isdigit, name)))
    os.utime(path, (stamp, stamp))


def source(spark: SparkSession, feed: Path, *, placed: bool, files: int = 1) -> DataFrame:
    ddl = DDL + (", part int, off bigint" if placed else "")
    return spark.readStream.schema(ddl).option("maxFilesPerTrigger", files).json(str(feed))


def run(frame: DataFrame, writer: FrameWriter, checkpoint: Path) -> None:
    """Takes what is there; the writer is closed."""
    with writer:
        stream = frame.writeStream.foreachBatch(writer).trigger(availableNow=True)
        stream.option("checkpointLocation", str(checkpoint)).start().awaitTermination()


def writer(root: Path, *, placed: bool, **options: Any) -> FrameWriter:
    return deephaven_writer(root, str(TABLE), STREAM, positions=POSITIONS if placed else None, **(ROUTE | options))


def numbers(root: Path) -> list[int]:
    """All rows, sorted; each must be whole and in the location that it routes to."""
    table = open_table(root, str(TABLE)).to_arrow()
    found, instants = table.to_pylist(), table["At"].cast("int64").to_pylist()
    for stored, instant in zip(found, instants, strict=True):
        expected = row(stored["N"])
        assert stored["Side"] == ord(expected["Side"])
        assert instant == (expected["At"] - EPOCH) // timedelta(microseconds=1) * 1000
        for name in ("Small", "Px", "Sym", "Note", "Live"):
            assert stored[name] == expected[name]
        assert stored["Date"] == expected["At"].date().isoformat()
    # a batch that was refused leaves tails, until the next one cuts them
    assert [f for f in verify(Fs(), Layout(root), TABLE, deep=True).findings if f.severity == "error"] == []
    return sorted(stored["N"] for stored in found)


def epochs(root: Path) -> int:
    """The newest epoch; 0 without a stream, as after a first write that failed."""
    if STREAM not in list_streams(TablePlace(Fs(), Layout(root), TABLE)):
        return 0
    return load_stream(StreamPlace(Fs(), Layout(root), TABLE, STREAM)).epoch


def rolled_back(root: Path, to: int) -> None:
    with open_stream_log(StreamPlace(Fs(), Layout(root), TABLE, STREAM), None) as log:
        log.rollback(to)
