"""Imports dates of given rows into history, each by the steps of a merge whose only source they are.

1. *plan*: the dates of the rows, and what history has of them; a refusal ends the import before anything is published;
2. *convert*: the rows of a date, value by value as the columns of the table, into files like those of a merge; their
   digests are kept. A tree is converted in the staging directory, a frame before, when its rows are taken;
3. *merge*: order, groups, partitions, format, sync and check as of any merge, with these files as sources, by the rule
   of duplicates; what was read back must have the digests of the conversion;
4. *publish*: the merge's own, from the stored ``check`` on resumed by the next import or merge of the date.

The record has an input of its own: no stream, internal partition ``import``, as many rows. So a later merge adds what
is intraday as a supplement, and merges the date again from history, never from intraday alone. With ``--upsert`` what
history has of the date comes before the rows, and the inputs of its record stay.

Its source, rows by date, is a tree or what a data frame gave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from sparkhaven.store.digest import add, from_hex
from sparkhaven.store.errors import (
    SettingsError,
    SparkhavenError,
    TableExistsError,
    ValidationFailedError,
    phase_of,
)
from sparkhaven.store.format.parquet.footer import field_of
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import PARQUET
from sparkhaven.store.merges.history import DateHistory, column_digests, in_columns, load_history
from sparkhaven.store.merges.merge_records import (
    IMPORTED,
    MergeInput,
    MergeRecord,
    lock_table,
    merged_rows,
    store_records,
    with_imported,
)
from sparkhaven.store.merges.merge_run import ImportedTree, LeftOut, MergePhase
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.standing import dated_partitions
from sparkhaven.store.schema.deployed.deploy import require_writable
from sparkhaven.store.source_rows import SourceRows
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Column, DedupeRule, Storage, TableSchema
from sparkhaven.store.volumes import require_filled, require_volumes
from sparkhaven.writers.merge.adoption import adopted_by_command
from sparkhaven.writers.merge.date_result import DateResult, MergeOutcome
from sparkhaven.writers.merge.executor import Executor, ProgressExecutor
from sparkhaven.writers.merge.plan.date_plan import without_duplicates
from sparkhaven.writers.merge.plan.merge_inputs import history_of
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.plan.merge_plan import (
    NO_RULE,
    MergeOptions,
    MergePlan,
    recorded_format,
    recorded_rule,
    rule_of,
)
from sparkhaven.writers.merge.plan.merge_proof import add_left_out, as_hex, left_out_before
from sparkhaven.writers.merge.plan.output_plan import Taken, plan_output
from sparkhaven.writers.merge.publish.publish_phase import PublishPhase
from sparkhaven.writers.merge.publish.staged_locations import sweep
from sparkhaven.writers.merge.sources.merge_source import MergeSource
from sparkhaven.writers.merge.sources.parquet_source import text_bytes
from sparkhaven.writers.merge.write.phases import Failure, WholeDate, run_group, run_large
from sparkhaven.writers.partitions import writable_names
from sparkhaven.writers.transfer.leaf_readers import FoundLeaf

CODEC = "LZ4_RAW"  # of what is read back at once
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Part:
    """What a source has of one date; ``leaves``: those of a tree with rows of it."""

    value: str
    leaves: tuple[FoundLeaf, ...]
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ConvertedRows:
    """The rows of a date as a merge reads them, in their order; ``digests`` of the columns, by name."""

    sources: tuple[MergeSource, ...]
    digests: Mapping[str, int]


class ImportSource(Protocol):
    """Rows of one or several dates. ``name`` and ``layout``: what the merge record says of their origin."""

    @property
    def name(self) -> str: ...

    @property
    def layout(self) -> str: ...

    def check(self) -> None:
        """Refuses other columns or types than those of the table, before anything is written."""

    def look(self, on_progress: Progress) -> Sequence[Part]:
        """The dates and their rows, for a dry run: nothing is written."""

    def take(self, on_progress: Progress) -> Sequence[Part]:
        """The dates and their rows, to be merged. The table's lock is held."""

    def id_of(self, part: Part, *, ordered: bool) -> str:
        """Names the rows of a date: another name for other rows. ``ordered``: also for the same in another order."""

    def convert(self, part: Part, directory: Path, on_progress: Progress) -> ConvertedRows:
        """The rows of a date, in the types of the columns; what has to be written goes below ``directory``."""

    def release(self) -> None:
        """Removes what ``take`` has written; idempotent."""


