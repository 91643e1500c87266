"""Which entries of a dictionary have rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

ROWS_AN_ENTRY = 8  # of the rows that are looked at first: most dictionaries are all used by then


def used_entries(indices: pa.Array, count: int, share: int = ROWS_AN_ENTRY) -> npt.NDArray[np.int64]:
    """The entries, of ``count``, that rows have, in the order of their first rows. ``indices`` may be null.

    ``share`` rows an entry are looked at first.
    """
    first = share * count
    if first < len(indices) // 2:
        used = _distinct(indices.slice(0, first))
        if len(used) == count:
            return used
    return _distinct(indices)


def _distinct(indices: pa.Array) -> npt.NDArray[np.int64]:
    distinct = pc.unique(indices)
    known = pc.drop_null(distinct) if distinct.null_count else distinct
    entries: npt.NDArray[np.int64] = known.to_numpy().astype(np.int64)
    return entries
