"""The distinct texts of a date: which columns need them, and where its tasks find them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.expressions.formula.evaluation import Formula, parse_formula
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.plan.open_source import Columns
from sparkhaven.writers.merge.sources.sort_keys import ranked_symbols

DEFAULT_FORMULA = "${autobalance_single}"
Unions = Mapping[str, pa.StringArray]  # column -> sorted distinct strings of the whole date


class RankedUnions(dict[str, pa.StringArray]):
    """The same in memory, with ``luts``: source and column -> lookup table of ``rank_lut``, of symbol columns."""

    def __init__(self, columns: Columns) -> None:
        super().__init__()
        self.columns = columns
        self.luts: dict[tuple[int, str], npt.NDArray[np.int32]] = {}

    def add(self, column: Column) -> None:
        self[column.name], luts = ranked_symbols(self.columns.symbols(column))
        self.luts |= {(index, column.name): lut for index, lut in enumerate(luts)}


def ranked(plan: MergePlan, column: Column) -> bool:
    """Whether a column is ordered by ranks in a union of strings."""
    return column.storage in (Storage.SYMBOL, Storage.BLOB)


def union_columns(plan: MergePlan) -> tuple[Column, ...]:
    """Columns whose distinct strings are needed: symbol columns, and text columns in the sort keys."""
    ordering = {key.column for key in plan.ordering}
    return tuple(c for c in plan.columns if c.storage is Storage.SYMBOL or (ranked(plan, c) and c.name in ordering))


def late_columns(plan: MergePlan) -> tuple[Column, ...]:
    """Those of them that neither the order nor the destinations depend on."""
    needed = {key.column for key in plan.ordering}
    if len(plan.destinations) > 1:
        needed |= set(formula_of(plan).columns)
    return tuple(column for column in union_columns(plan) if column.name not in needed)


def formula_of(plan: MergePlan) -> Formula:
    """What distributes rows over the destinations."""
    return parse_formula(plan.schema.key_formula or DEFAULT_FORMULA, plan.schema)


def ranks_file(plan: MergePlan, index: int, column: Column) -> Path:
    return plan.work / f"ranks-{index}-{column.id}"
