"""Merge planning: pins the streams, looks at what was merged before, and plans the merge of a date.

=====================================  =====================================================================
situation                              what is read, and where it goes
=====================================  =====================================================================
never merged                           all committed intraday rows; the writable partitions' own names
merged, nothing new                    nothing to do
merged, rows came since                those rows alone; one more partition ``<name>.s<generation>`` (supplement)
merged, ``rewrite``, or many supplements  intraday if it still has all merged rows, else history and the rows since;
                                       ``<name>.g<generation>``, replacing what was there
=====================================  =====================================================================
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sparkhaven.store.errors import (
    MergeError,
    SchemaMismatchError,
    SettingsError,
    TableNotFoundError,
    TooEarlyError,
    UnsupportedVersionError,
)
from sparkhaven.store.format.parquet.trees import EXTENDED
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey, check_partition
from sparkhaven.store.merges.history import DateHistory, current_names
from sparkhaven.store.merges.merge_records import LeftOut, MergeInput, MergeRecord, merged_rows
from sparkhaven.store.merges.merge_run import ColumnDrop, MergePhase, MergeRun, RunSource
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.case_twins import refuse_case_twins
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.types.model import TableSchema
from sparkhaven.store.volumes import require_volumes
from sparkhaven.writers.merge.date_result import MergeOutcome
from sparkhaven.writers.merge.plan.dedupe_options import NO_RULE, rule_of
from sparkhaven.writers.merge.plan.dropped_columns import dropped_columns, joined_drops
from sparkhaven.writers.merge.plan.duplicates import find_duplicates
from sparkhaven.writers.merge.plan.merge_inputs import all_inputs, has_all, history_of, unmerged
from sparkhaven.writers.merge.plan.merge_pins import Pins, after_sync
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions, MergePlan, chosen_format
from sparkhaven.writers.merge.plan.merge_proof import add_left_out, add_proofs
from sparkhaven.writers.merge.plan.partition_choice import Turns, choose_partitions, require_space, space_for
from sparkhaven.writers.merge.sources.merge_source import MergeSource
from sparkhaven.writers.merge.sources.sort_keys import SortKey
from sparkhaven.writers.partitions import (
    destination,
    ensure_writable,
    partition_names,
    stage_root,
)

_EMPTY = "`sparkhaven stats` lists the dates. --allow-empty skips an empty one"


@frozen
class PlannedMerge:
    """The plan for one date, None if there is nothing to write; ``history`` is what it had before."""

    outcome: MergeOutcome
    record: MergeRecord
    history: DateHistory
    plan: MergePlan | None = None

    def combine(self, record: MergeRecord) -> MergeRecord:
        """A supplement's record also holds what the date had before: outputs and proof of all generations."""
        base = self.history.current
        if self.outcome is not MergeOutcome.SUPPLEMENT or base is None or self.plan is None:
            return record
        base = current_names(base, self.plan.schema)
        if base.proof is None or record.proof is None:
            return record
        return replace(record, outputs=(*base.outputs, *record.outputs), proof=add_proofs(base.proof, record.proof))


