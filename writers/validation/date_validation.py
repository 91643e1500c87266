"""Validates one merged date: the default rules, which always run, then the rules of the schema, each in its modes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial

from sparkhaven.store.epochs.reading.stream_state import list_epochs
from sparkhaven.store.errors import CorruptFileError, TableNotFoundError
from sparkhaven.store.merges.history import current_names
from sparkhaven.store.merges.merge_records import MergeRecord, all_values, newest
from sparkhaven.store.merges.validations import (
    FULL_DATABASE,
    FULL_INTRADAY,
    SIMPLE_TABLE,
    RuleResult,
    Validation,
    binding,
    load_validation,
)
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.schema.document.validator_rules import split_list
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.types.model import ValidatorRule
from sparkhaven.store.types.null_char import chosen_null_char, with_null_char
from sparkhaven.store.volumes import require_volumes
from sparkhaven.writers.merge.plan.merge_inputs import history_sources
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.sources.merge_source import MergeSource
from sparkhaven.writers.validation.kept_columns import ColumnCount, uncovered_columns
from sparkhaven.writers.validation.rows.cells import NotEvaluatedError
from sparkhaven.writers.validation.rows.date_rows import PASS, PassSizes, RowSet
from sparkhaven.writers.validation.rules import (
    date_rules,
    element_rules,
    order_rules,
    row_rules,
    statistic_rules,
    value_rules,
)
from sparkhaven.writers.validation.rules.merge_rules import merge_rules
from sparkhaven.writers.validation.rules.rule_scope import Evaluate, Measure, Scope, Surroundings

RULES: dict[str, Evaluate] = {
    **date_rules.RULES,
    **element_rules.RULES,
    **order_rules.RULES,
    **row_rules.RULES,
    **statistic_rules.RULES,
    **value_rules.RULES,
}
_COLUMNS = ("column", "columns", "column1")


@frozen
class DateRows:
    """The rows of a date: in history, and in intraday as they were merged (None: they were removed).

    ``before(rule, mode)`` is what an earlier validation of the same merge by the same rules has found.
    """

    history: RowSet
    intraday: RowSet | None
    around: Surroundings
    before: Callable[[ValidatorRule, str], RuleResult | None] = lambda rule, mode: None


def evaluate(date: DateRows, rule: ValidatorRule) -> list[RuleResult]:
    """One result for every mode of the rule; those without ``modes`` look at the date's history."""
    return [_in_mode(date, rule, mode) for mode in modes_of(rule)]


def modes_of(rule: ValidatorRule) -> tuple[str, ...]:
    """Over which rows a rule is evaluated."""
    return split_list(rule.attributes.get("modes", FULL_DATABASE))


def _in_mode(date: DateRows, rule: ValidatorRule, mode: str) -> RuleResult:
    column = next((rule.attributes[name] for name in _COLUMNS if name in rule.attributes), None)
    if "column2" in rule.attributes:
        column = f"{column},{rule.attributes['column2']}"
    if mode == FULL_INTRADAY and date.intraday is None:
        stored = date.before(rule, mode)
        if stored is not None and stored.passed is not None:
            return stored
    try:
        result = _measured(date, rule, mode)
    except NotEvaluatedError as why:
        return RuleResult(rule.name, column, None, None, None, None, f"not evaluated: {why}", mode)
    bounds = result.lower, result.upper
    return RuleResult(rule.name, column, result.measured, *bounds, result.passed, result.message, mode)


def _measured(date: DateRows, rule: ValidatorRule, mode: str) -> Measure:
    run = RULES.get(rule.name)
    if run is None:
        raise NotEvaluatedError("the rule is not known")
    if mode == FULL_DATABASE:
        return run(Scope(date.history, date.around), rule)
    if mode == FULL_INTRADAY:
        if date.intraday is None:
            raise NotEvaluatedError("intraday rows were removed before the rule was evaluated")
        return run(Scope(date.intraday, date.around), rule)
    if mode == SIMPLE_TABLE:
        locations = list(date.history.each())
        return _worst([(p.sources[0].internal, run(Scope(p, date.around), rule)) for p in locations])
    raise NotEvaluatedError(f"mode {mode} is not known")


def _worst(measures: Sequence[tuple[str, Measure]]) -> Measure:
    """The first location that fails, else the first."""
    if not measures:
        raise NotEvaluatedError("the date has no location")
    internal, first = next((pair for pair in measures if not pair[1].passed), measures[0])
    message = f"internal partition {internal}: {first.message}"
    if first.passed:
        message = f"all {len(measures)} locations pass. First {message}"
    return Measure(first.passed, first.measured, first.lower, first.upper, message)


