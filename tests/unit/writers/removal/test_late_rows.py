"""Rows for a truncated date are stored as a new location, and history gets them; nothing is removed for them.

A date that is merged and truncated, and rows that arrive for it: while it is truncated, and after.

``prepare`` makes the truncated date; ``arrive`` commits what comes late, and does the rest of it when it is run again;
``night`` merges, validates, truncates and deletes. Rows are numbered, so that one lost or doubled is seen.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.readers import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.epochs.files.removals import read_removals
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.epochs.state.removed_locations import DOOMED
from sparkhaven.store.errors import (
    EpochConflictError,
    ErrorBudgetExceeded,
    SnapshotMovedError,
    TooEarlyError,
    ValidationFailedError,
)
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.merges.merge_records import load_record, newest, store_record
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import BatchOutcome, BatchRequest, write_batch
from sparkhaven.writers.merge.date_merges import merge_dates
from sparkhaven.writers.merge.date_result import DateResult
from sparkhaven.writers.merge.executor import LocalExecutor as MergeExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.removal.removal_proof import States, prove
from sparkhaven.writers.removal.row_removal import Removed, delete, truncate
from sparkhaven.writers.task import StreamTarget
from tests.support.disks.model_fs import Crash, CrashingFs
from tests.support.examples import some_of
from tests.support.streams.stream_kit import (
    SCHEMA,
    STREAM,
    TABLE,
    LocalExecutor,
    open_log,
    place_in,
    put_file,
    record,
    scratch_left,
)
from tests.support.streams.stream_story import Groups
from tests.support.streams.whole_story import DAY, SCHEMA_XML

NOW, HOUR = 2e9, 3600.0
MERGED, ROWS = 12, 36  # rows that history has before others arrive, and all of them


def write_feed(feed: Path) -> list[Groups]:
    """The merged rows, late ones of two tasks that meet at both locations, and one more batch."""

    def file(number: int, *parts: tuple[str, range]) -> FileId:
        return put_file(feed, f"{number}.json", [record(n, source) for source, some in parts for n in some], number)

    return [
        [[file(1, ("a", range(8)), ("b", range(8, MERGED)))]],
        [[file(2, ("a", range(12, 16)), ("b", range(16, 20)))], [file(3, ("a", range(20, 24)), ("c", range(24, 28)))]],
        [[file(4, ("b", range(28, 32)), ("a", range(32, ROWS)))]],
    ]


def take(fs: Fs, root: Path, log: StreamLog, groups: Groups, number: int, *, late: bool = True) -> BatchOutcome:
    """One batch; the second task comes first."""
    target = StreamTarget(Layout(root), TABLE, STREAM, SCHEMA, log.state.generation, takes_late=late)
    execute = LocalExecutor(fs, target, groups, range(len(groups))[::-1])
    proposed = [split for group in groups for split in group]
    request = BatchRequest(execute, query_id="query", batch_id=number, proposed=proposed)
    return write_batch(fs, log, target, WorkerCache(), request)


def prepare(root: Path, batches: list[Groups], *, truncated: bool = True) -> None:
    """A date of two sources, in history and truncated in intraday; else in intraday alone."""
    fs, layout = Fs(), Layout(root)
    deploy(fs, layout, SCHEMA_XML)
    add_partition(fs, layout, TABLE.namespace, "0")
    with open_log(fs, root) as log:
        take(fs, root, log, batches[0], 0)
    if truncated:
        remove(root)


def remove(root: Path) -> None:
    """Merges and truncates the date."""
    place = place_of(Fs(), root)
    merge(Fs(), root)
    truncate(States(place), proof=prove(place, DAY), clock=lambda: NOW)


def arrive(fs: Fs, root: Path, batches: list[Groups]) -> None:
    """The late batches; committed ones are no-ops."""
    log = open_log(fs, root)
    try:
        for number in (1, 2):
            take(fs, root, log, batches[number], number)
            log.write_head()
    finally:
        log.abandon()


def night(fs: Fs, root: Path) -> Removed:
    """What a night does with the date, two hours later."""
    merge(fs, root)
    place, now = place_of(fs, root), NOW + 2 * HOUR
    proof = prove(place, DAY)
    truncate(States(place), proof=proof, clock=lambda: now)
    return delete(States(place), proof=proof, clock=lambda: now + HOUR)


def merge(fs: Fs, root: Path, **options: int) -> DateResult:
    executor = MergeExecutor(1)
    results = merge_dates(place_of(fs, root), [DAY], MergeOptions(**options), executor=executor, clock=lambda: NOW)  # type: ignore[arg-type]
    (result,) = results
    if result.error is not None:
        raise result.error
    return result


def place_of(fs: Fs, root: Path, table: TableName = TABLE) -> TablePlace:
    return TablePlace(fs, Layout(root), table)


def seen(root: Path, tier: str = "all") -> list[int]:
    """The numbers of the rows that a reader sees, sorted; the columns of a row belong together."""
    rows = open_table(root, str(TABLE)).to_arrow(tier=tier).to_pylist()
    for row in rows:
        assert row == record(row["N"], row["Src"], row["Date"]), f"torn: {row}"
    return sorted(row["N"] for row in rows)


def moved_aside(root: Path) -> list[str]:
    """The sources of the date with files that were moved away and not yet unlinked."""
    return sorted(path.parent.parent.name for path in Layout(root).intraday(TABLE).glob(f"*/{DAY}/{DOOMED}*"))


def check_end(root: Path) -> None:
    """Every row is in history, once, and intraday is empty."""
    assert seen(root) == [*range(ROWS)] == seen(root, "history")
    assert moved_aside(root) == []
    report = verify(Fs(), Layout(root), TABLE, deep=True)
    assert report.errors == 0, [finding.to_json() for finding in report.findings]


FS = Fs()
A, B = LocationKey("a", DAY), LocationKey("b", DAY)
Truncated = tuple[Path, list[Groups]]


@pytest.fixture
def truncated(tmp_path: Path) -> Truncated:
    batches = write_feed(tmp_path / "feed")
    root = tmp_path / "db"
    root.mkdir()
    prepare(root, batches)
    return root, batches


def test_late_rows_are_stored_and_merged_as_a_supplement(truncated: Truncated) -> None:
    root, batches = truncated
    with open_log(FS, root) as log:
        outcome = take(FS, root, log, batches[1], 1)
        assert (outcome.epoch, outcome.rows, outcome.rejected) == (2, 16, 0)
        assert outcome.counts == {"locations_reopened": 2}
        assert seen(root) == [*range(28)] and seen(root, "intraday") == [*range(12, 28)]
        again = take(FS, root, log, batches[2], 2)
        assert (again.rows, again.counts) == (8, {})
        phases = [(str(r.phase), r.key, r.since, r.rows) for _, r in read_removals(place_in(root, FS)).entries]
        assert phases[2:] == [("delete", A, 1, 8), ("delete", B, 1, 4)]
        proofs = [r.proof for _, r in read_removals(place_in(root, FS)).entries]
        assert proofs[2:] == proofs[:2] and proofs[0]["rows"] == MERGED
    assert scratch_left(root) == []
    assert moved_aside(root) == ["a", "b"]
    result = merge(FS, root)
    assert (str(result.outcome), newest(place_of(FS, root), DAY).generation) == ("supplement", 2)  # type: ignore[union-attr]
    assert seen(root, "history") == [*range(ROWS)]
    assert night(FS, root).rows == ROWS - MERGED
    check_end(root)


def test_enough_supplements_make_the_night_merge_the_date_again(truncated: Truncated) -> None:
    root, batches = truncated
    with open_log(FS, root) as log:
        take(FS, root, log, batches[1], 1)
        assert str(merge(FS, root, max_supplements=1).outcome) == "supplement"
        take(FS, root, log, batches[2], 2)
    result = merge(FS, root, max_supplements=1)
    assert str(result.outcome) == "merged"
    night(FS, root)
    check_end(root)


def test_a_stream_that_does_not_take_late_rows_rejects_them(truncated: Truncated) -> None:
    root, batches = truncated
    with open_log(FS, root) as log, pytest.raises(ErrorBudgetExceeded, match="the batch has 12 bad rows"):
        take(FS, root, log, batches[1], 1, late=False)
    assert moved_aside(root) == []


@pytest.mark.parametrize(
    ("at", "reopened"), [("cut-tails:after", 1), ("collect:after", 2), ("commit-record:before", 2)]
)
def test_a_date_that_is_truncated_meanwhile_takes_the_rows_too(tmp_path: Path, at: str, reopened: int) -> None:
    batches, root = write_feed(tmp_path / "feed"), tmp_path / "db"
    root.mkdir()
    prepare(root, batches)
    with open_log(FS, root) as log:
        take(FS, root, log, batches[1], 1)
        merge(FS, root)

        class Meanwhile(Fs):
            done = False

            def step(self, name: str) -> None:
                if name == at and not self.done:
                    self.done = True
                    truncate(States(place_of(FS, root)), proof=prove(place_of(FS, root), DAY), clock=lambda: NOW)

        outcome = take(Meanwhile(), root, log, batches[2], 2)
        assert (outcome.rows, outcome.rejected, outcome.counts) == (8, 0, {"locations_reopened": reopened})
    assert seen(root) == [*range(ROWS)]
    night(FS, root)
    check_end(root)


def test_a_delete_leaves_rows_that_came_since_and_waits_for_readers_of_the_others(truncated: Truncated) -> None:
    root, batches = truncated
    arrive(FS, root, batches)
    place = place_of(FS, root)
    proof = prove(place, DAY)
    for dry_run in (True, False):
        with pytest.raises(TooEarlyError, match="readers may still use"):
            delete(States(place), proof=proof, clock=lambda: NOW + HOUR - 1, dry_run=dry_run)
    assert moved_aside(root) == ["a", "b"]
    done = delete(States(place), proof=proof, clock=lambda: NOW + HOUR, source="a")
    assert (done.locations, done.since) == ((), (("feed", "a", 12),))
    assert moved_aside(root) == ["b"]
    done = delete(States(place), proof=proof, clock=lambda: NOW + HOUR, source="c")
    assert (done.locations, done.since, moved_aside(root)) == ((), (("feed", "c", 4),), ["b"])
    done = delete(States(place), proof=proof, clock=lambda: NOW + HOUR, source="b")
    assert (done.locations, done.since, moved_aside(root)) == ((), (("feed", "b", 8),), [])
    merge(FS, root)
    with pytest.raises(ValidationFailedError, match="is not truncated"):
        delete(States(place), proof=prove(place, DAY), clock=lambda: NOW + HOUR)
    assert seen(root) == [*range(ROWS)]


@pytest.mark.parametrize("first", ["arrow", "batches", "filtered"])
def test_who_has_opened_the_table_before_goes_on_reading_its_snapshot(tmp_path: Path, first: str) -> None:
    batches, root = write_feed(tmp_path / "feed"), tmp_path / "db"
    root.mkdir()
    prepare(root, batches, truncated=False)
    before = open_table(root, str(TABLE))
    remove(root)
    arrive(FS, root, batches)
    reads: dict[str, Callable[[], list[int]]] = {
        "arrow": lambda: before.to_arrow(tier="intraday")["N"].to_pylist(),
        "batches": lambda: before.to_batches(["N"], tier="intraday", batch_rows=3).read_all()["N"].to_pylist(),
        "filtered": lambda: before.to_arrow(["Note", "N"], where="N >= 0", tier="intraday")["N"].to_pylist(),
    }
    for name in (first, *reads):
        assert sorted(reads[name]()) == [*range(MERGED)], name
    proof = prove(place_of(FS, root), DAY)
    delete(States(place_of(FS, root)), proof=proof, clock=lambda: NOW + HOUR)
    for name in (first, *reads):
        with pytest.raises(SnapshotMovedError, match="deleted from intraday since"):
            reads[name]()


def test_without_a_record_that_has_its_rows_a_truncated_location_stays(truncated: Truncated) -> None:
    root, batches = truncated
    place = place_of(FS, root)
    record = load_record(place, DAY, 1)
    store_record(place, replace(record, inputs=tuple(replace(taken, rows=1) for taken in record.inputs)))
    with open_log(FS, root) as log, pytest.raises(ErrorBudgetExceeded, match="the batch has 12 bad rows"):
        take(FS, root, log, batches[1], 1)
    assert moved_aside(root) == []
    assert all(load_stream(place_in(root, FS)).locations[key].truncated for key in (A, B))


def test_rows_that_came_after_a_delete_was_killed_do_not_pass_for_the_old_ones(truncated: Truncated) -> None:
    """The stream goes on while the directory is renamed and nothing is recorded: its batch fails, once."""
    root, batches = truncated
    before = open_table(root, str(TABLE), epoch={"feed": 1})
    with open_log(FS, root) as log:
        fs = CrashingFs(crash_at="delete-rename:after")
        with pytest.raises(Crash):
            delete(States(place_of(fs, root)), proof=prove(place_of(FS, root), DAY), clock=lambda: NOW + HOUR)
        with pytest.raises(EpochConflictError, match="the location was truncated"):
            take(FS, root, log, batches[1], 1)
    arrive(FS, root, batches)
    assert seen(root) == [*range(ROWS)]
    assert before.count() == MERGED
    night(FS, root)
    check_end(root)


def kill_and_go_on(root: Path, batches: list[Groups], fs: CrashingFs, then: int) -> None:
    """Kills the arrival, then the next start ``then`` changes of the disk later, and goes on to the end of a night."""
    with pytest.raises(Crash):
        arrive(fs, root, batches)
    for _ in range(2):
        rows = seen(root)
        assert len(rows) == len(set(rows)) and set(range(MERGED)) <= set(rows), rows
        with suppress(Crash):
            arrive(CrashingFs(crash_after=then), root, batches)
    arrive(FS, root, batches)
    assert seen(root) == [*range(ROWS)]
    assert verify(FS, Layout(root), TABLE).errors == 0
    night(FS, root)
    check_end(root)


STEPS = [
    f"{name}:{when}" for name in ("delete-rename", "delete-record", "commit-record") for when in ("before", "after")
]


@pytest.mark.slow
def test_killed_at_any_change_of_the_disk_every_row_is_there_once(truncated: Truncated, tmp_path: Path) -> None:
    root, batches = truncated
    counting = CrashingFs()
    shutil.copytree(root, tmp_path / "count", symlinks=True)
    arrive(counting, tmp_path / "count", batches)
    assert set(STEPS) <= set(counting.steps)
    rng = random.Random(5)
    changes = range(counting.changes)
    every = "SPARKHAVEN_EVERY_KILL" in os.environ
    kills = [CrashingFs(crash_after=number) for number in (changes if every else rng.sample(changes, 8))]
    kills += [CrashingFs(crash_at=step) for step in STEPS]
    for number, fs in enumerate(some_of(kills)):
        work = tmp_path / str(number)
        shutil.copytree(root, work, symlinks=True)
        kill_and_go_on(work, batches, fs, rng.randrange(counting.changes))
        shutil.rmtree(work)