def stored_batch(stored: Sequence[Column], arrays: Sequence[pa.Array]) -> pa.RecordBatch:
    """A batch as ``table.parquet`` has it, of arrays in the types of the columns."""
    coded = [
        array.dictionary_encode() if column.storage is Storage.SYMBOL else array
        for column, array in zip(stored, arrays, strict=True)
    ]
    return pa.RecordBatch.from_arrays(coded, schema=pa.schema([field_of(column) for column in stored]))


def parquet_rows(fs: Fs, directory: Path, rows: int, state: FileState, stored: tuple[Column, ...]) -> MergeSource:
    """A ``table.parquet`` that an import has written, as a source of its merge."""
    source = MergeSource(directory, "", IMPORTED, 0, -1, 0, rows, rows, {PARQUET: state})
    return replace(source, text_bytes=text_bytes(fs, source, stored))


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Settings of an import.

    ``replace``: also dates that history has. ``merge``: memory, workers, order, format and rule of duplicates of the
    merge. A rule that is given and is an upsert joins what history has of a date.
    ``again``: the words of the caller by which such a date is replaced, or joined.
    """

    replace: bool = False
    merge: MergeOptions = field(default_factory=MergeOptions)
    again: str = "--replace writes the rows in its place, --upsert KEYS joins it, --dates leaves it out"


class DateImports:
    """Imports of dates into one table, as ``DateMerges`` merges them.

    Before anything is published: what the methods of the rows raise; TableExistsError, history has one of the dates;
    RetryableStorageError, a volume to write to is not mounted; SchemaChangeError, the schema has changed meanwhile.
    """

    def __init__(
        self,
        place: TablePlace,
        schema: TableSchema,
        options: ImportOptions,
        executor: Executor,
        clock: Callable[[], float],
        on_progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.place, self.schema, self.options = place, schema, options
        self.executor, self.clock, self.on_progress = executor, clock, on_progress
        self.pins = Pins(place)
        self.publishing = PublishPhase(place, clock)
        self.rows: ImportSource

    def planned(self, rows: ImportSource) -> Iterator[DateResult]:
        """What would be done; nothing is written."""
        self._begin(rows)
        for part in rows.look(self.on_progress):
            yield self.looked_at(part, load_history(self.place, part.value))

    def locked(self, rows: ImportSource) -> Iterator[DateResult]:
        """The results of all dates, under the table's lock. A failed date does not stop the others."""
        self._begin(rows)
        with lock_table(self.place):
            require_writable(self.place.fs, self.place.layout, self.schema)  # from here on its columns keep their types
            try:
                parts = rows.take(self.on_progress)
                histories = [self.finish(load_history(self.place, part.value)) for part in parts]
                for part, history in zip(parts, histories, strict=True):
                    self.looked_at(part, history)
                for part, history in zip(parts, histories, strict=True):
                    yield self.run(part, history)
            finally:
                rows.release()

    def _begin(self, rows: ImportSource) -> None:
        fs, layout, namespace = self.place.fs, self.place.layout, self.schema.namespace
        rows.check()
        require_filled(fs, layout, namespace, writable_names(fs, layout, namespace))
        self.rows = rows

    def finish(self, history: DateHistory) -> DateHistory:
        """Publishes a merge or import of the date that was killed after its check; the history after that."""
        resumed = self.publishing.resume(history, self.pins)
        if isinstance(resumed, Failure):
            raise resumed.error
        finished = resumed.history if resumed else history
        return adopted_by_command(self.place, finished, dated_partitions(self.place), self.clock, self.pins)

    def looked_at(self, part: Part, history: DateHistory) -> DateResult:
        """What would be done. TableExistsError: history has the date, SettingsError: intraday has rows of it too."""
        base = history.current
        later = self._later(part.value, base)
        if base is None or not base.rows or self.options.replace:
            return _result(part, MergeOutcome.PLANNED, intraday=later)
        if self._same(part, base):
            return _result(part, MergeOutcome.UNCHANGED, base, intraday=later)
        if not self._upserts:
            raise TableExistsError(
                "history has this date already",
                where=f"{self.place.table} {part.value}, merge {base.generation}",
                expected="no merge of it",
                found=f"{base.rows} rows",
                hint=self.options.again,
            )
        return _result(part, MergeOutcome.PLANNED, intraday=later, history=base.rows)

    @property
    def _upserts(self) -> bool:
        """Whether the rows join what history has of their dates: only where the caller says so, not the schema."""
        given = self.options.merge.dedupe
        return given is not None and given.upsert and not self.options.replace

    def _later(self, value: str, base: MergeRecord | None) -> int:
        """Rows of the date that are intraday and not merged. SettingsError: merged ones are there as well."""
        merged, rows = merged_rows(base), 0
        replaces = self.options.replace or base is None or not base.rows  # also where all rows were deleted
        for stream, location in self.pins.locations(value):
            merged_here = merged.get((stream, location.key.internal, location.since), 0)
            if merged_here and replaces:
                raise SettingsError(
                    "history cannot be replaced while its rows are intraday as well",
                    where=f"{self.place.table} {value}, source {location.key.internal}",
                    expected="no merged rows in intraday",
                    found=f"{merged_here} rows",
                    hint=f"sparkhaven truncate {self.place.table} --dates {value}, then run this again",
                )
            rows += location.rows - merged_here
        return rows

    def _same(self, part: Part, base: MergeRecord) -> bool:
        """Whether the last merge of the date had these rows, by the same rule, order and format."""
        tree, given = base.run.imported, self.options.merge
        rule = rule_of(base, given.dedupe, self.schema)
        last = in_columns(base, self.schema).run
        if base.source != IMPORTED or tree is None or rule != (last.dedupe or NO_RULE):
            return False
        if given.sort is not None and tuple(map(str, given.sort)) != last.sort:
            return False
        if given.format not in (None, recorded_format(base)):
            return False
        return tree.id == self.rows.id_of(part, ordered=_ordered(rule))

    def run(self, part: Part, history: DateHistory) -> DateResult:
        begun = self.clock()
        try:
            result = self.looked_at(part, history)
            if result.outcome is not MergeOutcome.UNCHANGED:
                result = replace(self._imported(part, history, begun), intraday=result.intraday)
        except (SparkhavenError, OSError) as error:
            result = _result(part, MergeOutcome.FAILED, error=error)
        return replace(result, seconds=self.clock() - begun)

    def _imported(self, part: Part, history: DateHistory, begun: float) -> DateResult:
        fs, base = self.place.fs, history.current
        joined = base if base is not None and base.rows and self._upserts else None
        rule = rule_of(base, self.options.merge.dedupe, self.schema)
        given = self.rows.id_of(part, ordered=_ordered(rule))
        tree = ImportedTree(given, self.rows.name, self.rows.layout, part.rows)
        options = replace(self.options.merge, workers=max(self.options.merge.workers, self.executor.workers))
        recorded = recorded_rule(base, self.options.merge.dedupe, rule)
        options = replace(options, rewrite=self.options.replace, dedupe=recorded)
        if joined is not None:
            require_volumes(self.place, joined)
        drops, corrections = (joined.column_drops, joined.corrections) if joined is not None else ((), ())
        taken = Taken(
            (), IMPORTED, _inputs(part, base, joined), replaces=joined is None, drops=drops, corrections=corrections
        )
        plan, record = plan_output(self.place, self.schema, history, options, taken)
        record = replace(record, time_ms=int(begun * 1000), run=replace(record.run, imported=tree))
        try:
            with fs.during("merge-plan"):
                sweep(fs, record.run.staging)
                store_records(self.place, [record])
            with fs.during("import-convert"):
                converted = self.rows.convert(part, plan.work.with_name(".import"), self.on_progress)
            before = history_of(self.place, self.schema, joined) if joined is not None else []
            taken = replace(taken, sources=(*before, *converted.sources))
            if rule.keys:
                taken = without_duplicates(fs, self.schema, taken, options)
            left_out, now = taken.left_out, taken.left_out
            if joined is not None:
                left_out = add_left_out(left_out_before(joined, self.schema), left_out, self.schema)
            plan = replace(plan, sources=taken.sources, left_out=left_out)
            record = self._merge(part, plan, record)
            self._require_rows(part, record, converted, joined, now)
            store_records(self.place, [record])
        except (SparkhavenError, OSError):
            sweep(fs, record.run.staging)
            raise
        (closed,) = self.publishing.close([history.after(record)])
        if isinstance(closed, Failure):
            raise closed.error
        outcome = MergeOutcome.UPSERTED if joined is not None else MergeOutcome.REPLACED
        if base is None or not base.rows:
            outcome = MergeOutcome.IMPORTED
        result = _result(part, outcome, closed.record, history=joined.rows if joined is not None else 0)
        return replace(result, clean_error=closed.clean_error, left_out=now.rows, identical=now.identical)

    def _merge(self, part: Part, plan: MergePlan, record: MergeRecord) -> MergeRecord:
        task = WholeDate(plan, record, record.time_ms)
        if plan.large:
            reporting = ProgressExecutor(self.executor, part.value, self.clock, self.on_progress)
            checked = run_large(self.place, task, reporting.run, threads=self.executor.threads)
        else:
            (checked,) = run_group(self.place.fs, [task])
        result = checked.result
        if isinstance(result, Failure):
            raise result.error
        return result

    def _require_rows(
        self,
        part: Part,
        record: MergeRecord,
        converted: ConvertedRows,
        joined: MergeRecord | None,
        left_out: LeftOut,
    ) -> None:
        """FeedError: what was read back has another number of rows than were given, and are not left out.

        ValidationFailedError: it has other digests.
        """
        given = SourceRows(part.rows + (joined.rows if joined is not None else 0), left_out.rows)
        given.require(record.rows, 0, f"{self.place.table} {part.value}")
        if joined is not None and joined.schema_version != self.schema.version:
            return  # digests of history are of other types: the check of the merge compares what it has read
        sums = dict(converted.digests)
        for name, digest in column_digests(joined, self.schema.stored).items():
            sums[name] = add(sums.get(name, 0), from_hex(digest), -from_hex(left_out.digests.get(name, "0")))
        expected = as_hex(sums, self.schema)
        read_back = record.proof.digests_out if record.proof else {}
        if read_back != expected:
            raise ValidationFailedError(
                "the imported rows differ from those that were given",
                where=f"{self.place.table} {part.value}",
                expected="equal digests",
                found=f"other digests in {', '.join(n for n in expected if read_back.get(n) != expected[n])}",
                hint="nothing was published. Run this again",
                phase="check",
            )


