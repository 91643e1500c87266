"""The contract of ``Fs``: what each file system does for its callers, whatever it counts, notes or lets fail."""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import SMALL_FILE, SYNCFS_FROM, Fs, files_below, stats_below
from sparkhaven.store.io.open_files import HELD_FROM
from tests.support.disks.contents import hidden
from tests.support.witness.damage import permissions_hold

READS: list[Callable[[Fs, Path], object]] = [
    lambda fs, path: fs.read(path),
    lambda fs, path: fs.held(path),
    lambda fs, path: fs.open(path),
    lambda fs, path: fs.read_range(path, 0, 1),
    lambda fs, path: fs.map(path, 1),
    lambda fs, path: fs.map_range(path, 0, 1),
    lambda fs, path: fs.start_writeback(path),
]
WRITES: list[Callable[[Fs, Path], object]] = [
    lambda fs, path: fs.write_new(path, b"new"),
    lambda fs, path: fs.write_at(path, 0, b"new"),
    lambda fs, path: fs.replace(path, b"new"),
    lambda fs, path: fs.create(path),
    lambda fs, path: fs.mkdirs(path),
]


class FsContract(ABC):
    """Clauses for every file system. ``root`` is an empty directory that it covers."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        return tmp_path

    @pytest.fixture
    @abstractmethod
    def fs(self, root: Path) -> Fs:
        """The file system under test, which is to let nothing fail."""

    @pytest.mark.parametrize("sync", [True, False])
    def test_replace_gives_a_file_new_content_and_leaves_nothing_beside(self, fs: Fs, root: Path, sync: bool) -> None:
        for data in (b"first", b"", b"longer than before"):
            fs.replace_all({root / "f": data, root / "g": data[::-1]}, sync=sync)
            assert (fs.read(root / "f"), fs.read(root / "g")) == (data, data[::-1])
        assert hidden(root) == [] and fs.names(root) == ["f", "g"]

    def test_who_reads_a_replaced_file_goes_on_reading_the_old_one(self, fs: Fs, root: Path) -> None:
        fs.write_new(root / "f", b"old")
        opened = fs.open(root / "f")
        fs.replace(root / "f", b"other")
        assert (opened.size, opened.read(0, 10)) == (3, b"old")

    def test_writes_at_an_offset_append_overwrite_and_make_files(self, fs: Fs, root: Path) -> None:
        fs.write_at(root / "f", 0, b"abc")
        fs.write_at(root / "f", 3, memoryview(b"def"))
        fs.write_at(root / "f", 1, b"BC")
        assert fs.read(root / "f") == b"aBCdef" and fs.read_range(root / "f", 2, 3) == b"Cde"
        fs.truncate(root / "f", 2)
        fs.write_at(root / "f", 4, b"x")
        assert fs.read(root / "f") == b"aB\0\0x"
        fs.write_new(root / "f", b"anew")
        assert fs.read(root / "f") == fs.map(root / "f", 4).to_pybytes() == b"anew"

    @pytest.mark.parametrize("size", [0, 5, HELD_FROM - 1, HELD_FROM, HELD_FROM + 5])
    def test_a_file_is_held_whatever_becomes_of_it(self, fs: Fs, root: Path, size: int) -> None:
        content = (bytes(range(251)) * (size // 251 + 1))[:size]
        fs.write_new(root / "f", content)
        data = fs.held(root / "f")
        fs.write_new(root / "f", b"anew")
        assert data == content and data.readonly

    @pytest.mark.parametrize("sent", [None, 0, 3])
    def test_a_range_of_an_open_file_is_copied(
        self, fs: Fs, root: Path, sent: int | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also where the kernel copies nothing, or a part and then no more."""
        if sent is not None:
            calls = iter([sent] if sent else [])
            kernel = os.sendfile

            def part(target: int, source: int, offset: int, _: int) -> int:
                count = next(calls, None)
                if count is None:
                    raise OSError(errno.EINVAL, "the kernel cannot")
                return kernel(target, source, offset, count)

            monkeypatch.setattr(os, "sendfile", part)
        fs.write_new(root / "f", b"0123456789")
        fs.write_new(root / "g", b"abcdefgh")
        source = fs.open(root / "f")
        fs.rename(root / "g", root / "f")
        fs.copy_range(source, 2, 7, root / "f", 1)
        assert fs.read(root / "f") == b"a23456gh"
        fs.copy_range(source, 9, 10, root / "new", 2)
        assert fs.read(root / "new") == b"\0\x009"
        fs.copy_range(source, 4, 4, root / "none", 0)
        assert fs.read(root / "f") == b"a23456gh"
        with pytest.raises(CorruptFileError, match="shorter than its committed length"):
            fs.copy_range(source, 6, 11, root / "f", 0)

    def test_a_claim_is_given_once(self, fs: Fs, root: Path) -> None:
        assert fs.create(root / "claim", b"me")
        assert not fs.create(root / "claim", b"you")
        assert fs.read(root / "claim") == b"me"
        fs.unlink(root / "claim")
        assert fs.create(root / "claim") and fs.read(root / "claim") == b""

    def test_shorten_makes_a_new_inode_and_refuses_a_file_that_is_too_short(self, fs: Fs, root: Path) -> None:
        path = root / "f"
        fs.write_new(path, b"0123456789")
        before, mapped = fs.stat(path), fs.map(path, 10)
        fs.shorten(path, 4)
        after = fs.stat(path)
        assert before is not None and after is not None
        assert (path.read_bytes(), mapped.to_pybytes()) == (b"0123", b"0123456789")
        assert before.inode != after.inode
        for read in (fs.shorten, fs.map, lambda path, length: fs.read_range(path, 1, length - 1)):
            with pytest.raises(CorruptFileError, match="shorter than its committed length"):
                read(path, 5)
        assert path.read_bytes() == b"0123"

    def test_renames_and_links_name_the_same_file(self, fs: Fs, root: Path) -> None:
        fs.write_new(root / "a", b"content")
        fs.mkdirs(root / "d")
        fs.rename(root / "a", root / "d" / "b")
        assert fs.stat(root / "a") is None and fs.link(root / "d" / "b", root / "c")
        fs.write_new(root / "other", b"other")
        assert not fs.link(root / "other", root / "c") and fs.read(root / "c") == b"content"
        assert fs.sizes(root, ["c", "other", "none"]) == {"c": (7, 2), "other": (5, 1)}
        fs.rename(root / "other", root / "c")
        assert (fs.read(root / "c"), fs.read(root / "d" / "b")) == (b"other", b"content")

    def test_entries_of_a_directory_say_what_links_lead_to(self, fs: Fs, root: Path) -> None:
        fs.write_new(root / "b", b"12")
        fs.mkdirs(root / "a" / "inner")
        for target in ("b", "nothing", "to-to-itself"):
            fs.symlink(target, root / f"to-{target.removeprefix('to-')}")
        assert fs.entries(root) == [(name, fs.stat(root / name)) for name in ("a", "b", "to-b")]
        assert [(name, stat.is_dir, stat.size) for name, stat in fs.entries(root)][1:] == [
            ("b", False, 2),
            ("to-b", False, 2),
        ]
        link = fs.stat(root / "to-nothing", follow=False)
        assert link is not None and link.is_link and fs.resolve(root / "to-b") == fs.resolve(root) / "b"

    def test_files_below_a_directory_are_sorted_and_have_their_sizes(self, fs: Fs, root: Path) -> None:
        for number, name in enumerate(("b/2", "b/1/x", "a", "c")):
            fs.mkdirs((root / name).parent)
            fs.write_new(root / name, b"x" * number)
        names = ["a", "b/1/x", "b/2", "c"]
        assert [(name, stat.size) for name, stat in stats_below(fs, root)] == [*zip(names, [2, 1, 0, 3], strict=True)]
        assert list(files_below(fs, root)) == [root / name for name in names]
        assert list(files_below(fs, root / "a")) == [root / "a"]

    def test_many_small_files_and_directories_are_read_in_one_call(self, fs: Fs, root: Path) -> None:
        fs.mkdirs(root / "d" / "inner")
        sizes = {"d/b": 3, "d/a": 0, "largest": SMALL_FILE - 1, "larger": SMALL_FILE}
        for name, size in sizes.items():
            fs.write_new(root / name, b"x" * size)
        assert list(fs.names_below(root, ["d", "none", "larger", "d/inner"])) == [["a", "b", "inner"], [], [], []]
        files = list(fs.small_files(root, [*sizes, "none", "larger/below", "d"]))
        assert files == [b"xxx", b"", b"x" * (SMALL_FILE - 1), None, b"", b"", None]

    def test_directories_are_made_with_their_parents_and_removed(self, fs: Fs, root: Path) -> None:
        made = [root / "a", root / "a" / "b", root / "a" / "b" / "c"]
        assert (fs.mkdirs(made[-1]), fs.mkdirs(made[-1])) == (made, [])
        fs.keep_all_dirs([made[-1], root / "a" / "d"], root)
        fs.write_new(made[1] / "f", b"")
        fs.symlink("f", made[1] / "link")
        assert not fs.rmdir(made[1]) and fs.rmdir(made[2]) and fs.rmdir(made[2])
        fs.remove_tree(made[1])
        assert list(files_below(fs, root)) == [] and fs.names(root / "a") == ["d"]

    def test_what_is_missing_is_none_empty_or_an_error(self, fs: Fs, root: Path) -> None:
        fs.write_new(root / "file", b"")
        for missing in (root / "none", root / "file" / "below"):
            assert (fs.stat(missing), fs.names(missing), fs.entries(missing)) == (None, [], [])
        assert (fs.names(root / "file"), fs.entries(root / "file")) == ([], [])
        none = root / "none"
        for read in (*READS, lambda fs, path: fs.truncate(path, 0), lambda fs, path: fs.rename(path, root / "x")):
            with pytest.raises(FileNotFoundError):
                read(fs, none)
        for write in (lambda: fs.write_new(none / "f", b""), lambda: fs.write_at(none / "f", 0, b"")):
            with pytest.raises(FileNotFoundError):
                write()
        fs.unlink(none)
        fs.remove_tree(none)
        assert fs.rmdir(none) and fs.names(root) == ["file"]

    def test_what_permissions_forbid_is_an_error_and_changes_nothing(self, fs: Fs, root: Path) -> None:
        fs.mkdirs(root / "d")
        fs.write_new(root / "d" / "f", b"old" * 1000)
        (root / "d" / "f").chmod(0o000)
        (root / "d").chmod(0o500)
        with permissions_hold():
            for call in READS:
                with pytest.raises(PermissionError, match="f'"):
                    call(fs, root / "d" / "f")
            for call in WRITES:
                with pytest.raises(PermissionError):
                    call(fs, root / "d" / "new")
            with pytest.raises(PermissionError):
                fs.rename(root / "d" / "f", root / "d" / "g")
            with pytest.raises(PermissionError):
                fs.unlink(root / "d" / "f")
        (root / "d").chmod(0o700)
        (root / "d" / "f").chmod(0o600)
        assert fs.names(root / "d") == ["f"] and fs.read(root / "d" / "f") == b"old" * 1000

    def test_syncs_take_no_files_some_and_many(self, fs: Fs, root: Path) -> None:
        paths = [root / str(number) for number in range(SYNCFS_FROM)]
        with fs.sync_guard(root) as guard:
            for path in paths:
                fs.write_new(path, b"x" * 1000)
                fs.start_writeback(path)
                fs.write_at(path, 1000, b"y")
            for some in ([], paths[:2], paths):
                fs.sync(some)
                guard.sync(some, [root])
        fs.sync_dirs([root, root])
        fs.drop_cached(paths[:2])
        assert {fs.read(path) for path in paths} == {b"x" * 1000 + b"y"}

    def test_a_lock_excludes_and_ends_with_release(self, fs: Fs, root: Path) -> None:
        for path in (root, root / "file"):
            first = fs.lock(path)
            assert first is not None and first.held
            assert fs.lock(path) is None
            first.release()
            second = fs.lock(path, wait=True)
            assert second is not None
            second.release()
            second.release()

    def test_the_machine_has_room_and_one_boot(self, fs: Fs, root: Path) -> None:
        assert fs.free_bytes(root) > 0
        assert fs.boot_id() == fs.boot_id() != ""
