"""Reads live tables as an engine does: subscribes, counts, and asks for values in pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkhaven.readers.live.backend import LiveBackend, TableKey
from sparkhaven.readers.live.live_root import LiveRoot
from sparkhaven.readers.live.shown_locations import LiveLocation
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName

NULLS = {
    "B": -(2**7),
    "C": 0xFFFF,
    "S": -(2**15),
    "I": -(2**31),
    "L": -(2**63),
    "T": -(2**63),
    "F": -3.4028234663852886e38,
    "D": -1.7976931348623157e308,
}


class Engine:
    """One root and its clock; ``look`` is what its thread does each ten milliseconds."""

    def __init__(self, root: Path, *names: str, fs: Fs | None = None) -> None:
        self.notes: list[str] = []
        self.now = 100.0
        chosen = [TableName.parse(name) for name in names] or None
        self.root = LiveRoot(fs or Fs(), Layout(root), chosen, note=self.notes.append, now_ms=lambda: 0)
        self.backend: LiveBackend = self.root.backend

    def look(self, seconds: float = 0.01) -> None:
        self.now += seconds
        self.root.look(self.now)

    def attach(self, name: str) -> Attached:
        """Subscribes to the table that a variable stands for now."""
        return Attached(self.backend, self.root.keys[name]).begin()


@dataclass
class Attached:
    """One subscriber; ``sizes`` only ever grow, which is asserted."""

    backend: LiveBackend
    key: TableKey
    sizes: dict[LiveLocation, int] = field(default_factory=dict)
    values: dict[LiveLocation, str] = field(default_factory=dict)
    errors: list[Exception] = field(default_factory=list)
    done: int = 0

    def begin(self) -> Attached:
        self.leave = self.backend.follow_places(self.key, self._place, self._done, self.errors.append)
        return self

    def _done(self) -> None:
        self.done += 1

    def _place(self, place: LiveLocation, values: pa.Table | None) -> None:
        assert place not in self.sizes, "a place was delivered twice"
        self.sizes[place] = 0
        self.values[place] = values.column(0)[0].as_py() if values is not None else ""

        def size(rows: int) -> None:
            assert rows >= self.sizes[place], "a size has shrunk"
            self.sizes[place] = rows

        self.backend.follow_size(self.key, place, size, self._done, self.errors.append)

    @property
    def count(self) -> int:
        return sum(self.sizes.values())

    def column(self, name: str, *, page: int = 1 << 18) -> list[Any]:
        """All values of a column, page by page; nulls as None, however they came."""
        found: list[Any] = []
        for place, rows in self.sizes.items():
            for offset in range(0, rows, page):
                least = min(page, rows - offset)
                table = self.backend.values(self.key, place, name, offset, least, page)
                assert least <= table.num_rows <= page
                assert table.column_names == [name]
                array = table.column(0).slice(0, least)
                if pa.types.is_timestamp(array.type):
                    array = array.cast(pa.int64())
                found += [None if value == NULLS.get(name, ()) else value for value in array.to_pylist()]
        return found
