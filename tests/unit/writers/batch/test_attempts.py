"""Several attempts of one task at once: Spark repeats a stage while the first attempts still run, and takes one report.

An attempt is held in the middle of its rows, in a thread of its own, until the test lets it go on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.log_values import FileId, Split
from sparkhaven.store.errors import EpochConflictError, LockLostError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import BatchRequest, write_batch
from sparkhaven.writers.batch.task import Task, TaskResult, run_task
from sparkhaven.writers.task import SplitNotes, StreamTarget
from tests.support.streams.stream_kit import (
    LocalExecutor,
    Record,
    decode,
    ingest,
    numbers,
    open_log,
    put_file,
    record,
    target_of,
    tree_bytes,
)

FS = Fs()
Routed = Iterator[tuple[LocationKey, pa.RecordBatch]]


class Held:
    """One attempt of a task that stops after its first rows; ``end`` lets it go on and gives its result."""

    def __init__(self, target: StreamTarget, task: Task, *, backwards: bool = False) -> None:
        self._reached, self._go_on = threading.Event(), threading.Event()
        self._backwards = backwards
        self.memory = WorkerCache()
        self._result: list[TaskResult] = []
        self._thread = threading.Thread(target=self._run, args=(target, task), daemon=True)
        self._thread.start()
        assert self._reached.wait(30)

    def _run(self, target: StreamTarget, task: Task) -> None:
        self._result.append(run_task(FS, self.memory, target, self._slow, task, max_buffered=1))

    def _slow(self, split: Split, notes: SplitNotes) -> Routed:
        batches = list(decode(split, notes))
        for number, batch in enumerate(reversed(batches) if self._backwards else batches):
            if number == 1:  # every batch is appended at once: ``max_buffered`` is one byte
                self._reached.set()
                assert self._go_on.wait(30)
            yield batch

    def end(self) -> TaskResult:
        self._go_on.set()
        self._thread.join(30)
        (result,) = self._result
        return result


def rows_of(numbers: range, source: str = "a") -> list[Record]:
    return [record(number, source) for number in numbers]


@contextmanager
def feed_of_two(root: Path) -> Iterator[tuple[StreamLog, StreamTarget, FileId, FileId]]:
    """A stream with an epoch, and two files for the same location."""
    with open_log(FS, root) as log:
        ingest(FS, root, log, [[put_file(root / "feed", "0", rows_of(range(6)), 1)]])
        files = (put_file(root / "feed", str(n), rows_of(range(6 * n, 6 * n + 6)), n + 1) for n in (1, 2))
        yield log, target_of(root, log), *files


def run(target: StreamTarget, task: Task) -> TaskResult:
    """A quick attempt, in a worker of its own."""
    return run_task(FS, WorkerCache(), target, decode, task, max_buffered=1)


Execute = Callable[[str, Mapping[Split, Split | None]], list[TaskResult]]


def commit(log: StreamLog, target: StreamTarget, execute: Execute, files: list[FileId], fs: Fs = FS) -> None:
    write_batch(fs, log, target, WorkerCache(), BatchRequest(execute, query_id="q", batch_id=1, proposed=files))


def whole(root: Path, log: StreamLog, count: int) -> None:
    """Every row once, every checksum right, and a further batch goes on from there with the right symbols."""
    assert numbers(root, log.state) == [*range(count)]
    file = put_file(root / "feed", "next", rows_of(range(count, count + 9)), 50)
    ingest(FS, root, log, [[file]], 7)
    assert numbers(root, log.state) == [*range(count + 9)]
    wrong = [found for found in verify(FS, Layout(root), deep=True).findings if found.severity == "error"]
    assert [found for found in wrong if "schema" not in found.what.lower()] == []


def test_the_report_that_is_taken_is_of_the_later_attempt(tmp_path: Path) -> None:
    """The slow first attempt owns the location; it ends before the driver collects reports; its own is not taken."""
    with feed_of_two(tmp_path) as (log, target, one, two):

        def execute(scratch: str, instead: object) -> list[TaskResult]:
            slow = Held(target, Task(0, 10, scratch, [one]), backwards=True)
            results = [run(target, Task(0, 12, scratch, [one])), run(target, Task(1, 13, scratch, [two]))]
            assert slow.end().error is None
            return results

        commit(log, target, execute, [one, two])
        whole(tmp_path, log, 18)


def test_the_report_that_is_taken_is_of_the_first_attempt(tmp_path: Path) -> None:
    """The repeated one begins while the first writes, and is through only after it; symbols of both differ in order."""
    with feed_of_two(tmp_path) as (log, target, one, two):

        def execute(scratch: str, instead: object) -> list[TaskResult]:
            first = Held(target, Task(0, 10, scratch, [one]), backwards=True)
            again = Held(target, Task(0, 12, scratch, [one]))
            results = [first.end(), run(target, Task(1, 11, scratch, [two]))]
            assert again.end().error is None
            return results

        commit(log, target, execute, [one, two])
        whole(tmp_path, log, 18)


class Meanwhile(Fs):
    """Does something at a step of the driver."""

    def __init__(self, step: str, act: Callable[[], None]) -> None:
        self._step, self._act = step, act

    def step(self, name: str) -> None:
        if name == self._step:
            self._act()


@pytest.mark.parametrize("step", ["collect:after", "sync-files:before", "commit-record:before", "publish:after"])
def test_an_attempt_whose_report_is_not_wanted_writes_nothing_beside_the_driver(tmp_path: Path, step: str) -> None:
    """It owns the location and wakes up while the driver brings the others' rows together there, or commits them."""
    with feed_of_two(tmp_path) as (log, target, one, two):
        slow: list[Held] = []
        ended: list[TaskResult] = []

        def execute(scratch: str, instead: object) -> list[TaskResult]:
            slow.append(Held(target, Task(0, 10, scratch, [one])))
            return [run(target, Task(0, 12, scratch, [one])), run(target, Task(1, 13, scratch, [two]))]

        def wake() -> None:
            if not ended:
                ended.append(slow[0].end())

        commit(log, target, execute, [one, two], Meanwhile(step, wake))
        assert isinstance(ended[0].error, LockLostError) and "another attempt has finished" in ended[0].error.what
        whole(tmp_path, log, 18)


@pytest.mark.parametrize("alone", [True, False])
def test_an_attempt_that_outlives_its_batch_writes_nothing(tmp_path: Path, alone: bool) -> None:
    """Spark gave it up and ran the task again; that batch, and one of the same number, are committed when it wakes."""
    with feed_of_two(tmp_path) as (log, target, one, two):
        slow: list[Held] = []

        def execute(scratch: str, instead: object) -> list[TaskResult]:
            slow.append(Held(target, Task(0, 10, scratch, [one], alone)))
            return [run(target, Task(0, 12, scratch, [one]))]

        commit(log, target, execute, [one])
        commit(log, target, LocalExecutor(FS, target, [[two]]), [two])
        before = tree_bytes(tmp_path)
        assert isinstance(slow[0].end().error, LockLostError)
        assert tree_bytes(tmp_path) == before
        whole(tmp_path, log, 18)


def test_one_task_has_one_report(tmp_path: Path) -> None:
    with feed_of_two(tmp_path) as (log, target, one, _):

        def execute(scratch: str, instead: object) -> list[TaskResult]:
            return [run(target, Task(0, attempt, scratch, [one])) for attempt in (1, 2)]

        with pytest.raises(EpochConflictError, match="two attempts of one task"):
            commit(log, target, execute, [one])
        assert log.state.epoch == 1
