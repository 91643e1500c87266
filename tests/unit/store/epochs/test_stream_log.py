"""The commit log on a real file system: epochs, positions, recovery, rollback, fencing."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from store.epochs.files.publish import OWNER, TABLE_SIZE, owner_mark
from store.epochs.reading.load import load_stream
from store.epochs.state.values import FileId, LocationReport
from store.errors import (
    CommitUnknownError,
    CorruptFileError,
    EpochConflictError,
    FormatError,
    LockLostError,
    PositionGapError,
)
from store.format.table.tablesize import TableSize, decode
from store.format.table.tablesize import encode as encode_size
from store.framing.frames import FRAME, frame, scan
from store.io.fs import Fs
from store.layout import Layout, LocationKey
from store.types.committed import FileState
from tests.support.disks.model_fs import CrashingFs, FaultFs
from tests.support.streams.tiny_writer import STREAM, TABLE, append, batch_of, open_log, read_state, write_batch

A, B = LocationKey("a", "2026-11-20"), LocationKey("b", "2026-11-20")
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
    rows = [read_state(FS, tmp_path, load_stream(FS, layout, TABLE, STREAM, epoch=e)) for e in range(4)]
    assert rows == [{}, {A: [1, 2]}, {A: [1, 2, 3], B: [4]}, {A: [1, 2, 3], B: [4, 5]}]
    record = decode(FS.read(layout.intraday_location(TABLE, B) / TABLE_SIZE), "table.size")
    assert (record.size, record.epoch, record.stream) == (2, 3, STREAM)


def _layout(root: Path) -> Layout:
    return Layout(root)


def _log_path(root: Path) -> Path:
    return Layout(root).stream_log(TABLE, STREAM)


def _location(root: Path, key: LocationKey) -> Path:
    return Layout(root).intraday_location(TABLE, key)


def _two_epochs(root: Path) -> None:
    with open_log(FS, root) as log:
        write_batch(FS, root, log, {A: [1, 2]}, 1)
        write_batch(FS, root, log, {A: [3], B: [4]}, 2)


# --- who may write -----------------------------------------------------------------------------------------


def test_a_second_writer_is_told_who_holds_the_stream(tmp_path: Path) -> None:
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
    assert read_state(FS, tmp_path, load_stream(FS, _layout(tmp_path), TABLE, STREAM)) == {A: [1, 2]}


def test_a_log_that_somebody_appended_to_is_not_ours_any_more(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        with _log_path(tmp_path).open("ab") as file:
            file.write(b"x")
        with pytest.raises(LockLostError):
            log.commit(batch_of([], 1))


def test_a_log_under_another_inode_is_not_ours_though_its_bytes_are_the_same(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        FS.replace(_log_path(tmp_path), _log_path(tmp_path).read_bytes())
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
        before = _log_path(tmp_path).read_bytes()
        report = append(FS, tmp_path, log.state.locations[A], A, [4])
        with pytest.raises(EpochConflictError, match=message):
            log.commit(batch_of([_differs(report, **change)], 3))
        assert _log_path(tmp_path).read_bytes() == before
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
        with pytest.raises(EpochConflictError, match="committed already"):
            log.commit(batch_of([], 1))
        with pytest.raises(PositionGapError, match="a file changed after it was taken"):
            log.commit(batch_of([], 2, [FileId("/feed/1", 99, 1)]))


# --- a disk that fails -------------------------------------------------------------------------------------


def test_a_full_disk_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    for half in (False, True):
        root = tmp_path / str(half)
        root.mkdir()
        fs = FaultFs("write", nth=2, name="feed.log", code=errno.ENOSPC, half=half, times=1)
        with open_log(fs, root) as log:  # the first write is the log of the new generation
            report = append(fs, root, None, A, [1])
            before = _log_path(root).read_bytes()
            with pytest.raises(EpochConflictError, match="log is as it was"):
                log.commit(batch_of([report], 1))
            assert fs.failed == 1
            assert _log_path(root).read_bytes() == before
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
    fs = FaultFs("write", nth=2, name="feed.log", code=errno.ENOSPC, half=True)
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


# --- recovery ----------------------------------------------------------------------------------------------


def test_tails_strays_and_records_of_locations_are_put_right_and_reported(tmp_path: Path) -> None:
    _two_epochs(tmp_path)
    a, b = _location(tmp_path, A), _location(tmp_path, B)
    never = _location(tmp_path, LocationKey("c", "2026-11-20"))
    FS.mkdirs(never)
    FS.write_new(never / "N.dat", b"x")
    FS.write_new(never / OWNER, owner_mark(STREAM))
    FS.write_at(a / "N.dat", 4096 + 24, b"tail")
    FS.write_new(a / "New.dat", b"column of a batch that never came")
    FS.write_new(a / ".table.size.tmp-7", b"left")
    FS.write_new(a / "notes.txt", b"not ours")
    size_a, size_b = (a / TABLE_SIZE).read_bytes(), (b / TABLE_SIZE).read_bytes()
    FS.write_new(a / TABLE_SIZE, size_a[: len(size_a) // 2])
    FS.unlink(b / TABLE_SIZE)
    with open_log(FS, tmp_path) as log:
        found = log.recovery
        assert (found.cut_bytes, found.cut_files) == (4, (a / "N.dat",))
        assert found.stray_files == (a / ".table.size.tmp-7", a / "New.dat")
        assert found.stray_locations == (never,)
        assert (found.republished, found.clean) == (2, False)
        assert read_state(FS, tmp_path, log.state) == {A: [1, 2, 3], B: [4]}
    assert (a / TABLE_SIZE).read_bytes() == size_a
    assert (b / TABLE_SIZE).read_bytes() == size_b
    assert FS.names(a) == [".stream", "N.dat", "T.bytes", "T.dat", "notes.txt", "table.size", "table.tbl"]
    assert FS.stat(never.parent.parent) is None
    with open_log(FS, tmp_path) as log:
        assert log.recovery.clean
        assert log.recovery.republished == 0


@pytest.mark.parametrize("owner", [None, "other"])
def test_directories_that_do_not_name_the_stream_are_reported_and_left_alone(tmp_path: Path, owner: str | None) -> None:
    _two_epochs(tmp_path)
    theirs, empty = (_location(tmp_path, LocationKey(name, "2026-11-20")) for name in ("c", "e"))
    FS.mkdirs(empty)
    FS.mkdirs(theirs)
    FS.write_new(theirs / "N.dat", b"a copy in progress")
    if owner:
        FS.write_new(theirs / OWNER, owner_mark(owner))
    with open_log(FS, tmp_path) as log:
        assert log.recovery.stray_locations == ()
        assert log.recovery.unpublished_locations == (theirs,)
        assert not log.recovery.clean
    assert FS.read(theirs / "N.dat") == b"a copy in progress"
    assert FS.stat(empty) is not None


def test_published_locations_of_others_are_left_alone_whatever_was_rolled_back(tmp_path: Path) -> None:
    _two_epochs(tmp_path)
    torn, theirs = (_location(tmp_path, LocationKey(name, "2026-11-20")) for name in ("c", "e"))
    for directory, record in ((torn, b"\xac"), (theirs, encode_size(TableSize(1, 0, {}, stream="other", epoch=2)))):
        FS.mkdirs(directory)
        FS.write_new(directory / TABLE_SIZE, record)
    with open_log(FS, tmp_path) as log:
        log.rollback(1)
    with open_log(FS, tmp_path) as log:
        assert log.recovery.stray_locations == ()
        assert log.recovery.unpublished_locations == (torn,)
    assert [FS.stat(directory) is not None for directory in (torn, theirs)] == [True, True]


@pytest.mark.parametrize("name", ["N.dat", "T.dat", "T.bytes"])
@pytest.mark.parametrize("missing", [False, True])
def test_a_file_shorter_than_committed_is_corruption_and_nothing_is_touched(
    tmp_path: Path, name: str, missing: bool
) -> None:
    _two_epochs(tmp_path)
    path = _location(tmp_path, A) / name
    size = path.stat().st_size
    FS.write_at(_location(tmp_path, B) / "N.dat", 4096 + 8, b"tail")
    if missing:
        FS.unlink(path)
    else:
        FS.truncate(path, size - 1)
    before = _tree(tmp_path)
    with pytest.raises(CorruptFileError) as caught:
        open_log(FS, tmp_path)
    found = "nothing" if missing else f"{size - 1} bytes"
    assert (caught.value.where, caught.value.expected, caught.value.found) == (str(path), f"{size} bytes", found)
    assert _tree(tmp_path) == before


def _tree(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_log_that_lost_an_acknowledged_record_is_told_by_what_was_published(tmp_path: Path) -> None:
    _two_epochs(tmp_path)
    path = _log_path(tmp_path)
    last = scan(path.read_bytes()).frames[-1]
    FS.truncate(path, last.end - 1)
    before = _tree(tmp_path)
    with pytest.raises(CorruptFileError, match="acknowledged records are lost"):
        open_log(FS, tmp_path)
    assert _tree(tmp_path) == before


def test_a_lost_log_is_not_taken_for_a_new_stream(tmp_path: Path) -> None:
    with open_log(FS, tmp_path, keep_epochs=1) as log:
        for number in range(1, 6):
            write_batch(FS, tmp_path, log, {A: [number]}, number)
        assert log.compact_if_due(now=True)
    path, checkpoint = _log_path(tmp_path), Layout(tmp_path).stream_checkpoint(TABLE, STREAM)
    log_bytes, checkpoint_bytes = path.read_bytes(), checkpoint.read_bytes()
    FS.unlink(path)
    with pytest.raises(CorruptFileError, match="is missing"):
        open_log(FS, tmp_path)
    FS.write_new(path, log_bytes)
    FS.unlink(checkpoint)
    with pytest.raises(CorruptFileError, match="checkpoint that the commit log continues from is missing"):
        open_log(FS, tmp_path)
    FS.unlink(Layout(tmp_path).stream_head(TABLE, STREAM))
    for at in range(0, len(checkpoint_bytes), 7):
        FS.write_new(checkpoint, _flipped(checkpoint_bytes, at))
        with pytest.raises(FormatError):
            open_log(FS, tmp_path)
        with pytest.raises(FormatError):
            state = load_stream(FS, _layout(tmp_path), TABLE, STREAM)
            assert read_state(FS, tmp_path, state) and len(state.files)
            raise FormatError("what was read was sound")
        FS.write_new(checkpoint, checkpoint_bytes[:at])
        with pytest.raises(FormatError):
            load_stream(FS, _layout(tmp_path), TABLE, STREAM)


def _flipped(data: bytes, at: int, bit: int = 0) -> bytes:
    return data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]


def test_a_tail_torn_at_any_byte_is_the_epoch_before(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        write_batch(FS, tmp_path, log, {A: [1, 2]}, 1)
        log.commit(batch_of([append(FS, tmp_path, log.state.locations[A], A, [3])], 2))  # not published
    data = _log_path(tmp_path).read_bytes()
    last = scan(data).frames[-1]
    data = data[:-1] + b"\1"  # of the newest row's greatest number, so that no zeros end the record
    data = data[: last.offset] + frame(data[last.offset + FRAME.size :])
    for end in range(last.offset, last.end):
        for tail in (b"", bytes(last.end - end)):
            FS.write_new(_log_path(tmp_path), data[:end] + tail)
            assert load_stream(FS, _layout(tmp_path), TABLE, STREAM).epoch == 1
    with open_log(FS, tmp_path) as log:
        assert (log.state.epoch, log.recovery.log_bytes) == (1, last.end - last.offset)
        assert log.recovery.cut_files
        assert read_state(FS, tmp_path, log.state) == {A: [1, 2]}


@pytest.mark.slow
def test_a_flipped_bit_is_corruption_unless_in_the_last_record(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        write_batch(FS, tmp_path, log, {A: [1, 2]}, 1)
        log.commit(batch_of([append(FS, tmp_path, log.state.locations[A], A, [3])], 2))
    data = _log_path(tmp_path).read_bytes()
    last = scan(data).frames[-1]
    for at in range(len(data)):
        if 8 <= at < 16:
            continue  # the base epoch of a log without checkpoint: below
        FS.write_new(_log_path(tmp_path), _flipped(data, at, at % 8))
        if at < last.offset:
            with pytest.raises(FormatError):
                load_stream(FS, _layout(tmp_path), TABLE, STREAM)
            with pytest.raises(FormatError):
                open_log(FS, tmp_path)
        else:
            assert load_stream(FS, _layout(tmp_path), TABLE, STREAM).epoch == 1
    FS.write_new(_log_path(tmp_path), _flipped(data, 8))
    with pytest.raises(CorruptFileError, match="checkpoint that the commit log continues from is missing"):
        load_stream(FS, _layout(tmp_path), TABLE, STREAM)
