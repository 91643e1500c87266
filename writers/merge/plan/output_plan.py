"""Where the rows of a planned merge go: generation, destinations, order and format, and the record to begin with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from sparkhaven.store.errors import (
    MergeError,
    SettingsError,
)
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.column_corrections import ColumnCorrection
from sparkhaven.store.merges.history import DateHistory, in_columns
from sparkhaven.store.merges.merge_proofs import LeftOut
from sparkhaven.store.merges.merge_records import MergeInput, MergeRecord
from sparkhaven.store.merges.merge_run import ColumnDrop, MergePhase, MergeRun, RunSource
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.case_twins import refuse_case_twins
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions, MergePlan, chosen_format
from sparkhaven.writers.merge.plan.partition_choice import Turns, choose_partitions, require_space, space_for
from sparkhaven.writers.merge.sources.merge_source import MergeSource
from sparkhaven.writers.merge.sources.sort_keys import SortKey
from sparkhaven.writers.partitions import destination, ensure_writable, partition_names, stage_root


@dataclass(frozen=True, slots=True)
class Taken:
    """What is read for a date: ``origin`` and ``inputs`` are what the record says of it.

    ``supplement``: it is added to what history has, else replaces it. ``drops``: columns that a command dropped.
    ``left_out``: rows that were withdrawn, or that a rule leaves out, of the sources or before of their history.
    ``corrections``: of columns, by command. ``replaces``: no row of it was merged before.
    """

    sources: tuple[MergeSource, ...]
    origin: str
    inputs: tuple[MergeInput, ...]
    supplement: bool = False
    drops: tuple[ColumnDrop, ...] = ()
    left_out: LeftOut = LeftOut()
    corrections: tuple[ColumnCorrection, ...] = ()
    replaces: bool = False


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
    before = base.run if base is not None else MergeRun()
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
            partitions=tuple(destination.writable for destination in plan.destinations),
            supplements=base.run.supplements + 1 if base is not None and taken.supplement else 0,
            destinations=plan.destinations,
            work=plan.work,
            sources=tuple(RunSource(s.stream, s.internal, s.since, s.epoch, s.start, s.stop) for s in plan.sources),
            dedupe=options.dedupe,
            stays_in=choice.stays_in,
            detached=tuple(replace(p, replaced=True) for p in before.outside) if taken.replaces else before.detached,
            attached=() if taken.replaces else before.attached,
            distribution=choice.distribution,
        ),
        column_drops=taken.drops,
        corrections=taken.corrections,
    )
    return plan, record


def _sort(base: MergeRecord | None, options: MergeOptions, schema: TableSchema) -> tuple[SortKey, ...]:
    """The requested order, else that of the date's last merge."""
    if options.sort is not None or base is None:
        return options.sort or ()
    try:
        return tuple(SortKey.parse(text, schema) for text in in_columns(base, schema).run.sort)
    except SettingsError as error:
        raise SettingsError(
            "the date's last merge was sorted by a column that can no longer be used for sorting",
            where=f"{schema.full_name} {base.value}, merge {base.generation}",
            expected=error.expected,
            found=", ".join(base.run.sort),
            hint="state the order with --sort COLUMN, or --sort none",
        ) from None


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
