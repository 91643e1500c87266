"""Digests of the slices of a snapshot: from merge records where they have them, else from values that are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.store.digest.column_digest import add, digest_array, digest_nulls, digest_rows, from_hex, tag_of
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.history import of_now
from sparkhaven.store.merges.merge_records import MergeOutput
from sparkhaven.store.native.digests import Hashes
from sparkhaven.store.scan.ranges import ReadPlan
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Column
from sparkhaven.store.types.null_char import has_other_null

STEP_ROWS = 1 << 17


class Digests:
    """Digests of some rows: of the rows, all compared columns together, and of each column by itself."""

    def __init__(self, columns: Iterable[str]) -> None:
        self.rows = 0
        self.columns = dict.fromkeys(columns, 0)

    def add(self, other: Digests) -> None:
        self.rows = add(self.rows, other.rows)
        for name, digest in other.columns.items():
            self.columns[name] = add(self.columns[name], digest)


class SnapshotDigests:
    """One side of a comparison: a pinned snapshot, its plan, and how many rows were read for digests.

    ``columns`` are compared. Digests depend on ids and first types of columns: ``like`` are those of one side, in the
    same order, to which both are brought. Not ``recorded``: all rows are read, whatever merge records say.
    """

    def __init__(
        self, pinned: PinnedTable, columns: Sequence[Column], like: Sequence[Column], *, recorded: bool
    ) -> None:
        self.pinned, self.columns = pinned, tuple(columns)
        self._hashed = [replace(c, id=one.id, forms=one.forms) for c, one in zip(columns, like, strict=True)]
        self.plan: ReadPlan = pinned.plan()
        self.rows_read = 0
        self._outputs: dict[LocationKey, MergeOutput] = {}
        if recorded and len(columns) == len(pinned.schema.stored) and all(map(self._is_recorded, columns, like)):
            for record in self.plan.records:
                for output in record.outputs:
                    self._outputs[LocationKey(output.internal, record.value)] = of_now(output, pinned.schema)

    def _is_recorded(self, column: Column, like: Column) -> bool:
        return column.id == like.id and tag_of(column) == tag_of(like) and not has_other_null(column)

    def of_slice(self, slice_: Slice) -> Digests:
        """Those of the rows of a slice."""
        digests = Digests(column.name for column in self.columns)
        output = self._outputs.get(slice_.key) if slice_.tier == "history" else None
        if output is not None and slice_.count == output.rows:
            digests.rows = from_hex(output.row_digest)
            for column in self.columns:
                known = output.digests.get(column.name)
                digests.columns[column.name] = digest_nulls(column, output.rows) if known is None else from_hex(known)
            return digests
        for arrays in self.arrays(slice_):
            digests.rows = add(digests.rows, digest_rows(self.hashes(arrays, digests.columns)))
        return digests

    def arrays(self, slice_: Slice) -> Iterator[list[pa.Array]]:
        """The compared columns of a slice, in steps."""
        return self.pinned.arrays([slice_], self.columns, None, STEP_ROWS, self._count)

    def hashes(self, arrays: Sequence[pa.Array], digests: dict[str, int] | None = None) -> Hashes:
        """The hash of each row; the digests of the columns are added to ``digests``."""
        hashes = np.zeros(len(arrays[0]) if arrays else 0, np.uint64)
        for column, array in zip(self._hashed, arrays, strict=True):
            digest = digest_array(column, array, hashes)
            if digests is not None:
                digests[column.name] = add(digests[column.name], digest)
        return hashes

    def _count(self, rows: int) -> None:
        self.rows_read += rows


Begun = Mapping[LocationKey, Mapping[str, FileState]]
"""Files of locations where a comparison begins behind their first row, as they were before it."""


def same_bytes(one: Slice, other: Slice, pair: tuple[Column, Column], begun: tuple[Begun, Begun]) -> bool:
    """Whether the records of two slices of intraday have the same lengths and checksums for all files of a column.

    That is of all rows up to the last one, and of those before the first where there are any.
    """
    mine, theirs = pair
    whole = all(part.stop == part.rows and part.count == part.stop - part.start for part in (one, other))
    if not whole or any(part.tier != "intraday" for part in (one, other)):
        return False
    if (one.key, one.start, one.rows) != (other.key, other.start, other.rows) or any(map(has_other_null, pair)):
        return False
    if (mine.storage, mine.encoding, len(mine.files)) != (theirs.storage, theirs.encoding, len(theirs.files)):
        return False
    states = [(one.files, other.files)]
    if one.start:
        if one.key not in begun[0] or other.key not in begun[1]:
            return False
        states.append((begun[0][one.key], begun[1][other.key]))
    return all(
        here.get(a) == there.get(b) for here, there in states for a, b in zip(mine.files, theirs.files, strict=True)
    )
