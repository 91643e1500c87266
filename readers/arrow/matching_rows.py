"""Where the rows lie that match a condition: by location, with their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from sparkhaven.readers.arrow.pinned_table import BATCH_ROWS, PinnedTable
from sparkhaven.store.expressions.predicate.expression import Predicate
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.row_ranges import RowRanges


def matching_rows(pinned: PinnedTable, slices: Iterable[Slice], where: Predicate) -> Iterator[tuple[Slice, RowRanges]]:
    """Of each slice with such rows their ranges. Reads the columns that the expression names, and no other.

    Where all rows must be found, the slices are those of a plan that is not ``pruned``, which has one a location.
    """
    named = {*where.columns}
    columns = [column for column in pinned.schema.readable.columns if column.name in named]
    for slice_ in slices:
        chosen = []
        parts = slice_.chosen.steps(BATCH_ROWS)
        for part, arrays in zip(parts, pinned.arrays([slice_], columns, None, BATCH_ROWS), strict=True):
            values = {column.name: array for column, array in zip(columns, arrays, strict=True)}
            rows = values or {"": pa.nulls(part.rows)}  # an expression without columns has one result a row, too
            matches = where.evaluate(pa.record_batch(list(rows.values()), names=list(rows)))
            numbers = part.positions[np.flatnonzero(matches.to_numpy(zero_copy_only=False))]
            if len(numbers):
                chosen.append(RowRanges.at(numbers))
        if chosen:
            starts, stops = (np.concatenate([getattr(part, end) for part in chosen]) for end in ("starts", "stops"))
            yield slice_, RowRanges.joined(starts, stops)
