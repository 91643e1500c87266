"""Validates one merged date: the default rules, which always run, then those of the schema, then users' validators.

Rules run in modes: over the date's history, intraday, or each location for itself. What a validator of users does wrong
fails the rule; it never ends the command.

It also checks that history has every column of the intraday rows that it holds, whatever the schema says by now. The
digests of a merge cover the columns that it wrote. A column of a source that some output lacks is counted instead:
history, the drops that a command declared, and rows that were left out while the column was stored, must have all its
values.
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from sparkhaven.store import next_steps
from sparkhaven.store.epochs.reading.stream_state import list_epochs
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.errors import CorruptFileError, TableNotFoundError, ValidationFailedError, counted
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.history import in_columns
from sparkhaven.store.merges.merge_records import MergeOutput, MergeRecord, all_values, more_values, newest
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
from sparkhaven.store.scan.column_file import filled
from sparkhaven.store.scan.seen_history import require_recorded
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.schema.document.validator_rules import split_list
from sparkhaven.store.types.model import Column, TableSchema, ValidatorRule
from sparkhaven.store.types.null_char import chosen_null_char, with_null_char
from sparkhaven.store.volumes import require_volumes
from sparkhaven.writers.merge.plan.merge_inputs import history_sources
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.sources.merge_source import MergeSource
from sparkhaven.writers.validation.rows.date_rows import PASS, NotEvaluatedError, PassSizes, RowSet
from sparkhaven.writers.validation.rules import date_rules, row_rules, value_rules
from sparkhaven.writers.validation.rules.merge_rules import DIGEST_RULES, merge_rules
from sparkhaven.writers.validation.rules.rule_scope import SHOWN, Evaluate, Measure, Scope, Surroundings
from sparkhaven.writers.validation.validators import USERS, Validator, line_of, words_of

TEXT = 200  # characters of a finding that are kept
OnError = Callable[[BaseException], None]
RULES: dict[str, Evaluate] = {**date_rules.RULES, **row_rules.RULES, **value_rules.RULES}
_COLUMNS = ("column", "columns", "column1")
Run = Callable[[RowSet], Measure]


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
    own. ``validators`` run after them; ``on_error`` receives what they raise. ``sizes`` change no
    result.
    """

    modes: tuple[str, ...] = ()
    validators: tuple[Validator, ...] = ()
    on_error: OnError = lambda _: None
    sizes: PassSizes = PASS


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


@dataclass(frozen=True, slots=True)
class ColumnCount:
    """Values of a column in intraday, in history, and dropped by a command or with rows that were left out.

    ``id`` None: in no schema.
    """

    name: str
    id: int | None
    intraday: int
    history: int
    dropped: int

    @property
    def lost(self) -> int:
        return max(0, self.intraday - self.history - self.dropped)


def uncovered_columns(
    place: TablePlace, schema: TableSchema, record: MergeRecord, locations: Iterable[tuple[str, LocationState]]
) -> Iterator[ColumnCount]:
    """The columns with values in merged rows that not every output of the merge has.

    ``locations``: the date's, with their streams. Rows that came after the merge are not counted, nor truncated ones.
    """
    merged = {source.key: source.rows for source in record.inputs}
    every = (*schema.retired, *schema.stored)
    stems: dict[int, dict[str, Column]] = {}
    outputs = [output for output in record.outputs if output.rows]
    counts: dict[int | str, int] = {}
    for stream, location in locations:
        columns = stems.setdefault(location.named_by, {})
        if not columns:
            columns |= {column.stem(location.named_by): column for column in every}
        rows = min(location.rows, merged.get((stream, location.key.internal, location.since), 0))
        for name in location.files if rows and not location.truncated else ():
            stem, dot, suffix = name.rpartition(".")
            column = columns.get(stem)
            if f"{dot}{suffix}" != ".dat" or (column is not None and _covered(column, outputs)):
                continue
            if column is None:
                counts[stem] = counts.get(stem, 0) + rows
                continue
            directory = place.intraday_location(location.key)
            among = 0, rows, location.rows
            named = column.at(location.named_by)
            count = filled(place.fs, directory, named, location.files, location.stats.get(named.name, ()), among)
            counts[column.id] = counts.get(column.id, 0) + count
    by_id = {column.id: column for column in every}
    drops = {drop.id: drop.rows for drop in record.column_drops}
    left_out = record.proof.left_out.filled if record.proof is not None else {}
    for number, count in counts.items():
        if not count:
            continue
        if isinstance(number, str):
            yield ColumnCount(number, None, count, 0, 0)
            continue
        column, kept = by_id[number], 0
        for output in outputs:
            directory = place.history_location(LocationKey(output.internal, record.value))
            named, among = column.at(output.named_by), (0, output.rows, output.rows)
            kept += filled(place.fs, directory, named, output.files, output.stats.get(named.name, ()), among)
        dropped = drops.get(number, 0) + left_out.get(number, 0)
        dropped -= more_values(record.corrections, number)  # emptied or filled by command
        yield ColumnCount(column.name, number, count, kept, dropped)


