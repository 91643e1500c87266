"""Many small files read, and many directories listed, in a few calls of the compiled core; what it cannot read is asked
of the file system one by one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from sparkhaven.store.io.fs import SMALL_FILE, Fs
from sparkhaven.store.native.buffers import address
from sparkhaven.store.native.library import core

THREADS = 4  # a call waits for the system, and for the disk where it was not there before
_ABSENT = -1
_Call = Callable[..., int]
P = TypeVar("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Portions:
    """``least``: for fewer, to load the core takes longer; ``together``: files or directories in one call; ``room``:
    bytes that one call gives at most.
    """

    least: int = 64
    together: int = 512
    room: int = 1 << 20


USUAL = Portions()


def small_files(fs: Fs, directory: Path, parts: Iterable[str], portions: Portions = USUAL) -> Iterator[bytes | None]:
    """As ``Fs.small_files``: the bytes of each file below a directory, none of one that is not there.

    None: it is larger than ``SMALL_FILE``, or cannot be read.
    """
    return _each(fs, directory, parts, portions, fs.small_files, _read)


def names_below(fs: Fs, directory: Path, parts: Iterable[str], portions: Portions = USUAL) -> Iterator[list[str]]:
    """As ``Fs.names_below``: the names in each directory below one, sorted. OSError: one cannot be read."""
    return _each(fs, directory, parts, portions, fs.names_below, _list)


def _each(
    fs: Fs,
    directory: Path,
    parts: Iterable[str],
    portions: Portions,
    plain: Callable[[Path, Iterable[str]], Iterator[T]],
    ask: Callable[[Path, int, Sequence[str]], list[tuple[str, T | None]]],
) -> Iterator[T]:
    waiting, size = iter(parts), portions.together
    while some := list(islice(waiting, THREADS * size)):
        if len(some) < portions.least or core() is None:
            yield from plain(directory, some)
            continue
        pieces = [some[first : first + size] for first in range(0, len(some), size)]
        paths = [f"{directory}/{part}" for part in some]
        read = partial(by_threads, partial(ask, directory, portions.room), pieces)
        for answers in fs.read_together(paths, read):
            for part, answer in answers:
                yield next(plain(directory, [part])) if answer is None else answer


def by_threads(ask: Callable[[P], T], pieces: Sequence[P]) -> list[T]:
    """What is answered for each piece, several of them asked at once."""
    if len(pieces) == 1:
        return [ask(pieces[0])]
    with ThreadPoolExecutor(min(THREADS, len(pieces))) as pool:
        return list(pool.map(ask, pieces))


def _read(directory: Path, room: int, parts: Sequence[str]) -> list[tuple[str, bytes | None]]:
    library, scratch = core(), np.empty(SMALL_FILE, np.uint8)
    assert library is not None  # noqa: S101 - asked before
    call: _Call = library.sh_read_whole_files
    return [
        (part, b"" if data is None and absent else data)
        for part, data, absent in _asked(call, directory, parts, room, (address(scratch), len(scratch)))
    ]


def _list(directory: Path, room: int, parts: Sequence[str]) -> list[tuple[str, list[str] | None]]:
    library = core()
    assert library is not None  # noqa: S101 - asked before
    answers: list[tuple[str, list[str] | None]] = []
    for part, data, absent in _asked(library.sh_list_directories, directory, parts, room, ()):
        if data is None:
            answers.append((part, [] if absent else None))
        else:
            answers.append((part, sorted(os.fsdecode(data[:-1]).split("\0")) if data else []))
    return answers


def _asked(
    call: _Call, directory: Path, parts: Sequence[str], room: int, scratch: tuple[int, ...]
) -> Iterator[tuple[str, bytes | None, bool]]:
    """Of each part its bytes, or None and whether it is not there. What needs too much room is not read."""
    root, first = os.fsencode(directory), 0
    out, sizes = np.empty(room, np.uint8), np.empty(len(parts), np.int64)
    while first < len(parts):
        names = os.fsencode("".join(f"{part}\0" for part in parts[first:]))
        counts = len(names), len(parts) - first
        done = call(root, names, *counts, *scratch, address(out), len(out), address(sizes))
        data, start = out[: int(sizes[:done].clip(0).sum())].tobytes(), 0
        for part, size in zip(parts[first : first + done], sizes[:done].tolist(), strict=True):
            yield part, data[start : start + size] if size >= 0 else None, size == _ABSENT
            start += max(size, 0)
        if not done:
            yield parts[first], None, False
        first += max(done, 1)
