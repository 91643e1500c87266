"""Whose a location is: the owner's mark, the logs of other streams, files that another tree shares by hard links."""

from __future__ import annotations

import errno
import gc
import os
import sys
from pathlib import Path

import pytest

from sparkhaven.store.epochs.files.published_size import OWNER, TABLE_SIZE
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.errors import CommitUnknownError, EpochConflictError, LockLostError, SettingsError
from sparkhaven.store.io.fs import Fs, SyncGuard
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from tests.support.disks.model_fs import Crash, CrashingFs
from tests.support.disks.power_cut_fs import PowerCutFs
from tests.support.streams.locations import A, B
from tests.support.streams.stream_kit import TABLE, ingest, numbers, open_log, put_file, record
from tests.support.streams.tiny_writer import TABLE as TINY
from tests.support.streams.tiny_writer import open_log as open_tiny
from tests.support.streams.tiny_writer import read_state, write_batch

FS = CrashingFs()


def _feed(root: Path, name: str, number: int) -> FileId:
    return put_file(root / "feed", name, [record(number)], number)


def _committed_but_not_published(root: Path) -> Path:
    """Stream ``first`` has committed a location, but died before its ``table.size``."""
    with open_log(FS, root, stream="first") as log:
        ingest(FS, root, log, [[_feed(root, "1", 1)]])
    place = Layout(root).intraday_location(TABLE, A)
    FS.unlink(place / TABLE_SIZE)
    return place


@pytest.mark.parametrize("lost", ["mark", "lock", "mark and lock"])
def test_a_newcomer_takes_no_location_that_another_stream_has_committed(tmp_path: Path, lost: str) -> None:
    place = _committed_but_not_published(tmp_path)
    if "mark" in lost:
        FS.unlink(place / OWNER)
    if "lock" in lost:
        FS.unlink(Layout(tmp_path).stream_lock(TABLE, "first"))
    before = {name: FS.read(place / name) for name in FS.names(place)}
    with open_log(FS, tmp_path, stream="second") as log, pytest.raises(SettingsError, match="another writer"):
        ingest(FS, tmp_path, log, [[_feed(tmp_path, "2", 2)]])
    assert {name: FS.read(place / name) for name in FS.names(place)} == before
    with open_log(FS, tmp_path, stream="first") as log:
        assert numbers(tmp_path, log.state) == [1]


def test_the_mark_of_the_owner_is_on_disk_at_the_first_commit(tmp_path: Path) -> None:
    root, feed = tmp_path / "db", tmp_path / "feed"
    root.mkdir()
    fs = PowerCutFs(root, crash_at="commit-record:after")
    file = _feed(feed.parent, "1", 1)
    with pytest.raises(Crash), open_log(fs, root, stream="first") as log:
        ingest(fs, root, log, [[file]])
    fs.cut(5)  # nothing but what was synced
    assert (Layout(root).intraday_location(TABLE, A) / OWNER).read_bytes() == b"first\n1\n"


def test_a_backup_of_hard_links_is_opened_without_cutting_the_files_of_the_tree(tmp_path: Path) -> None:
    live, backup = tmp_path / "live", tmp_path / "backup"
    live.mkdir()
    with open_tiny(FS, live) as log:
        write_batch(FS, live, log, {A: [1, 2]}, 1)
    _link_tree(live, backup)
    FS.unlink(backup / "Intraday/Test/Rows/.streams/feed.log")
    FS.write_new(
        backup / "Intraday/Test/Rows/.streams/feed.log", FS.read(live / "Intraday/Test/Rows/.streams/feed.log")
    )
    with open_tiny(FS, live) as log:
        write_batch(FS, live, log, {A: [3, 4]}, 2)
    with open_tiny(FS, backup) as log:
        assert log.recovery.cut_files
        assert read_state(FS, backup, log.state) == {A: [1, 2]}
        write_batch(FS, backup, log, {A: [9]}, 2)
        assert read_state(FS, backup, log.state) == {A: [1, 2, 9]}
    with open_tiny(FS, live) as log:
        assert read_state(FS, live, log.state) == {A: [1, 2, 3, 4]}