def plan_merge(
    place: TablePlace,
    history: DateHistory,
    options: MergeOptions,
    pins: Pins,
    turns: Turns | None = None,
    *,
    dry_run: bool = False,
) -> PlannedMerge:
    """Plans the merge of a date after its ``history``. TableNotFoundError: the date has no rows (unless allowed).

    MergeError: history is ahead of its source. TooEarlyError: all rows of the date wait to be synced.
    RetryableStorageError: there is not enough space.
    """
    value, base = check_partition("partition value", history.value), history.current
    schema = merged_schema(place)
    locations = pins.locations(value)
    merged = merged_rows(base)
    tails = unmerged(place, locations, merged)
    rule = rule_of(base, options.dedupe, schema)
    other_rule = options.dedupe is not None and base is not None and rule != (base.run.dedupe or NO_RULE)
    options = replace(options, dedupe=rule, rewrite=options.rewrite or other_rule)
    if base is not None and not options.rewrite and not tails:
        return PlannedMerge(MergeOutcome.NOTHING, base, history)
    if base is None and not locations:
        if waiting := pins.waiting(value):
            raise TooEarlyError(
                "the rows of this date are not synced yet",
                where=f"{place.table} {value}",
                expected="synced rows, which no power failure makes the source replay",
                found=f"{waiting:,} unsynced rows",
                hint=after_sync(place.table),
                phase="plan",
            )
        if not options.allow_empty:
            raise TableNotFoundError(
                "no committed rows to merge",
                where=f"{place.table} {value}",
                expected="intraday rows of this date",
                found="none",
                hint=_EMPTY,
                phase="plan",
            )
        return PlannedMerge(
            MergeOutcome.EMPTY, MergeRecord(str(place.table), value, 0, MergePhase.PLAN, (), ()), history
        )
    supplement = base is not None and not options.rewrite and base.run.supplements < options.max_supplements
    supplement = supplement and not rule.keys  # a new row may be the double of one that history has
    if supplement:
        sources, origin = tails, "intraday"
    elif base is None or (has_all(base, locations) and not rule.upsert):
        sources, origin = tails if base is None else unmerged(place, locations, {}), "intraday"
    else:
        require_volumes(place, base)
        sources, origin = [*history_of(place, schema, base), *tails], "history"
    drops = dropped_columns(place.fs, schema, value, sources)
    if base is not None and (supplement or origin == "history"):  # history has those rows without their columns
        drops = joined_drops(base.column_drops, drops)
    taken = Taken(tuple(sources), origin, all_inputs(base, locations), supplement, drops)
    if rule.keys:
        taken = _deduped(place.fs, schema, taken, options)
    if base is not None and base.proof is not None and origin == "history":
        taken = replace(taken, left_out=add_left_out(base.proof.left_out, taken.left_out))
    plan, record = plan_output(place, schema, history, options, taken, turns, dry_run=dry_run)
    return PlannedMerge(MergeOutcome.SUPPLEMENT if supplement else MergeOutcome.MERGED, record, history, plan)


@frozen
class Taken:
    """What is read for a date: ``origin`` and ``inputs`` are what the record says of it.

    ``supplement``: it is added to what history has, else replaces it. ``drops``: columns that a command dropped.
    ``left_out``: rows that a rule leaves out, of the sources or before of their history.
    """

    sources: tuple[MergeSource, ...]
    origin: str
    inputs: tuple[MergeInput, ...]
    supplement: bool = False
    drops: tuple[ColumnDrop, ...] = ()
    left_out: LeftOut = LeftOut()


def _deduped(fs: Fs, schema: TableSchema, taken: Taken, options: MergeOptions) -> Taken:
    """What is taken without the rows that the rule leaves out."""
    assert options.dedupe is not None  # noqa: S101
    duplicates = find_duplicates(fs, schema, taken.sources, options.dedupe, options.usable)
    sources = tuple(replace(source, kept=kept) for source, kept in zip(taken.sources, duplicates.kept, strict=True))
    rows, kept_rows = (sum(map(len, part)) for part in (taken.sources, sources))
    if rows != kept_rows + duplicates.left_out.rows:
        raise MergeError(
            "other rows were chosen than counted",
            where=schema.full_name,
            expected=f"{rows} rows, kept or left out",
            found=f"{kept_rows} and {duplicates.left_out.rows}",
            hint="report it: this is a bug. Nothing was written. --dedupe none merges all rows",
            phase="plan",
        )
    return replace(taken, sources=sources, left_out=duplicates.left_out)


