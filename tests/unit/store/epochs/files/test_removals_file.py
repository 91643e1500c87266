"""The file of removals is replaced while it is a lock: its stream shortens it, and two trees do not share it."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkhaven.store.epochs.files.lock import lock_commits, replace_locked
from sparkhaven.store.epochs.files.removals import (
    empty_removals,
    fold_removals,
    read_named,
    read_removals,
    write_removals,
)
from sparkhaven.store.epochs.pins import Pin
from sparkhaven.store.epochs.reading.log_reader import read_newest
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.removed_locations import Named, Removal
from sparkhaven.store.errors import CorruptFileError, UnsupportedVersionError
from sparkhaven.store.io.fs import Fs, Lock, Stat
from sparkhaven.store.io.open_files import Opened
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import StreamPlace
from tests.support.disks.contents import hidden
from tests.support.disks.model_fs import Crash, CrashingFs
from tests.support.disks.power_cut_fs import PowerCutFs
from tests.support.streams.tiny_writer import STREAM, TABLE, open_log, read_state, remove, write_batch

FS = CrashingFs()
KEYS = [LocationKey(name, "d") for name in "abcdef"]
OTHER = LocationKey("z", "d")


def _path(root: Path) -> Path:
    return Layout(root).stream_removals(TABLE, STREAM)


def _entries(root: Path, start: int = 0) -> list[Removal]:
    return [each for _, each in read_removals(StreamPlace(FS, Layout(root), TABLE, STREAM), start).entries]


def _fold(fs: Fs, root: Path) -> bool:
    return fold_removals(StreamPlace(fs, Layout(root), TABLE, STREAM), least_bytes=1) is not None


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Six locations truncated one by one, four of them deleted, and a seventh."""
    tmp_path = tmp_path / "db"
    with open_log(FS, tmp_path) as log:
        write_batch(FS, tmp_path, log, {key: [n] for n, key in enumerate([*KEYS, OTHER])}, 1)
        for key in KEYS:
            remove(FS, tmp_path, Removal(key, 1, 1, "truncate", 1, {"digest": "d" * 40}, 5, 1_000_000_000, 1))
        for key in KEYS[:4]:
            remove(FS, tmp_path, Removal(key, 1, 1, "delete", 1, {"digest": "d" * 40}, 6, 1_000_000_000, 1))
            FS.remove_tree(Layout(tmp_path).intraday_location(TABLE, key))
    return tmp_path


# --- shortening --------------------------------------------------------------------------------------------


def test_folding_shortens_the_file_and_keeps_what_it_says(made: Path) -> None:
    before, size, state = (
        _entries(made),
        _path(made).stat().st_size,
        load_stream(StreamPlace(FS, Layout(made), TABLE, STREAM)),
    )
    ends = [end for end, _ in read_removals(StreamPlace(FS, Layout(made), TABLE, STREAM)).entries]
    assert _fold(FS, made)
    assert _path(made).stat().st_size < size / 2
    assert _entries(made) == [r for r in before if r.phase == "delete" or r.key in KEYS[4:]]
    assert load_stream(StreamPlace(FS, Layout(made), TABLE, STREAM)) == state
    assert read_removals(StreamPlace(FS, Layout(made), TABLE, STREAM)).end == ends[-1]
    assert _entries(made, ends[-1]) == []
    for end in ends[:-1]:  # of a checkpoint from before
        assert _entries(made, end) == _entries(made)
    assert read_named(StreamPlace(FS, Layout(made), TABLE, STREAM)) == Named(1, 1)
    new = Removal(OTHER, 1, 1, "truncate", 3, {}, 7, 0, 4)
    remove(FS, made, new)
    assert _entries(made, ends[-1]) == [new]
    assert read_named(StreamPlace(FS, Layout(made), TABLE, STREAM)) == Named(3, 4)
    with pytest.raises(CorruptFileError, match="has applied are missing"):
        _entries(made, ends[-1] + 1000)


def test_a_stream_folds_between_batches_and_its_head_stays_in_use(made: Path) -> None:
    with open_log(FS, made, compact_bytes=1) as log:
        size = _path(made).stat().st_size
        log.compact_if_due()
        assert _path(made).stat().st_size < size / 2
        found = read_newest(StreamPlace(FS, Layout(made), TABLE, STREAM))
        assert found.head is not None
        assert found.removals == read_removals(StreamPlace(FS, Layout(made), TABLE, STREAM)).end
        remove(FS, made, Removal(OTHER, 1, 1, "truncate", 1, {}, 7))
        log.refresh()
        assert log.state.locations[OTHER].truncated
        write_batch(FS, made, log, {KEYS[0]: [9]}, 2)
        state = log.state
        assert load_stream(StreamPlace(FS, Layout(made), TABLE, STREAM), cached=False) == state
    with open_log(FS, made) as log:
        assert log.recovery.clean
        assert read_state(FS, made, log.state)[KEYS[0]] == [9]


