"""The content of a location that has no rows yet: its definition, and the prefix of each column file."""

from __future__ import annotations

from store.format.column.prefix import encode_prefix
from store.format.table.tbl import encode_tbl
from store.types.frozen import frozen
from store.types.model import Column, TableSchema
from writers.append.symbols import SymbolCache


@frozen
class EmptyLocation:
    """``tbl``: bytes of ``table.tbl``; ``prefixes``: first bytes of each ``.dat``, by column name."""

    tbl: bytes
    prefixes: dict[str, bytes]

    @staticmethod
    def of(schema: TableSchema) -> EmptyLocation:
        """Encodes both for a schema. UnsupportedVersionError: a type that this release does not store."""
        return EmptyLocation(encode_tbl(schema), {column.name: encode_prefix(column) for column in schema.stored})


class WorkerCache:
    """What a reused worker process caches between batches."""

    def __init__(self, symbols: SymbolCache | None = None) -> None:
        self.symbols = symbols or SymbolCache()
        self._by_schema: dict[tuple[str, int, tuple[Column, ...]], EmptyLocation] = {}

    def empty_location(self, schema: TableSchema) -> EmptyLocation:
        """The empty location of a schema, encoded once."""
        key = (schema.full_name, schema.version, schema.columns)
        found = self._by_schema.get(key)
        if found is None:
            self._by_schema.clear()
            found = self._by_schema[key] = EmptyLocation.of(schema)
        return found