def plan_output(
    place: TablePlace,
    schema: TableSchema,
    history: DateHistory,
    options: MergeOptions,
    taken: Taken,
    turns: Turns | None = None,
    *,
    dry_run: bool = False,
) -> tuple[MergePlan, MergeRecord]:
    """Where the rows of a date go, and the record to begin with. ``turns``: those of several dates of one run.

    MergeError: history has the date without a record. RetryableStorageError: there is not enough space.
    """
    table, value, base = place.table, history.value, history.current
    options = replace(options, sort=_sort(base, options, schema), format=chosen_format(options, schema, base))
    if options.format != "deephaven":
        files = "merge with --format deephaven, which writes column files"
        refuse_case_twins(schema.full_name, schema.columns, "the reader that proves Parquet files", files)
    mark = "s" if taken.supplement else "g" if base is not None else ""
    generation = _generation(history)
    if not mark and _occupied(place, value):
        if not options.rewrite:
            raise MergeError(
                "history already has this date, without a merge record",
                where=f"{table} {value}",
                hint="merge with --rewrite, or import with --replace. A new generation retires what is there",
                phase="plan",
            )
        mark, generation = "g", max(generation, 2)
    needed = space_for(taken.sources, copies=1 if options.format == "deephaven" else 2)
    if not dry_run and (base is None or base.run.stays_in is None):
        ensure_writable(place.fs, place.layout, table.namespace)
    choice = choose_partitions(place, base, schema, options, turns or Turns(place, (value,)), value, needed)
    staging = choice.volumes
    require_space(place.fs, table.namespace, staging, needed)
    destinations = tuple(destination(volume, table, value, generation, mark) for volume in staging)
    work = stage_root(staging[0], table, value, generation) / ".work" if staging else Path()
    plan = MergePlan(table, value, generation, schema, taken.sources, destinations, options, work, taken.left_out)
    record = MergeRecord(
        table=str(table),
        value=value,
        generation=generation,
        phase=MergePhase.PLAN,
        inputs=taken.inputs,
        outputs=(),
        source=taken.origin,
        schema_version=schema.version,
        replaces=() if taken.supplement else _replaced(place, value, base, mark),
        run=MergeRun(
            sort=tuple(str(key) for key in options.sort or ()),
            format=options.format,
            formula=schema.key_formula,
            supplements=base.run.supplements + 1 if base is not None and taken.supplement else 0,
            destinations=plan.destinations,
            work=plan.work,
            sources=tuple(RunSource(s.stream, s.internal, s.since, s.epoch, s.start, s.stop) for s in plan.sources),
            dedupe=options.dedupe if options.dedupe is not None and options.dedupe.keys else None,
            stays_in=choice.stays_in,
            detached=base.run.detached if base is not None and (taken.supplement or taken.origin == "history") else (),
            distribution=choice.distribution,
        ),
        column_drops=taken.drops,
    )
    return plan, record


def merged_schema(place: TablePlace) -> TableSchema:
    """The deployed schema of a table that can be merged. SchemaMismatchError, UnsupportedVersionError: it cannot."""
    schema = load_deployed(place)
    if schema.partitioning is None:
        raise SchemaMismatchError(
            "table is not partitioned",
            where=str(place.table),
            expected="a Partitioning column",
            hint="keep the rows intraday, or make a new table with a Partitioning column",
        )
    if schema.extended not in (None, *EXTENDED):
        raise UnsupportedVersionError(
            "the schema asks for a layout of history that merges do not write",
            where=f"{place.table}, ExtendedStorage",
            expected=", ".join(EXTENDED),
            found=schema.extended,
            hint="choose one of these types, or remove ExtendedStorage from the schema",
        )
    if schema.extended is not None:
        tree = f"`sparkhaven read {place.table}` reads the table"
        refuse_case_twins(schema.full_name, schema.columns, f"readers of its {schema.extended} tree", tree)
    return schema


def _sort(base: MergeRecord | None, options: MergeOptions, schema: TableSchema) -> tuple[SortKey, ...]:
    """The requested order, else that of the date's last merge."""
    if options.sort is not None or base is None:
        return options.sort or ()
    try:
        return tuple(SortKey.parse(_renamed(text, schema), schema) for text in base.run.sort)
    except SettingsError as error:
        raise SettingsError(
            "the date's last merge was sorted by a column that can no longer be used for sorting",
            where=f"{schema.full_name} {base.value}, merge {base.generation}",
            expected=error.expected,
            found=", ".join(base.run.sort),
            hint="state the order with --sort COLUMN, or --sort none",
        ) from None


def _renamed(text: str, schema: TableSchema) -> str:
    """A sort key of an earlier merge under the name that its column has now."""
    name, colon, direction = text.partition(":")
    return f"{schema.labels.get(name, name)}{colon}{direction}"


def _generation(history: DateHistory) -> int:
    """The number of this merge: a new one, or that of a merge killed before it published."""
    last = history.last
    if last is None:
        return 1
    return last.generation + 1 if last.phase.reached(MergePhase.CHECK) else last.generation


def _occupied(place: TablePlace, value: str) -> bool:
    return bool(_without_record(place, value))


def _without_record(place: TablePlace, value: str) -> tuple[str, ...]:
    """The storage partitions, writable or not, that have the date under their own name."""
    names = partition_names(place.fs, place.layout, place.table.namespace)
    return tuple(name for name in names if place.fs.stat(place.history_location(LocationKey(name, value))))


def _replaced(place: TablePlace, value: str, base: MergeRecord | None, mark: str) -> tuple[str, ...]:
    if base is not None:
        return tuple(output.internal for output in base.outputs)
    return _without_record(place, value) if mark else ()
