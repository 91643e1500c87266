"""The seam itself: complete writes, replacement, claims, locks, and which way a sync goes."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkhaven.store.io.fs import SYNCFS_FROM, Fs
from tests.support.disks.model_fs import Crash, CrashingFs, FaultFs
from tests.support.disks.power_cut_fs import PowerCutFs


class Recording(Fs):
    """Notes how things are synced; the syncs are real."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def _sync_file(self, path: Path) -> None:
        self.calls.append("file")
        super()._sync_file(path)

    def _sync_dir(self, path: Path) -> None:
        self.calls.append("dir")
        super()._sync_dir(path)

    def _sync_file_system(self, path: Path, descriptor: int | None) -> None:
        self.calls.append("watched" if descriptor is not None else "unwatched")
        super()._sync_file_system(path, descriptor)


def _files(root: Path, count: int) -> list[Path]:
    paths = [root / str(number) for number in range(count)]
    for path in paths:
        Fs().write_new(path, b"x")
    return paths


def test_few_files_are_synced_one_by_one_and_many_by_their_file_system(tmp_path: Path) -> None:
    fs, paths = Recording(), _files(tmp_path, SYNCFS_FROM)
    fs.sync([])
    fs.sync(paths[:-1])
    assert fs.calls == ["file"] * (SYNCFS_FROM - 1)
    fs.calls.clear()
    fs.sync(paths)
    fs.sync_dirs([tmp_path, tmp_path])
    assert fs.calls == ["unwatched", "dir"]


def test_a_guard_covers_files_and_directories_with_one_call(tmp_path: Path) -> None:
    fs = Recording()
    with fs.sync_guard(tmp_path) as guard:
        paths = _files(tmp_path, SYNCFS_FROM)
        guard.sync(paths[:3], [tmp_path])
        assert sorted(fs.calls) == ["dir", "file", "file", "file"]
        fs.calls.clear()
        guard.sync(paths, [tmp_path])
    assert fs.calls == ["watched"]
    guard.close()


def test_a_file_that_cannot_be_synced_is_an_error_either_way(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Fs().sync([tmp_path / "none"])
    with pytest.raises(FileNotFoundError):
        Fs().sync(tmp_path / "gone" / str(number) for number in range(SYNCFS_FROM))
    with pytest.raises(OSError, match="Input/output") as caught:
        FaultFs("sync").sync(_files(tmp_path, 3))
    assert caught.value.errno == errno.EIO


def test_replace_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    Fs().replace(path, b"old")
    for kind in ("write", "sync", "rename"):
        with pytest.raises(OSError, match="error"):
            FaultFs(kind).replace(path, b"new content")
        assert path.read_bytes() == b"old"
    Fs().replace(path, b"new", sync=False)
    assert path.read_bytes() == b"new"


def test_blocks_are_allocated_only_where_nothing_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr("os.posix_fallocate", lambda descriptor, offset, size: sizes.append(size))
    Fs().replace(tmp_path / "f", b"synced")
    Fs().replace(tmp_path / "f", b"", sync=False)
    assert sizes == []
    Fs().replace(tmp_path / "f", b"not synced", sync=False)
    assert sizes == [len(b"not synced")]


@pytest.mark.parametrize(("code", "works"), [(errno.EOPNOTSUPP, True), (errno.EINVAL, True), (errno.ENOSPC, False)])
def test_a_disk_that_cannot_allocate_takes_the_bytes(
    code: int, works: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, offset: int, size: int) -> None:
        raise OSError(code, "refused")

    path = tmp_path / "f"
    Fs().replace(path, b"old")
    monkeypatch.setattr("os.posix_fallocate", refuse)
    if works:
        Fs().replace(path, b"new", sync=False)
    else:
        with pytest.raises(OSError, match="refused"):
            Fs().replace(path, b"new", sync=False)
    assert path.read_bytes() == (b"new" if works else b"old")


# --- the models ------------------------------------------------------------------------------------------


def test_a_power_cut_keeps_what_was_synced_and_may_lose_the_rest(tmp_path: Path) -> None:
    outcomes = set()
    for seed in range(40):
        root = tmp_path / str(seed)
        root.mkdir()
        fs = PowerCutFs(root)
        fs.write_new(root / "kept", b"synced")
        fs.write_new(root / "nameless", b"synced content, unsynced name")
        fs.sync([root / "kept"])
        fs.sync_dirs([root])
        fs.unlink(root / "nameless")
        fs.sync_dirs([root])
        fs.write_at(root / "kept", 6, b" and not")
        fs.write_new(root / "nameless", b"again")
        fs.sync([root / "nameless"])
        fs.cut(seed)
        kept = (root / "kept").read_bytes()
        assert kept.startswith(b"synced")
        nameless = (root / "nameless").read_bytes() if (root / "nameless").exists() else None
        assert nameless in (None, b"again")
        outcomes.add((len(kept) == 14, nameless))
    assert outcomes == {(long, name) for long in (False, True) for name in (None, b"again")}


def test_a_fault_can_write_half_and_nothing_runs_after_a_crash(tmp_path: Path) -> None:
    fs = FaultFs("write", nth=2, code=errno.ENOSPC, half=True)
    fs.write_at(tmp_path / "f", 0, b"abcd")
    with pytest.raises(OSError, match="No space"):
        fs.write_at(tmp_path / "f", 4, b"efgh")
    assert fs.read(tmp_path / "f") == b"abcdef"
    dead = CrashingFs(crash_at="x:after")
    with pytest.raises(Crash), dead.during("x"):
        dead.write_new(tmp_path / "g", b"1")
    with pytest.raises(Crash):
        dead.write_new(tmp_path / "g", b"2")
    assert (tmp_path / "g").read_bytes() == b"1"


@pytest.mark.parametrize("write", [lambda path: Fs().write_at(path, 0, b"x"), lambda path: Fs().write_new(path, b"x")])
def test_a_write_that_finds_no_room_names_its_file(write: Callable[[Path], None]) -> None:
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write(Path("/dev/full"))


def test_a_lock_that_is_dropped_is_free_again(tmp_path: Path) -> None:
    """So that neither a descriptor nor the stream of a writer stays taken until the process ends."""
    fs, path = Fs(), tmp_path / "lock"
    first = fs.lock(path)
    assert first is not None
    assert fs.lock(path) is None
    del first
    assert fs.lock(path) is not None
