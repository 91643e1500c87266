"""Columns of a merge's sources that its outputs will lack: dropped by a command, else the merge does not start.

The distinct texts of a date: which columns need them, and where its tasks find them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.digest import add, digest_array, from_hex, to_hex
from sparkhaven.store.errors import MergeError, SnapshotMovedError, counted
from sparkhaven.store.expressions.formula.evaluation import Formula, parse_formula
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import PARQUET, in_parquet
from sparkhaven.store.merges.merge_run import ColumnDrop
from sparkhaven.store.scan.column_file import count_values, open_column, open_parquet
from sparkhaven.store.types.model import Column, Storage, TableSchema
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.plan.open_source import Columns
from sparkhaven.writers.merge.sources.merge_source import SIZES, MergeSource
from sparkhaven.writers.merge.sources.sort_keys import ranked_symbols


def dropped_columns(fs: Fs, schema: TableSchema, value: str, sources: Sequence[MergeSource]) -> tuple[ColumnDrop, ...]:
    """What a command dropped of the sources, counted and digested; columns without values are not named.

    MergeError: a column has values that no command dropped. SnapshotMovedError: a column is newer than the schema.
    """
    dropped: dict[int, ColumnDrop] = {}
    lost: dict[int, ColumnDrop] = {}
    names = {column.id: column.name for column in schema.retired}
    for source in sources:
        for column in missing_columns(fs, schema, value, source):
            part = replace(_counted(fs, source, column), name=names[column.id])
            into = dropped if column.id in schema.dropped else lost
            into[column.id] = _joined(into.get(column.id), part)
    undeclared = [drop for drop in lost.values() if drop.rows]
    if undeclared:
        raise _undeclared(schema, value, undeclared)
    return tuple(drop for drop in dropped.values() if drop.rows)


def joined_drops(one: Iterable[ColumnDrop], other: Iterable[ColumnDrop]) -> tuple[ColumnDrop, ...]:
    """The drops of both, one a column."""
    joined: dict[int, ColumnDrop] = {}
    for drop in (*one, *other):
        joined[drop.id] = _joined(joined.get(drop.id), drop)
    return tuple(joined.values())


def missing_columns(fs: Fs, schema: TableSchema, value: str, source: MergeSource) -> Iterator[Column]:
    """The columns that a source has and the schema lacks, under the names that they have there."""
    if in_parquet(source.files):
        sizes = {PARQUET: source.files[PARQUET].size}
        names = set(open_parquet(fs, source.directory, sizes, source.rows).found.schema.names)
    else:
        names = {name[: -len(".dat")] for name in source.files if name.endswith(".dat")}
    names -= {column.stem(source.named_by) for column in schema.stored}
    retired = {column.stem(source.named_by): column.at(source.named_by) for column in schema.retired}
    for name in sorted(names):
        if name not in retired:
            raise SnapshotMovedError(
                "a source has a column that the schema of this merge does not have",
                where=f"{source.directory}, column {name}",
                expected=f"columns of version {schema.version}",
                found=name,
                hint="the schema was deployed meanwhile. Merge the date again",
                phase="plan",
            )
        if retired[name].storage is not Storage.NONE:
            yield retired[name]


def _counted(fs: Fs, source: MergeSource, column: Column) -> ColumnDrop:
    sizes = {name: state.size for name, state in source.files.items()}
    opened = open_column(fs, source.directory, column, sizes, source.rows)
    rows = digest = 0
    for first in range(source.start, source.stop, SIZES.rows):  # also rows that are left out
        values = opened.read(first, min(first + SIZES.rows, source.stop))
        rows += count_values(column, values)
        digest = add(digest, digest_array(column, values))
    return ColumnDrop(column.id, column.name, rows, to_hex(digest))


def _joined(one: ColumnDrop | None, other: ColumnDrop) -> ColumnDrop:
    if one is None:
        return other
    digest = to_hex(add(from_hex(one.digest), from_hex(other.digest)))
    return ColumnDrop(other.id, other.name, one.rows + other.rows, digest)


def _undeclared(schema: TableSchema, value: str, lost: Sequence[ColumnDrop]) -> MergeError:
    names = ", ".join(f"{drop.name} ({counted(drop.rows, 'row')} with values)" for drop in lost)
    drops = " ".join(f"--drop {drop.name}" for drop in lost)
    return MergeError(
        "the date has columns that the deployed schema lacks and that no command dropped",
        where=f"{schema.full_name} {value}",
        expected=f"columns of version {schema.version}, or columns without values",
        found=names,
        hint=f"to keep them, restore a version that `sparkhaven schema history {schema.full_name}` lists, by schema"
        " deploy"
        f" --restore. To lose them, run `sparkhaven schema deploy {schema.full_name} {drops}`",
        phase="plan",
    )


DEFAULT_FORMULA = "${autobalance_single}"
Unions = Mapping[str, pa.StringArray]  # column -> sorted distinct strings of the whole date


class RankedUnions(dict[str, pa.StringArray]):
    """Distinct texts in memory, with ``luts``: source and column -> lookup table of ``rank_lut``, of symbol columns."""

    def __init__(self, columns: Columns) -> None:
        super().__init__()
        self.columns = columns
        self.luts: dict[tuple[int, str], npt.NDArray[np.int32]] = {}

    def add(self, column: Column) -> None:
        self[column.name], luts = ranked_symbols(self.columns.symbols(column))
        self.luts |= {(index, column.name): lut for index, lut in enumerate(luts)}


def ranked(plan: MergePlan, column: Column) -> bool:
    """Whether a column is ordered by ranks in a union of strings."""
    return column.storage in (Storage.SYMBOL, Storage.BLOB)


def union_columns(plan: MergePlan) -> tuple[Column, ...]:
    """Columns whose distinct strings are needed: symbol columns, and text columns in the sort keys."""
    ordering = {key.column for key in plan.ordering}
    return tuple(c for c in plan.columns if c.storage is Storage.SYMBOL or (ranked(plan, c) and c.name in ordering))


def late_columns(plan: MergePlan) -> tuple[Column, ...]:
    """Those of them that neither the order nor the destinations depend on."""
    needed = {key.column for key in plan.ordering}
    if len(plan.destinations) > 1:
        needed |= set(formula_of(plan).columns)
    return tuple(column for column in union_columns(plan) if column.name not in needed)


def formula_of(plan: MergePlan) -> Formula:
    """What distributes rows over the destinations."""
    return parse_formula(plan.schema.key_formula or DEFAULT_FORMULA, plan.schema)


def ranks_file(plan: MergePlan, index: int, column: Column) -> Path:
    return plan.work / f"ranks-{index}-{column.id}"
