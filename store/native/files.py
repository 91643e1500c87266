"""Many small files read, and many directories listed or compared, in a few calls of the compiled core.

What it cannot read is asked of the file system one by one.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sparkhaven.store.io.fs import SMALL_FILE, Fs
from sparkhaven.store.native.abi import DirectoriesLayout, DirectoryFormLayout, DirectoryLayout
from sparkhaven.store.native.library import address, core

Octets = npt.NDArray[np.uint8]


def read_files(fs: Fs, paths: Sequence[str], head: bytes, sizes: Sequence[int], out: Octets) -> npt.NDArray[np.bool_]:
    """Of each file the bytes behind ``head``, as many as ``sizes`` says, one file's behind the other's in ``out``.

    Returns which files were read; others do not begin with ``head``, are shorter, or cannot be read, and what stands
    in their place is not theirs. ValueError: ``out`` is too small.
    """
    if len(sizes) != len(paths) or min(sizes, default=0) < 0 or sum(sizes) > len(out):
        raise ValueError(f"{sum(sizes)} bytes of {len(paths)} files do not fit into {len(out)}")
    library = core()
    names, lengths = os.fsencode("".join(f"{path}\0" for path in paths)), np.array(sizes, np.int64)
    errors, scratch = np.empty(len(paths), np.int32), np.empty(len(head), np.uint8)
    begin = head, len(head), address(scratch), address(lengths), address(out), len(out), address(errors)
    fs.read_together(paths, lambda: library.sh_read_files(names, len(names), len(paths), *begin))
    read: npt.NDArray[np.bool_] = errors == 0
    return read


DIRECTORY = np.dtype(DirectoryLayout)
TOGETHER = 256  # directories that a thread looks at one after another


@dataclass(frozen=True, slots=True)
class DirectoryForm:
    """What directories have in common: names of files, and the bytes of each before those that count; a record, and
    where in it the numbers stand: rows, time, epoch, then the length and then the checksum of each file.
    """

    names: tuple[str, ...]
    starts: tuple[int, ...]
    record: bytes
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Directories:
    """Directories below ``root``: their ``paths``, an entry of ``DIRECTORY`` for each, and the lengths and checksums.

    In ``packed`` stand for each the width of a length (4 or 8), all lengths, and all checksums in 4 bytes each.
    """

    root: Path
    forms: Sequence[DirectoryForm]
    paths: Sequence[str]
    entries: npt.NDArray[Any]
    packed: bytes | memoryview


def compare_directories(fs: Fs, asked: Directories) -> npt.NDArray[np.bool_]:
    """Of each whether it has a record of these bytes, a definition, all of its files, each as long as committed, and
    nothing else but perhaps an owner mark. False: it has not, or cannot be read.
    """
    exact = np.zeros(len(asked.paths), np.uint8)
    library = core()
    if not len(exact):
        return exact.view(np.bool_)
    forms, kept = _forms(asked.forms)
    paths, packed = os.fsencode("\0".join(asked.paths) + "\0"), np.frombuffer(asked.packed, np.uint8)
    entries = np.ascontiguousarray(asked.entries)
    entries["path"] = _starts_of(paths)
    all_of = DirectoriesLayout(ctypes.addressof(forms), len(forms), paths, len(paths), address(packed), len(packed))
    root, room = os.fsencode(asked.root), 2 * max(len(form.record) for form in asked.forms) + 1

    def compare(first: int) -> None:
        scratch, some = np.empty(room, np.uint8), entries[first : first + TOGETHER]
        where = address(scratch), room, address(exact[first:])
        library.sh_compare_directories(root, ctypes.addressof(all_of), address(some), len(some), *where)

    looked_at = [f"{asked.root}/{path}" for path in asked.paths]
    fs.read_together(looked_at, lambda: by_threads(compare, range(0, len(exact), TOGETHER)))
    del kept
    return exact.view(np.bool_)


def _forms(forms: Sequence[DirectoryForm]) -> tuple[Any, list[Any]]:
    """The forms as the core takes them, and what must be kept as long as they are."""
    laid, kept = (DirectoryFormLayout * len(forms))(), list[Any]()
    for layout, form in zip(laid, forms, strict=True):
        names = os.fsencode("".join(f"{name}\0" for name in form.names))
        starts, offsets = np.array(form.starts, np.int64), np.array(form.places, np.int64)
        layout.names, layout.names_size, layout.count = names, len(names), len(form.names)
        layout.starts, layout.places = address(starts), address(offsets)
        layout.record, layout.record_size = form.record, len(form.record)
        kept += starts, offsets
    return laid, kept


def _starts_of(paths: bytes) -> npt.NDArray[np.int64]:
    ends = np.flatnonzero(np.frombuffer(paths, np.uint8) == 0) + 1
    return np.concatenate((np.zeros(1, np.int64), ends[:-1]))


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
        if len(some) < portions.least:
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
    scratch = np.empty(SMALL_FILE, np.uint8)
    call: _Call = core().sh_read_whole_files
    return [
        (part, b"" if data is None and absent else data)
        for part, data, absent in _asked(call, directory, parts, room, (address(scratch), len(scratch)))
    ]


def _list(directory: Path, room: int, parts: Sequence[str]) -> list[tuple[str, list[str] | None]]:
    answers: list[tuple[str, list[str] | None]] = []
    for part, data, absent in _asked(core().sh_list_directories, directory, parts, room, ()):
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
