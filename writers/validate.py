"""Validates one merged date: the default gate that runs always, then the rules of the schema.

The gate compares what the merge took in with what lies in history: rows in all, rows per value of every grouping
column, and the order-free digest of every column. Intraday rows are read again as long as they are there; once they
were removed with proof, the record of the merge stands for them. Rules look at the date's history, all partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from store.digest import to_hex
from store.errors import TableNotFoundError, ValidationFailedError
from store.fs import Fs
from store.layout import Layout, LocationKey, TableName
from store.merges import MergeRecord, newest
from store.schema.deploy import load_deployed
from store.schema.model import Rule, TableSchema
from store.schema.rules import RULE_SPECS, parse_value, split_list
from writers.merge.facts import Facts, facts, utf16_key
from writers.merge.pins import Pins
from writers.merge.source import Source

SHOWN = 20  # distinct values named in a message
MODE = "FULL_DATABASE"
NOT_EVALUATED = "not evaluated in this release"


@dataclass(frozen=True, slots=True)
class RuleResult:
    """One rule and what came of it; ``passed`` is None for a rule that was not evaluated, ``message`` says why."""

    rule: str
    column: str | None
    measured: int | float | str | None
    lower: int | float | str | None
    upper: int | float | str | None
    passed: bool | None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Validation:
    """All results of one date; ``generation`` is the merge that they are about."""

    table: str
    value: str
    generation: int
    rows: int
    results: tuple[RuleResult, ...]

    @property
    def passed(self) -> bool:
        """Whether no rule failed."""
        return all(result.passed is not False for result in self.results)

    def require(self) -> Validation:
        """Itself, or a ValidationFailedError that names the failed rules."""
        failed = [r for r in self.results if r.passed is False]
        if failed:
            raise ValidationFailedError(
                f"{len(failed)} of {len(self.results)} rules failed",
                where=f"{self.table} {self.value}",
                expected="every rule to pass",
                found="; ".join(f"{r.rule}{f' {r.column}' if r.column else ''}: {r.message}" for r in failed),
                hint="`sparkhaven validate` lists measured values and bounds",
                phase="validate",
            )
        return self


def validate_date(fs: Fs, layout: Layout, table: TableName, value: str, *, pins: Pins | None = None) -> Validation:
    """Reads a merged date again and judges it. TableNotFoundError if it was never merged.

    ``pins`` keeps the states of the streams between the dates of one run.
    """
    record = newest(fs, layout, table, value)
    if record is None:
        raise TableNotFoundError(
            "date has no history to validate",
            where=f"{table} {value}",
            expected="a complete merge",
            found="none",
            hint=f"sparkhaven merge {table} --date {value}",
        )
    schema = load_deployed(fs, layout, table)
    date = _Date(fs, layout, table, schema, record, pins or Pins(fs, layout, table))
    results = [*date.gate(), *(_RULES.get(rule.name, _not_evaluated)(date, rule) for rule in schema.rules)]
    rows = sum(output.rows for output in record.outputs)
    return Validation(str(table), value, record.generation, rows, tuple(results))


def history_sources(layout: Layout, table: TableName, record: MergeRecord) -> list[Source]:
    """The outputs of a record as something to read."""
    found = []
    for output in record.outputs:
        directory = layout.history_location(table, LocationKey(output.internal, record.value))
        rows = output.rows
        found.append(Source(directory, "", output.internal, 0, record.generation, 0, rows, rows, output.files))
    return found


def intraday_sources(
    layout: Layout, table: TableName, record: MergeRecord, pins: Pins
) -> tuple[list[Source], list[str], int]:
    """The merged rows that are still intraday, the inputs that are gone, and the number of rows that came later."""
    now = {(s, loc.key.internal, loc.since): loc for s, loc in pins.locations(record.value)}
    found, gone = [], []
    merged = {(i.stream, i.internal, i.since): i for i in record.inputs}
    for key, entry in merged.items():
        location = now.get(key)
        if location is None or location.rows < entry.rows:
            gone.append(entry.internal)
            continue
        directory = layout.intraday_location(table, location.key)
        found.append(
            Source(
                directory,
                entry.stream,
                entry.internal,
                entry.since,
                location.epoch,
                0,
                entry.rows,
                location.rows,
                location.files,
            )
        )
    later = sum(loc.rows - (merged[key].rows if key in merged else 0) for key, loc in now.items())
    return found, gone, later


class _Date:
    """One date under validation; facts of a column are read once."""

    def __init__(
        self, fs: Fs, layout: Layout, table: TableName, schema: TableSchema, record: MergeRecord, pins: Pins
    ) -> None:
        self.fs, self.schema, self.record = fs, schema, record
        self.history = history_sources(layout, table, record)
        self.intraday, self.gone, self.later = intraday_sources(layout, table, record, pins)
        self.rows = sum(output.rows for output in record.outputs)
        self._facts: dict[str, Facts] = {}
        wanted = {rule.attributes.get("column", "") for rule in schema.rules if rule.name in _BY_VALUE}
        self._distinct = wanted | {column.name for column in schema.grouping}
        self._grouped = {r.attributes.get("column", "") for r in schema.rules if r.name == "assertColumnGrouped"}

    def of(self, name: str) -> Facts:
        """Facts of a history column."""
        if name not in self._facts:
            self._facts[name] = self._read(self.history, name, grouped=name in self._grouped)
        return self._facts[name]

    def _read(self, sources: list[Source], name: str, *, grouped: bool) -> Facts:
        column = self.schema.column(name)
        assert column is not None  # noqa: S101  rules were checked against the schema
        return facts(self.fs, self.schema, sources, column, distinct=name in self._distinct, grouped=grouped)

    # --- default gate ---

    def gate(self) -> list[RuleResult]:
        """Row counts and digests of source and history."""
        record = self.record
        proof = record.proof
        expected = proof.rows_in - proof.dropped if proof else -1
        if not self.gone:
            expected = sum(len(source) for source in self.intraday)
        against = "intraday" if not self.gone else "the merge's record, since intraday was removed"
        results = [_equal("RowCount", None, self.rows, expected, f"rows of history and of {against}")]
        sides = (
            {} if self.gone else {c.name: self._read(self.intraday, c.name, grouped=False) for c in self.schema.stored}
        )
        results += [self._per_value(column.name, sides) for column in self.schema.grouping]
        for column in self.schema.stored:
            found = to_hex(self.of(column.name).digest)
            wanted = (
                to_hex(sides[column.name].digest) if sides else (proof.digests_in if proof else {}).get(column.name)
            )
            results.append(_equal("DigestEqual", column.name, found, wanted, f"digests of history and of {against}"))
        if self.later:
            message = f"{self.later} rows came after the merge; they block truncate until they are merged"
            results.append(RuleResult("LaterRows", None, self.later, None, None, True, message))
        return results

    def _per_value(self, name: str, sides: Mapping[str, Facts]) -> RuleResult:
        if not sides:
            return RuleResult(
                "RowCountPerGroup",
                name,
                None,
                None,
                None,
                None,
                "intraday was removed; its digest stands for the counts",
            )
        here, there = self.of(name), sides[name]
        differing = [v for v in {*here.counts, *there.counts} if here.counts.get(v) != there.counts.get(v)]
        if here.nulls != there.nulls or here.nans != there.nans:
            differing.append("null or NaN")
        message = f"rows differ for {_some(differing)}" if differing else f"{len(here.counts)} values, rows equal"
        return RuleResult("RowCountPerGroup", name, len(differing), 0, 0, not differing, message)


def _equal(rule: str, column: str | None, found: Any, expected: Any, what: str) -> RuleResult:
    passed = found == expected
    return RuleResult(rule, column, found, expected, expected, passed, what + (" are equal" if passed else " differ"))


def _some(values: list[Any]) -> str:
    names = sorted(repr(value) for value in values)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


# --- rules of the schema ---------------------------------------------------------------------------------


def _number(text: str) -> int | float:
    value = Decimal(text.strip())
    return int(value) if value == value.to_integral_value() else float(value)


def _not_evaluated(_: _Date, rule: Rule) -> RuleResult:
    known = "" if rule.name in RULE_SPECS else "; the rule is not known"
    return RuleResult(rule.name, rule.attributes.get("column"), None, None, None, None, NOT_EVALUATED + known)


def _in_mode(rule: Rule) -> bool:
    modes = rule.attributes.get("modes")
    return modes is None or MODE in split_list(modes)


def _moded(evaluate: Callable[[_Date, Rule], RuleResult]) -> Callable[[_Date, Rule], RuleResult]:
    def run(date: _Date, rule: Rule) -> RuleResult:
        if _in_mode(rule):
            return evaluate(date, rule)
        message = f"limited to {rule.attributes['modes']}; history is validated as {MODE}"
        return RuleResult(rule.name, rule.attributes.get("column"), None, None, None, None, message)

    return run


def _size(date: _Date, rule: Rule) -> RuleResult:
    low, high = _number(rule.attributes["min"]), _number(rule.attributes["max"])
    return _between(rule, date.rows, low, high, f"{date.rows} rows")


def _frac_null(date: _Date, rule: Rule) -> RuleResult:
    found = date.of(rule.attributes["column"])
    share = found.nulls / found.rows if found.rows else 0.0
    low, high = _number(rule.attributes["min"]), _number(rule.attributes["max"])
    return _between(rule, share, low, high, f"{found.nulls} of {found.rows} rows are null")


def _between(rule: Rule, measured: int | float, low: int | float, high: int | float, message: str) -> RuleResult:
    return RuleResult(rule.name, rule.attributes.get("column"), measured, low, high, low <= measured <= high, message)


def _dropped(rule: Rule, switch: str) -> bool:
    return rule.attributes.get(switch) == "true"


def _odd_ones(found: Facts, rule: Rule, *, infinities: bool) -> list[str]:
    """Nulls, NaNs (and infinities) that a rule was not told to leave out."""
    odd = [("removeNull", found.nulls, "null"), ("removeNaN", found.nans, "NaN")]
    if infinities:
        odd.append(("removeInf", found.infinities, "infinite"))
    return [f"{number} rows are {what}" for switch, number, what in odd if number and not _dropped(rule, switch)]


def _in_distinct_set(date: _Date, rule: Rule) -> RuleResult:
    name = rule.attributes["column"]
    found, column = date.of(name), date.schema.column(name)
    assert column is not None  # noqa: S101
    texts = split_list(rule.attributes["expectedValues"])
    allowed = {parse_value(text, column.type) for text in texts}
    odd = _odd_ones(found, rule, infinities=False)
    outside = [value for value in found.counts if value not in allowed]
    if _dropped(rule, "removeInf"):
        outside = [value for value in outside if value not in (float("inf"), float("-inf"))]
    if outside:
        odd.append(f"not expected: {_some(outside)}")
    values = _some(list(found.counts))
    message = "; ".join(odd) or f"{len(found.counts)} distinct values, all expected"
    return RuleResult(rule.name, name, values, None, ", ".join(texts), not odd, message)


def _values_between(date: _Date, rule: Rule) -> RuleResult:
    name = rule.attributes["column"]
    found, column = date.of(name), date.schema.column(name)
    assert column is not None  # noqa: S101
    low, high = (parse_value(rule.attributes[key], column.type) for key in ("minValue", "maxValue"))
    finite = _dropped(rule, "removeInf")
    least, most = (found.low_finite, found.high_finite) if finite else (found.low, found.high)
    odd = _odd_ones(found, rule, infinities=False)
    if least is not None and most is not None and not (_not_above(low, least) and _not_above(most, high)):
        odd.append(f"values run from {least!r} to {most!r}")
    measured = None if least is None else f"{least} .. {most}"
    given = rule.attributes["minValue"], rule.attributes["maxValue"]
    return RuleResult(rule.name, name, measured, *given, not odd, "; ".join(odd) or "all values in range")


def _not_above(one: Any, other: Any) -> bool:
    if isinstance(one, str):
        return utf16_key(one) <= utf16_key(other)
    return bool(one <= other)


def _grouped(date: _Date, rule: Rule) -> RuleResult:
    name = rule.attributes["column"]
    passed = date.of(name).grouped
    message = "equal values stand together" if passed else "a value comes back after another one in a location"
    return RuleResult(rule.name, name, None, None, None, passed, message)


_BY_VALUE = {"assertAllValuesInDistinctSet"}
_RULES: dict[str, Callable[[_Date, Rule], RuleResult]] = {
    "assertSize": _moded(_size),
    "assertFracNull": _moded(_frac_null),
    "assertAllValuesInDistinctSet": _moded(_in_distinct_set),
    "assertAllValuesBetween": _moded(_values_between),
    "assertColumnGrouped": _moded(_grouped),
}
