"""Rules on rows: how many are null, NaN, zero, in a range, kept by a filter, or compare otherwise; and their order.

Two columns are compared row by row. Numbers compare with numbers, exactly, NaN above all others and equal to itself.
Texts compare with texts, instants with instants, dates with dates, times with times. Null is equal to null and to
nothing else; it is neither less nor greater than anything.

Of columns with a codec dates, times, and decimals with whole numbers compare.

The order of rows by a column is ascending or descending, strictly or not, as a whole or per group. Each location is
checked separately, row after row. Null sorts before every value and NaN after, -0.0 is 0.0, and texts are ordered by
UTF-16 code unit. With ``groupBy`` the rows of each value of that column are a sequence of their own, wherever they
stand.
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
from sparkhaven.writers.merge.sources.sort_keys import INT_NULL, ordinals, rank_ordinals
from sparkhaven.writers.validation.rows.date_rows import CellBlock, Cells, Mask, NotEvaluatedError, RowSet, utf16_key
from sparkhaven.writers.validation.rows.key_hashes import Words, plain, row_keys
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
_Compare = Callable[[Any, Any], Any]


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


class _Last:
    """The last value of every group so far: words by group, both in order of the group."""

    def __init__(self) -> None:
        self.groups: Words = np.zeros(0, np.uint64)
        self.words: Words = np.zeros(0, np.uint64)

    def swap(self, groups: Words, words: Words) -> tuple[Mask, Words]:
        """Takes the new last words of some groups (in order, each once); which of them were known, and their words."""
        positions = np.minimum(np.searchsorted(self.groups, groups), max(len(self.groups) - 1, 0))
        known = self.groups[positions] == groups if len(self.groups) else np.zeros(len(groups), bool)
        before = self.words[positions] if len(self.groups) else np.zeros(len(groups), np.uint64)
        if known.any():
            self.words[positions[known]] = words[known]
        fresh = ~known
        if fresh.any():
            joined = np.concatenate([self.groups, groups[fresh]])
            order = np.argsort(joined, kind="stable")
            self.groups = joined[order]
            self.words = np.concatenate([self.words, words[fresh]])[order]
        return known, before


class _LastValues:
    """The last values of groups without a dictionary that all blocks share, by what orders them; None is null."""

    def __init__(self) -> None:
        self.kept: dict[int, Any] = {}
        self.groups: list[None] = []

    def broken(self, groups: Words, first: list[Any], last: list[Any], wrong: _Compare) -> int:
        broken = 0
        for group, begin, end in zip(groups.tolist(), first, last, strict=True):
            if group in self.kept:
                before = self.kept[group]
                broken += bool(wrong((before is not None, before), (begin is not None, begin)))
            self.kept[group] = end
        return broken


def _words(cells: Cells) -> Words:
    """Values as words in sorting order; those of two blocks compare if the cells are ``shared``."""
    if cells.numbers is not None:
        return ordinals(plain(cells.numbers), cells.column.type).astype(np.uint64)
    ids, dictionary = cells.distinct
    ranks = dictionary.ranks
    return rank_ordinals(np.where(cells.null, INT_NULL, ranks[ids] if len(ranks) else INT_NULL)).astype(np.uint64)


class _Sequences:
    """Checks the rows of one location, those of groups whose hash begins with ``prefix``."""

    def __init__(self, wrong: _Compare) -> None:
        self.wrong = wrong
        self.last, self.last_values = _Last(), _LastValues()
        self.broken = 0

    @property
    def groups(self) -> int:
        return max(len(self.last.groups), len(self.last_values.kept))

    def take(self, cells: Cells, groups: Words, keep: Mask) -> None:
        rows = np.flatnonzero(keep)
        if not len(rows):
            return
        rows = rows[np.argsort(groups[rows], kind="stable")]
        groups, words = groups[rows], _words(cells)[rows]
        begins = np.ones(len(rows), bool)
        begins[1:] = groups[1:] != groups[:-1]
        starts = np.flatnonzero(begins)
        ends = np.append(starts[1:], len(rows)) - 1
        self.broken += int(np.count_nonzero(self.wrong(words[:-1], words[1:]) & ~begins[1:]))
        if not cells.shared:
            first, last = (_keys_at(cells, rows[numbers]) for numbers in (starts, ends))
            self.broken += self.last_values.broken(groups[starts], first, last, self.wrong)
        else:
            known, before = self.last.swap(groups[starts], words[ends])
            self.broken += int(np.count_nonzero(self.wrong(before, words[starts]) & known))


def _keys_at(cells: Cells, rows: npt.NDArray[np.intp]) -> list[Any]:
    ids, dictionary = cells.distinct
    if not len(dictionary.values):
        return [None] * len(rows)
    values = dictionary.plain(ids[rows])
    return [
        None if gone or value is None else utf16_key(value) if isinstance(value, str) else value
        for value, gone in zip(values, cells.null[rows].tolist(), strict=True)
    ]


def _broken(rows: RowSet, column: Column, group: list[str], rule: ValidatorRule, wrong: _Compare) -> int:
    """Rows of one location that break the order; groups that do not fit in memory are checked in several passes."""
    todo, broken = [(0, 0)], 0
    while todo:
        prefix, bits = todo.pop()
        sequences = _Sequences(wrong)
        restart = False
        for block in rows.blocks([column.name, *group]):
            groups = row_keys(block, group)[0] if group else np.zeros(block.rows, np.uint64)
            keep = block.kept([column.name], rule.attributes)
            if bits:
                keep &= groups >> np.uint64(64 - bits) == np.uint64(prefix)
            sequences.take(block.cells[column.name], groups, keep)
            if sequences.groups > rows.sizes.groups and bits < 48:
                todo += [(prefix << 1 | 1, bits + 1), (prefix << 1, bits + 1)]
                restart = True
                break
        if not restart:
            broken += sequences.broken
    return broken


def _ordered(wrong: _Compare, relation: str) -> Evaluate:
    def evaluate(scope: Scope, rule: ValidatorRule) -> Measure:
        column = scope.rows.column(rule.attributes["column"])
        if column.type.name == "Boolean":
            raise NotEvaluatedError("true and false have no order")
        group = [rule.attributes["groupBy"]] if "groupBy" in rule.attributes else []
        for name in group:
            scope.rows.column(name)
        broken = sum(_broken(location, column, group, rule, wrong) for location in scope.rows.each())
        inside = f" among rows of the same {group[0]}" if group else ""
        return Measure(not broken, broken, 0, 0, f"{broken} rows {relation} the one before{inside}")

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
    "assertAscending": _ordered(operator.gt, "are below"),
    "assertDescending": _ordered(operator.lt, "are above"),
    "assertStrictlyAscending": _ordered(operator.ge, "are not above"),
    "assertStrictlyDescending": _ordered(operator.le, "are not below"),
}
