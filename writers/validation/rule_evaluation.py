"""Evaluates the rules of a schema over the rows of a date, each in the modes that it is limited to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sparkhaven.store.merges.validations import FULL_DATABASE, FULL_INTRADAY, SIMPLE_TABLE, RuleResult
from sparkhaven.store.schema.document.validator_rules import split_list
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.types.model import ValidatorRule
from sparkhaven.writers.validation import date_rules, order_rules, row_rules, statistic_rules, value_rules
from sparkhaven.writers.validation.date_rows import NotEvaluatedError, RowSet
from sparkhaven.writers.validation.rule_scope import Evaluate, Measure, Scope, Surroundings

RULES: dict[str, Evaluate] = {
    **date_rules.RULES,
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
