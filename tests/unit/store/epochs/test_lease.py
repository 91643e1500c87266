"""A generation that one process begins and another commits, with nobody holding the lock in between."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from sparkhaven.store.epochs.files.lock import take_leased_lock, take_lock
from sparkhaven.store.epochs.files.logfile import Lease
from sparkhaven.store.epochs.generation import Opening
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.recovery.recover import preview_recovery
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy, Retention
from sparkhaven.store.epochs.state.log_values import LocationReport
from sparkhaven.store.errors import CommitUnknownError, EpochConflictError, LockLostError
from sparkhaven.store.io.fs import Fs, Lock
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import StreamPlace
from tests.support.disks.model_fs import Crash, CrashingFs, FaultFs
from tests.support.streams.locations import A
from tests.support.streams.tiny_writer import STREAM, TABLE, append, batch_of, open_log, read_state, write_batch

FS = CrashingFs()


def taken_over(fs: Fs, root: Path, lease: Lease, *, pid: int = 42, durability: str = "fsync") -> StreamLog:
    """The stream in another process."""
    retention = Retention(CommitPolicy(durability), keep_epochs=1, compact_bytes=1)  # type: ignore[arg-type]
    same = pickle.loads(pickle.dumps(lease))
    opening = Opening(None, "", lambda: 1_000_000.0, pid, "here", retention)
    return StreamLog.take_over(StreamPlace(fs, Layout(root), TABLE, STREAM), same, opening)


def lock_file(root: Path) -> Path:
    return Layout(root).stream_lock(TABLE, STREAM)


def begun(root: Path, *numbers: int) -> tuple[Lease, LocationReport]:
    """One committed epoch of ``[1]``, and a write of ``numbers`` whose task has reported."""
    with open_log(FS, root) as log:
        if log.state.epoch == 0:
            write_batch(FS, root, log, {A: [1]}, 1)
        base = log.state.locations[A]
        lease = log.hand_over()
    return lease, append(FS, root, base, A, numbers)


def rows(root: Path) -> dict[LocationKey, list[int]]:
    return read_state(FS, root, load_stream(StreamPlace(FS, Layout(root), TABLE, STREAM)))


def test_another_process_commits_in_the_same_generation(tmp_path: Path) -> None:
    lease, report = begun(tmp_path, 2, 3)
    before = load_stream(StreamPlace(FS, Layout(tmp_path), TABLE, STREAM))
    with taken_over(FS, tmp_path, lease) as log:
        assert (log.state, log.state.generation) == (before, lease.generation)
        owner = json.loads(lock_file(tmp_path).read_text())
        assert (owner["pid"], owner["generation"]) == (42, lease.generation)
        with pytest.raises(LockLostError, match="another process is writing"):
            open_log(FS, tmp_path)
        log.publish(log.commit(batch_of([report], 2)))
        assert log.recovery.clean
    assert rows(tmp_path) == {A: [1, 2, 3]}
    with open_log(FS, tmp_path) as log:
        assert log.recovery.clean
        assert (log.state.generation, log.state.epoch) == (lease.generation + 1, 2)


def test_a_lease_is_used_once(tmp_path: Path) -> None:
    lease, report = begun(tmp_path, 2)
    with taken_over(FS, tmp_path, lease) as log:
        log.publish(log.commit(batch_of([report], 2)))
    with pytest.raises(LockLostError, match="another generation has opened the commit log"):
        taken_over(FS, tmp_path, lease)
    assert rows(tmp_path) == {A: [1, 2]}


def test_whoever_opens_the_stream_in_between_ends_the_write(tmp_path: Path) -> None:
    lease, report = begun(tmp_path, 2, 3)
    with open_log(FS, tmp_path, pid=77, host="lab7") as log:
        assert log.recovery.cut_files  # what the tasks of the first have written
        with pytest.raises(LockLostError) as caught:  # at once, although the other one holds the lock
            taken_over(FS, tmp_path, lease)
        assert caught.value.expected == f"generation {lease.generation}"
        assert f"process 77 on lab7, generation {lease.generation + 1}" in str(caught.value)
        write_batch(FS, tmp_path, log, {A: [9]}, 2)
    with pytest.raises(LockLostError, match="opened the stream since this write began"):
        taken_over(FS, tmp_path, lease)
    with pytest.raises(LockLostError):  # the lock is free, and stays so
        taken_over(FS, tmp_path, lease)
    assert rows(tmp_path) == {A: [1, 9]}
    assert report.rows == 3


@pytest.mark.parametrize("step", ["log-open:after", "recover-files:before"])
def test_a_start_that_is_killed_ends_the_write_once_it_has_replaced_the_log(tmp_path: Path, step: str) -> None:
    lease, _ = begun(tmp_path, 2)
    fs = CrashingFs(crash_at=step)
    with pytest.raises(Crash):
        open_log(fs, tmp_path)
    with pytest.raises(LockLostError):
        taken_over(FS, tmp_path, lease)
    assert rows(tmp_path) == {A: [1]}


def test_a_start_that_is_killed_before_leaves_the_write_alone(tmp_path: Path) -> None:
    lease, report = begun(tmp_path, 2)
    with pytest.raises(Crash):
        open_log(CrashingFs(crash_at="log-open:before"), tmp_path)
    with taken_over(FS, tmp_path, lease) as log:
        log.publish(log.commit(batch_of([report], 2)))
    assert rows(tmp_path) == {A: [1, 2]}


def test_a_lock_file_that_is_gone_or_torn_ends_the_write(tmp_path: Path) -> None:
    lease, _ = begun(tmp_path, 2)
    sound = lock_file(tmp_path).read_bytes()
    lock_file(tmp_path).write_bytes(sound[:20])
    with pytest.raises(LockLostError):
        taken_over(FS, tmp_path, lease)
    lock_file(tmp_path).unlink()
    with pytest.raises(LockLostError):
        taken_over(FS, tmp_path, lease)
    assert not lock_file(tmp_path).exists()
    lock_file(tmp_path).write_bytes(sound)
    taken_over(FS, tmp_path, lease).close()


def test_who_only_looks_is_waited_for(tmp_path: Path) -> None:
    lease, _ = begun(tmp_path, 2)
    layout, path = Layout(tmp_path), lock_file(tmp_path)
    assert preview_recovery(
        StreamPlace(FS, layout, TABLE, STREAM), time_ms=1
    ).cut_files  # takes the lock, begins no generation
    owner, waits = take_lock(FS, path), []

    def pause(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            owner.release()

    take_leased_lock(FS, path, lease.generation, pause=pause).release()
    assert len(waits) == 3
    with take_lock(FS, path), pytest.raises(LockLostError, match="for a minute") as caught:
        take_leased_lock(FS, path, lease.generation, pause=waits.append)
    assert 59 < sum(waits) < 62
    assert caught.value.hint


def test_a_generation_that_begins_while_one_waits_is_seen(tmp_path: Path) -> None:
    lease, _ = begun(tmp_path, 2)
    path = lock_file(tmp_path)
    owner = take_lock(FS, path)

    def other_opens(seconds: float) -> None:
        owner.release()
        open_log(FS, tmp_path).close()

    with pytest.raises(LockLostError, match="since this write began"):
        take_leased_lock(FS, path, lease.generation, pause=other_opens)
    take_lock(FS, path).release()  # not kept


class Overtaken(CrashingFs):
    """Another process opens and closes the stream just before this one gets the lock."""

    root: Path | None = None

    def lock(self, path: Path, *, wait: bool = False, make: bool = True) -> Lock | None:
        if self.root is not None:
            root, self.root = self.root, None
            open_log(FS, root).close()
        return super().lock(path, wait=wait, make=make)


def test_a_generation_that_begins_before_the_lock_is_had_is_seen(tmp_path: Path) -> None:
    lease, _ = begun(tmp_path, 2)
    path, fs = lock_file(tmp_path), Overtaken()
    fs.root = tmp_path
    with pytest.raises(LockLostError, match="since this write began"):
        take_leased_lock(fs, path, lease.generation)
    take_lock(FS, path).release()  # not kept


@pytest.mark.parametrize("step", ["commit-record:before", "log-append:before"])
def test_killed_before_the_commit_record_nothing_is_committed(tmp_path: Path, step: str) -> None:
    _killed(tmp_path, step)
    assert rows(tmp_path) == {A: [1]}
    with open_log(FS, tmp_path) as log:
        assert log.recovery.cut_files and log.recovery.cut_bytes
        write_batch(FS, tmp_path, log, {A: [5]}, 2)
    assert rows(tmp_path) == {A: [1, 5]}


@pytest.mark.parametrize(
    ("step", "republished"), [("log-sync:after", 1), ("publish-location:before", 1), ("publish-location:after", 0)]
)
def test_killed_after_the_commit_record_the_next_start_publishes(tmp_path: Path, step: str, republished: int) -> None:
    _killed(tmp_path, step)
    with open_log(FS, tmp_path) as log:
        assert (log.recovery.cut_files, log.recovery.republished) == ((), republished)
        assert log.state.epoch == 2
        write_batch(FS, tmp_path, log, {A: [5]}, 3)
    assert rows(tmp_path) == {A: [1, 2, 5]}


def _killed(root: Path, step: str) -> None:
    """A write whose commit dies at a step."""
    lease, report = begun(root, 2)
    fs = CrashingFs(crash_at=step)
    with pytest.raises(Crash), taken_over(fs, root, lease) as log:
        with fs.during("commit-record"):
            epoch = log.commit(batch_of([report], 2))
        log.publish(epoch)
    assert fs.dead


def test_a_report_of_an_earlier_generation_is_no_report_of_this_one(tmp_path: Path) -> None:
    _, stale = begun(tmp_path, 2, 3)
    with open_log(FS, tmp_path) as log:
        write_batch(FS, tmp_path, log, {A: [9]}, 2)
        lease = log.hand_over()
    with taken_over(FS, tmp_path, lease) as log, pytest.raises(EpochConflictError):
        log.commit(batch_of([stale], 3))
    assert rows(tmp_path) == {A: [1, 9]}


@pytest.mark.parametrize("durability", ["periodic", "none"])
def test_a_lease_and_a_close_leave_nothing_unsynced(tmp_path: Path, durability: str) -> None:
    with open_log(FS, tmp_path, durability=durability) as log:
        write_batch(FS, tmp_path, log, {A: [1]}, 1, sync=False)
        base, durable = log.state.locations[A], log.state.durable
        lease = log.hand_over()
    assert durable == 0
    assert load_stream(StreamPlace(FS, Layout(tmp_path), TABLE, STREAM)).durable == 1
    report = append(FS, tmp_path, base, A, [2], sync=False)
    with taken_over(FS, tmp_path, lease, durability=durability) as log:
        log.publish(log.commit(batch_of([report], 2)))
        assert log.state.durable == 1
    assert load_stream(StreamPlace(FS, Layout(tmp_path), TABLE, STREAM)).durable == 2
    with open_log(CrashingFs(boot="boot-2"), tmp_path, durability=durability) as log:
        assert log.recovery.lost_epochs == ()
    assert rows(tmp_path) == {A: [1, 2]}


def test_a_log_that_may_have_failed_gives_no_lease(tmp_path: Path) -> None:
    fs = FaultFs("sync", name=".log", nth=10**9)
    with open_log(fs, tmp_path) as log:
        fs._calls, fs._nth = 0, 1
        with pytest.raises(CommitUnknownError):
            write_batch(fs, tmp_path, log, {A: [1]}, 1)
        with pytest.raises(CommitUnknownError):
            log.hand_over()


def test_a_log_of_one_batch_a_process_is_compacted(tmp_path: Path) -> None:
    """A compaction takes several calls; a process that commits once completes what it begins."""
    from sparkhaven.writers.batch.commit import Maintenance

    def one(number: int, *, finish: bool) -> int:
        with open_log(FS, tmp_path) as log:
            base = log.state.locations.get(A)
            lease = log.hand_over()
        report = append(FS, tmp_path, base, A, [number])
        retention = Retention(keep_epochs=1, compact_bytes=1, slice_work=1)
        opening = Opening(None, "", lambda: 1_000_000.0, 42, "here", retention)
        with StreamLog.take_over(StreamPlace(FS, Layout(tmp_path), TABLE, STREAM), lease, opening) as log:
            log.publish(log.commit(batch_of([report], number)))
            maintenance = Maintenance(log, CommitPolicy(), lambda error: None)
            maintenance.after_batch()
            if finish:
                maintenance.finish()
            assert log.compacting is (not finish and number > 1)
            return log.state.floor

    assert [one(number, finish=False) for number in range(1, 6)] == [0] * 5
    assert one(6, finish=True) == 5
