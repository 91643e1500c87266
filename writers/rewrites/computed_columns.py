"""Computes columns of a location, block by block, into column files beside the staging of the merge that takes them.

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

from sparkhaven.store.conversions.plain_arrays import plain
from sparkhaven.store.digest.column_digest import add, digest_array, from_hex, to_hex
from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.merges.column_corrections import ColumnCorrection
from sparkhaven.store.scan.column_file import ColumnFile, open_column
from sparkhaven.store.types.model import Column, Kind
from sparkhaven.writers.foreign_values import AllowedConversions, mapped
from sparkhaven.writers.merge.sources.block_sizes import SIZES
from sparkhaven.writers.merge.sources.merge_source import MergeSource
from sparkhaven.writers.rewrites.column_changes import Setting, value_name
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
            writer.append(pa.RecordBatch.from_arrays(arrays, [column.name for column in columns]))
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
        len(old) - old.null_count,
        len(new) - new.null_count,
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
