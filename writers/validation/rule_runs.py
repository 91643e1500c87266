"""Results of rules over the rows of a date, in each mode: the date's history, intraday, or each location for itself.

Runs a validator over the rows of a date. What it does wrong fails the rule; it never ends the command.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from sparkhaven.store.errors import counted
from sparkhaven.store.merges.validations import FULL_DATABASE, FULL_INTRADAY, SIMPLE_TABLE, RuleResult
from sparkhaven.store.schema.document.validator_rules import split_list
from sparkhaven.store.types.model import Column, ValidatorRule
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
from sparkhaven.writers.validation.rules.rule_scope import SHOWN, Evaluate, Measure, Scope, Surroundings
from sparkhaven.writers.validation.validators.loading import USERS, Validator, line_of, words_of

TEXT = 200  # characters of a finding that are kept
OnError = Callable[[BaseException], None]


def run_validator(validator: Validator, rows: RowSet, on_error: OnError = lambda _: None) -> Measure:
    """The number of findings, which passes if it is 0; the first ``SHOWN`` are the message.

    An error of the function, or a result that is no iterable of texts, fails with its line, and ``on_error`` gets it.
    NotEvaluatedError: the table lacks a declared column. Errors of reading are raised, whatever the function makes of
    them.
    """
    batches = _Batches(rows, validator.declared.columns)
    try:
        count, shown = _findings(validator.check(iter(batches)))
    except USERS as error:
        if batches.error is not None:
            raise batches.error from None
        on_error(error)
        line = line_of(error, validator.file)
        return Measure(False, None, 0, 0, f"raised {words_of(error)}" + (f", at {line}" if line else ""))
    if batches.error is not None:
        raise batches.error
    shown += [f"and {count - len(shown)} more"] if count > len(shown) else []
    return Measure(not count, count, 0, 0, counted(count, "finding") + (": " if count else "") + "; ".join(shown))


def _findings(returned: object) -> tuple[int, list[str]]:
    if isinstance(returned, str | bytes) or not hasattr(returned, "__iter__"):
        raise TypeError(f"the validator returned {type(returned).__name__}, not a list or iterator of texts")
    count, shown = 0, list[str]()
    for finding in returned:
        if not isinstance(finding, str):
            raise TypeError(f"a finding is {type(finding).__name__}, not a text")
        count += 1
        if len(shown) < SHOWN:
            line = " ".join(finding[: TEXT + 1].split())
            shown.append(line if len(finding) <= TEXT else f"{line[: TEXT - 1]}…")
    return count, shown


class _Batches:
    """The batches of all rows with some columns; ``error`` is what reading them raised."""

    def __init__(self, rows: RowSet, names: tuple[str, ...]) -> None:
        self._rows, self._columns = rows, [rows.column(name) for name in names]
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        names = [column.name for column in self._columns]
        blocks = self._rows.blocks(names)
        while True:
            try:
                block = next(blocks, None)
                if block is None:
                    return
                arrays = [_plain(block.cells[column.name].arrow(), column) for column in self._columns]
            except BaseException as error:
                self.error = error
                raise
            yield pa.RecordBatch.from_arrays(arrays, names)


def _plain(array: pa.Array, column: Column) -> pa.Array:
    return array if array.type == column.type.arrow else array.cast(column.type.arrow)


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
