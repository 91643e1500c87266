"""Symbol tables while appending: one id per string and location, cached in the reused worker.

Reading a dictionary from disk for every batch costs more than the batch. A cache entry is valid only for the bytes it
was read from: same directory and generation, and the length and CRC of both symbol files as ``table.size`` has them
now. A failed batch, a rollback and another writer each change one of those, and the table is read again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.frozen import frozen

MAX_CACHED = 4_000_000  # symbols over all entries of one worker, roughly 500 MB of short strings

Ids = dict[str, int]
State = tuple[FileState, FileState]


@frozen
class SymbolKey:
    directory: Path
    column: str
    generation: int


def ids_of(symbols: Sequence[str | None], where: Path) -> Ids:
    """Ids by string, dense from 0. CorruptFileError: a string occurs twice, or an entry is empty."""
    ids: Ids = {}
    for number, symbol in enumerate(symbols):
        if symbol is None or ids.setdefault(symbol, number) != number:
            raise CorruptFileError(
                "a symbol table has a string twice, or an empty entry",
                where=f"{where}, symbol {number}",
                expected="each string once",
                found=repr(symbol),
                hint="run `sparkhaven verify --deep`. The location was changed by another program",
            )
    return ids


class SymbolCache:
    """Least-recently-used symbol tables, bounded by their number of symbols. One per worker process."""

    def __init__(self, max_symbols: int = MAX_CACHED) -> None:
        self._max = max_symbols
        self._held = 0
        self._tables: OrderedDict[SymbolKey, tuple[State, Ids]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tables)

    def take(self, key: SymbolKey, state: State, load: Callable[[], Sequence[str | None]]) -> Ids:
        """The table for the committed ``state`` of ``.sym`` and ``.sym.bytes``, from the cache or by ``load``.

        It leaves the cache until ``give``, so that a failed batch leaves no symbols in it.
        """
        cached = self._tables.pop(key, None)
        if cached is not None:
            self._held -= len(cached[1])
            if cached[0] == state:
                return cached[1]
        return ids_of(load(), key.directory / f"{key.column}.sym") if state[0].size else {}

    def give(self, key: SymbolKey, state: State, ids: Ids) -> None:
        """Caches a table under the state that its files have once the batch is committed."""
        replaced = self._tables.pop(key, None)
        if replaced is not None:
            self._held -= len(replaced[1])
        self._tables[key] = (state, ids)
        self._held += len(ids)
        while self._held > self._max and self._tables:
            _, (_, dropped) = self._tables.popitem(last=False)
            self._held -= len(dropped)
