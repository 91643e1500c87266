"""Rules that count rows: null, NaN, zero, in a range, kept by a filter, or not as a comparison of two columns says.

Two columns are compared row by row. Numbers compare with numbers, exactly, NaN above all others and equal to itself.
Texts compare with texts, instants with instants, dates with dates, times with times. Null is equal to null and to
nothing else; it is neither less nor greater than anything.

Of columns with a codec dates, times, and decimals with whole numbers compare.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.errors import SchemaParseError, counted
from sparkhaven.store.expressions.predicate.expression import compare_columns, parse_predicate
from sparkhaven.store.types.model import Column, ValidatorRule
from sparkhaven.writers.validation.rows.cells import Cells, Mask, NotEvaluatedError
from sparkhaven.writers.validation.rows.date_rows import CellBlock
from sparkhaven.writers.validation.rules.rule_scope import Evaluate, Measure, Range, Scope, names_in, share

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


def _count(scope: Scope, name: str, test: Callable[[Cells], Mask]) -> int:
    return sum(int(np.count_nonzero(test(block.cells[name]))) for block in scope.rows.blocks([name]))


def _share(trait: str, test: Callable[[Cells], Mask]) -> Evaluate:
    def evaluate(scope: Scope, rule: ValidatorRule) -> Measure:
        return share(rule, _count(scope, rule.attributes["column"], test), scope.rows.rows, trait)

    return evaluate


def _zero(cells: Cells) -> Mask:
    numbers = cells.whole_numbers()
    if numbers is not None:
        zero: Mask = (numbers == 0) & ~cells.null
        return zero
    if cells.column.type.name not in ("BigDecimal", "BigInteger"):
        raise NotEvaluatedError(f"column {cells.column.name} is not numeric")
    return cells.results("zero", lambda values: [value == 0 for value in values]) & ~cells.null


def _values_between(scope: Scope, rule: ValidatorRule) -> Measure:
    column = scope.rows.column(rule.attributes["column"])
    bounds = Range.of(rule, column)
    inside = _count(scope, column.name, bounds.holds)
    trait = f"lie from {rule.attributes['minValue']} to {rule.attributes['maxValue']}"
    return share(rule, inside, scope.rows.rows, trait)


def _where(scope: Scope, rule: ValidatorRule) -> Measure:
    text, rows = rule.attributes["filter"], scope.rows
    try:
        predicate = parse_predicate(text, rows.schema)
    except SchemaParseError as error:
        raise NotEvaluatedError(f"the filter cannot be parsed: {error}") from None
    holding = 0
    if not predicate.columns:
        kept = predicate.evaluate(pa.record_batch({"": pa.nulls(1, pa.int8())}))[0].as_py()
        holding = rows.rows if kept else 0
    else:
        for block in rows.blocks(predicate.columns):
            holding += int(predicate.evaluate(block.batch(predicate.columns)).true_count)
    return share(rule, holding, rows.rows, f"are kept by {text}")


def _not_null(scope: Scope, rule: ValidatorRule) -> Measure:
    nulls = _count(scope, rule.attributes["column"], lambda cells: cells.null)
    return Measure(not nulls, nulls, 0, 0, f"{nulls} of {scope.rows.rows} rows are null")


def _count_equal(scope: Scope, rule: ValidatorRule) -> Measure:
    counts = {name: _count(scope, name, lambda cells: ~cells.null) for name in names_in(rule, "columns")}
    shown = ", ".join(f"{name} {counted(count, 'value')}" for name, count in counts.items())
    return Measure(len(set(counts.values())) < 2, shown, None, None, f"without nulls: {shown}")


def _row_test(sign: str, left: Column, right: Column) -> Callable[[CellBlock], Mask]:
    if left.type.coding is not None or right.type.coding is not None:
        return coded_test(sign, left, right)
    try:
        predicate = compare_columns(sign, left, right)
    except SchemaParseError as error:
        raise NotEvaluatedError(f"the two columns cannot be compared: {error.found}") from None
    names = list(dict.fromkeys((left.name, right.name)))
    return lambda block: predicate.evaluate(block.batch(names)).to_numpy(zero_copy_only=False)


def _holds(sign: str) -> Evaluate:
    def evaluate(scope: Scope, rule: ValidatorRule) -> Measure:
        names = [rule.attributes["column1"], rule.attributes["column2"]]
        columns = [scope.rows.column(name) for name in names]
        test = _row_test(sign, *columns)
        wrong = rows = 0
        first: str | None = None
        for block in scope.rows.blocks(names):
            keep = block.kept(names, rule.attributes)
            holds = test(block)
            left_null, right_null = (block.cells[name].null for name in names)
            if sign in ("=", "<=", ">="):
                holds = holds | (left_null & right_null)
            elif sign == "<>":
                holds = holds | (left_null ^ right_null)
            broken = keep & ~holds
            if first is None and broken.any():
                first = f", the first of them row {block.first + int(np.argmax(broken))} of location {block.location}"
            wrong += int(np.count_nonzero(broken))
            rows += int(np.count_nonzero(keep))
        return Measure(
            not wrong, wrong, 0, 0, f"{names[0]} {sign} {names[1]} is false in {wrong} of {rows} rows{first or ''}"
        )

    return evaluate


RULES: dict[str, Evaluate] = {
    "assertFracNull": _share("are null", lambda cells: cells.null),
    "assertFracNan": _share("are NaN", lambda cells: cells.nan),
    "assertFracInf": _share("are infinite", lambda cells: cells.infinite),
    "assertFracZero": _share("are zero", _zero),
    "assertFracValuesBetween": _values_between,
    "assertFracWhere": _where,
    "assertNotNull": _not_null,
    "assertCountEqual": _count_equal,
    "assertEqual": _holds("="),
    "assertNotEqual": _holds("<>"),
    "assertLess": _holds("<"),
    "assertLessEqual": _holds("<="),
    "assertGreater": _holds(">"),
    "assertGreaterEqual": _holds(">="),
}
