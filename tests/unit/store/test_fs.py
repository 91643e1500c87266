"""The seam itself: complete writes, replacement, claims, locks, and which way a sync goes."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import SYNCFS_FROM, Fs
from sparkhaven.store.io.walking import files_below, stats_below
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


def test_shorten_makes_a_new_inode_and_refuses_a_file_that_is_too_short(tmp_path: Path) -> None:
    fs, path = Fs(), tmp_path / "f"
    fs.write_new(path, b"0123456789")
    before, mapped = fs.stat(path), fs.map(path, 10)
    fs.shorten(path, 4)
    after = fs.stat(path)
    assert before is not None and after is not None
    assert (path.read_bytes(), mapped.to_pybytes()) == (b"0123", b"0123456789")
    assert before.inode != after.inode
    with pytest.raises(CorruptFileError):
        fs.shorten(path, 5)
    assert path.read_bytes() == b"0123"


def test_a_claim_is_given_once(tmp_path: Path) -> None:
    fs = Fs()
    assert fs.create(tmp_path / "claim", b"me")
    assert not fs.create(tmp_path / "claim", b"you")
    assert fs.read(tmp_path / "claim") == b"me"


def test_a_lock_excludes_and_ends_with_release(tmp_path: Path) -> None:
    fs = Fs()
    for path in (tmp_path, tmp_path / "file"):
        first = fs.lock(path)
        assert first is not None and first.held
        assert fs.lock(path) is None
        first.release()
        second = fs.lock(path, wait=True)
        assert second is not None
        second.release()
        second.release()


def test_names_of_what_is_no_directory_are_none(tmp_path: Path) -> None:
    Fs().write_new(tmp_path / "f", b"")
    assert Fs().names(tmp_path / "f") == Fs().names(tmp_path / "missing") == []


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


def test_a_file_whose_writing_was_started_has_its_bytes_and_can_be_synced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    Fs().write_new(path, b"x" * 100_000)
    Fs().start_writeback(path)
    Fs().write_at(path, 100_000, b"y")
    Fs().start_writeback(path)
    Fs().sync([path])
    assert path.read_bytes() == b"x" * 100_000 + b"y"
    with pytest.raises(FileNotFoundError):
        Fs().start_writeback(tmp_path / "none")


def test_entries_of_a_directory_say_what_links_lead_to(tmp_path: Path) -> None:
    fs = Fs()
    (tmp_path / "b").write_bytes(b"12")
    (tmp_path / "a" / "inner").mkdir(parents=True)
    (tmp_path / "to-b").symlink_to("b")
    (tmp_path / "to-nothing").symlink_to("nothing")
    assert fs.entries(tmp_path) == [(name, fs.stat(tmp_path / name)) for name in ("a", "b", "to-b")]
    assert [(name, stat.is_dir, stat.size) for name, stat in fs.entries(tmp_path)][1:] == [
        ("b", False, 2),
        ("to-b", False, 2),
    ]
    assert fs.entries(tmp_path / "b") == fs.entries(tmp_path / "missing") == []


def test_files_below_a_directory_are_sorted_and_have_their_sizes(tmp_path: Path) -> None:
    for number, name in enumerate(("b/2", "b/1/x", "a", "c")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * number)
    names = ["a", "b/1/x", "b/2", "c"]
    assert [(name, stat.size) for name, stat in stats_below(Fs(), tmp_path)] == list(
        zip(names, [2, 1, 0, 3], strict=True)
    )
    assert list(files_below(Fs(), tmp_path)) == [tmp_path / name for name in names]
    assert list(files_below(Fs(), tmp_path / "a")) == [tmp_path / "a"]
