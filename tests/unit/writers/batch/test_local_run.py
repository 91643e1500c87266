"""A run in this process: the same bytes as with tasks in Spark, and how it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.epochs.state.log_values import Split
from sparkhaven.store.errors import EXIT_RETRY, CommitError, FeedError, LockLostError, PositionGapError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.quarantine.rejected_rows import REJECTED
from sparkhaven.writers.batch.stream_batches import (
    BatchProgress,
    FeedTables,
    Row,
    StreamPlan,
    StreamTotals,
    run_local_tables,
)
from sparkhaven.writers.task import RejectedFile, SplitNotes
from tests.support.streams.stream_kit import (
    STREAM,
    TABLE,
    decode,
    numbers,
    open_log,
    place_in,
    put_file,
    record,
    target_of,
    tree_bytes,
)
from tests.support.streams.two_ways import as_spark, here, planner, write_feed

FS = Fs()


@dataclass
class Scripted:
    """A source whose answers are given: rows, an error to raise, or what to do before nothing is planned."""

    answers: list[Any]
    said: list[Mapping[str, Any]] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    done: int = 0

    def plan(self) -> Sequence[Row]:
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer  # type: ignore[no-any-return]

    def report(self) -> Mapping[str, Any] | None:
        return self.said.pop(0) if self.said else None

    def committed(self) -> None:
        self.done += 1

    def stop(self) -> None:
        self.stopped.set()


def run(root: Path, source: Any, stop: threading.Event | None = None, **plan: Any) -> StreamTotals:
    with open_log(FS, root) as log:
        settings = StreamPlan(**({"query_id": "q", "trigger": {}, "decode": decode} | plan))
        return run_local_tables(
            source, FS, FeedTables.one(log, target_of(root, log), settings), stop=stop or threading.Event()
        )[0]


def batch(feed: Path, number: int) -> list[Row]:
    """A batch of one file of one row."""
    file = put_file(feed, f"{number}.json", [record(number)], 1000 + number)
    return [{"path": file.path, "size": file.size, "mtime_ns": file.mtime_ns, "task": 0, "waiting": 7}]


def one_rejected() -> pa.RecordBatch:
    """A rejected row, null where that may be."""
    known = {"SourcePartition": "2.json", "Position": 1, "Reason": "bad", "PayloadBytes": 0}
    return pa.RecordBatch.from_pylist([dict.fromkeys(REJECTED.names) | known], schema=REJECTED)


def test_the_bytes_are_those_of_several_tasks(tmp_path: Path) -> None:
    expected = write_feed(tmp_path / "feed")
    assert here(FS, tmp_path / "feed", tmp_path / "a") == as_spark(FS, tmp_path / "feed", tmp_path / "b") == [8, 8, 4]
    assert tree_bytes(tmp_path / "a") == tree_bytes(tmp_path / "b")
    states = [load_stream(StreamPlace(FS, Layout(tmp_path / name), TABLE, STREAM), cached=False) for name in "ab"]
    assert states[0] == states[1] and numbers(tmp_path / "a", states[0]) == expected


def test_totals_and_lines_of_progress(tmp_path: Path) -> None:
    lines: list[BatchProgress] = []
    source = Scripted([batch(tmp_path / "feed", 1), batch(tmp_path / "feed", 2)])
    totals = run(tmp_path, source, progress=lines.append)
    assert (totals.rows, totals.epochs, totals.epoch, source.done) == (2, 2, 2, 2)
    assert [(line.outcome.batch_id, line.epoch, line.outcome.rows, line.lag) for line in lines] == [
        (0, 1, 1, 7),
        (1, 2, 1, 7),
    ]
    assert source.stopped.is_set()


def test_a_lone_task_has_a_scratch_directory_only_for_what_it_rejects(tmp_path: Path) -> None:
    feed, scratch = tmp_path / "feed", Layout(tmp_path).scratch(TABLE, STREAM)
    seen: list[list[str]] = []
    kept: list[int] = []

    def rejecting(split: Split, notes: SplitNotes) -> Iterable[tuple[LocationKey, pa.RecordBatch]]:
        seen.append(FS.names(scratch))
        if split.path.endswith("2.json"):
            notes.keep_rejected(one_rejected())
            notes.reject(["bad"], 1)
            notes.source.count(1)
        yield from decode(split, notes)

    def quarantine(files: Sequence[RejectedFile], epoch: int) -> None:
        kept.extend(pq.read_table(file.path).num_rows for file in files)

    source = Scripted([batch(feed, number) for number in (1, 2, 3)])
    totals = run(tmp_path, source, decode=rejecting, check_budget=lambda notes, rows: None, quarantine=quarantine)
    assert (totals.rows, totals.rejected, kept) == (3, 1, [1])
    assert seen == [[], [], []] and FS.names(scratch) == []


def test_an_empty_source_has_one_batch_without_an_epoch(tmp_path: Path) -> None:
    lines: list[BatchProgress] = []
    totals = run(tmp_path, Scripted([]), progress=lines.append)
    assert [(line.outcome.batch_id, line.outcome.epoch) for line in lines] == [(0, None)] and totals.epochs == 0


def test_a_changed_report_of_the_source_is_passed_on_once(tmp_path: Path) -> None:
    said: list[Mapping[str, Any]] = []
    feed = tmp_path / "feed"
    source = Scripted([batch(feed, 1), batch(feed, 2)], [{"waiting": 1}, {"waiting": 1}, {"waiting": 0}])
    run(tmp_path, source, report=said.append)
    assert said == [{"waiting": 1}, {"waiting": 0}]


def test_a_stop_ends_the_run_after_its_batch(tmp_path: Path) -> None:
    stop = threading.Event()
    source = Scripted([batch(tmp_path / "feed", n) for n in range(3)])
    totals = run(tmp_path, source, stop, progress=lambda line: stop.set() if line.epoch == 2 else None)
    assert (totals.rows, totals.epoch, source.answers) == (2, 2, [])
    totals = run(tmp_path, Scripted([batch(tmp_path / "feed", 2)]), stop)
    assert (totals.rows, totals.epoch) == (0, 2)


def test_a_stop_ends_a_source_that_waits(tmp_path: Path) -> None:
    stop = threading.Event()

    def wait() -> list[Row]:
        stop.set()
        assert source.stopped.wait(60)
        return batch(tmp_path / "feed", 1)

    source = Scripted([wait])
    assert run(tmp_path, source, stop).epochs == 0


def test_epochs_are_synced_while_a_source_waits(tmp_path: Path) -> None:
    feed, synced = tmp_path / "feed", threading.Event()
    with open_log(FS, tmp_path, durability="periodic") as log:

        def sync() -> int:
            synced.set()
            return before()

        def wait() -> list[Row]:
            synced.clear()  # it was synced after the batch, too
            assert synced.wait(60)
            return []

        before, log.sync_now = log.sync_now, sync  # type: ignore[method-assign]
        target = target_of(tmp_path, log)
        plan = StreamPlan("q", {}, decode)
        target = replace(target, policy=CommitPolicy("periodic", 0.0))
        run_local_tables(
            Scripted([batch(feed, 1), wait]), FS, FeedTables.one(log, target, plan), stop=threading.Event()
        )
        assert log.state.durable == 1


@pytest.mark.parametrize(("error", "kind"), [(FeedError("gone"), FeedError), (OSError(5, "no answer"), CommitError)])
def test_an_error_of_the_source_ends_the_run_and_committed_epochs_stay(
    tmp_path: Path, error: Exception, kind: type[Exception]
) -> None:
    with pytest.raises(kind, match=r"gone|the source of the stream failed") as reported:
        run(tmp_path, Scripted([batch(tmp_path / "feed", 1), error]))
    assert kind is FeedError or (reported.value.exit_code == EXIT_RETRY and "no answer" in reported.value.found)  # type: ignore[attr-defined]
    assert load_stream(place_in(tmp_path, FS)).epoch == 1


def test_an_error_that_a_reader_carries_is_raised_as_it_was(tmp_path: Path) -> None:
    source = planner(tmp_path / "nowhere", tmp_path)
    with pytest.raises(FeedError, match="directory is gone") as reported:
        run(tmp_path, source)
    assert reported.value.where == str(tmp_path / "nowhere")


def test_an_unexpected_error_of_a_task_is_worth_a_retry(tmp_path: Path) -> None:
    def fault(split: object, notes: object) -> Any:
        raise ZeroDivisionError("of ours")

    with pytest.raises(CommitError, match="the task of a batch failed") as reported:
        run(tmp_path, Scripted([batch(tmp_path / "feed", 1)]), decode=fault)
    assert (reported.value.exit_code, reported.value.found) == (EXIT_RETRY, "ZeroDivisionError: of ours")


def test_a_lost_lock_is_the_cause_whatever_the_source_met(tmp_path: Path) -> None:
    def overtaken() -> list[Row]:
        (Layout(tmp_path).stream_lock(TABLE, STREAM)).write_bytes(b'{"generation": 9, "pid": 1, "host": "other"}')
        raise FeedError("the other one has moved it")

    with pytest.raises(LockLostError, match="another process"):
        run(tmp_path, Scripted([overtaken]))


def entries(root: Path, end: str) -> Callable[[], dict[str, bytes]]:
    """A checkpoint of Spark with one finished batch; returns what reads it."""
    checkpoint = Layout(root).spark_checkpoint(TABLE, STREAM)
    for name, text in (("offsets", f"v1\n{{}}\n{end}"), ("commits", "v1\n{}")):
        (checkpoint / name).mkdir(parents=True)
        (checkpoint / name / "0").write_text(text)
    return lambda: {str(path): path.read_bytes() for path in sorted(checkpoint.rglob("*")) if path.is_file()}


def test_batches_of_spark_that_the_log_lacks_are_a_lost_log(tmp_path: Path) -> None:
    read = entries(tmp_path, '{"n": 1}')
    before = read()
    with pytest.raises(PositionGapError, match="the commit log is empty"):
        run(tmp_path, Scripted([batch(tmp_path / "feed", 1)]))
    assert read() == before


def test_a_checkpoint_of_spark_stays_as_it_is(tmp_path: Path) -> None:
    read = entries(tmp_path, '{"n": 0}')  # a run of an empty feed
    before = read()
    assert run(tmp_path, Scripted([batch(tmp_path / "feed", 1)])).epoch == 1
    assert read() == before
