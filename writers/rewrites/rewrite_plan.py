"""Plans the rewrite of a date: a merge of its history with itself, in which some columns are computed.

What is asked for is checked against the deployed schema, which says what columns a table has. A rewrite brings the
files of old dates to it, and computes values; what is not deployed is refused with the command that deploys it.

What is read is history alone, so rows that wait in intraday stay for the next merge. Order, groups, distribution and
indexes are made anew, whatever columns are computed. The proof says of every column that no option names that it has
the digest of the generation before, and of a computed one that it has that of the computed values. Of rows, all columns
together, it says that they have the digest that a reader finds in the generation before, beside the computed values.

Columns of a location are computed block by block, into column files beside the staging of the merge that takes them.
All expressions and functions see the values that history has; none sees what another one has computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store import next_steps
from sparkhaven.store.conversions.number_arrays import plain
from sparkhaven.store.digest import add, digest_array, from_hex, to_hex
from sparkhaven.store.errors import MergeError, SchemaMismatchError, SettingsError, TableNotFoundError, meant
from sparkhaven.store.expressions.predicate.expression import ValueExpression, parse_value
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import PARQUET, in_parquet
from sparkhaven.store.merges.history import DateHistory, column_digests, in_columns
from sparkhaven.store.merges.merge_records import ColumnCorrection, MergeOutput, MergeRecord
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.column_file import ColumnFile, count_values, open_column, open_parquet
from sparkhaven.store.types.datatypes import is_known
from sparkhaven.store.types.model import Column, Kind, TableSchema, same_form
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
from sparkhaven.writers.rewrites.function_names import function_name
from sparkhaven.writers.users.location_writer import LocationWriter

Function = Callable[[pa.RecordBatch], pa.Array | pa.ChunkedArray]
Value = str | Function
REWRITE = "rewrite"  # entry of the run in its record: the changes as options


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """The changes of one rewrite, by names of columns.

    ``rename``: earlier name -> name. ``retype``: name -> type, as a schema spells it. ``set``: name -> expression, or
    function of record batches. ``inputs``: the columns that functions are given, None: all. ``lossy``: columns of
    floating numbers that take the nearest value.
    """

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    retype: Mapping[str, str] = field(default_factory=dict)
    set: Mapping[str, Value] = field(default_factory=dict)
    inputs: tuple[str, ...] | None = None
    lossy: frozenset[str] = frozenset()

    def words(self) -> list[str]:
        """The changes as options, for the record: a function as ``value_name`` has it."""
        words = [f"--add {name}" for name in self.add] + [f"--drop {name}" for name in self.drop]
        words += [f"--rename {old}={new}" for old, new in self.rename.items()]
        words += [f"--retype {name}={kind}" for name, kind in self.retype.items()]
        return words + [f"--set {name}={value_name(value)}" for name, value in self.set.items()]


def value_name(value: Value) -> str:
    """An expression as it is written, a function by its name and a checksum of all that is known of it."""
    return value if isinstance(value, str) else function_name(value).text


@dataclass(frozen=True, slots=True)
class Setting:
    """A column that is computed: its values by an expression or a function, from the columns ``inputs``."""

    column: Column
    value: Value
    expression: ValueExpression | None
    inputs: tuple[Column, ...]

    def was(self, name: str) -> bool:
        """Whether the values may be those that a record has under this name.

        Of a function that uses what is not known the checksum tells nothing.
        """
        if isinstance(self.value, str):
            return name == self.value
        known = function_name(self.value)
        return name == known.text if known.whole else name.partition("#")[0] == known.name

    @property
    def is_known(self) -> bool:
        """Whether the same name means the same values."""
        return isinstance(self.value, str) or function_name(self.value).whole


@dataclass(frozen=True, slots=True)
class DeployedChanges:
    """Changes of columns, with the columns of a schema that has them so."""

    changes: ColumnChanges
    schema: TableSchema
    added: tuple[Column, ...]
    dropped: tuple[Column, ...]
    renamed: tuple[Column, ...]
    retyped: tuple[Column, ...]
    settings: tuple[Setting, ...]

    @property
    def names(self) -> set[str]:
        """The names that the changes use for columns of now."""
        used = chain.from_iterable((setting.column, *setting.inputs) for setting in self.settings)
        return {column.name for column in (*used, *self.added, *self.retyped)} | {*self.changes.drop}


def deployed_changes(changes: ColumnChanges, schema: TableSchema) -> DeployedChanges:
    """The columns that changes name. SettingsError: the deployed schema has them otherwise, or nothing is changed.

    SchemaParseError: an expression cannot be used.
    """
    if not changes.words():
        raise SettingsError(
            "nothing is to be changed",
            where=schema.full_name,
            expected="at least one of --add, --drop, --rename, --retype and --set",
            found="none",
            hint="see `sparkhaven rewrite-column --help`",
        )
    unused = sorted(changes.lossy - set(changes.set))
    if unused:
        raise SettingsError("--lossy names a column that --set does not", expected="a column of --set", found=unused[0])
    return DeployedChanges(
        changes,
        schema,
        added=tuple(_stored(schema, name, "--add") for name in changes.add),
        dropped=tuple(_dropped(schema, name) for name in changes.drop),
        renamed=tuple(_renamed(schema, old, new) for old, new in changes.rename.items()),
        retyped=tuple(_retyped(schema, name, kind) for name, kind in changes.retype.items()),
        settings=tuple(_setting(changes, schema, name, value) for name, value in changes.set.items()),
    )


def _stored(schema: TableSchema, name: str, option: str) -> Column:
    column = schema.column(name)
    if column is None:
        names = [column.name for column in schema.stored]
        slip = meant(name, names)
        raise SettingsError(
            f"{option} names a column that the deployed schema lacks",
            where=schema.full_name,
            expected=", ".join(names),
            found=name,
            hint=f"{f'{slip} ' if slip else ''}To add a column, {_deploying('write it into the schema file')}",
        )
    if column.kind is Kind.PARTITIONING:
        raise SettingsError(
            f"{option} names the partitioning column",
            where=schema.full_name,
            expected="a column that has files",
            found=name,
            hint="its values are the dates. Merge the rows of another table to move them",
        )
    return column


def _deploying(change: str, option: str = "") -> str:
    return f"{change}, then run `sparkhaven schema deploy FILE{option}`"


def _dropped(schema: TableSchema, name: str) -> Column:
    gone = next((column for column in schema.retired if name in (column.name, *column.former_names)), None)
    if schema.column(name) is None and gone is not None and gone.id in schema.dropped:
        return gone
    known = schema.column(name) is not None or gone is not None
    raise SettingsError(
        "--drop names a column that no command has dropped",
        where=schema.full_name,
        expected="a column that schema deploy has dropped",
        found=name,
        hint=_deploying("remove the column from the schema file", f" --drop {name}")
        if known
        else f"`sparkhaven schema history {schema.full_name}` lists the columns there were",
    )


def _renamed(schema: TableSchema, old: str, new: str) -> Column:
    column = schema.column(new)
    if column is not None and old in column.former_names:
        return column
    raise SettingsError(
        f"--rename {old}={new} names no deployed change of a name",
        where=schema.full_name,
        expected=f"column {new}, which was called {old}",
        found=f"{new}, which was never called {old}" if column is not None else f"no column {new}",
        hint=_deploying("write the new name into the schema file", f" --rename {old}={new}"),
    )


def _retyped(schema: TableSchema, name: str, kind: str) -> Column:
    column = _stored(schema, name, "--retype")
    if kind in (column.spelling, column.type.name, *column.type.spellings):
        return column
    wider = _deploying("write the type into the schema file")
    other = (
        f"Numbers become wider so. For any other type add a column of another name, and compute it by --set NEW={name}"
    )
    raise SettingsError(
        f"column {name} is deployed with another type",
        where=schema.full_name,
        expected=column.spelling or column.type.name,
        found=kind if is_known(kind) else f"{kind}, which is no type of a schema",
        hint=f"{wider}. {other}",
    )


def _setting(changes: ColumnChanges, schema: TableSchema, name: str, value: Value) -> Setting:
    column, readable = _stored(schema, name, "--set"), schema.readable.columns
    by_name = {one.name: one for one in readable}
    if isinstance(value, str):
        expression = parse_value(value, readable, column)
        return Setting(column, value, expression, tuple(by_name[used] for used in expression.columns))
    inputs = schema.columns
    if changes.inputs is not None:
        unknown = [used for used in changes.inputs if used not in by_name]
        if unknown:
            raise SettingsError("a function is given an unknown column", where=schema.full_name, found=unknown[0])
        inputs = tuple(by_name[used] for used in changes.inputs)
    return Setting(column, value, None, tuple(inputs))


def repeats(settings: Sequence[Setting]) -> list[Setting]:
    """The settings whose values depend on the column itself: done twice they give other values."""
    return [setting for setting in settings if setting.column.id in {column.id for column in setting.inputs}]


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


class RewritePlanner:
    """Plans rewrites. ``again``: also where a date was rewritten so before."""

    def __init__(self, changes: ColumnChanges, *, again: bool = False) -> None:
        self._changes, self._again, self._words = changes, again, changes.words()

    def ends_with(self, place: TablePlace, record: MergeRecord) -> bool:
        """Whether a killed merge that is published now was this rewrite."""
        schema = merged_schema(place)
        return self._was(record, schema, deployed_changes(self._changes, schema))

    def _was(self, record: MergeRecord, schema: TableSchema, changes: DeployedChanges) -> bool:
        """Whether a merge was this rewrite: its words are the same, and so are the columns that they name."""
        same = record.run.others.get(REWRITE) == self._words
        return same and not schema.moved_since(record.schema_version, changes.names)

    def plan(
        self, place: TablePlace, history: DateHistory, options: MergeOptions, pins: Pins, turns: Turns, *, dry_run: bool
    ) -> PlannedMerge:
        """TableNotFoundError: history has no rows of the date. MergeError: it was rewritten so before its last merge.
        Else as ``deployed_changes`` and the plans of merges."""
        base = _history(place, history)
        schema = merged_schema(place)
        changes = deployed_changes(self._changes, schema)
        done = self._was(base, schema, changes) and all(setting.is_known for setting in changes.settings)
        if not any(output.rows for output in base.outputs) or (done and not self._again):
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
    """MergeError: a column would be computed from itself a second time, or may be: by a function that is not known."""
    for setting in repeats(changes.settings):
        before = (c for c in base.corrections if c.id == setting.column.id and setting.was(c.value))
        if (done := next(before, None)) is None:
            continue
        by = "expression" if isinstance(setting.value, str) else "function"
        sure = "the date was" if setting.is_known else "the date may have been"
        uses = "" if setting.is_known else ". What this function uses, as a list or an object, may have changed since"
        raise MergeError(
            f"{sure} rewritten by this {by} before",
            where=f"{place.table} {base.value}, merge {done.generation}",
            expected=f"a column {setting.column.name} that was not computed from itself by: {done.value}",
            found=f"{done.changed:,} rows that were",
            hint=f"to compute all rows once more, use --again. CASE WHEN chooses rows{uses}",
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
