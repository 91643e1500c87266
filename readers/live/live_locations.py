"""What an engine knows a location by, and what a live table holds for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sparkhaven.readers.live.live_column import LiveColumn
from sparkhaven.store.errors import SnapshotMovedError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.scan.checksums import Checks
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import NOW, Column

AGAIN = "open the table again. It has the same name"


@dataclass(frozen=True, slots=True)
class LiveLocation:
    """The rows from ``first`` on of one location, up to ``stop`` where that is set; an engine's key.

    Never used again for other rows. Between two of one location there may be withdrawn rows, which neither shows.

    ``since`` and ``made_ms`` distinguish a location from one that was removed and created again under its name; 0 in
    history, where names are never used again.
    """

    tier: Literal["intraday", "history"]
    stream: str | None
    at: LocationKey
    since: int
    made_ms: int
    first: int
    stop: int | None = None

    def shown_of(self, rows: int) -> int:
        """The row after the last one that is shown of so many rows of the location."""
        return rows if self.stop is None else min(rows, self.stop)


@dataclass(frozen=True, slots=True)
class Committed:
    """Rows of a location as of one epoch, counted from its first, with the size and CRC-32 of each file.

    ``named_by``: the version of the schema by which the files are named. ``indexes``: the same of files of its indexes.
    """

    rows: int
    epoch: int
    files: Mapping[str, FileState]
    indexes: Mapping[str, FileState] = field(default_factory=dict)
    named_by: int = NOW


@dataclass(slots=True)
class Held:
    """A place with what is committed there, and ``shown`` of it: what an engine may ask for, which never shrinks.

    ``left``: its location was truncated or removed. Its rows stay, from mappings made before.
    """

    place: LiveLocation
    directory: Path
    committed: Committed
    shown: Committed | None = None
    left: bool = False
    columns: dict[str, LiveColumn] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return self.place.shown_of(self.shown.rows) - self.place.first if self.shown else 0

    def column(self, fs: Fs, column: Column, checks: Checks | None) -> LiveColumn:
        reader = self.columns.get(column.name)
        if reader is None:
            named = column.at(self.committed.named_by)
            reader = self.columns.setdefault(column.name, LiveColumn(fs, self.directory, named, checks))
        return reader

    def keep(self, fs: Fs, columns: tuple[Column, ...], checks: Checks | None) -> None:
        """Maps every column: from then on the files may go."""
        for column in columns:
            self.column(fs, column, checks).map(self.committed.rows, self.committed.files)
        self.left = True

    def gone(self, message: str) -> SnapshotMovedError:
        return SnapshotMovedError(
            message,
            where=self.directory,
            expected=f"{self.committed.rows} rows of epoch {self.committed.epoch}"
            if self.place.tier == "intraday"
            else f"{self.committed.rows} rows",
            found="other rows, or none",
            hint=AGAIN,
            phase="read",
        )


class Mapped:
    """Columns by the time when they were mapped: beyond a bound of memory the oldest are dropped, and mapped again.

    Large files cost no memory of ours, since they are mapped; small ones, and decoded symbols, are copies. Not
    thread-safe.
    """

    def __init__(self, bound: int) -> None:
        self._bound, self._total = bound, 0
        self._sizes: dict[tuple[LiveLocation, str], tuple[int, Held]] = {}

    def clear(self) -> None:
        self._sizes.clear()
        self._total = 0

    def add(self, held: Held, name: str) -> None:
        """A column was mapped, or mapped anew because it has grown."""
        before, _ = self._sizes.pop((held.place, name), (0, held))
        size = held.columns[name].memory if name in held.columns else 0
        self._sizes[held.place, name] = size, held
        self._total += size - before
        while self._total > self._bound and len(self._sizes) > 1:
            (location, oldest), (size, owner) = next(iter(self._sizes.items()))
            del self._sizes[location, oldest]
            self._total -= size
            if not owner.left:  # else its files may be gone
                owner.columns.pop(oldest, None)
