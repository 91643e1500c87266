"""Results of rules over the rows of a date, in each mode: the date's history, intraday, or each location for itself."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from sparkhaven.store.merges.validations import FULL_DATABASE, FULL_INTRADAY, SIMPLE_TABLE, RuleResult
from sparkhaven.store.schema.document.validator_rules import split_list
from sparkhaven.store.types.model import ValidatorRule
from sparkhaven.writers.validation.rows.cells import NotEvaluatedError
from sparkhaven.writers.validation.rows.date_rows import RowSet
from sparkhaven.writers.validation.rules import (
    date_rules,
    element_rules,
    order_rules,
    row_rules,
    statistic_rules,
    value_rules,
)
from sparkhaven.writers.validation.rules.rule_scope import Evaluate, Measure, Scope, Surroundings
from sparkhaven.writers.validation.validators.declared import Validator
from sparkhaven.writers.validation.validators.running import OnError, run_validator

RULES: dict[str, Evaluate] = {
    **date_rules.RULES,
    **element_rules.RULES,
    **order_rules.RULES,
    **row_rules.RULES,
    **statistic_rules.RULES,
    **value_rules.RULES,
}
_COLUMNS = ("column", "columns", "column1")
Run = Callable[[RowSet], Measure]


class StoredResults:
    """Results of an earlier validation of the same merge by the same rules, each given once, in their order.

    All results of a mode are there, or none: so asking in the order of an evaluation gives the result of the same rule.
    """

    def __init__(self, results: Iterable[RuleResult] = ()) -> None:
        self._results: dict[tuple[str, str | None, str], deque[RuleResult]] = defaultdict(deque)
        for result in results:
            self._results[result.rule, result.column, result.mode].append(result)

    def take(self, rule: str, column: str | None, mode: str) -> RuleResult | None:
        """The next one of a rule; None if there is none."""
        results = self._results.get((rule, column, mode))
        return results.popleft() if results else None


@dataclass(frozen=True, slots=True)
class DateRows:
    """The rows of a date: in history, and in intraday as they were merged (None: they were removed)."""

    history: RowSet
    intraday: RowSet | None
    around: Surroundings


@dataclass(frozen=True, slots=True)
class RuleChoice:
    """What a validation evaluates beside the default rules.

    ``modes`` limits rules of the schema to these, and runs rules in them that state none; none chosen: each rule in its
    own. ``validators`` run after them; ``on_error`` receives what they raise.
    """

    modes: tuple[str, ...] = ()
    validators: tuple[Validator, ...] = ()
    on_error: OnError = lambda _: None


SCHEMA_RULES = RuleChoice()


@dataclass(frozen=True, slots=True)
class RuleRuns:
    """Evaluates rules over the rows of a date; ``stored`` has what an earlier validation found."""

    date: DateRows
    choice: RuleChoice = SCHEMA_RULES
    stored: StoredResults = field(default_factory=StoredResults)

    def results(self, rules: Sequence[ValidatorRule]) -> tuple[list[RuleResult], bool]:
        """The results of the schema's rules, and whether every rule has one for each mode that the schema states.

        A rule runs in its own modes, as far as they are chosen; of other modes the stored results are taken. Then
        rules that state no modes run in the chosen ones.
        """
        results, whole = list[RuleResult](), True
        for rule in rules:
            for mode in modes_of(rule):
                if self._chosen(mode):
                    results.append(self._of_rule(rule, mode))
                elif (stored := self.stored.take(rule.name, _column(rule), mode)) is not None:
                    results.append(stored)
                else:
                    whole = False
        free = [rule for rule in rules if "modes" not in rule.attributes]
        results += [self._of_rule(rule, mode) for rule in free for mode in self.choice.modes if mode != FULL_DATABASE]
        return results, whole

    def of_validators(self) -> Iterator[RuleResult]:
        """The results of functions of users, in the modes that they declare, else in the chosen ones."""
        on_error = self.choice.on_error
        for validator in self.choice.validators:
            column = ",".join(validator.declared.columns)
            for mode in validator.declared.modes or self.choice.modes or (FULL_DATABASE,):
                if self._chosen(mode):
                    run = partial(run_validator, validator, on_error=on_error)
                    yield self._in_mode(validator.name, column, mode, run)

    def _chosen(self, mode: str) -> bool:
        return not self.choice.modes or mode in self.choice.modes

    def _of_rule(self, rule: ValidatorRule, mode: str) -> RuleResult:
        def run(rows: RowSet) -> Measure:
            evaluate = RULES.get(rule.name)
            if evaluate is None:
                raise NotEvaluatedError("the rule is not known")
            return evaluate(Scope(rows, self.date.around), rule)

        return self._in_mode(rule.name, _column(rule), mode, run)

    def _in_mode(self, name: str, column: str | None, mode: str, run: Run) -> RuleResult:
        stored = self.stored.take(name, column, mode)
        if mode == FULL_INTRADAY and self.date.intraday is None and stored is not None and stored.passed is not None:
            return stored
        try:
            result = self._measured(run, mode)
        except NotEvaluatedError as why:
            return RuleResult(name, column, None, None, None, None, f"not evaluated: {why}", mode)
        bounds = result.lower, result.upper
        return RuleResult(name, column, result.measured, *bounds, result.passed, result.message, mode)

    def _measured(self, run: Run, mode: str) -> Measure:
        if mode == FULL_DATABASE:
            return run(self.date.history)
        if mode == FULL_INTRADAY:
            if self.date.intraday is None:
                raise NotEvaluatedError("intraday rows were removed before the rule was evaluated")
            return run(self.date.intraday)
        if mode == SIMPLE_TABLE:
            return _worst([(p.sources[0].internal, run(p)) for p in self.date.history.each()])
        raise NotEvaluatedError(f"mode {mode} is not known")


def modes_of(rule: ValidatorRule) -> tuple[str, ...]:
    """Over which rows a rule is evaluated; rules without ``modes`` look at the date's history."""
    return split_list(rule.attributes.get("modes", FULL_DATABASE))


def _column(rule: ValidatorRule) -> str | None:
    column = next((rule.attributes[name] for name in _COLUMNS if name in rule.attributes), None)
    return f"{column},{rule.attributes['column2']}" if "column2" in rule.attributes else column


def _worst(measures: Sequence[tuple[str, Measure]]) -> Measure:
    """The first location that fails, else the first."""
    if not measures:
        raise NotEvaluatedError("the date has no location")
    internal, first = next((pair for pair in measures if not pair[1].passed), measures[0])
    message = f"internal partition {internal}: {first.message}"
    if first.passed:
        message = f"all {len(measures)} locations pass. First {message}"
    return Measure(first.passed, first.measured, first.lower, first.upper, message)
