"""A file that is replaced stays open until a thread of its own has closed it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sparkhaven.store.epochs.compaction import freed_later


def _open_files(deleted: int) -> int:
    """How many descriptors of this process are of an inode."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            count += descriptor.stat().st_ino == deleted
        except OSError:  # of the listing itself
            continue
    return count


def _files(directory: Path) -> tuple[Path, Path, int]:
    log, following = directory / "log", directory / "next"
    log.write_bytes(b"before")
    following.write_bytes(b"after")
    return log, following, log.stat().st_ino


def test_blocks_are_freed_behind_the_rename(tmp_path: Path) -> None:
    log, following, inode = _files(tmp_path)
    with freed_later(log):
        following.rename(log)
        assert _open_files(inode) == 1
    for thread in threading.enumerate():
        if thread.name == "freed-later":
            thread.join(30)
    assert _open_files(inode) == 0 and log.read_bytes() == b"after"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    _, following, _ = _files(tmp_path)
    with freed_later(tmp_path / "none"):
        following.rename(tmp_path / "none")
    assert (tmp_path / "none").read_bytes() == b"after"


def test_an_error_of_the_body_passes(tmp_path: Path) -> None:
    log, _, _ = _files(tmp_path)
    with pytest.raises(OSError, match="of the body"), freed_later(log):
        raise OSError("of the body")


def test_without_a_further_thread_it_is_closed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    log, following, inode = _files(tmp_path)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with freed_later(log):
        following.rename(log)
    assert _open_files(inode) == 0