def require_columns(counts: Iterable[ColumnCount], schema: TableSchema, value: str) -> None:
    """ValidationFailedError: removing intraday would remove values that nobody dropped."""
    lost = [count for count in counts if count.lost]
    if not lost:
        return
    table = schema.full_name
    drops = " ".join(f"--drop {count.name}" for count in lost)
    raise ValidationFailedError(
        "history lacks columns that intraday has",
        where=f"{table} {value}",
        expected="every value of every column in history, or dropped by a command",
        found=", ".join(f"{count.name}: {counted(count.lost, 'value')}" for count in lost),
        hint=f"to keep the columns, restore a version that `sparkhaven schema history {table}` lists, by schema deploy"
        f" --restore. To lose them, run `sparkhaven schema deploy {table} {drops}`. Then run `sparkhaven merge {table}"
        f" --dates {value} --rewrite`",
        phase="prove",
    )


def _covered(column: Column, outputs: Iterable[MergeOutput]) -> bool:
    return all(column.stem(output.named_by) in output.digests for output in outputs)


def validate_date(
    place: TablePlace,
    value: str,
    *,
    pins: Pins | None = None,
    tolerant: bool = False,
    time_ms: int = 0,
    choice: RuleChoice = SCHEMA_RULES,
) -> Validation:
    """Reads a merged date again and evaluates the default rules, those of its schema and validators; stores nothing.

    Rules of the schema take for null what readers of this process do (``SPARKHAVEN_NULL_CHAR``).

    ``pins`` caches the streams' states between the dates of one run. ``tolerant``: rules that cannot be evaluated do
    not fail it. ``time_ms``: now, in milliseconds since the epoch. With ``choice`` rules run in chosen modes only.
    The results of other modes are those of the stored validation, if it is of the same merge and rules.
    TableNotFoundError: the date was never merged.
    """
    record = newest(place, value)
    if record is None or record.emptied:
        has_rows = any(location.rows for _, location in (pins or Pins(place)).locations(value))
        merge, stats = next_steps.merge(place.table, value), f"`sparkhaven stats {place.table}`"
        raise TableNotFoundError(
            "date has no history to validate",
            where=f"{place.table} {value}",
            expected="a complete merge",
            found="none" if record is None else "history that was dropped",
            hint=merge if has_rows else f"{stats} lists the dates. This one has no rows",
        )
    require_volumes(place, record)
    require_recorded(place, value, record)
    schema = load_deployed(place)
    pins = pins or Pins(place)
    sources, gone, later = intraday_sources(place, record, pins)
    history = RowSet(place.fs, schema, value, tuple(history_sources(place, record)), choice.sizes)
    all_rows = tuple(replace(source, kept=None) for source in sources)  # the record says what the merge left out
    intraday = None if gone else RowSet(place.fs, schema, value, all_rows, choice.sizes)
    passed = list(merge_rules(in_columns(record, schema), history, intraday, later))
    passed += [_kept(count) for count in uncovered_columns(place, schema, record, pins.locations(value))]
    around = Surroundings(
        partial(_neighbours, place, value),
        partial(_gaps, place, record, pins),
        lambda: all(result.passed for result in passed if result.rule in DIGEST_RULES),
    )
    told = with_null_char(schema, chosen_null_char(None, os.environ))
    shown = replace(history, schema=told), intraday and replace(intraday, schema=told, sources=tuple(sources))
    runs = RuleRuns(DateRows(*shown, around), choice, _earlier(place, record, schema.rules))
    results, whole = runs.results(schema.rules)
    passed += [*results, *runs.of_validators()]
    limits = () if whole else tuple(sorted(choice.modes))
    bound = binding(record, schema.rules, limits)
    epochs = {source.stream: source.epoch for source in sorted(record.inputs, key=lambda i: i.epoch) if source.stream}
    about = str(place.table), value, record.generation, history.rows
    return Validation(*about, tuple(passed), epochs, bound, tolerant, time_ms, limits)


def _kept(count: ColumnCount) -> RuleResult:
    elsewhere = f"{count.history:,} in history, {count.dropped:,} dropped by command"
    message = f"{counted(count.intraday, 'value')} in intraday, {elsewhere}"
    return RuleResult("ColumnKept", count.name, count.lost, 0, 0, not count.lost, message)


def intraday_sources(place: TablePlace, record: MergeRecord, pins: Pins) -> tuple[list[MergeSource], list[str], int]:
    """The merged rows that are still intraday, of which withdrawn ones are not kept; the inputs that were removed, and
    the number of rows that came later.
    """
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
        withdrawn = location.withdrawn.within(0, source.rows)
        kept = withdrawn.outside(0, source.rows) if withdrawn else None
        rows = 0, source.rows, location.rows
        named = location.named_by
        sources.append(MergeSource(directory, *pinned, *rows, location.files, kept=kept, named_by=named))
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
                rows.append(record.rows)
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


def _earlier(place: TablePlace, record: MergeRecord, rules: Sequence[ValidatorRule]) -> StoredResults:
    """Results of the stored validation of the same merge by the same rules."""
    try:
        stored = load_validation(place, record)
    except CorruptFileError:
        return StoredResults()  # then the rule counts as not evaluated, which tells more than the damage
    same = stored is not None and stored.binding == binding(record, rules, stored.modes)
    return StoredResults(stored.results if stored is not None and same else ())
