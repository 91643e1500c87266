"""A date is truncated, or truncated and deleted, while a batch with rows for it is on its way."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.jobs.streams.decoding import Decoder
from sparkhaven.readers import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.log_values import FileId, Split
from sparkhaven.store.errors import EpochConflictError, ErrorBudgetExceeded
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import BatchRequest, write_batch
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.removal.removal_proof import States, prove
from sparkhaven.writers.removal.row_removal import delete, truncate
from sparkhaven.writers.task import LateRows, SplitNotes
from tests.support.streams.stream_kit import (
    SCHEMA,
    TABLE,
    LocalExecutor,
    decode,
    ingest,
    open_log,
    put_file,
    record,
    scratch_left,
    target_of,
)
from tests.support.streams.whole_story import DAY, SCHEMA_XML, merge
from tests.support.writers.quarantine_cases import Shelf, spec, take

FS = Fs()


class Meanwhile(Fs):
    """Does something at a step of the protocol, the first time that it comes."""

    def __init__(self, at: str, act: Callable[[], object]) -> None:
        self.at, self.act, self.times = at, act, 0

    def step(self, name: str) -> None:
        if name == self.at:
            self.times += 1
            if self.times == 1:
                self.act()


def remove(root: Path, *, phases: int = 1) -> None:
    """What maintenance does with a merged date, with its proof."""
    layout = Layout(root)
    proof = prove(TablePlace(FS, layout, TABLE), DAY)
    truncate(States(TablePlace(FS, layout, TABLE)), proof=proof, clock=lambda: 2e9)
    if phases == 2:
        delete(States(TablePlace(FS, layout, TABLE)), proof=proof, clock=lambda: 2e9, grace_s=0)


def intraday(root: Path) -> list[int]:
    """The numbers of the rows that are not in history."""
    return sorted(open_table(root, str(TABLE)).to_arrow("N", tier="intraday")["N"].to_pylist())


def merged_day(root: Path) -> StreamLog:
    """Rows 0 to 3 of source a, committed and in history."""
    root.mkdir(exist_ok=True)
    deploy(FS, Layout(root), SCHEMA_XML)
    add_partition(FS, Layout(root), TABLE.namespace, "0")
    log = open_log(FS, root)
    ingest(FS, root, log, [[put_file(root / "feed", "0", [record(n) for n in range(4)], 1)]])
    merge(FS, Layout(root))
    return log


def late_and_other(root: Path) -> list[list[FileId]]:
    """Two tasks, each with rows for the merged location and others."""
    return [
        [put_file(root / "feed", f"{task}", [record(task * 10 + n, "ab"[n % 2]) for n in range(4)], task + 1)]
        for task in (1, 2)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("at", ["cut-tails:after", "collect:after", "quarantine:after", "commit-record:before"])
@pytest.mark.parametrize("together", [True, False])
def test_the_batch_is_run_again_and_its_late_rows_are_quarantined(tmp_path: Path, at: str, together: bool) -> None:
    shelf = Shelf()
    with merged_day(tmp_path) as log:
        groups = late_and_other(tmp_path)
        groups = [[*groups[0], *groups[1]]] if together else groups
        fs = Meanwhile(at, lambda: remove(tmp_path))
        outcome = take(fs, tmp_path, log, groups, shelf, 1)
        assert (outcome.epoch, outcome.rows, outcome.rejected) == (2, 4, 4)
        assert shelf.places == [("1", 1), ("1", 3), ("2", 1), ("2", 3)]
        assert {(row["Reason"], row["Epoch"]) for row in shelf.rows.values()} == {("late", 2)}
        assert [json.loads(shelf.rows[place]["Payload"])["N"] for place in shelf.places] == [10, 12, 20, 22]
        assert intraday(tmp_path) == [11, 13, 21, 23]
        assert take(fs, tmp_path, log, [[put_file(tmp_path / "feed", "3", [record(31, "b")], 9)]], shelf, 2).rows == 1
    assert sorted(open_table(tmp_path, str(TABLE)).to_arrow("N")["N"].to_pylist()) == [0, 1, 2, 3, 11, 13, 21, 23, 31]
    assert verify(FS, Layout(tmp_path), TABLE, deep=True).errors == 0
    assert scratch_left(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_between_two_tasks_that_meet_at_the_location(tmp_path: Path, order: tuple[int, int]) -> None:
    """One task has appended before the truncate, the other comes after it."""
    shelf = Shelf()
    done: list[Any] = []

    class Decoding(Decoder):
        def __call__(self, split: Split, notes: SplitNotes) -> Iterable[tuple[LocationKey, pa.RecordBatch]]:
            if not done and Path(split.path).name == str(order[1] + 1):
                done.append(remove(tmp_path))
            yield from super().__call__(split, notes)

    with merged_day(tmp_path) as log:
        target, decoder = target_of(tmp_path, log), Decoding(FS, spec(), SCHEMA)
        groups = late_and_other(tmp_path)
        execute = LocalExecutor(FS, target, groups, order=order, decoder=decoder)
        checked: list[int] = []
        outcome = write_batch(
            FS,
            log,
            target,
            WorkerCache(),
            BatchRequest(
                execute,
                query_id="query",
                batch_id=1,
                check_budget=lambda notes, rows: checked.append(notes.rejected_rows),
                quarantine=shelf,
                decode=decoder,
            ),
        )
        assert (outcome.epoch, outcome.rows, outcome.rejected, done) == (2, 4, 4, [None])
        assert intraday(tmp_path) == [11, 13, 21, 23]
    assert len(shelf.rows) == 4


def test_a_deleted_date_takes_the_rows_as_new_ones(tmp_path: Path) -> None:
    with merged_day(tmp_path) as log:
        fs = Meanwhile("commit-record:before", lambda: remove(tmp_path, phases=2))
        outcome = ingest(fs, tmp_path, log, late_and_other(tmp_path), 1)
        assert (outcome.epoch, outcome.rows) == (2, 8)
        assert intraday(tmp_path) == [10, 11, 12, 13, 20, 21, 22, 23]
    assert open_table(tmp_path, str(TABLE)).count() == 12


def test_the_rule_of_the_stream_holds_the_second_time_too(tmp_path: Path) -> None:
    with merged_day(tmp_path) as log:
        fs = Meanwhile("commit-record:before", lambda: remove(tmp_path))
        with pytest.raises(ErrorBudgetExceeded, match="a date that the stream refuses"):
            take(fs, tmp_path, log, late_and_other(tmp_path), Shelf(), 1, given=spec(late="fail"))
        assert log.state.epoch == 1


def test_only_a_removal_is_a_reason_and_only_once(tmp_path: Path) -> None:
    calls: list[str] = []

    def run(log: StreamLog, act: Callable[[], object], **settings: bool) -> None:
        target = target_of(tmp_path, log)
        tasks = LocalExecutor(FS, target, [[put_file(tmp_path / "feed", "9", [record(90)], 9)]])

        def execute(scratch: str, instead: object) -> object:
            calls.append(scratch)
            results = tasks(scratch, {})
            act()
            return results

        write_batch(
            FS,
            log,
            target,
            WorkerCache(),
            BatchRequest(execute, query_id="query", batch_id=1, **settings),  # type: ignore[arg-type]
        )

    def conflict() -> None:
        raise EpochConflictError("some other reason")

    with merged_day(tmp_path) as log:
        with pytest.raises(EpochConflictError, match="some other reason"):
            run(log, conflict)
        assert len(calls) == 1
        with pytest.raises(EpochConflictError, match="the location was truncated"):
            run(log, lambda: remove(tmp_path), again=False)
        assert (len(set(calls)), log.state.epoch) == (2, 1)


def test_a_decoder_that_cannot_read_again_is_reported(tmp_path: Path) -> None:
    def decoding(split: Split, notes: SplitNotes) -> Iterator[tuple[LocationKey, pa.RecordBatch]]:
        yield from decode(split, notes)

    with merged_day(tmp_path) as log:
        fs = Meanwhile("commit-record:before", lambda: remove(tmp_path))
        with pytest.raises(ErrorBudgetExceeded) as caught:
            ingest(fs, tmp_path, log, late_and_other(tmp_path), 1, decoder=decoding)
        assert str(LateRows(LocationKey("a", DAY), 2, "").key) in str(caught.value)
