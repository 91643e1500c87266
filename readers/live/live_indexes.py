"""Indexes of history for the filters of an engine: which rows of a location a filter on some values has to look at."""

from __future__ import annotations

from collections.abc import Sequence

from sparkhaven.readers.live.live_locations import Committed, Held
from sparkhaven.store.expressions.predicate.lookups import Key, Lookup
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.checksums import Checks
from sparkhaven.store.scan.location_files import LocationFiles
from sparkhaven.store.scan.narrowing import indexed_rows
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.model import Column, Kind, TableSchema
from sparkhaven.store.types.null_char import has_other_null
from sparkhaven.store.types.row_ranges import RowRanges


class LiveIndexes:
    """Of one table, whose ``schema`` is that of its opening. What was opened stays open, as for other reads."""

    def __init__(self, fs: Fs, schema: TableSchema, checks: Checks | None) -> None:
        self._schema, self._files = schema, LocationFiles(fs, checks)
        self._leading = {keys[0] for keys in schema.built_indexes}

    def has(self, name: str) -> bool:
        """Whether merges write an index that begins with a column."""
        column = self._column(name)
        return column is not None and (column.kind is Kind.GROUPING or name in self._leading)

    def _column(self, name: str) -> Column | None:
        """A column of which indexes know the nulls."""
        column = self._schema.column(name)
        return None if column is None or has_other_null(column) else column

    def rows(self, held: Held, shown: Committed, name: str, keys: Sequence[Key]) -> RowRanges | None:
        """Rows of a location in which a column has one of these values; None: no index tells, or it saves nothing."""
        column = self._column(name)
        if held.place.tier != "history" or column is None:
            return None
        rows = (0, shown.rows, shown.rows)
        held_at = held.place.at, str(held.directory)
        whole = Slice("history", None, *held_at, *rows, shown.files, {}, indexes=shown.indexes)
        values = tuple(None if key == column.type.null else key for key in keys)
        return indexed_rows(self._files, self._schema, whole, Lookup("in", name, values))
