"""Rules on a date as a whole: its size, its columns' types, grouping, symbol tables, digests, source positions."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.errors import counted
from sparkhaven.store.schema.document.validator_rules import NON_EMPTY
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Storage, ValidatorRule
from sparkhaven.writers.validation.rows.cells import NotEvaluatedError
from sparkhaven.writers.validation.rows.date_rows import RowSet
from sparkhaven.writers.validation.rows.key_hashes import Lanes, distinct, row_keys
from sparkhaven.writers.validation.rules.rule_scope import Evaluate, Measure, Scope, names_in, number, within


def _size(scope: Scope, rule: ValidatorRule) -> Measure:
    return within(rule, scope.rows.rows, counted(scope.rows.rows, "row"))


def _non_empty(scope: Scope, _: ValidatorRule) -> Measure:
    rows = scope.rows.rows
    return Measure(rows > 0, rows, 1, None, counted(rows, "row"))


def _expected_size(scope: Scope, rule: ValidatorRule) -> Measure:
    """Rows of the date over the mean of its neighbours that are merged.

    Passes where none is: of the first date of a table there is no history to compare with.
    """
    wide = []
    for name in ("partitionsBefore", "partitionsAfter"):
        value = Decimal(rule.attributes[name].strip())
        if value < 0 or value != int(value):
            raise NotEvaluatedError(f"{name} {value} is not a number of dates")
        wide.append(int(value))
    if not any(wide):
        raise NotEvaluatedError("partitionsBefore and partitionsAfter are both 0: there is no date to compare with")
    neighbours = scope.around.neighbours(wide[0], wide[1])
    if not neighbours:
        bounds = number(rule.attributes["min"]), number(rule.attributes["max"])
        message = f"{counted(scope.rows.rows, 'row')}, no history to compare with: no neighbouring date is merged"
        return Measure(True, None, *bounds, message)
    if not sum(neighbours):
        raise NotEvaluatedError("no neighbouring date has rows in history to compare with")
    mean = Fraction(sum(neighbours), len(neighbours))
    message = f"{scope.rows.rows} rows, {float(mean):g} is the mean of {counted(len(neighbours), 'neighbouring date')}"
    return within(rule, Fraction(scope.rows.rows) / mean, message)


def _types(scope: Scope, rule: ValidatorRule) -> Measure:
    plural_ = "columns" in rule.attributes
    names = names_in(rule, "columns" if plural_ else "column")
    types = names_in(rule, "types" if plural_ else "type")
    if len(names) != len(types):
        raise NotEvaluatedError(f"{counted(len(names), 'column')}, {counted(len(types), 'type')}")
    wrong, names_of_types = [], []
    for name, declared in zip(names, types, strict=True):
        column = scope.rows.schema.column(name)
        if column is None:
            raise NotEvaluatedError(f"the table has no column {name}")
        names_of_types.append(column.type.name)
        if column.type.name != data_type(declared).name:
            wrong.append(f"{name} is {column.type.name}, not {declared}")
    listed = ", ".join(types)
    return Measure(not wrong, ", ".join(names_of_types), listed, listed, "; ".join(wrong) or "declared so")


def _grouped(scope: Scope, rule: ValidatorRule) -> Measure:
    """As many runs as there are different values, in every location."""
    name = scope.rows.column(rule.attributes["column"]).name
    again = 0
    for location in scope.rows.each():
        runs = sum(len(low) for low, _ in _runs(location, name))
        again += runs - distinct(partial(_runs, location, name), location.sizes.hashes)
    message = f"{counted(again, 'time')} a value recurs after another one in a location"
    return Measure(not again, again, 0, 0, message if again else "equal values stand together")


def _runs(rows: RowSet, name: str) -> Iterator[Lanes]:
    """The hash of each row whose value is not that of the row before."""
    last: tuple[int, int] | None = None
    for block in rows.blocks([name]):
        low, high = row_keys(block, [name])
        begins = np.ones(len(low), bool)
        begins[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
        begins[0] = last != (int(low[0]), int(high[0]))
        last = int(low[-1]), int(high[-1])
        yield low[begins], high[begins]


def _symbols_unique(scope: Scope, _: ValidatorRule) -> Measure:
    twice = []
    for column in scope.rows.schema.stored:
        if column.storage is not Storage.SYMBOL:
            continue
        for source, symbols in scope.rows.symbols(column):
            extra = len(symbols) - pc.count_distinct(symbols.cast(pa.string()), mode="all").as_py()
            if extra:
                twice.append(f"{column.name} of {source.internal}: {counted(extra, 'text')} more than once")
    return Measure(not twice, len(twice), 0, 0, "; ".join(twice) or "every text has one id")


def _digests(scope: Scope, _: ValidatorRule) -> Measure:
    passed = scope.around.digests()
    return Measure(passed, None, None, None, f"digests of all columns {'are equal' if passed else 'differ'}")


def _offsets(scope: Scope, _: ValidatorRule) -> Measure:
    gaps = scope.around.gaps()
    return Measure(not gaps, gaps, 0, 0, f"{counted(gaps, 'gap')} between committed ranges")


RULES: dict[str, Evaluate] = {
    NON_EMPTY: _non_empty,
    "assertSize": _size,
    "assertExpectedTableSize": _expected_size,
    "assertColumnType": _types,
    "assertColumnTypes": _types,
    "assertColumnGrouped": _grouped,
    "assertSymbolsUnique": _symbols_unique,
    "assertDigestEqual": _digests,
    "assertOffsetsContiguous": _offsets,
}
