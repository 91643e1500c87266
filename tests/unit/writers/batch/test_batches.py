"""Batches from feed files to epochs, without Spark: routing, symbols, replays, several tasks at one location."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from unittest.mock import MagicMock

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError

from sparkhaven.store.epochs.files.published_size import TABLE_SIZE
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.epochs.state.log_values import FileId, Split
from sparkhaven.store.errors import (
    CommitError,
    CommitUnknownError,
    EpochConflictError,
    ErrorBudgetExceeded,
    LockLostError,
    PositionGapError,
    SettingsError,
)
from sparkhaven.store.format.table.table_size import decode as decode_size
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import BatchRequest, write_batch
from sparkhaven.writers.batch.stream_batches import FeedTables, StreamPlan
from sparkhaven.writers.spark.stream_query import Batches, run_stream_of_tables
from sparkhaven.writers.task import SplitNotes
from tests.support.disks.model_fs import FaultFs
from tests.support.streams.locations import A, B
from tests.support.streams.stream_kit import (
    STREAM,
    TABLE,
    LocalExecutor,
    decode,
    file_sizes_are_exact,
    ingest,
    numbers,
    open_log,
    place_in,
    put_file,
    read_all,
    record,
    run_alone,
    scratch_left,
    target_of,
    tree_bytes,
)

FS = Fs()


def rows_of(*counts: tuple[str, range]) -> list[dict[str, object]]:
    return [record(number, source) for source, some in counts for number in some]


def test_batches_append_to_their_locations_in_the_order_of_the_splits(tmp_path: Path) -> None:
    one = put_file(tmp_path / "feed", "1", rows_of(("a", range(10)), ("b", range(10, 15))), 1)
    two = put_file(tmp_path / "feed", "2", rows_of(("a", range(15, 30))), 2)
    with open_log(FS, tmp_path) as log:
        first = ingest(FS, tmp_path, log, [[one]])
        second = ingest(FS, tmp_path, log, [[two]], 1)
        assert (first.epoch, first.rows, first.locations, first.splits) == (1, 15, 2, 1)
        assert (second.epoch, second.rows, second.locations) == (2, 15, 1)
        found = read_all(tmp_path, log.state)
        assert [row["N"] for row in found[A]] == [*range(10), *range(15, 30)]
        assert [row["N"] for row in found[B]] == [*range(10, 15)]
        stats = log.state.locations[A].stats["N"]
        assert [(part.start, part.stop, part.low, part.high) for part in stats] == [(0, 25, 0, 29)]
    path = Layout(tmp_path).intraday_location(TABLE, A) / TABLE_SIZE
    published = decode_size(FS.read(path), path)
    assert (published.size, published.epoch, published.stream) == (25, 2, STREAM)
    assert scratch_left(tmp_path) == []


def test_a_reused_worker_finds_its_symbols_and_a_new_one_reads_them(tmp_path: Path) -> None:
    files = [put_file(tmp_path / "feed", str(n), rows_of(("a", range(n * 9, n * 9 + 9))), n) for n in range(3)]
    memory = WorkerCache()
    with open_log(FS, tmp_path) as log:
        for number, file in enumerate(files):
            memories = [memory if number < 2 else WorkerCache()]
            ingest(FS, tmp_path, log, [[file]], number, memories=memories)
        assert len(memory.symbols) == 2
        assert numbers(tmp_path, log.state) == [*range(27)]
        assert log.state.locations[A].files["Sym.sym"].size == 5 * 8


def test_symbols_of_a_batch_that_failed_are_forgotten(tmp_path: Path) -> None:
    good = put_file(tmp_path / "feed", "1", [record(0), record(1)], 1)
    bad = put_file(tmp_path / "feed", "2", [record(4), {**record(5), "N": None}], 2)
    other = put_file(tmp_path / "feed", "3", [record(2), record(9)], 3)
    memory = WorkerCache()
    with open_log(FS, tmp_path) as log:
        ingest(FS, tmp_path, log, [[good]], memories=[memory])
        with pytest.raises(ErrorBudgetExceeded, match="the batch has 1 bad row"):
            ingest(FS, tmp_path, log, [[bad]], 1, memories=[memory])
        assert log.state.epoch == 1
        ingest(FS, tmp_path, log, [[other]], 1, memories=[memory])
        assert numbers(tmp_path, log.state) == [0, 1, 2, 9]


def test_a_replay_is_a_no_op_and_a_part_of_it_is_left_out(tmp_path: Path) -> None:
    one = put_file(tmp_path / "feed", "1", [record(1)], 1)
    two = put_file(tmp_path / "feed", "2", [record(2)], 2)
    with open_log(FS, tmp_path) as log:
        ingest(FS, tmp_path, log, [[one]])
    with open_log(FS, tmp_path, query_id="another") as log:
        again = ingest(FS, tmp_path, log, [[one]], 7)
        assert (again.epoch, again.replayed, log.state.epoch) == (None, 1, 1)
        both = ingest(FS, tmp_path, log, [[one, two]], 8)
        assert (both.epoch, both.rows, both.replayed) == (2, 1, 1)
        assert numbers(tmp_path, log.state) == [1, 2]


def test_a_replay_that_nobody_announced_commits_nothing(tmp_path: Path) -> None:
    one = put_file(tmp_path / "feed", "1", [record(1)], 1)
    with open_log(FS, tmp_path) as log:
        ingest(FS, tmp_path, log, [[one]])
        execute = LocalExecutor(FS, target_of(tmp_path, log), [[one]])
        with pytest.raises(EpochConflictError, match="already committed"):
            write_batch(
                FS, log, target_of(tmp_path, log), WorkerCache(), BatchRequest(execute, query_id="q", batch_id=1)
            )
        assert numbers(tmp_path, log.state) == [1]


def test_a_file_that_changed_after_it_was_taken_is_refused_with_both_sizes(tmp_path: Path) -> None:
    one = put_file(tmp_path / "feed", "1", [record(1)], 1)
    with open_log(FS, tmp_path) as log:
        ingest(FS, tmp_path, log, [[one]])
        grown = put_file(tmp_path / "feed", "1", [record(1), record(2)], 1)
        with pytest.raises(PositionGapError) as caught:
            ingest(FS, tmp_path, log, [[grown]], 1)
    assert f"{one.size} bytes" in str(caught.value)
    assert f"{grown.size} bytes" in str(caught.value)


def test_files_without_rows_are_taken_too(tmp_path: Path) -> None:
    empty = put_file(tmp_path / "feed", "1", [], 1)
    with open_log(FS, tmp_path) as log:
        outcome = ingest(FS, tmp_path, log, [[empty]])
        assert (outcome.epoch, outcome.rows, outcome.locations) == (1, 0, 0)
        assert log.state.files.status(empty) == "taken"


# --- several tasks at one location -------------------------------------------------------------------------


@pytest.fixture
def crowded(tmp_path: Path) -> list[list[FileId]]:
    """Three tasks of two files each; every file has rows of both sources."""
    return [
        [
            put_file(
                tmp_path / "feed",
                f"f{n}",
                rows_of(("a", range(n * 20, n * 20 + 11)), ("b", range(n * 20 + 11, n * 20 + 20))),
                n,
            )
            for n in (2 * task, 2 * task + 1)
        ]
        for task in range(3)
    ]


@pytest.mark.slow
def test_bytes_do_not_depend_on_which_task_came_first(tmp_path: Path, crowded: list[list[FileId]]) -> None:
    trees = []
    base = put_file(tmp_path / "feed", "base", rows_of(("a", range(200, 205))), 0)
    alone = [split for group in crowded for split in group]
    runs = [([alone], None), *((crowded, order) for order in permutations(range(3)))]
    for number, (groups, order) in enumerate(runs):
        root = tmp_path / f"db{number}"
        root.mkdir()
        with open_log(FS, root) as log:
            ingest(FS, root, log, [[base]])
            # a small bound makes several appends and several scratch files a task
            outcome = ingest(FS, root, log, groups, 1, order=order, max_buffered=1 << 20 if order is None else 300)
            assert outcome.rows == 120
            found = read_all(root, log.state)
            assert [row["N"] for row in found[A]] == [
                *range(200, 205),
                *(n * 20 + i for n in range(6) for i in range(11)),
            ]
            assert [row["N"] for row in found[B]] == [n * 20 + i for n in range(6) for i in range(11, 20)]
        trees.append(tree_bytes(root))
    for tree in trees[1:]:
        assert tree.keys() == trees[0].keys()
        assert [name for name in tree if tree[name] != trees[0][name]] == []


def test_rows_are_put_in_order_even_if_the_splits_of_tasks_interleave(tmp_path: Path) -> None:
    files = [put_file(tmp_path / "feed", str(n), rows_of(("a", range(n * 5, n * 5 + 5))), n) for n in range(4)]
    trees = []
    for number, order in enumerate([(0, 1), (1, 0)]):
        root = tmp_path / f"db{number}"
        root.mkdir()
        with open_log(FS, root) as log:
            ingest(FS, root, log, [[files[0], files[2]], [files[1], files[3]]], order=order)
            assert [row["N"] for row in read_all(root, log.state)[A]] == [*range(20)]
        trees.append(tree_bytes(root))
    assert trees[0] == trees[1]


def test_a_task_that_runs_twice_leaves_its_rows_once(tmp_path: Path, crowded: list[list[FileId]]) -> None:
    with open_log(FS, tmp_path) as log:
        ingest(FS, tmp_path, log, crowded, attempts=3, order=(1, 2, 0))
        assert numbers(tmp_path, log.state) == [*range(120)]


def test_a_tail_that_was_left_behind_is_cut(tmp_path: Path) -> None:
    one = put_file(tmp_path / "feed", "1", [record(1)], 1)
    long = put_file(tmp_path / "feed", "2", rows_of(("a", range(10, 90))), 2)
    short = put_file(tmp_path / "feed", "3", [record(2)], 3)
    with open_log(FS, tmp_path) as log:
        ingest(FS, tmp_path, log, [[one]])
        run_alone(FS, target_of(tmp_path, log), "1-1", [long])
        assert not file_sizes_are_exact(tmp_path, log.state)
        ingest(FS, tmp_path, log, [[short]], 1)
        assert file_sizes_are_exact(tmp_path, log.state)
        assert numbers(tmp_path, log.state) == [1, 2]


def test_a_zombie_of_an_older_generation_writes_and_commits_nothing(tmp_path: Path) -> None:
    one = put_file(tmp_path / "feed", "1", [record(1)], 1)
    two = put_file(tmp_path / "feed", "2", [record(2)], 2)
    old = open_log(FS, tmp_path)
    ingest(FS, tmp_path, old, [[one]])
    zombie = target_of(tmp_path, old)
    old.close()
    with open_log(FS, tmp_path, pid=42) as log:
        before = tree_bytes(tmp_path)
        result = run_alone(FS, zombie, "1-1", [two])
        assert isinstance(result.error, LockLostError)
        assert "generation 2, pid 42 on here" in str(result.error)
        assert tree_bytes(tmp_path) == before
        execute = LocalExecutor(FS, zombie, [[two]])
        with pytest.raises(LockLostError):
            write_batch(FS, old, zombie, WorkerCache(), BatchRequest(execute, query_id="q", batch_id=1))
        ingest(FS, tmp_path, log, [[two]], 1)
        assert numbers(tmp_path, load_stream(place_in(tmp_path, FS))) == [1, 2]


def test_a_location_of_another_stream_is_refused_before_and_after_its_first_epoch(tmp_path: Path) -> None:
    one = put_file(tmp_path / "feed", "1", [record(1)], 1)
    with open_log(FS, tmp_path) as log:
        target = target_of(tmp_path, log)
        run_alone(FS, target, "1-0", [one])
        intruder = type(target)(target.layout, target.table, "other", target.schema, 1)
        FS.write_new(target.layout.stream_lock(TABLE, "other"), b'{"generation":1}')
        for _ in range(2):
            result = run_alone(FS, intruder, "1-0", [one])
            assert isinstance(result.error, SettingsError)
            assert f"found: stream {STREAM}" in str(result.error)
            if log.state.epoch == 0:
                ingest(FS, tmp_path, log, [[one]])
        assert numbers(tmp_path, log.state) == [1]


def test_a_sync_that_fails_while_no_batch_runs_stops_the_stream(tmp_path: Path) -> None:
    one = put_file(tmp_path / "feed", "1", [record(1)], 1)
    fs = FaultFs("sync", nth=10**9)
    with open_log(fs, tmp_path, durability="periodic") as log:
        target = replace(target_of(tmp_path, log), policy=CommitPolicy("periodic", 10.0))
        execute = LocalExecutor(fs, target, [[one]])
        write_batch(fs, log, target, WorkerCache(), BatchRequest(execute, query_id="q", batch_id=0))
        times = iter([0.0, 1.0, 20.0])
        plan = StreamPlan(query_id="q", trigger={}, decode=decode)
        batches = Batches(fs, FeedTables.one(log, target, plan), lambda: next(times))
        batches.idle()
        assert (batches.error, log.state.durable) == (None, 0)
        fs._nth = fs._calls + 1
        batches.idle()
        assert isinstance(batches.error, CommitUnknownError)
        batches.idle()  # never tried again
        assert fs.failed == 1


class Gone:
    """A query whose JVM dies while a batch of one task is in the middle of its work."""

    def __init__(self) -> None:
        self.begun, self.jvm_dies = threading.Event(), threading.Event()

    def decode(self, split: Split, notes: SplitNotes) -> Iterator[tuple[LocationKey, pa.RecordBatch]]:
        self.begun.set()
        assert self.jvm_dies.wait(60)
        time.sleep(0.2)
        yield from decode(split, notes)

    def awaitTermination(self, seconds: float) -> bool:
        assert self.begun.wait(60)
        self.jvm_dies.set()
        raise Py4JError("An error occurred while calling o1.awaitTermination")


def test_a_batch_in_the_driver_ends_before_a_stream_is_left_whose_jvm_is_gone(tmp_path: Path) -> None:
    file = put_file(tmp_path / "feed", "1", [record(1)], 1)
    gone, spark = Gone(), MagicMock()
    spark.sparkContext.getConf().get.return_value = "false"
    spark.sparkContext.master, spark.sparkContext.pythonExec = "local[1]", sys.executable
    splits = MagicMock()
    row = {"path": file.path, "size": file.size, "mtime_ns": file.mtime_ns, "task": 0}
    splits.collect.return_value = [MagicMock(asDict=lambda: row)]
    source, running = MagicMock(), []

    def start() -> Gone:
        (batches,) = source.writeStream.foreachBatch.call_args.args
        running.append(threading.Thread(target=batches, args=(splits, 0)))
        running[0].start()
        return gone

    source.writeStream.foreachBatch().trigger().option().start = start
    with open_log(FS, tmp_path) as log:
        plan = StreamPlan(query_id="q", trigger={}, decode=gone.decode)
        with pytest.raises(CommitError, match="JVM has ended"):
            run_stream_of_tables(
                spark, source, FS, FeedTables.one(log, target_of(tmp_path, log), plan), stop=threading.Event()
            )
        assert log.state.epoch == 1 and numbers(tmp_path, log.state) == [1]
    running[0].join()
