"""The Spark source without Spark: offsets, limits, restarts, runs of files."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles, ReadMaxRows

from sparkhaven.ingest.content.raw_file import MIN_PART
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.feeds.files.source import (
    FILE_COST,
    SCHEMA,
    FileRun,
    FilesReader,
    FilesStream,
    group_files,
)
from sparkhaven.ingest.spec import Limit
from sparkhaven.store.epochs.state.log_values import FileId, FilePart
from sparkhaven.store.errors import PositionGapError, carried_error
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName
from sparkhaven.writers.batch.collect import by_position
from sparkhaven.writers.batch.stream_batches import file_of
from tests.support.ingest.ingest_cases import file_id

NOW = 1_400_000_000
START: dict[str, Any] = {"n": 0, "files": []}


def _feed(path: Path, count: int, size: int = 100) -> list[FileId]:
    path.mkdir(exist_ok=True)
    for n in range(count):
        (path / f"{n}").write_bytes(b"x" * size)
        os.utime(path / f"{n}", (NOW - 100 + n, NOW - 100 + n))
    return [file_id(path / f"{n}") for n in range(count)]


def _reader(tmp_path: Path, limit: Limit | None = None, tasks: int = 2) -> FilesReader:
    feed = FilesOptions(str(tmp_path / "feed"), max_per_trigger=limit or Limit())
    stream = FilesStream(tmp_path / "db", TableName("A", "B"), "s", feed, tasks)
    return FilesReader(Fs(), stream, lambda: float(NOW))


def _rows(offset: dict[str, Any]) -> list[FileId]:
    return [FileId(*row) for row in json.loads(json.dumps(offset))["files"]]


def test_offsets_hold_the_files_of_their_batch(tmp_path: Path) -> None:
    files = _feed(tmp_path / "feed", 3)
    reader = _reader(tmp_path, Limit(files=2))
    assert reader.initialOffset() == START
    assert reader.getDefaultReadLimit() == ReadMaxFiles(2)
    first = reader.latestOffset(START, ReadMaxFiles(2))
    assert (first["n"], _rows(first)) == (1, files[:2])
    said = {
        "waiting_files": 1,
        "waiting_bytes": 100,
        "older_files": 0,
        "older": [],
        "growing": [],
        "passed": {},
        "remarks": [],
    }
    assert reader.reportLatestOffset() == {"n": 1, **said}
    assert [row[3:] for run in reader.partitions(START, first) for row in reader.read(run)] == [(0, 1, 0, 100)] * 2
    second = reader.latestOffset(first, ReadMaxFiles(2))
    assert (second["n"], _rows(second)) == (2, files[2:])
    assert reader.latestOffset(second, ReadMaxFiles(2)) == second
    assert reader.partitions(second, second) == []


def test_limits_of_spark_and_our_own(tmp_path: Path) -> None:
    _feed(tmp_path / "feed", 9)
    both = Limit(bytes=500, files=3)
    assert _reader(tmp_path, both).getDefaultReadLimit() == ReadMaxBytes(500)
    assert _reader(tmp_path, Limit(rows=7)).getDefaultReadLimit() == ReadMaxRows(7)
    assert isinstance(_reader(tmp_path).getDefaultReadLimit(), ReadAllAvailable)
    assert len(_rows(_reader(tmp_path, both).latestOffset(START, ReadMaxBytes(500)))) == 3
    assert len(_rows(_reader(tmp_path, both).latestOffset(START, ReadMaxBytes(200)))) == 2
    assert len(_rows(_reader(tmp_path, both).latestOffset(START, ReadAllAvailable()))) == 9


def test_restart_with_an_offset_that_the_log_does_not_know(tmp_path: Path) -> None:
    files = _feed(tmp_path / "feed", 4)
    planned = {"n": 7, "files": [[f.path, f.size, f.mtime_ns] for f in files[:2]]}
    reader = _reader(tmp_path)
    assert [row for run in reader.partitions(START, planned) for row in _read(reader, run)] == files[:2]
    after = reader.latestOffset(planned, ReadAllAvailable())
    assert (after["n"], _rows(after)) == (8, files[2:])


def test_newcomers_too_old_to_be_taken_are_counted_and_the_last_are_named(tmp_path: Path) -> None:
    _feed(tmp_path / "feed", 1)
    reader = _reader(tmp_path)
    first = reader.latestOffset(START, ReadAllAvailable())
    for n in range(7):
        path = tmp_path / "feed" / f"late-{n}"
        path.write_bytes(b"x")
        os.utime(path, (NOW - 30 * 86_400,) * 2)
    os.utime(tmp_path / "feed", (NOW, NOW))
    assert reader.latestOffset(first, ReadAllAvailable()) == first
    said = reader.reportLatestOffset()
    assert said["older_files"] == 7
    assert [Path(path).name for path in said["older"]] == [f"late-{n}" for n in range(2, 7)]
    assert reader.latestOffset(first, ReadAllAvailable()) == first
    assert reader.reportLatestOffset() == said


def test_available_now_ends(tmp_path: Path) -> None:
    _feed(tmp_path / "feed", 2)
    reader = _reader(tmp_path)
    reader.prepareForTriggerAvailableNow()
    (tmp_path / "feed" / "later").write_bytes(b"x")
    first = reader.latestOffset(START, ReadAllAvailable())
    assert len(_rows(first)) == 2
    assert reader.latestOffset(first, ReadAllAvailable()) == first


def test_changed_file_travels_as_our_error(tmp_path: Path) -> None:
    files = _feed(tmp_path / "feed", 1)
    reader = _reader(tmp_path)
    first = reader.latestOffset(START, ReadAllAvailable())
    (tmp_path / "feed" / "0").write_bytes(b"xyz")
    with pytest.raises(Exception, match="changed after it was taken") as caught:
        reader.latestOffset(first, ReadAllAvailable())
    ours = carried_error(str(caught.value))
    assert isinstance(ours, PositionGapError)
    assert (ours.where, ours.expected) == (files[0].path, f"100 bytes, modified at {files[0].mtime_ns} ns")


@pytest.mark.parametrize(
    ("sizes", "tasks", "expected"),
    [
        ([], 2, []),
        ([1, 1, 1], 2, [3]),
        ([10, 10, 10, 10], 2, [2, 2]),
        ([30, 10, 10, 10], 2, [1, 3]),
        ([10, 10, 10, 30], 2, [3, 1]),
        ([10] * 7, 3, [2, 3, 2]),
        ([90, 1, 1], 3, [1, 1, 1]),
        ([50], 4, [1]),
    ],
)
def test_runs_are_contiguous_and_about_even(sizes: list[int], tasks: int, expected: list[int]) -> None:
    files = [FileId(f"/{n}", size, n) for n, size in enumerate(sizes)]
    runs = group_files(files, tasks, small=5, per_file=0)
    assert [len(run) for run in runs] == expected
    assert [file for run in runs for file in run] == files


def test_small_files_are_shared_out_by_their_number() -> None:
    files = [FileId(f"/{n}", 100, n) for n in range(1000)]
    assert [len(run) for run in group_files(files, 4)] == [250] * 4
    assert [len(run) for run in group_files(files[:100], 4)] == [100]


@pytest.mark.parametrize("tasks", [2, 3, 7])
def test_a_large_file_is_cut_where_the_runs_meet(tasks: int) -> None:
    sizes = (MIN_PART // 4, 40 * MIN_PART + 3, MIN_PART // 2)
    files = [FileId(f"/{n}", size, n) for n, size in enumerate(sizes)]
    runs = group_files(files, tasks, cuttable=lambda file: True)
    assert len(runs) == tasks
    costs = [sum(f.stop - f.start if isinstance(f, FilePart) else f.size for f in run) for run in runs]
    assert max(costs) - min(costs) < 1 << 18
    assert list(by_position([split for run in runs for split in run])) == files
    assert [len(run) for run in group_files(files, 2)] == [2, 1]


def test_a_file_whose_parts_would_be_small_is_not_cut() -> None:
    file = FileId("/a", 2 * MIN_PART - 2, 1)
    assert group_files([file], 2, cuttable=lambda file: True) == [(file,)]
    assert len(group_files([replace(file, size=3 * MIN_PART)], 2, cuttable=lambda file: True)) == 2


def test_parts_go_the_way_to_the_driver_and_back(tmp_path: Path) -> None:
    file = tmp_path / "feed" / "big.json"
    file.parent.mkdir()
    with file.open("wb") as out:
        out.truncate(4 * MIN_PART)
    os.utime(file, (NOW - 100, NOW - 100))
    feed = FilesOptions(str(file.parent))
    stream = FilesStream(tmp_path / "db", TableName("A", "B"), "s", feed, 2)
    reader = FilesReader(Fs(), stream, lambda: float(NOW), parts=True)
    end = reader.latestOffset(START, ReadAllAvailable())
    names = [column.split()[0] for column in SCHEMA.split(", ")]
    rows = [dict(zip(names, row, strict=True)) for run in reader.partitions(START, end) for row in reader.read(run)]
    parts = [file_of(row) for row in rows]
    assert [(part.start, part.stop) for part in parts if isinstance(part, FilePart)] == [
        (0, 2 * MIN_PART - FILE_COST // 2),
        (2 * MIN_PART - FILE_COST // 2, 4 * MIN_PART),
    ]
    assert list(by_position(parts)) == [file_id(file)] and _rows(end) == [file_id(file)]


def _read(reader: FilesReader, run: Any) -> list[FileId]:
    assert isinstance(run, FileRun)
    return [FileId(*row[:3]) for row in reader.read(run)]
