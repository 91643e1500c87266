"""What a disk may hold: the durable part of each file and directory, and the changes that were not synced."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
