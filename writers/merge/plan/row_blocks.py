"""The rows of a piece, source by source and block by block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sparkhaven.writers.merge.plan.merge_plan import MergePlan

Rows = tuple[npt.NDArray[np.uint32] | None, ...]
"""Per source the selected rows, ascending, counted from the source's first; None = all of them."""
Block = tuple[int, int, int, npt.NDArray[np.intp] | None, int, int]


def blocks_of(plan: MergePlan, rows: Rows) -> Iterator[Block]:
    """Blocks with chosen rows: source, first and last row, rows in it (None = all), place in source order, rows."""
    position = 0
    for index, source in enumerate(plan.sources):
        chosen = rows[index]
        for first, stop in source.blocks(plan.options.sizes.rows):
            if chosen is None:
                count, picked = stop - first, None
            else:
                a, b = np.searchsorted(chosen, [first - source.start, stop - source.start])
                count, picked = int(b - a), chosen[a:b].astype(np.intp) - (first - source.start)
            if count:
                yield index, first, stop, picked, position, count
            position += count
