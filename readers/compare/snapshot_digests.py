"""Digests of the slices of a snapshot: from merge records where they have them, else from values that are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.store.digest.column_digest import add, digest_array, digest_nulls, from_hex
from sparkhaven.store.format.parquet.location_files import in_parquet
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.history import in_columns
from sparkhaven.store.merges.merge_records import MergeOutput
from sparkhaven.store.scan.ranges import ReadPlan
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Column
from sparkhaven.store.types.null_char import has_other_null

STEP_ROWS = 1 << 17


class SnapshotDigests:
    """One side of a comparison: a pinned snapshot, its plan, and how many rows were read for digests.

    Digests depend on column ids. ``ids`` are those of the other side, by name, to which both are brought.
    """

    def __init__(self, pinned: PinnedTable, ids: dict[str, int]) -> None:
        self.pinned, self.ids = pinned, ids
        self.plan: ReadPlan = pinned.plan()
        self.rows_read = 0
        self._outputs: dict[LocationKey, MergeOutput] = {}
        for record in self.plan.records:
            for output in in_columns(record, pinned.schema).outputs:
                self._outputs[LocationKey(output.internal, record.value)] = output

    def of_slice(self, slice_: Slice, columns: Sequence[Column]) -> dict[str, int]:
        """The digest of each column over the rows of a slice."""
        digests = {column.name: self._recorded(slice_, column) for column in columns}
        unknown = [column for column in columns if digests[column.name] is None]
        totals = {name: digest for name, digest in digests.items() if digest is not None}
        if unknown:
            totals |= dict.fromkeys((column.name for column in unknown), 0)
            for arrays in self.pinned.arrays([slice_], unknown, None, STEP_ROWS, self.count):
                for column, array in zip(unknown, arrays, strict=True):
                    digest = digest_array(replace(column, id=self.ids[column.name]), array)
                    totals[column.name] = add(totals[column.name], digest)
        return totals

    def count(self, rows: int) -> None:
        self.rows_read += rows

    def _recorded(self, slice_: Slice, column: Column) -> int | None:
        output = self._outputs.get(slice_.key) if slice_.tier == "history" else None
        if output is not None and slice_.count != output.rows:
            return None
        if output is None or column.id != self.ids[column.name] or has_other_null(column):
            return None
        if column.name in output.digests:
            return from_hex(output.digests[column.name])
        absent = not in_parquet(slice_.sizes) and not any(name in slice_.files for name in column.files)
        return digest_nulls(column, slice_.count) if absent else None


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
