"""What a planner leaves for the driver is taken for its own batch only."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadMaxFiles

from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.feeds.files.source import FilesReader, FilesStream
from sparkhaven.ingest.spec import Limit
from sparkhaven.store.batch_plan import leave_plan, planned_rows
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName

FS = Fs()
ROWS = [{"path": "/feed/a", "size": 1, "mtime_ns": 2, "task": 0, "waiting": 0}]


def record_of(tmp_path: Path, text: str) -> Path:
    (tmp_path / "7").write_text(text)
    return tmp_path / "7"


def test_rows_of_the_recorded_batch(tmp_path: Path) -> None:
    offsets = record_of(tmp_path, 'v1\n{"batchWatermarkMs":0}\n{"files": [], "n":1}')
    assert planned_rows(FS, tmp_path / "scratch", offsets) is None
    leave_plan(FS, tmp_path / "scratch", {"n": 1, "files": []}, ROWS)
    assert planned_rows(FS, tmp_path / "scratch", offsets) == ROWS
    assert planned_rows(FS, tmp_path / "scratch", tmp_path / "8") is None  # no record of Spark's


@pytest.mark.parametrize(
    "text", ['v1\n{}\n{"n": 2, "files": []}', 'v2\n{}\n{"n": 1, "files": []}', "v1\n{}\n{", "v1", "", "v1\n{}\n-"]
)
def test_another_record_is_left_to_spark(tmp_path: Path, text: str) -> None:
    leave_plan(FS, tmp_path / "scratch", {"n": 1, "files": []}, ROWS)
    assert planned_rows(FS, tmp_path / "scratch", record_of(tmp_path, text)) is None


def test_a_plan_that_is_torn_is_left_to_spark(tmp_path: Path) -> None:
    offsets = record_of(tmp_path, 'v1\n{}\n{"n": 1}')
    leave_plan(FS, tmp_path / "scratch", {"n": 1}, ROWS)
    os.truncate(tmp_path / "scratch" / "planned.json", 9)
    assert planned_rows(FS, tmp_path / "scratch", offsets) is None


def test_every_batch_is_left_with_the_task_of_each_file(tmp_path: Path) -> None:
    (tmp_path / "feed").mkdir()
    for number, size in enumerate((10, 10, 6 << 20, 6 << 20)):
        with (tmp_path / "feed" / str(number)).open("wb") as file:
            file.truncate(size)
        os.utime(tmp_path / "feed" / str(number), (1_400_000_000 + number,) * 2)
    table, feed = TableName("A", "B"), FilesOptions(str(tmp_path / "feed"), max_per_trigger=Limit(files=2))
    stream = FilesStream(tmp_path / "db", table, "s", feed, 2)
    reader = FilesReader(FS, stream, lambda: 1_400_000_100.0)
    plan = Layout(tmp_path / "db").scratch(table, "s") / "planned.json"
    end = reader.initialOffset()
    for number, tasks in ((1, [0, 0]), (2, [0, 1])):
        end = reader.latestOffset(end, ReadMaxFiles(2))
        left = json.loads(plan.read_text())
        assert left["end"] == end and end["n"] == number
        assert [(row["task"], row["waiting"]) for row in left["rows"]] == [(task, 4 - 2 * number) for task in tasks]
