"""Two columns compared row by row, at least one of which has a codec: dates, times, and decimals with whole numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.types.model import Column
from sparkhaven.writers.validation.rows.cells import Cells, Mask, NotEvaluatedError
from sparkhaven.writers.validation.rows.date_rows import CellBlock

_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NUMBERS = ("byte", "short", "int", "long", "BigDecimal", "BigInteger")


def coded_test(sign: str, left: Column, right: Column) -> Callable[[CellBlock], Mask]:
    """Which rows of a block hold. NotEvaluatedError: the columns are not of one kind."""
    kinds = {"a number" if column.type.name in _NUMBERS else column.type.name for column in (left, right)}
    if len(kinds) > 1 or not kinds <= {"a number", "LocalDate", "LocalTime"}:
        raise NotEvaluatedError(f"the two columns cannot be compared: {left.type.name} and {right.type.name}")

    def test(block: CellBlock) -> Mask:
        sides = [block.cells[column.name] for column in (left, right)]
        values = [_distinct(cells) for cells in sides]
        ranks = _ranks(value for _, distinct in values for value in distinct)
        one, other = (np.array([ranks.get(v, -1) for v in distinct] or [-1])[ids] for ids, distinct in values)
        holds: Mask = _SIGNS[sign](one, other) & ~sides[0].null & ~sides[1].null
        return holds

    return test


def _distinct(cells: Cells) -> tuple[npt.NDArray[Any], list[Any]]:
    if cells.numbers is not None:
        numbers, codes = np.unique(cells.numbers, return_inverse=True)
        return codes, numbers.tolist()
    ids, dictionary = cells.distinct
    return ids, dictionary.plain()


def _ranks(values: Iterable[Any]) -> dict[Any, int]:
    return {value: rank for rank, value in enumerate(sorted({value for value in values if value is not None}))}