def validate_date(
    place: TablePlace,
    value: str,
    *,
    pins: Pins | None = None,
    tolerant: bool = False,
    time_ms: int = 0,
    sizes: PassSizes = PASS,
) -> Validation:
    """Reads a merged date again and evaluates the default rules and those of its schema; stores nothing.

    Rules of the schema take for null what readers of this process do (``SPARKHAVEN_NULL_CHAR``).

    ``pins`` caches the streams' states between the dates of one run. ``tolerant``: rules that cannot be evaluated do
    not fail it. ``time_ms``: now, in milliseconds since the epoch. ``sizes`` change no result. TableNotFoundError: the
    date was never merged.
    """
    record = newest(place, value)
    if record is None or record.emptied:
        raise TableNotFoundError(
            "date has no history to validate",
            where=f"{place.table} {value}",
            expected="a complete merge",
            found="none" if record is None else "history that was dropped",
            hint=f"sparkhaven merge {place.table} --dates {value}",
        )
    require_volumes(place, record)
    schema = load_deployed(place)
    pins = pins or Pins(place)
    sources, gone, later = intraday_sources(place, record, pins)
    history = RowSet(place.fs, schema, value, tuple(history_sources(place, record)), sizes)
    intraday = None if gone else RowSet(place.fs, schema, value, tuple(sources), sizes)
    standing = [location for _, location in pins.locations(value) if not location.truncated]
    passed = list(merge_rules(current_names(record, schema), history, intraday, later))
    passed += [_kept(count) for count in uncovered_columns(place, schema, record, standing)]
    bound = binding(record, schema.rules)
    around = Surroundings(
        partial(_neighbours, place, value),
        partial(_gaps, place, record, pins),
        lambda: all(result.passed for result in passed if result.rule == "DigestEqual"),
    )
    earlier = cache(partial(_earlier, place, record, bound))

    def before(rule: ValidatorRule, mode: str) -> RuleResult | None:
        index = schema.rules.index(rule)
        alike = [r for r in schema.rules[:index] if r.name == rule.name and mode in modes_of(r)]
        stored = [r for r in earlier() if (r.rule, r.mode) == (rule.name, mode)]
        return stored[len(alike)] if len(stored) > len(alike) else None

    told = with_null_char(schema, chosen_null_char(None, os.environ))
    shown = replace(history, schema=told), intraday and replace(intraday, schema=told)
    date = DateRows(*shown, around, before)
    for rule in schema.rules:
        passed += evaluate(date, rule)
    epochs = {source.stream: source.epoch for source in sorted(record.inputs, key=lambda i: i.epoch) if source.stream}
    return Validation(
        str(place.table), value, record.generation, history.rows, tuple(passed), epochs, bound, tolerant, time_ms
    )


def _kept(count: ColumnCount) -> RuleResult:
    message = (
        f"{count.intraday:,} values in intraday, {count.history:,} in history, {count.dropped:,} dropped by command"
    )
    return RuleResult("ColumnKept", count.name, count.lost, 0, 0, not count.lost, message)


def intraday_sources(place: TablePlace, record: MergeRecord, pins: Pins) -> tuple[list[MergeSource], list[str], int]:
    """The merged rows that are still intraday, the inputs that were removed, and the number of rows that came later."""
    now = {(s, loc.key.internal, loc.since): loc for s, loc in pins.locations(record.value)}
    merged = {i.key: i for i in record.inputs}
    sources, gone = [], []
    for key, source in merged.items():
        location = now.get(key)
        if location is None or location.rows < source.rows:
            gone.append(source.internal)
            continue
        directory = place.intraday_location(location.key)
        pinned = source.stream, source.internal, source.since, location.epoch
        sources.append(MergeSource(directory, *pinned, 0, source.rows, location.rows, location.files))
    later = sum(loc.rows - (merged[key].rows if key in merged else 0) for key, loc in now.items())
    return sources, gone, later


def _neighbours(place: TablePlace, value: str, before: int, after: int) -> Sequence[int]:
    """Rows in history of the merged dates next to one."""
    values = all_values(place)
    earlier, later = [v for v in values if v < value], [v for v in values if v > value]
    rows_by_date: list[int] = []
    for number, candidates in ((before, reversed(earlier)), (after, iter(later))):
        rows: list[int] = []
        for candidate in candidates:
            if len(rows) == number:
                break
            record = newest(place, candidate)
            if record is not None:
                rows.append(sum(output.rows for output in record.outputs))
        rows_by_date += rows
    return rows_by_date


def _gaps(place: TablePlace, record: MergeRecord, pins: Pins) -> int:
    """Permitted gaps in the offsets of the date's streams; a commit refuses all others."""
    states = {state.stream: state for state in pins.states()}
    gaps = 0
    for stream in sorted({source.stream for source in record.inputs} - {""}):
        state = states.get(stream)
        if state is None:
            raise NotEvaluatedError(f"stream {stream} has no commit log any more")
        if not state.offsets.positions():
            continue  # files: a set has no gaps
        epochs = list_epochs(place.of_stream(stream))
        gaps += sum(len(entry.gaps) for entry in epochs if entry.live)
        if not gaps and state.floor > 0:
            settled = f"epochs of stream {stream} up to {state.floor} are settled"
            raise NotEvaluatedError(f"{settled}, and their gaps are no longer recorded")
    return gaps


def _earlier(place: TablePlace, record: MergeRecord, bound: str) -> tuple[RuleResult, ...]:
    """Results of the stored validation of the same merge by the same rules."""
    try:
        stored = load_validation(place, record)
    except CorruptFileError:
        return ()  # then the rule counts as not evaluated, which tells more than the damage
    return stored.results if stored is not None and stored.binding == bound else ()
