"""The writer of log tables: several at once, disks that are full or hang, and that it holds nobody up."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.jobs.monitor.logs.log_tables import ADMIN, MERGE, STORAGE
from sparkhaven.jobs.monitor.logs.log_writer import STREAMS, LogPace, LogWriter, stream_name
from sparkhaven.jobs.monitor.metrics.stream_metrics import Metrics
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.epochs.generation import Opening
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.errors import RetryableStorageError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.schema.deployed.deploy import deploy
from tests.support.disks.model_fs import QuickFs
from tests.support.streams.log_rows import DAY, NOW, add, rows_of


def test_two_processes_at_once_have_a_stream_each_and_a_later_one_takes_the_first(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert add(tmp_path, ADMIN, {"Command": "a"}) == 1
    schema = deploy(Fs(), layout, ADMIN.schema())
    args: dict[str, Any] = {"schema": schema, "query_id": "q", "clock": lambda: NOW, "pid": 1, "host": "h"}
    with StreamLog.open(
        StreamPlace(Fs(), layout, ADMIN.table, stream_name(0)), Opening(**args)
    ):  # another process writes
        assert add(tmp_path, ADMIN, {"Command": "b"}, {"Command": "c"}) == 1
    assert add(tmp_path, ADMIN, {"Command": "d"}) == 2
    table = open_table(tmp_path, str(ADMIN.table))
    assert table.epochs == {"log-0": 2, "log-1": 1}
    assert sorted(table.to_arrow(columns=["Command"])["Command"].to_pylist()) == ["a", "b", "c", "d"]


@pytest.mark.slow
def test_many_writers_at_once_lose_no_row(tmp_path: Path) -> None:
    barrier = threading.Barrier(4)

    def write(number: int) -> None:
        for turn in range(3):
            barrier.wait(60)
            add(tmp_path, ADMIN, {"Affected": 10 * number + turn})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    table = open_table(tmp_path, str(ADMIN.table))
    found = sorted(table.to_arrow(columns=["Affected"])["Affected"].to_pylist())
    assert found == [10 * number + turn for number in range(4) for turn in range(3)]
    assert 1 <= len(table.epochs) <= 4  # a stream for each that wrote at the same time


@pytest.mark.slow
def test_all_streams_locked_is_an_error(tmp_path: Path) -> None:
    schema = deploy(Fs(), Layout(tmp_path), ADMIN.schema())
    args: dict[str, Any] = {"schema": schema, "query_id": "q", "clock": lambda: NOW, "pid": 1, "host": "h"}
    said: list[str] = []
    log = LogWriter(Fs(), Layout(tmp_path), warn=said.append)
    log.add(ADMIN, {"Command": "a"})
    with ExitStack() as others:
        for number in range(STREAMS):
            others.enter_context(
                StreamLog.open(
                    StreamPlace(QuickFs(), Layout(tmp_path), ADMIN.table, stream_name(number)), Opening(**args)
                )
            )
        assert not log.flush() and not log.flush()
        assert len(said) == 1 and "cannot be written, the job goes on: " in said[0]  # said once
    assert log.flush(STORAGE), "no row of that table waits"
    assert log.flush()  # the row was kept
    assert [row["Command"] for row in rows_of(tmp_path, ADMIN)] == ["a"]


def test_two_tables_are_written_at_once(tmp_path: Path) -> None:
    both = threading.Barrier(2)

    class Meeting(Fs):
        """A disk on which a commit waits for that of another thread."""

        def during(self, name: str) -> Any:
            if name == "commit-record":
                both.wait(60)
            return super().during(name)

    log = LogWriter(Meeting(), Layout(tmp_path), warn=pytest.fail)
    log.add(MERGE, {"RowsIn": 3})
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(log.flush, MERGE)
        log.add(STORAGE, {"Bytes": 5})
        assert log.flush(STORAGE) and other.result(60)
    assert log.flush()
    assert [row["RowsIn"] for row in rows_of(tmp_path, MERGE)] == [3]
    assert [row["Bytes"] for row in rows_of(tmp_path, STORAGE)] == [5]


class FullDisk(Fs):
    """A disk on which nothing can be appended to a log."""

    def during(self, name: str) -> Any:
        if name == "commit-record":
            raise RetryableStorageError("no space left on the disk", hint="free space")
        return super().during(name)


def test_a_full_disk_is_a_warning_and_counted(tmp_path: Path) -> None:
    said: list[str] = []
    metrics = Metrics()
    log = LogWriter(FullDisk(), Layout(tmp_path), warn=said.append, on_failure=metrics.log_failed)
    log.add(ADMIN, {"Command": "a"})
    with log:
        pass
    assert "no space left" in said[0] and said[1] == "lost 1 row of log tables, which could not be written"
    value = metrics.registry.get_sample_value("sparkhaven_log_failures_total", {"table": "SparkhavenInternal.AdminLog"})
    assert value == 1


def test_a_root_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    log = LogWriter(Fs(), Layout(tmp_path / "db"), warn=pytest.fail)
    log.add(ADMIN, {"Affected": 1})
    assert log.flush() and not (tmp_path / "db").exists()


def test_more_rows_than_may_wait_lose_the_oldest(tmp_path: Path) -> None:
    said: list[str] = []
    lost: list[tuple[str, int]] = []
    log = LogWriter(
        Fs(), Layout(tmp_path), warn=said.append, on_failure=lambda *what: lost.append(what), pace=LogPace(max_rows=3)
    )
    for number in range(5):
        log.add(ADMIN, {"Affected": number})
    assert log.flush()
    assert sorted(row["Affected"] for row in rows_of(tmp_path, ADMIN)) == [2, 3, 4]
    assert lost == [("SparkhavenInternal.AdminLog", 2)] and "2 rows" in said[0]


def test_rows_are_written_now_and_then_without_holding_up_who_adds_them(tmp_path: Path) -> None:
    began, may = threading.Event(), threading.Event()

    class Slow(Fs):
        def during(self, name: str) -> Any:
            if name == "commit-record":
                began.set()
                assert may.wait(60)
            return super().during(name)

    said: list[str] = []
    with LogWriter(Slow(), Layout(tmp_path), warn=said.append, pace=LogPace(every_s=0.01, end_s=60)) as log:
        log.add(ADMIN, {"Affected": 1})
        assert began.wait(60)
        log.add(ADMIN, {"Affected": 2})  # at once, while the first is written
        may.set()
    assert [row["Affected"] for row in rows_of(tmp_path, ADMIN)] == [1, 2] and said == []


def test_the_end_does_not_wait_for_a_disk_that_hangs(tmp_path: Path) -> None:
    may = threading.Event()

    class Hangs(Fs):
        def during(self, name: str) -> Any:
            assert may.wait(60)
            return super().during(name)

    said: list[str] = []
    with LogWriter(Hangs(), Layout(tmp_path), warn=said.append, pace=LogPace(end_s=0.0)) as log:
        log.add(ADMIN, {"Affected": 1})
    assert said == ["the log tables are not written within 0 s. Rows of the last minute may be lost"]
    may.set()
    assert log._thread is not None
    log._thread.join(60)


def test_rows_of_two_days_are_two_locations(tmp_path: Path) -> None:
    add(tmp_path, ADMIN, {"Affected": 1}, {"Affected": 2, "Timestamp": (int(NOW) + 86_400) * 10**9})
    assert [row["Date"] for row in rows_of(tmp_path, ADMIN)] == [DAY, "2023-11-15"]
