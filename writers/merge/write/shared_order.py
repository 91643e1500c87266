"""One order of a date's rows for all threads: one of them puts the rows in order, others begin with what does without.

Nothing of the order goes through work files. A thread that writes a column waits for it where it needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.model import Column
from sparkhaven.writers.merge.plan.merge_plan import MOVE_BYTES, MergePlan
from sparkhaven.writers.merge.plan.unions import late_columns
from sparkhaven.writers.merge.write.dictionaries import find_union, load_unions, stored_texts
from sparkhaven.writers.merge.write.row_moves import OutputOrder, are_worth_planning, planned
from sparkhaven.writers.merge.write.row_order import Keys, order_of, select
from sparkhaven.writers.merge.write.staging import (
    Run,
    StagedPiece,
    all_runs,
    segments_of,
    source_changed,
    write_segments,
)

ROW_BYTES = 4  # the number of a row in the order


def fits_threads(plan: MergePlan) -> bool:
    """Whether a worker can put all rows in order, and then hold the order and one whole column."""
    return plan.rows * (plan.row_cost() + ROW_BYTES + MOVE_BYTES) <= plan.usable() and plan.rows < 1 << 32


def is_worth_sharing(plan: MergePlan) -> bool:
    """Whether a column has so many texts to sort that nobody waits for the order; else pieces are ordered at once."""
    most = max((stored_texts(plan, column) for column in late_columns(plan)), default=0)
    return most >= plan.options.sizes.sorted_bytes * plan.rows and fits_threads(plan)


@dataclass(frozen=True, slots=True)
class _Ordered:
    order: OutputOrder
    rows: tuple[int, ...]  # by destination


class SharedOrder:
    """The order of all rows of a date, and the columns that are written in it. Every row has one place in it."""

    def __init__(self, fs: Fs, plan: MergePlan) -> None:
        self._fs, self._plan, self._late = fs, plan, late_columns(plan)
        self._ordered: Future[_Ordered] = Future()

    def find(self) -> StagedPiece:
        """Puts the rows in order. MergeError: they are not as many as planned; who waits for the order gets it too."""
        try:
            ordered, piece = self._find()
        except BaseException as error:
            self._ordered.set_exception(error)
            raise
        self._ordered.set_result(ordered)
        return piece

    def _find(self) -> tuple[_Ordered, StagedPiece]:
        plan = self._plan
        selection = select(Keys(self._fs, plan, load_unions(self._fs, plan)), None, None)
        if selection.total != plan.rows:
            raise source_changed(plan, plan.rows, selection.total)
        order: npt.NDArray[np.uint32] = order_of(selection)
        segments = segments_of(selection, order, len(plan.destinations))
        runs, counts = all_runs(plan, None, selection, order, segments), selection.counts
        del selection
        moves = [planned(order, counts)] if are_worth_planning(plan, plan.rows) and len(order) else []
        rows = tuple(stop - start for _, start, stop in segments)
        return _Ordered(OutputOrder([order], moves), rows), StagedPiece(rows, {}, runs)

    def write(self, column: Column) -> StagedPiece:
        """Writes a column of all destinations, as soon as there is the order."""
        fs, plan = self._fs, self._plan
        unions = find_union(fs, plan, column) if column in self._late else load_unions(fs, plan)
        ordered = self._ordered.result()
        return write_segments(fs, plan, column, unions, ordered.order, ordered.rows)


def order_and_write(shared: SharedOrder, column: Column | None) -> StagedPiece:
    """A task: a column, or the order."""
    return shared.find() if column is None else shared.write(column)


def write_together(fs: Fs, plan: MergePlan, run: Run[Any, Any], columns: Sequence[Column]) -> list[StagedPiece]:
    """The rows in order and all columns, those first that are named first; ``run`` begins tasks as they are given."""
    return list(run(partial(order_and_write, SharedOrder(fs, plan)), [None, *columns]))
