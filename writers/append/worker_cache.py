"""What a reused worker caches between batches: symbol tables, forms of records, and the content of an empty location.

Reading a dictionary from disk for every batch costs more than the batch. A cached table of symbols (one id per string
and location) is valid only for the bytes it was read from: same directory and generation, and the length and CRC of
both symbol files as ``table.size`` has them now. A failed batch, a rollback and another writer each change one of
those, and the table is read again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.column.prefix import encode_prefix
from sparkhaven.store.format.table.table_size import SizeForm, TableSize, decode, form_of
from sparkhaven.store.format.table.tbl import encode_tbl
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Column, TableSchema

MAX_FORMS = 4  # of table.size; locations of a stream mostly have one
MAX_SCHEMAS = 64  # a feed may have several tables
MAX_CACHED = 4_000_000  # symbols over all entries of one worker, roughly 500 MB of short strings

Ids = dict[str, int]
State = tuple[FileState, FileState]


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class EmptyLocation:
    """``tbl``: bytes of ``table.tbl``; ``prefixes``: first bytes of each ``.dat``, by column name."""

    tbl: bytes
    prefixes: dict[str, bytes]

    @staticmethod
    def of(schema: TableSchema) -> EmptyLocation:
        """Encodes both for a schema. UnsupportedVersionError: a type that this release does not store."""
        return EmptyLocation(encode_tbl(schema), {column.name: encode_prefix(column) for column in schema.stored})


def location_columns(schema: TableSchema, files: Container[str], named_by: int) -> dict[str, tuple[Column, str]]:
    """The columns of a location with these files, and the name that each has in the schema; by their names there.

    ``named_by``: the version that began the location. A rename takes effect with a new one. A column that is no longer
    in the schema goes on as nulls, so that all columns of a location have its rows.
    """
    stored = [(column.at(named_by).within(files), column.name) for column in schema.stored]
    retired = [(column.at(named_by).within(files), column.name) for column in schema.retired if column.files]
    stored += [(column, name) for column, name in retired if column.files[0] in files]
    return {column.name: (column, name) for column, name in stored}


class WorkerCache:
    """What a reused worker process caches between batches."""

    def __init__(self) -> None:
        self.symbols = SymbolCache()
        self._size_forms: deque[SizeForm] = deque(maxlen=MAX_FORMS)
        self._by_schema: dict[tuple[str, int, tuple[Column, ...]], EmptyLocation] = {}

    def table_size(self, data: bytes, path: Path) -> TableSize:
        """The record of a location, read by the form of an earlier one where it has that; raises what ``decode`` does.

        Decoding a Java stream takes thirty times as long.
        """
        for form in self._size_forms:
            record = form.read(data)
            if record is not None:
                return record
        record = decode(data, path)
        new = form_of(record)
        if new is not None and new.read(data) == record:
            self._size_forms.appendleft(new)
        return record

    def empty_location(self, schema: TableSchema) -> EmptyLocation:
        key = (schema.full_name, schema.version, schema.columns)
        location = self._by_schema.get(key)
        if location is None:
            if len(self._by_schema) >= MAX_SCHEMAS:
                self._by_schema.clear()
            location = self._by_schema[key] = EmptyLocation.of(schema)
        return location
