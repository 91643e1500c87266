"""A file system that remembers which bytes and which directory entries were synced, for power cuts.

``cut`` rebuilds the tree as a disk may hold it after a power cut, choosing among what was not synced: that model of
a disk, the durable part of each file and directory and the changes since, comes first.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparkhaven.store.io.fs import Lock
from tests.support.disks.model_fs import CrashingFs

SECTOR = 512


@dataclass(slots=True)
class File:
    durable: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)  # offset and bytes; None: cut to offset


@dataclass(slots=True)
class Link:
    target: str


@dataclass(slots=True)
class Directory:
    now: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)
    pending: list[dict[str, Node | None]] = field(default_factory=list)  # each one is atomic


Node = File | Link | Directory

CUTS = ("nothing", "everything", "prefix", "any", "zeros")


def note(directory: Directory, change: dict[str, Node | None]) -> None:
    """Makes one atomic change of a directory; None takes a name away."""
    directory.pending.append(change)
    for name, node in change.items():
        _set(directory.now, name, node)


def _set(entries: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node


def keep_file(file: File) -> None:
    """The content of a file is synced."""
    content = bytearray(file.durable)
    for offset, data in file.pending:
        _write(content, offset, data)
    file.durable = bytes(content)
    file.pending.clear()


def keep_directory(directory: Directory) -> None:
    """The entries of a directory are synced."""
    directory.durable = dict(directory.now)
    directory.pending.clear()


def _write(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        content.extend(bytes(max(0, offset - len(content))))
        return
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(data)] = data


def walk(top: Directory) -> Iterator[Node]:
    """Every node that can be reached now."""
    yield top
    for node in top.now.values():
        if isinstance(node, Directory):
            yield from walk(node)
        else:
            yield node


def load(path: Path) -> Directory:
    """A real tree as a disk that holds all of it."""
    directory = Directory()
    for child in path.iterdir():
        node: Node
        if child.is_symlink():
            node = Link(str(child.readlink()))
        elif child.is_dir():
            node = load(child)
        else:
            node = File(child.read_bytes())
        directory.now[child.name] = directory.durable[child.name] = node
    return directory


def _durable(pending: list[Any], kind: str, chance: random.Random) -> list[Any]:
    if kind == "nothing":
        return []
    if kind in ("everything", "zeros"):
        return list(pending)
    if kind == "prefix":
        return pending[: chance.randint(0, len(pending))]
    return [change for change in pending if chance.random() < 0.5]


def rebuild(directory: Directory, path: Path, kind: str, chance: random.Random) -> None:
    """Writes into the empty directory ``path`` what survives of ``directory``."""
    entries = dict(directory.durable)
    for change in _durable(directory.pending, kind, chance):
        for name, node in change.items():
            _set(entries, name, node)
    for name, node in entries.items():
        target = path / name
        match node:
            case Directory():
                target.mkdir()
                rebuild(node, target, kind, chance)
            case Link():
                target.symlink_to(node.target)
            case File():
                target.write_bytes(_surviving_bytes(node, kind, chance))


def _surviving_bytes(file: File, kind: str, chance: random.Random) -> bytes:
    content = bytearray(file.durable)
    for offset, data in _durable(file.pending, kind, chance):
        if data and kind == "zeros" and chance.random() < 0.4:
            held = file.durable[offset : offset + len(data)]  # blocks that were there keep what was in them
            data = held + bytes(len(data) - len(held))
        elif data and kind in ("prefix", "any") and chance.random() < 0.5:
            data = data[: _tear(offset, len(data), chance)]
        _write(content, offset, data)
    return bytes(content)


def _tear(offset: int, length: int, chance: random.Random) -> int:
    """A length at a sector border, or anywhere where the write lies within one sector."""
    borders = list(range(SECTOR - offset % SECTOR, length, SECTOR))
    return chance.choice(borders) if borders else chance.randint(0, length)


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
