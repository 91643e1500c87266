"""Plans the rewrite of a date: a merge of its history with itself, in which some columns are computed.

What is read is history alone, so rows that wait in intraday stay for the next merge. Order, groups, distribution and
indexes are made anew, whatever columns are computed. The proof says of every column that no option names that it has
the digest of the generation before, and of a computed one that it has that of the computed values. Of rows, all columns
together, it says that they have the digest that a reader finds in the generation before, beside the computed values.

Columns of a location are computed block by block, into column files beside the staging of the merge that takes them.
All expressions and functions see the values that history has; none sees what another one has computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store import next_steps
from sparkhaven.store.conversions.number_arrays import plain
from sparkhaven.store.digest.column_digest import add, digest_array, from_hex, to_hex
from sparkhaven.store.errors import MergeError, SchemaMismatchError, TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import PARQUET, in_parquet
from sparkhaven.store.merges.history import DateHistory, column_digests, in_columns
from sparkhaven.store.merges.merge_records import ColumnCorrection, MergeOutput, MergeRecord
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.column_file import ColumnFile, count_values, open_column, open_parquet
from sparkhaven.store.types.model import Column, Kind, same_form
from sparkhaven.store.volumes import require_volumes
from sparkhaven.writers.foreign_values import AllowedConversions, mapped
from sparkhaven.writers.merge.date_result import MergeOutcome
from sparkhaven.writers.merge.plan.date_plan import PlannedMerge, merged_schema
from sparkhaven.writers.merge.plan.dropped_columns import dropped_columns, joined_drops
from sparkhaven.writers.merge.plan.merge_inputs import history_of, kept_rows_digest
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions, MergePlan
from sparkhaven.writers.merge.plan.merge_proof import left_out_before
from sparkhaven.writers.merge.plan.output_plan import Taken, Turns, plan_output
from sparkhaven.writers.merge.sources.merge_source import SIZES, ColumnSource, MergeSource
from sparkhaven.writers.rewrites.column_changes import (
    ColumnChanges,
    DeployedChanges,
    Setting,
    deployed_changes,
    repeats,
    value_name,
)
from sparkhaven.writers.users.location_writer import LocationWriter


@dataclass(frozen=True, slots=True)
class DateOfTable:
    """What is computed: the settings for one date, which is merged as ``generation``."""

    value: str
    generation: int
    settings: tuple[Setting, ...]
    allowed: AllowedConversions


def compute(
    fs: Fs, date: DateOfTable, source: MergeSource, directory: Path | None
) -> tuple[MergeSource, list[ColumnCorrection]]:
    """The source with its computed columns below ``directory`` (None: nothing is written), and what they changed.

    SchemaMismatchError: a value cannot be stored in its column.
    """
    columns = tuple(setting.column for setting in date.settings)
    writer = None if directory is None else LocationWriter(fs, directory, columns, None)
    opened = _open(fs, source, {c.name: c for s in date.settings for c in (s.column, *s.inputs)}.values())
    totals: list[ColumnCorrection] = []
    for first, stop in source.blocks(SIZES.rows):
        rows = {name: _values(file, date.value, first, stop) for name, file in opened.items()}
        parts, arrays = [], []
        for setting in date.settings:
            old, new = rows[setting.column.name], _computed(date, setting, source, rows, first)
            arrays.append(new)
            parts.append(_correction(date, setting, old, new))
        totals = parts if not totals else [joined(one, part) for one, part in zip(totals, parts, strict=True)]
        if writer is not None:
            writer.add(pa.RecordBatch.from_arrays(arrays, [column.name for column in columns]))
    if writer is None or directory is None:
        return source, totals
    files = writer.held().files
    there = MergeSource(directory, "", source.internal, 0, source.epoch, source.start, source.stop, source.rows, files)
    return replace(source, computed=there), totals


def _open(fs: Fs, source: MergeSource, columns: Iterable[Column]) -> dict[str, ColumnFile | Column]:
    sizes = {name: state.size for name, state in source.files.items()}
    return {
        column.name: column
        if column.kind is Kind.PARTITIONING
        else open_column(fs, source.directory, column.at(source.named_by), sizes, source.rows)
        for column in columns
    }


def _values(opened: ColumnFile | Column, value: str, first: int, stop: int) -> pa.Array:
    if isinstance(opened, Column):
        return pa.repeat(pa.scalar(value, opened.type.arrow), stop - first)
    return opened.read(first, stop)


def _computed(
    date: DateOfTable, setting: Setting, source: MergeSource, rows: dict[str, pa.Array], first: int
) -> pa.Array:
    """New values of a column in its own type, for a block of rows from ``first`` on."""
    column, count = setting.column, len(rows[setting.column.name])
    where = f"{date.value}, internal partition {source.internal}, row "
    names = [one.name for one in setting.inputs]
    if setting.expression is not None:
        given = pa.record_batch([rows[name] for name in names] or [pa.nulls(count)], names or [""])
        values = setting.expression.evaluate(given, where, first)
    else:
        assert not isinstance(setting.value, str)  # noqa: S101  then it has an expression
        given = pa.record_batch([plain(rows[name]) for name in names] or [pa.nulls(count)], names or [""])
        values = setting.value(given)
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if not isinstance(values, pa.Array) or len(values) != count:
            raise SchemaMismatchError(
                f"the function of column {column.name} gives no column of its rows",
                where=f"{where}{first}",
                expected=f"an Arrow array of {count} values",
                found=f"{len(values)} values" if isinstance(values, pa.Array) else type(values).__name__,
                hint="return one value for each row of the record batch",
            )
    return mapped(values, column, lambda index: f"{where}{first + index}", date.allowed)


def _correction(date: DateOfTable, setting: Setting, old: pa.Array, new: pa.Array) -> ColumnCorrection:
    column = setting.column
    return ColumnCorrection(
        column.id,
        column.name,
        value_name(setting.value),
        date.generation,
        len(new),
        int(np.count_nonzero(_differing(old, new))),
        count_values(column, old),
        count_values(column, new),
        to_hex(digest_array(column, old)),
        to_hex(digest_array(column, new)),
    )


def joined(one: ColumnCorrection, other: ColumnCorrection) -> ColumnCorrection:
    """The change of the rows of both."""
    return ColumnCorrection(
        one.id,
        one.name,
        one.value,
        one.generation,
        one.rows + other.rows,
        one.changed + other.changed,
        one.filled_before + other.filled_before,
        one.filled_after + other.filled_after,
        to_hex(add(from_hex(one.before), from_hex(other.before))),
        to_hex(add(from_hex(one.after), from_hex(other.after))),
    )


def _differing(old: pa.Array, new: pa.Array) -> npt.NDArray[np.bool_]:
    """Where two columns of one type have other values; every NaN is the same."""
    old, new = plain(old), plain(new)
    if pa.types.is_large_string(old.type) or pa.types.is_large_string(new.type):
        old, new = old.cast(pa.large_string()), new.cast(pa.large_string())
    if pa.types.is_nested(old.type):
        return np.array([a != b for a, b in zip(old.to_pylist(), new.to_pylist(), strict=True)], np.bool_)
    same = pc.fill_null(pc.equal(old, new), False).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(old.type):
        both = pc.and_(pc.fill_null(pc.is_nan(old), False), pc.fill_null(pc.is_nan(new), False))
        same = same | both.to_numpy(zero_copy_only=False)
    differing: npt.NDArray[np.bool_] = ~(same | (np.asarray(old.is_null()) & np.asarray(new.is_null())))
    return differing


def added_up(parts: Sequence[Sequence[ColumnCorrection]]) -> tuple[ColumnCorrection, ...]:
    """The changes of all locations together, one a column."""
    totals: dict[int, ColumnCorrection] = {}
    for part in parts:
        for correction in part:
            before = totals.get(correction.id)
            totals[correction.id] = correction if before is None else joined(before, correction)
    return tuple(totals.values())


REWRITE = "rewrite"  # entry of the run in its record: the changes as options


class RewritePlanner:
    """Plans rewrites. ``again``: also where a date was rewritten so before."""

    def __init__(self, changes: ColumnChanges, *, again: bool = False) -> None:
        self._changes, self._again, self._words = changes, again, changes.words()

    def ends_with(self, record: MergeRecord) -> bool:
        """Whether a killed merge that is published now was this rewrite."""
        return record.run.others.get(REWRITE) == self._words

    def plan(
        self, place: TablePlace, history: DateHistory, options: MergeOptions, pins: Pins, turns: Turns, *, dry_run: bool
    ) -> PlannedMerge:
        """TableNotFoundError: history has no rows of the date. MergeError: it was rewritten so before its last merge.
        Else as ``deployed_changes`` and the plans of merges."""
        base = _history(place, history)
        schema = merged_schema(place)
        changes = deployed_changes(self._changes, schema)
        if not any(output.rows for output in base.outputs) or (self.ends_with(base) and not self._again):
            return PlannedMerge(MergeOutcome.NOTHING, base, history)
        if not self._again:
            _require_first(place, base, changes)
        require_volumes(place, base)
        sources = tuple(history_of(place, schema, base))
        if not changes.settings and not _pending(place.fs, changes, base, sources):
            return PlannedMerge(MergeOutcome.NOTHING, base, history)
        drops = joined_drops(base.column_drops, dropped_columns(place.fs, schema, history.value, sources))
        taken = Taken(sources, "history", base.inputs, False, drops, left_out_before(base, schema), base.corrections)
        options = replace(options, rewrite=True, dedupe=in_columns(base, schema).run.dedupe)
        plan, record = plan_output(place, schema, history, options, taken, turns, dry_run=dry_run)
        record = replace(record, run=replace(record.run, others={REWRITE: self._words}))
        planned = PlannedMerge(MergeOutcome.REWRITTEN, record, history, plan)
        allowed = AllowedConversions(lossy=self._changes.lossy)
        date = DateOfTable(history.value, record.generation, changes.settings, allowed)
        if dry_run:
            return _prepared(place.fs, date, planned, plan, write=False)
        return replace(planned, prepare=lambda planned, plan: _prepared(place.fs, date, planned, plan, write=True))


def _history(place: TablePlace, history: DateHistory) -> MergeRecord:
    base = history.current
    if base is not None and base.outputs:
        return base
    raise TableNotFoundError(
        "date has no history to rewrite",
        where=f"{place.table} {history.value}",
        expected="a complete merge",
        found="none" if base is None else "history that was dropped",
        hint=next_steps.merged_dates(place.table),
        phase="plan",
    )


def _require_first(place: TablePlace, base: MergeRecord, changes: DeployedChanges) -> None:
    """MergeError: a column would be computed from itself a second time."""
    before = {(correction.id, correction.value): correction for correction in base.corrections}
    for setting in repeats(changes.settings):
        done = before.get((setting.column.id, setting.value)) if isinstance(setting.value, str) else None
        if done is not None:
            raise MergeError(
                "the date was rewritten by this expression before",
                where=f"{place.table} {base.value}, merge {done.generation}",
                expected=f"a column {setting.column.name} that was not computed from itself by: {setting.value}",
                found=f"{done.changed:,} rows that were",
                hint="to compute all rows once more, use --again. A condition with ? and : chooses rows",
                phase="plan",
            )


def _pending(fs: Fs, changes: DeployedChanges, base: MergeRecord, sources: tuple[MergeSource, ...]) -> bool:
    """Whether a location differs from the schema in what is to be changed."""
    outputs = base.outputs
    if any(not _has(output, column) for column in changes.added for output in outputs):
        return True
    if any(_has(output, column) for column in changes.dropped for output in outputs):
        return True
    if any(_has(o, column) and column.stem(o.named_by) != column.name for column in changes.renamed for o in outputs):
        return True
    return any(not _newest(fs, source, column) for column in changes.retyped for source in sources)


def _has(output: MergeOutput, column: Column) -> bool:
    return column.stem(output.named_by) in output.digests


def _newest(fs: Fs, source: MergeSource, column: Column) -> bool:
    """Whether the files of a location have a column in its newest form."""
    if in_parquet(source.files):
        kinds = open_parquet(fs, source.directory, {PARQUET: source.files[PARQUET].size}, source.rows).found.schema
        name = column.stem(source.named_by)
        return name not in kinds.names or kinds.field(name).type == column.type.arrow
    return same_form(ColumnSource(fs, source, column).column, column)


def _prepared(fs: Fs, date: DateOfTable, planned: PlannedMerge, plan: MergePlan, *, write: bool) -> PlannedMerge:
    """The plan with its computed columns, and the digests that its outputs must have."""
    base, directory = planned.history.current, plan.work.with_name(".computed")
    assert base is not None  # noqa: S101  else there is no plan
    if write and date.settings:
        fs.mkdirs(directory)
    sources, corrections = [], []
    for number, source in enumerate(plan.sources if date.settings else ()):
        taken, part = compute(fs, date, source, directory / str(number) if write else None)
        sources.append(taken)
        corrections.append(part)
    changed = added_up(corrections)
    expected = column_digests(base, plan.schema.stored)
    expected |= {correction.name: correction.after for correction in changed}
    record = replace(planned.record, corrections=(*planned.record.corrections, *changed))
    plan = replace(plan, sources=tuple(sources) or plan.sources)
    rows = kept_rows_digest(fs, plan.schema, plan.sources) if write else None
    return replace(planned, record=record, plan=plan, prepare=None, expected=expected, row_digest=rows)
