"""Commits of a stream on a real file system: who may write, what a commit requires, a disk that fails."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.store.epochs.files.published_size import TABLE_SIZE
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.log_values import FileId, LocationReport
from sparkhaven.store.errors import CommitUnknownError, EpochConflictError, LockLostError, PositionGapError
from sparkhaven.store.format.table.table_size import decode
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.types.committed_columns import FileState
from tests.support.disks.model_fs import CrashingFs, FaultFs
from tests.support.streams.locations import A, B
from tests.support.streams.tiny_writer import (
    STREAM,
    TABLE,
    append,
    batch_of,
    log_path,
    open_log,
    read_state,
    write_batch,
)

FS = CrashingFs()  # spares the disk the syncs


def test_epochs_are_readable_at_each_number_and_survive_a_new_generation(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        assert write_batch(FS, tmp_path, log, {A: [1, 2]}, 1) == 1
        assert write_batch(FS, tmp_path, log, {A: [3], B: [4]}, 2) == 2
    with open_log(FS, tmp_path) as log:
        assert log.recovery.clean
        assert (log.state.generation, log.state.epoch) == (2, 2)
        assert write_batch(FS, tmp_path, log, {B: [5]}, 3) == 3
    layout = Layout(tmp_path)
    rows = [read_state(FS, tmp_path, load_stream(StreamPlace(FS, layout, TABLE, STREAM), epoch=e)) for e in range(4)]
    assert rows == [{}, {A: [1, 2]}, {A: [1, 2, 3], B: [4]}, {A: [1, 2, 3], B: [4, 5]}]
    record = decode(FS.read(layout.intraday_location(TABLE, B) / TABLE_SIZE), "table.size")
    assert (record.size, record.epoch, record.stream) == (2, 3, STREAM)


# --- who may write -----------------------------------------------------------------------------------------


def test_the_error_of_a_second_writer_names_the_lock_owner(tmp_path: Path) -> None:
    with open_log(FS, tmp_path, pid=4711, host="lab7"):
        with pytest.raises(LockLostError) as caught:
            open_log(FS, tmp_path)
        assert (caught.value.pid, caught.value.host) == (4711, "lab7")
        assert "process 4711 on lab7, generation 1" in str(caught.value)


def test_a_writer_whose_log_was_replaced_commits_nothing(tmp_path: Path) -> None:
    zombie = open_log(FS, tmp_path)
    write_batch(FS, tmp_path, zombie, {A: [1]}, 1)
    Layout(tmp_path).stream_lock(TABLE, STREAM).unlink()  # an operator "helped"
    with open_log(FS, tmp_path) as log:
        write_batch(FS, tmp_path, log, {A: [2]}, 2)
        with pytest.raises(LockLostError, match="another generation"):
            zombie.commit(batch_of([append(FS, tmp_path, log.state.locations[A], A, [9])], 3))
        with pytest.raises(LockLostError):
            zombie.rollback(0)
    assert read_state(FS, tmp_path, load_stream(StreamPlace(FS, Layout(tmp_path), TABLE, STREAM))) == {A: [1, 2]}


def test_a_log_that_somebody_appended_to_is_not_ours_any_more(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        with log_path(tmp_path).open("ab") as file:
            file.write(b"x")
        with pytest.raises(LockLostError):
            log.commit(batch_of([], 1))


def test_a_log_under_another_inode_is_not_ours_though_its_bytes_are_the_same(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        FS.replace(log_path(tmp_path), log_path(tmp_path).read_bytes())
        with pytest.raises(LockLostError):
            log.commit(batch_of([], 1))


# --- what a commit requires --------------------------------------------------------------------------------


def _differs(report: LocationReport, **parts: object) -> LocationReport:
    return replace(report, **parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"base_epoch": 1}, "epoch 2 with 3 rows"),
        ({"base_rows": 2}, "epoch 2 with 2 rows"),
        ({"base_epoch": 0, "base_rows": 0}, "epoch 0 with 0 rows"),
        ({"rows": 2}, "a location shrinks"),
        ({"files": {"N.dat": FileState(8, 0)}}, "N.dat shrinks"),
        ({"files": {}}, "shrinks"),
    ],
)
def test_a_report_from_another_state_is_a_conflict(tmp_path: Path, change: dict[str, object], message: str) -> None:
    with open_log(FS, tmp_path) as log:
        write_batch(FS, tmp_path, log, {A: [1, 2]}, 1)
        write_batch(FS, tmp_path, log, {A: [3]}, 2)
        before = log_path(tmp_path).read_bytes()
        report = append(FS, tmp_path, log.state.locations[A], A, [4])
        with pytest.raises(EpochConflictError, match=message):
            log.commit(batch_of([_differs(report, **change)], 3))
        assert log_path(tmp_path).read_bytes() == before
        assert log.commit(batch_of([report], 3)) == 3


def test_two_reports_of_a_location_or_a_hostile_file_name_are_conflicts(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        report = append(FS, tmp_path, None, A, [4])
        with pytest.raises(EpochConflictError, match="two reports"):
            log.commit(batch_of([report, report], 1))
        for name in ("../../x.dat", "table.size", ".hidden", ""):
            bad = _differs(report, files={**report.files, name: FileState(1, 1)})
            with pytest.raises(EpochConflictError, match="impossible file"):
                log.commit(batch_of([bad], 1))


def test_files_are_taken_once(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        write_batch(FS, tmp_path, log, {A: [1]}, 1)
        with pytest.raises(EpochConflictError, match="already committed"):
            log.commit(batch_of([], 1))
        with pytest.raises(PositionGapError, match="a file changed after it was taken"):
            log.commit(batch_of([], 2, [FileId("/feed/1", 99, 1)]))


# --- a disk that fails -------------------------------------------------------------------------------------


def test_a_full_disk_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    for half in (False, True):
        root = tmp_path / str(half)
        root.mkdir()
        fs = FaultFs("write", nth=3, name="feed.log", code=errno.ENOSPC, half=half, times=1)
        with open_log(fs, root) as log:  # the first two writes are the log of the new generation
            report = append(fs, root, None, A, [1])
            before = log_path(root).read_bytes()
            with pytest.raises(EpochConflictError, match="the record could not be written"):
                log.commit(batch_of([report], 1))
            assert fs.failed == 1
            assert log_path(root).read_bytes() == before
            assert log.commit(batch_of([report], 1)) == 1


def test_a_failed_sync_is_never_tried_again(tmp_path: Path) -> None:
    fs = FaultFs("sync", nth=2, name="feed.log")
    log = open_log(fs, tmp_path)
    report = append(fs, tmp_path, None, A, [1])
    with pytest.raises(CommitUnknownError, match="could not be synced"):
        log.commit(batch_of([report], 1))
    calls = fs.changes
    commit: Callable[[], object] = lambda: log.commit(batch_of([report], 1))  # noqa: E731
    actions = (commit, log.publish, log.sync_now, log.compact_if_due, lambda: log.rollback(0))
    for action in actions:
        with pytest.raises(CommitUnknownError, match="unusable after"):
            action()
    log.close()
    assert fs.changes == calls
    with open_log(FS, tmp_path) as again:  # it did land
        assert again.state.epoch == 1


def test_half_a_record_that_cannot_be_taken_back_poisons(tmp_path: Path) -> None:
    fs = FaultFs("write", nth=3, name="feed.log", code=errno.ENOSPC, half=True)
    log = open_log(fs, tmp_path)
    log._file._fs = _NoTruncate(fs)
    with pytest.raises(CommitUnknownError, match="partly written record"):
        log.commit(batch_of([append(fs, tmp_path, None, A, [1])], 1))
    log.close()
    with open_log(FS, tmp_path) as again:
        assert again.state.epoch == 0
        assert again.recovery.log_bytes > 0


class _NoTruncate(Fs):
    def __init__(self, inner: Fs) -> None:
        self._inner = inner

    def write_at(self, path: Path, offset: int, data: bytes | memoryview) -> None:
        self._inner.write_at(path, offset, data)

    def truncate(self, path: Path, length: int) -> None:
        raise OSError(errno.EIO, "broken")


@pytest.mark.parametrize("name", ["feed.checkpoint", "feed.log"])
@pytest.mark.parametrize("kind", ["write", "sync", "rename", "sync-dir"])
def test_a_compaction_that_fails_changes_nothing_or_poisons(tmp_path: Path, kind: str, name: str) -> None:
    with open_log(FS, tmp_path, keep_epochs=1) as log:
        for number in range(1, 6):
            write_batch(FS, tmp_path, log, {A: [number]}, number)
    fs = FaultFs("none")
    with contextlib.suppress(CommitUnknownError), open_log(fs, tmp_path, keep_epochs=1) as log:
        fs._kind, fs._name, fs._calls = kind, name if kind != "sync-dir" else ".streams", 0
        fs._nth = 2 if (kind, name) == ("sync-dir", "feed.log") else 1
        with pytest.raises((EpochConflictError, CommitUnknownError)) as caught:
            log.compact_if_due(now=True)
        fs._kind = "none"
        poisoned = kind == "sync-dir" or (kind, name) == ("rename", "feed.log")
        assert isinstance(caught.value, CommitUnknownError) == poisoned
        if not poisoned:
            write_batch(fs, tmp_path, log, {A: [6]}, 6)
            assert log.compact_if_due(now=True)
    with open_log(FS, tmp_path) as log:
        assert [read_state(FS, tmp_path, log.state)[A][i] for i in range(5)] == [1, 2, 3, 4, 5]