def test_a_copy_of_hard_links_of_a_running_stream_stays_as_it_was(tmp_path: Path) -> None:
    live, copy = tmp_path / "live", tmp_path / "copy"
    live.mkdir()
    with open_tiny(FS, live) as log:
        write_batch(FS, live, log, {A: [1, 2]}, 1)
        _link_tree(live, copy)
        write_batch(FS, live, log, {A: [3], B: [7]}, 2)
        seen = load_stream(StreamPlace(FS, Layout(copy), TINY, "feed"))
        assert (seen.epoch, read_state(FS, copy, seen)) == (1, {A: [1, 2]})
        write_batch(FS, live, log, {B: [8]}, 3)
        log.rollback(2)
        log.compact_if_due(now=True)
        assert load_stream(StreamPlace(FS, Layout(copy), TINY, "feed")).epoch == 1
        with pytest.raises(
            LockLostError
        ):  # the lock file is the same one: the streams of both trees exclude each other
            open_tiny(FS, copy)
    with open_tiny(FS, copy) as log:
        assert (log.state.epoch, read_state(FS, copy, log.state)) == (1, {A: [1, 2]})
        write_batch(FS, copy, log, {A: [9], B: [10]}, 2)
    with open_tiny(FS, live) as log:
        assert read_state(FS, live, log.state) == {A: [1, 2, 3], B: [7]}
        write_batch(FS, live, log, {A: [4]}, 3)
        assert read_state(FS, live, log.state) == {A: [1, 2, 3, 4], B: [7]}
    assert read_state(FS, copy, load_stream(StreamPlace(FS, Layout(copy), TINY, "feed"))) == {A: [1, 2, 9], B: [10]}


class FailingOnce(CrashingFs):
    """Fails the next change of that kind, of a path with that in its name."""

    due: tuple[str, str] | None = None

    def _change(self, kind: str, path: Path) -> None:
        super()._change(kind, path)
        if self.due is not None and self.due[0] == kind and self.due[1] in path.name:
            self.due = None
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))


@pytest.mark.parametrize("kind", ["write", "sync", "rename", "sync-dir"])
def test_a_log_that_cannot_leave_a_copy_of_hard_links_loses_nothing(tmp_path: Path, kind: str) -> None:
    fs = FailingOnce()
    live, copy = tmp_path / "live", tmp_path / "copy"
    live.mkdir()
    log = open_tiny(fs, live)
    write_batch(fs, live, log, {A: [1]}, 1)
    _link_tree(live, copy)
    fs.due = kind, ".streams" if kind == "sync-dir" else "feed.log"
    with pytest.raises((EpochConflictError, CommitUnknownError)):
        write_batch(fs, live, log, {A: [2]}, 2)
    if kind != "sync-dir":
        write_batch(fs, live, log, {A: [2]}, 2)
    log.close()
    with open_tiny(FS, live) as log:
        assert read_state(FS, live, log.state)[A] == ([1] if kind == "sync-dir" else [1, 2])
    assert load_stream(StreamPlace(FS, Layout(copy), TINY, "feed")).epoch == 1


def test_an_append_cuts_a_file_with_two_names_by_a_copy(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    place = Layout(tmp_path).intraday_location(TABLE, A)
    with open_log(FS, tmp_path, stream="first") as log:
        ingest(FS, tmp_path, log, [[_feed(tmp_path, "1", 1)]])
        for name in FS.names(place):
            with (place / name).open("ab") as file:
                file.write(b"tail" if name.endswith(".dat") else b"")
            os.link(place / name, tmp_path / "kept" / name)
        ingest(FS, tmp_path, log, [[_feed(tmp_path, "2", 2)]])
        assert numbers(tmp_path, log.state) == [1, 2]
    assert all(FS.read(tmp_path / "kept" / name).endswith(b"tail") for name in FS.names(place) if name == "N.dat")


def _link_tree(source: Path, target: Path) -> None:
    for directory, _, names in os.walk(source):
        made = target / Path(directory).relative_to(source)
        made.mkdir()
        for name in names:
            os.link(Path(directory) / name, made / name)


def test_a_guard_that_could_not_be_made_ends_quietly(tmp_path: Path) -> None:
    unraisable: list[object] = []
    before, sys.unraisablehook = sys.unraisablehook, unraisable.append
    try:
        with pytest.raises(FileNotFoundError):
            SyncGuard(Fs(), tmp_path / "nothing")
        gc.collect()
    finally:
        sys.unraisablehook = before
    assert unraisable == []
