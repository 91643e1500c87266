"""The content of a location that has no rows yet: its definition, and the prefix of each column file."""

from __future__ import annotations

from collections.abc import Container

from sparkhaven.store.format.column.prefix import encode_prefix
from sparkhaven.store.format.table.tbl import encode_tbl
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.types.model import Column, TableSchema
from sparkhaven.writers.append.symbol_cache import SymbolCache


@frozen
class EmptyLocation:
    """``tbl``: bytes of ``table.tbl``; ``prefixes``: first bytes of each ``.dat``, by column name."""

    tbl: bytes
    prefixes: dict[str, bytes]

    @staticmethod
    def of(schema: TableSchema) -> EmptyLocation:
        """Encodes both for a schema. UnsupportedVersionError: a type that this release does not store."""
        return EmptyLocation(encode_tbl(schema), {column.name: encode_prefix(column) for column in schema.stored})


def location_columns(schema: TableSchema, files: Container[str]) -> dict[str, tuple[Column, str]]:
    """The columns of a location with these files, and the name that each has in the schema; by their names there.

    A rename takes effect with a new location. A column that is no longer in the schema goes on as nulls, so that all
    columns of a location have its rows.
    """
    stored = [(column.within(files), column.name) for column in schema.stored]
    retired = [(column.within(files), column.name) for column in schema.retired if column.files]
    stored += [(column, name) for column, name in retired if column.files[0] in files]
    return {column.name: (column, name) for column, name in stored}


class WorkerCache:
    """What a reused worker process caches between batches."""

    def __init__(self, symbols: SymbolCache | None = None) -> None:
        self.symbols = symbols or SymbolCache()
        self._by_schema: dict[tuple[str, int, tuple[Column, ...]], EmptyLocation] = {}

    def empty_location(self, schema: TableSchema) -> EmptyLocation:
        key = (schema.full_name, schema.version, schema.columns)
        location = self._by_schema.get(key)
        if location is None:
            self._by_schema.clear()
            location = self._by_schema[key] = EmptyLocation.of(schema)
        return location