def _ordered(rule: DedupeRule) -> bool:
    """Whether which row is kept depends on the order in which they are given."""
    return bool(rule.keys) and rule.order_by is None


def _inputs(part: Part, base: MergeRecord | None, joined: MergeRecord | None) -> tuple[MergeInput, ...]:
    """What the record says was merged: the rows, and those of history that they join.

    Where they replace it, the inputs of its record stay as witnesses of locations that were truncated, without rows.
    """
    if joined is not None:
        return with_imported(joined.inputs, part.rows)
    before = base.inputs if base is not None else ()
    return with_imported([taken.without_rows() for taken in before if taken.stream], part.rows)


def _result(
    part: Part,
    outcome: MergeOutcome,
    record: MergeRecord | None = None,
    *,
    history: int = 0,
    intraday: int = 0,
    error: SparkhavenError | OSError | None = None,
) -> DateResult:
    """``record``: the merge, also an earlier one that had the same rows. ``history``: rows of history that are joined.

    Rows in are those that were given, and those of history that they join.
    """
    written = record if outcome is not MergeOutcome.UNCHANGED else None
    destinations = tuple((output.internal, output.rows) for output in written.outputs) if written else ()
    return DateResult(
        part.value,
        outcome,
        (phase_of(error) or MergePhase.STAGE) if error else record.phase if record else MergePhase.PLAN,
        0.0,
        rows_in=part.rows + history,
        rows_out=sum(rows for _, rows in destinations),
        destinations=destinations,
        generation=record.generation if record else 0,
        error=error,
        sort=record.run.sort if record else (),
        format=record.run.format if record else None,
        drops=record.dropped_columns if record else (),
        distribution=record.run.distribution if record else None,
        corrections=record.corrections if record else (),
        intraday=intraday,
        given=(part.rows, len(part.leaves)),
        digests=written.proof.digests_out if written and written.proof else {},
    )
