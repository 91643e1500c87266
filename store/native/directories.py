"""Many directories compared at once with what a log says of them, by the compiled core; each that is not exactly that
is for others to look at.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.abi import DirectoriesLayout, DirectoryFormLayout, DirectoryLayout
from sparkhaven.store.native.buffers import address
from sparkhaven.store.native.library import core
from sparkhaven.store.native.many_files import by_threads

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
    nothing else but perhaps an owner mark. False: it has not, cannot be read, or there is no compiled core.
    """
    exact = np.zeros(len(asked.paths), np.uint8)
    library = core()
    if library is None or not len(exact):
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