def test_of_removals_before_a_place_only_the_checksums_are_looked_at(made: Path) -> None:
    place = StreamPlace(FS, Layout(made), TABLE, STREAM)
    end = read_removals(place).end
    remove(FS, made, Removal(OTHER, 1, 1, "truncate", 3, {}, 7, 1_000_000_000, 2))
    assert [read_named(place, start) for start in (0, end, end + 1)] == [Named(3, 2)] * 3
    assert read_named(place, read_removals(place).end) == Named()
    assert _fold(FS, made)
    assert read_named(place, end) == Named(3, 2), "what is folded beyond the place counts as a whole"
    assert read_named(place, read_removals(place).end) == Named()
    remove(FS, made, Removal(KEYS[4], 1, 1, "delete", 1, {}, 6, 1_000_000_000, 1))
    data = _path(made).read_bytes()
    _path(made).write_bytes(data[:60] + bytes([data[60] ^ 1]) + data[61:])
    with pytest.raises(CorruptFileError, match="damaged"):
        read_named(place, end)


def test_little_is_not_folded(made: Path) -> None:
    data = _path(made).read_bytes()
    assert fold_removals(StreamPlace(FS, Layout(made), TABLE, STREAM), least_bytes=len(data)) is None
    assert _path(made).read_bytes() == data
    assert _fold(FS, made)
    data = _path(made).read_bytes()
    assert not _fold(FS, made)
    assert _path(made).read_bytes() == data


def test_a_reader_that_pinned_before_a_fold_learns_of_removals_in_it(made: Path) -> None:
    pin = Pin.of(StreamPlace(FS, Layout(made), TABLE, STREAM))
    directory = Layout(made).intraday_location(TABLE, OTHER)
    remove(FS, made, Removal(OTHER, 1, 1, "truncate", 1, {}, 7), Removal(OTHER, 1, 1, "delete", 1, {}, 8))
    assert _fold(FS, made)
    with pytest.raises(Exception, match="were merged and deleted"):
        pin.require([(OTHER, directory)])


def test_every_flipped_bit_of_the_header_is_reported(made: Path) -> None:
    assert _fold(FS, made)
    data, state = _path(made).read_bytes(), load_stream(StreamPlace(FS, Layout(made), TABLE, STREAM))
    for bit in range(8 * 16):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        _path(made).write_bytes(flipped)
        with pytest.raises((CorruptFileError, UnsupportedVersionError)):
            _entries(made)
    _path(made).write_bytes(data)
    assert load_stream(StreamPlace(FS, Layout(made), TABLE, STREAM)) == state


@pytest.mark.parametrize("kept", range(16))
def test_a_header_that_a_power_failure_tore_is_no_file_yet(made: Path, kept: int) -> None:
    header = _path(made).read_bytes()[:16]
    place = StreamPlace(FS, Layout(made), TABLE, STREAM)
    for torn in (header[:kept], header[:kept] + bytes(16 - kept)):
        _path(made).write_bytes(torn)
        assert read_removals(place).entries == ()


# --- replacing what is a lock ------------------------------------------------------------------------------


def test_who_waits_for_a_file_that_is_replaced_gets_the_new_one_and_only_when_it_is_free(made: Path) -> None:
    first = lock_commits(Fs(), _path(made))
    assert first is not None
    reached = threading.Event()

    class Seen(Fs):
        def lock(self, path: Path, *, wait: bool = False, make: bool = True) -> Lock | None:
            reached.set()
            return super().lock(path, wait=wait, make=make)

    got: list[Lock | None] = []
    waiting = threading.Thread(target=lambda: got.append(lock_commits(Seen(), _path(made), wait=True)))
    waiting.start()
    reached.wait()
    for _ in range(3):
        replace_locked(Fs(), first, _path(made).read_bytes())
        assert lock_commits(Fs(), _path(made)) is None
        assert first.inode == _path(made).stat().st_ino
    first.release()
    waiting.join()
    assert got[0] is not None
    assert got[0].inode == _path(made).stat().st_ino
    assert lock_commits(Fs(), _path(made)) is None
    got[0].release()
    again = lock_commits(Fs(), _path(made))
    assert again is not None
    again.release()


def test_a_lock_of_the_file_that_was_there_before_does_not_count(made: Path) -> None:
    early = os.open(_path(made), os.O_RDWR)

    class Late(Fs):
        """Opens the file before it is replaced, and has its lock afterwards."""

        def lock(self, path: Path, *, wait: bool = False, make: bool = True) -> Lock | None:
            nonlocal early
            if early < 0:
                return super().lock(path, wait=wait, make=make)
            taken, early = Lock(early, path), -1
            return taken

    first = lock_commits(Fs(), _path(made))
    assert first is not None
    replace_locked(Fs(), first, _path(made).read_bytes())
    assert lock_commits(Late(), _path(made)) is None
    first.release()


def _truncated(fs: Fs, root: Path) -> None:
    remove(fs, root, Removal(OTHER, 1, 1, "truncate", 1, {}, 7))


def _torn(fs: Fs, root: Path) -> None:
    write_removals(StreamPlace(fs, Layout(root), TABLE, STREAM), [])


