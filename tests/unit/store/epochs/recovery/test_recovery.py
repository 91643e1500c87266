"""Recovery when a stream is opened: uncommitted bytes and files, lost or damaged logs and checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.store.epochs.files.published_size import OWNER, TABLE_SIZE, owner_mark
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.recovery.directory_plan import Moved
from sparkhaven.store.epochs.recovery.recover import LEAST_BYTES, preview_recovery
from sparkhaven.store.epochs.state.removed_locations import Removal
from sparkhaven.store.errors import CorruptFileError, FormatError
from sparkhaven.store.format.table.table_size import TableSize
from sparkhaven.store.format.table.table_size import encode as encode_size
from sparkhaven.store.framing import FRAME, frame, scan
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import StreamPlace
from tests.support.disks.contents import contents, flipped
from tests.support.disks.model_fs import CrashingFs
from tests.support.streams.locations import A, B
from tests.support.streams.tiny_writer import (
    STREAM,
    TABLE,
    append,
    batch_of,
    location_path,
    log_path,
    open_log,
    read_state,
    remove,
    write_batch,
)

FS = CrashingFs()  # spares the disk the syncs


def _two_epochs(root: Path) -> None:
    with open_log(FS, root) as log:
        write_batch(FS, root, log, {A: [1, 2]}, 1)
        write_batch(FS, root, log, {A: [3], B: [4]}, 2)


def test_tails_strays_and_records_of_locations_are_put_right_and_reported(tmp_path: Path) -> None:
    _two_epochs(tmp_path)
    a, b = location_path(tmp_path, A), location_path(tmp_path, B)
    never = location_path(tmp_path, LocationKey("c", "2026-11-20"))
    FS.mkdirs(never)
    FS.write_new(never / "N.dat", b"x")
    FS.write_new(never / OWNER, owner_mark(STREAM, 1))
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


def _copied_back(root: Path, mark: bytes, *, size: int = 1) -> Path:
    """A location that no epoch has, as a copy from a backup makes it: its ``table.size`` comes last."""
    place = location_path(root, LocationKey("c", "2026-11-20"))
    FS.mkdirs(place)
    FS.write_new(place / OWNER, mark)
    FS.write_new(place / "N.dat", b"x" * size)
    return place


@pytest.mark.parametrize(
    ("mark", "size", "reason"),
    [
        (f"{STREAM}\n".encode(), 1, "whose owner mark names no generation"),
        (f"{STREAM}\nx\n".encode(), 1, "whose owner mark names no generation"),
        (owner_mark(STREAM, 1), 1, "which generation 1 made and later ones have not"),
        (owner_mark(STREAM, 2), LEAST_BYTES + 1, "which has more bytes (1,048,584) than one batch leaves"),
    ],
)
def test_what_may_be_a_copy_of_lost_data_is_set_aside(tmp_path: Path, mark: bytes, size: int, reason: str) -> None:
    _two_epochs(tmp_path)
    with open_log(FS, tmp_path) as log:
        write_batch(FS, tmp_path, log, {A: [4]}, 3)
    place = _copied_back(tmp_path, mark, size=size)
    moved = Moved(place, place.with_name(".set-aside-Rows-g2"), reason)
    seen = preview_recovery(StreamPlace(FS, Layout(tmp_path), TABLE, STREAM), time_ms=1)
    assert seen.moved == (moved,) and FS.stat(place) is not None
    with open_log(FS, tmp_path) as log:
        assert (log.recovery.moved, log.recovery.stray_locations, log.recovery.clean) == ((moved,), (), False)
        assert log.recovery.changes() == [f"rename {place} to {moved.to.name}: a location {reason}"]
    assert FS.stat(place) is None and len(FS.read(moved.to / "N.dat")) == size
    with open_log(FS, tmp_path) as log:
        assert log.recovery.clean
    _copied_back(tmp_path, mark, size=size)
    with open_log(FS, tmp_path) as log:
        assert [move.to.name for move in log.recovery.moved] == [".set-aside-Rows-g4"]


def test_a_copy_of_a_location_that_was_removed_is_set_aside(tmp_path: Path) -> None:
    _two_epochs(tmp_path)
    saved = contents(location_path(tmp_path, B))
    with open_log(FS, tmp_path) as log:
        at = log.state.locations[B]
        made = {"proof": {}, "time_ms": 1, "made_ms": at.made_ms}
        for phase in ("truncate", "delete"):
            remove(FS, tmp_path, Removal(B, at.since, at.rows, phase, log.state.epoch, **made))
        FS.remove_tree(location_path(tmp_path, B))
    place = location_path(tmp_path, B)
    FS.mkdirs(place)
    FS.write_new(place / OWNER, owner_mark(STREAM, 2))
    with open_log(FS, tmp_path) as log:
        assert [move.reason for move in log.recovery.moved] == ["where a committed location was before"], saved


@pytest.mark.parametrize("owner", [None, "other"])
def test_directories_that_do_not_name_the_stream_are_reported_and_left_alone(tmp_path: Path, owner: str | None) -> None:
    _two_epochs(tmp_path)
    theirs, empty = (location_path(tmp_path, LocationKey(name, "2026-11-20")) for name in ("c", "e"))
    FS.mkdirs(empty)
    FS.mkdirs(theirs)
    FS.write_new(theirs / "N.dat", b"a copy in progress")
    if owner:
        FS.write_new(theirs / OWNER, owner_mark(owner, 1))
    with open_log(FS, tmp_path) as log:
        assert log.recovery.stray_locations == ()
        assert log.recovery.unpublished_locations == (theirs,)
        assert not log.recovery.clean
    assert FS.read(theirs / "N.dat") == b"a copy in progress"
    assert FS.stat(empty) is not None


def test_published_locations_of_others_are_left_alone_whatever_was_rolled_back(tmp_path: Path) -> None:
    _two_epochs(tmp_path)
    torn, theirs = (location_path(tmp_path, LocationKey(name, "2026-11-20")) for name in ("c", "e"))
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
    path = location_path(tmp_path, A) / name
    size = path.stat().st_size
    FS.write_at(location_path(tmp_path, B) / "N.dat", 4096 + 8, b"tail")
    if missing:
        FS.unlink(path)
    else:
        FS.truncate(path, size - 1)
    before = contents(tmp_path)
    with pytest.raises(CorruptFileError) as caught:
        open_log(FS, tmp_path)
    found = "nothing" if missing else f"{size - 1} bytes"
    assert (caught.value.where, caught.value.expected, caught.value.found) == (str(path), f"{size} bytes", found)
    assert contents(tmp_path) == before


def test_a_log_that_lost_an_acknowledged_record_is_reported_by_what_was_published(tmp_path: Path) -> None:
    _two_epochs(tmp_path)
    path = log_path(tmp_path)
    last = scan(path.read_bytes()).frames[-1]
    FS.truncate(path, last.end - 1)
    before = contents(tmp_path)
    with pytest.raises(CorruptFileError, match="Acknowledged records are lost"):
        open_log(FS, tmp_path)
    assert contents(tmp_path) == before


def test_a_lost_log_is_not_taken_for_a_new_stream(tmp_path: Path) -> None:
    with open_log(FS, tmp_path, keep_epochs=1) as log:
        for number in range(1, 6):
            write_batch(FS, tmp_path, log, {A: [number]}, number)
        assert log.compact_if_due(now=True)
    path, checkpoint = log_path(tmp_path), Layout(tmp_path).stream_checkpoint(TABLE, STREAM)
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
        FS.write_new(checkpoint, flipped(checkpoint_bytes, at))
        with pytest.raises(FormatError):
            open_log(FS, tmp_path)
        with pytest.raises(FormatError):
            state = load_stream(StreamPlace(FS, Layout(tmp_path), TABLE, STREAM))
            assert read_state(FS, tmp_path, state) and len(state.files)
            raise FormatError("what was read was sound")
        FS.write_new(checkpoint, checkpoint_bytes[:at])
        with pytest.raises(FormatError):
            load_stream(StreamPlace(FS, Layout(tmp_path), TABLE, STREAM))


@pytest.mark.slow
def test_a_tail_torn_at_any_byte_is_the_epoch_before(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        write_batch(FS, tmp_path, log, {A: [1, 2]}, 1)
        log.commit(batch_of([append(FS, tmp_path, log.state.locations[A], A, [3])], 2))  # not published
    data = log_path(tmp_path).read_bytes()
    last = scan(data).frames[-1]
    data = data[:-1] + b"\1"  # of the newest row's greatest number, so that no zeros end the record
    data = data[: last.offset] + frame(data[last.offset + FRAME.size :])
    for end in range(last.offset, last.end):
        for tail in (b"", bytes(last.end - end)):
            FS.write_new(log_path(tmp_path), data[:end] + tail)
            assert load_stream(StreamPlace(FS, Layout(tmp_path), TABLE, STREAM)).epoch == 1
    with open_log(FS, tmp_path) as log:
        assert (log.state.epoch, log.recovery.log_bytes) == (1, last.end - last.offset)
        assert log.recovery.cut_files
        assert read_state(FS, tmp_path, log.state) == {A: [1, 2]}


@pytest.mark.slow
def test_a_flipped_bit_is_corruption_unless_in_the_last_record(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        write_batch(FS, tmp_path, log, {A: [1, 2]}, 1)
        log.commit(batch_of([append(FS, tmp_path, log.state.locations[A], A, [3])], 2))
    data = log_path(tmp_path).read_bytes()
    last = scan(data).frames[-1]
    for at in range(len(data)):
        if 8 <= at < 16:
            continue  # the base epoch of a log without checkpoint: below
        FS.write_new(log_path(tmp_path), flipped(data, at, 1 << at % 8))
        if at < last.offset:
            with pytest.raises(FormatError):
                load_stream(StreamPlace(FS, Layout(tmp_path), TABLE, STREAM))
            with pytest.raises(FormatError):
                open_log(FS, tmp_path)
        else:
            assert load_stream(StreamPlace(FS, Layout(tmp_path), TABLE, STREAM)).epoch == 1
    FS.write_new(log_path(tmp_path), flipped(data, 8))
    with pytest.raises(CorruptFileError, match="checkpoint that the commit log continues from is missing"):
        load_stream(StreamPlace(FS, Layout(tmp_path), TABLE, STREAM))
