"""The names that the compiled scanner looks for, and those that it meets beside them, counted."""

from __future__ import annotations

import ctypes
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from sparkhaven.ingest.formats.json.field_paths import Path
from sparkhaven.store.native.abi import NameLayout, NamesLayout

UNKNOWN = 1024  # names beside those wanted; lines with further ones are in doubt
UNKNOWN_TEXT = 1 << 16  # bytes of them
MOST_OBJECTS = 32  # in each other
_NO_NAME = frozenset(map(chr, range(0x20))) | {'"', "\\"}  # can only be written by an escape


class Names:
    """The hash table of one scanner; ``objects`` are the paths of the objects that hold wanted fields."""

    def __init__(self, paths: Mapping[Path, int], ignored: Sequence[str], core: ctypes.CDLL) -> None:
        """The first column of each path; ``ignored`` names are known and not counted. ValueError if the scanner cannot
        look for the paths.
        """
        self.objects: list[Path] = [()]
        beside = [name for name in dict.fromkeys(ignored) if not _NO_NAME & set(name)]
        beside = [name for name in beside if all(name != path[0] for path in paths)]
        room = UNKNOWN + sum(map(len, paths)) + len(beside)
        slots = 1 << (2 * room).bit_length()
        text = UNKNOWN_TEXT + sum(len(name.encode()) for path in (*paths, beside) for name in path)
        self._list = np.zeros(room, np.dtype(NameLayout))
        self._text = np.zeros(text, np.uint8)
        self._slots = np.full(slots, -1, np.int32)
        self.layout = NamesLayout(
            list=self._list.ctypes.data,
            room=room,
            text=self._text.ctypes.data,
            text_room=text,
            slots=self._slots.ctypes.data,
            slot_mask=slots - 1,
            seed=secrets.randbits(64),
        )
        self._core = core
        for path, column in paths.items():
            self._declare(path, column)
        for name in beside:
            self._add(name, 0, -1, -1)
        self._declared = self.layout.known = int(self.layout.count)

    def met(self) -> Counter[str]:
        """How many accepted lines had each unknown field, by its dotted name, since the last call."""
        counts: Counter[str] = Counter()
        fresh = self._list[self._declared : self.layout.count]
        for index in np.flatnonzero(fresh["met"]).tolist():
            start, length, holder, count = (int(fresh[index][key]) for key in ("start", "length", "object", "met"))
            name = self._text[start : start + length].tobytes().decode()
            counts[".".join((*self.objects[holder], name))] += count
        fresh["met"] = 0
        return counts

    def _declare(self, path: Path, column: int) -> None:
        if len(path) > MOST_OBJECTS or any(_NO_NAME & set(name) for name in path):
            raise ValueError(path)
        holder = 0
        for depth in range(1, len(path)):
            inner = path[:depth]
            if inner not in self.objects:
                self._add(inner[-1], holder, -1, len(self.objects))
                self.objects.append(inner)
            holder = self.objects.index(inner)
        self._add(path[-1], holder, column, -1)

    def _add(self, name: str, holder: int, column: int, inner: int) -> None:
        text = name.encode()
        if self._core.sh_declare(ctypes.byref(self.layout), text, len(text), holder, column, inner) < 0:
            raise ValueError(f"{name} twice, or a value and an object")
