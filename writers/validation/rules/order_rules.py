"""Rules on the order of rows: a column is ascending or descending, strictly or not, as a whole or per group.

Each location is checked separately, row after row. Null sorts before every value and NaN after, -0.0 is 0.0, and
texts are ordered by UTF-16 code unit. With ``groupBy`` the rows of each value of that column are a sequence of their
own, wherever they stand.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.types.model import Column, ValidatorRule
from sparkhaven.writers.merge.sources.sort_keys import INT_NULL, ordinals, rank_ordinals
from sparkhaven.writers.validation.rows.cells import Cells, Mask, NotEvaluatedError, utf16_key
from sparkhaven.writers.validation.rows.date_rows import RowSet
from sparkhaven.writers.validation.rows.key_hashes import Words, plain, row_keys
from sparkhaven.writers.validation.rules.rule_scope import Evaluate, Measure, Scope

_Compare = Callable[[Any, Any], Any]


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
    "assertAscending": _ordered(operator.gt, "are below"),
    "assertDescending": _ordered(operator.lt, "are above"),
    "assertStrictlyAscending": _ordered(operator.ge, "are not above"),
    "assertStrictlyDescending": _ordered(operator.le, "are not below"),
}
