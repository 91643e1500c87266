"""One feed into several tables in Spark: several tasks a batch, each of which decodes its files once for all tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sparkhaven.jobs.streams.runners import SparkRunner
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from tests.support.ingest.several_tables import COLUMNS, read, rows, stored
from tests.support.streams.table_runs import TableRuns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.jvm, pytest.mark.spark]
TABLES = list(COLUMNS)
FILES = 12
PAD = (3 << 20) * b" " + b"\n"  # so that the files are more than one task does alone


def test_several_tasks_feed_three_tables(spark: SparkSession, tmp_path: Path) -> None:
    runs = TableRuns(tmp_path, "files", TABLES, runner=SparkRunner(spark))
    for number in range(FILES):
        runs.put(number, rows(4 * number, 4 * number + 4))
        with (tmp_path / "feed" / f"{number}.json").open("ab") as file:
            file.write(PAD)
    assert runs.run(Fs(), tmp_path / "db", FILES) == [16, 16, 16]
    every = rows(0, 4 * FILES)
    assert {table: read(tmp_path / "db", table) for table in TABLES} == {t: stored(every, t) for t in TABLES}
    places = [StreamPlace(Fs(), Layout(tmp_path / "db"), TableName.parse(table), "md") for table in TABLES]
    assert [load_stream(place).epoch for place in places] == [2, 2, 2]
    assert runs.run(Fs(), tmp_path / "db", FILES) == [0, 0, 0]