def _emptied(fs: Fs, root: Path) -> None:
    empty_removals(StreamPlace(fs, Layout(root), TABLE, STREAM))


def _copy(root: Path, to: Path) -> None:
    """As ``cp -al`` makes it."""
    shutil.copytree(root, to, copy_function=lambda source, target: Path(target).hardlink_to(source))


@pytest.mark.slow
@pytest.mark.parametrize("change", [_truncated, _torn, _emptied])
@pytest.mark.parametrize("folded", [False, True])
def test_a_copy_of_hard_links_and_its_tree_remove_each_for_itself(
    made: Path, change: Callable[[Fs, Path], None], *, folded: bool
) -> None:
    if folded:
        assert _fold(FS, made)
    with _path(made).open("ab") as file:
        file.write(b"\x20\0\0\0torn")
    copy = made.with_name("copy")
    _copy(made, copy)
    before = _path(made).read_bytes()
    change(FS, copy)
    assert _path(made).read_bytes() == before
    _truncated(FS, copy)
    assert _path(made).read_bytes() == before
    assert len(load_stream(StreamPlace(FS, Layout(made), TABLE, STREAM)).locations) == 3
    assert not load_stream(StreamPlace(FS, Layout(made), TABLE, STREAM)).locations[OTHER].truncated
    assert OTHER in [each.key for each in _entries(copy)]
    _truncated(FS, made)
    assert _entries(made)[-1].key == OTHER


def test_a_copy_of_hard_links_of_an_empty_file(tmp_path: Path) -> None:
    with open_log(FS, tmp_path / "db") as log:
        write_batch(FS, tmp_path / "db", log, {OTHER: [1]}, 1)
    assert _path(tmp_path / "db").stat().st_size == 0
    _copy(tmp_path / "db", tmp_path / "copy")
    _truncated(FS, tmp_path / "copy")
    assert _path(tmp_path / "db").read_bytes() == b""
    assert load_stream(StreamPlace(FS, Layout(tmp_path / "copy"), TABLE, STREAM)).locations[OTHER].truncated


# --- ends in the middle ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["removals-fold", "removals-replace"])
def test_a_kill_or_a_power_cut_around_a_replace_loses_nothing(made: Path, name: str) -> None:
    old, seen = _entries(made), set()
    for seed in range(27):
        root = made.with_name(f"cut{seed}")
        shutil.copytree(made, root)
        if name == "removals-replace":
            _path(root.parent / "link").parent.mkdir(parents=True, exist_ok=True)
            _path(root.parent / "link").unlink(missing_ok=True)
            _path(root.parent / "link").hardlink_to(_path(root))
        fs = PowerCutFs(root, crash_after=1 + seed // 3)
        done = False
        try:
            _fold(fs, root) if name == "removals-fold" else _truncated(fs, root)
            done = True
        except Crash:
            pass
        if seed % 3:
            fs.cut(seed)
        found = [(r.key, r.phase) for r in _entries(root)]
        kept = {(r.key, r.phase) for r in old if r.phase == "delete" or r.key in KEYS[4:]}
        assert kept <= set(found), f"seed {seed}"
        assert not done or name == "removals-fold" or found[-1][0] == OTHER, f"seed {seed}"
        with open_log(FS, root) as log:
            assert log.state.locations[OTHER].truncated == (found[-1][0] == OTHER)
        assert hidden(_path(root).parent) == []
        seen.add(len(found) if name == "removals-fold" else found[-1][0] == OTHER)
    assert len(seen) == 2


def test_a_lock_is_released_where_the_name_cannot_be_looked_at(made: Path) -> None:
    class Failing(Fs):
        armed = False

        def lock(self, path: Path, *, wait: bool = False, make: bool = True) -> Lock | None:
            lock = super().lock(path, wait=wait, make=make)
            self.armed = True
            return lock

        def stat(self, path: Path, **how: bool) -> Stat | None:
            if self.armed:
                raise OSError(errno.EIO, "the disk fails", str(path))
            return super().stat(path, **how)

    with pytest.raises(OSError, match="the disk fails"):
        lock_commits(Failing(), _path(made))
    again = lock_commits(FS, _path(made))
    assert again is not None
    again.release()


def test_a_start_reads_removals_as_often_after_a_power_failure(made: Path) -> None:
    class Counting(CrashingFs):
        opened = 0

        def open(self, path: Path) -> Opened:
            self.opened += path == _path(made)
            return super().open(path)

    opened = []
    for boot in ("boot-1", "boot-2"):
        fs = Counting(boot=boot)
        open_log(fs, made, durability="none").close()
        opened.append(fs.opened)
    assert opened[0] == opened[1] > 0


def test_what_an_earlier_record_names_counts_beside_a_later_one(made: Path) -> None:
    removals = (Removal(OTHER, 1, 1, "truncate", epoch, {}, 7, 1_000_000_000, 10 - epoch) for epoch in (9, 3))
    for removal in removals:
        remove(FS, made, removal)
    assert read_named(StreamPlace(FS, Layout(made), TABLE, STREAM)) == Named(9, 7)
