"""A file system that remembers which bytes and which directory entries were synced, for power cuts.

``cut`` rebuilds the tree as a disk may hold it after a power cut, choosing among what was not synced.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from sparkhaven.store.io.fs import Lock
from tests.support.disks.model_disk import (
    CUTS,
    Directory,
    File,
    Link,
    Node,
    keep_directory,
    keep_file,
    load,
    note,
    rebuild,
    walk,
)
from tests.support.disks.model_fs import CrashingFs


class PowerCutFs(CrashingFs):
    """A disk below ``root`` that forgets what was not synced.

    ``fdatasync`` of a file keeps its content, but not its name: that takes a sync of the directory (as POSIX has it). A
    rename is one atomic change of its directory. ``sabotage`` switches syncs off: "file", "dir", "log".
    """

    def __init__(
        self,
        root: Path,
        *,
        sabotage: str | None = None,
        crash_at: str | None = None,
        occurrence: int = 1,
        crash_after: int | None = None,
        boot: str = "boot-1",
    ) -> None:
        super().__init__(crash_at=crash_at, occurrence=occurrence, crash_after=crash_after, boot=boot)
        self.root, self._sabotage = root, sabotage
        self._top = load(root)

    def cut(self, seed: int) -> None:
        """The power goes: the tree below ``root`` becomes one that the disk may hold. This object is dead then."""
        if not self.dead:
            self.dead = True
            for lock in self._locks:
                lock.release()
        chance = random.Random(seed)
        kind = CUTS[seed % len(CUTS)]
        for child in self.root.iterdir():
            shutil.rmtree(child) if child.is_dir() and not child.is_symlink() else child.unlink()
        rebuild(self._top, self.root, kind, chance)

    def _node(self, path: Path) -> Node | None:
        node: Node = self._top
        for part in path.relative_to(self.root).parts:
            if not isinstance(node, Directory) or part not in node.now:
                return None
            node = node.now[part]
        return node

    def _dir(self, path: Path) -> Directory:
        node = self._node(path)
        assert isinstance(node, Directory), path
        return node

    def _entry(self, path: Path, node: Node | None) -> None:
        note(self._dir(path.parent), {path.name: node})

    def _file(self, path: Path) -> File:
        node = self._node(path)
        if node is None:
            node = File()
            self._entry(path, node)
        assert isinstance(node, File), path
        return node

    def _mkdir(self, path: Path) -> None:
        super()._mkdir(path)
        if self._node(path) is None:
            self._entry(path, Directory())

    def write_at(self, path: Path, offset: int, data: bytes | memoryview) -> None:
        super().write_at(path, offset, data)
        self._file(path).pending.append((offset, bytes(data)))

    def write_new(self, path: Path, data: bytes, *, allocate: bool = False) -> None:
        super().write_new(path, data, allocate=allocate)
        file = self._file(path)
        file.pending += [(0, None), *([(0, bytes(len(data)))] if allocate else []), (0, data)]

    def create(self, path: Path, data: bytes = b"") -> bool:
        made = super().create(path, data)
        if made:
            self._file(path)
        return made

    def truncate(self, path: Path, length: int) -> None:
        super().truncate(path, length)
        self._file(path).pending.append((length, None))

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        node = self._node(source)
        if source.parent == target.parent:
            note(self._dir(target.parent), {source.name: None, target.name: node})
        else:
            self._entry(target, node)
            self._entry(source, None)

    def exchange(self, one: Path, other: Path) -> bool:
        done = super().exchange(one, other)
        if done:
            note(self._dir(one.parent), {one.name: self._node(other), other.name: self._node(one)})
        return done

    def link(self, source: Path, target: Path) -> bool:
        done = super().link(source, target)
        if done:
            self._entry(target, self._node(source))
        return done

    def hard_link(self, source: Path, target: Path) -> bool:
        done = super().hard_link(source, target)
        if done:
            self._entry(target, self._node(source))
        return done

    def symlink(self, target: str, path: Path) -> None:
        super().symlink(target, path)
        self._entry(path, Link(target))

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        if self._node(path) is not None:
            self._entry(path, None)

    def rmdir(self, path: Path) -> bool:
        there = self._node(path) is not None
        done = super().rmdir(path)
        if done and there:
            self._entry(path, None)
        return done

    def lock(self, path: Path, *, wait: bool = False, make: bool = True) -> Lock | None:
        lock = super().lock(path, wait=wait, make=make)
        if self._node(path) is None:
            self._file(path)
        return lock

    def _sync_file(self, path: Path) -> None:
        super()._sync_file(path)
        off = self._sabotage == "file" and ".streams" not in path.parts
        if not off and not (self._sabotage == "log" and ".log" in path.name):
            keep_file(self._file(path))

    def _sync_dir(self, path: Path) -> None:
        super()._sync_dir(path)
        if self._sabotage != "dir":
            keep_directory(self._dir(path))

    def _sync_file_system(self, path: Path, descriptor: int | None) -> None:
        self._change("sync-fs", path)
        for node in walk(self._top):
            if isinstance(node, Directory):
                keep_directory(node)
            elif isinstance(node, File):
                keep_file(node)
