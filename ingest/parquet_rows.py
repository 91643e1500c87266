"""Parquet files to typed rows, batch by batch.

A Parquet file declares its types, so a column of a type that can never fit is an error of the file. Values that
do not fit (too large, with a fraction, equal to the null value) are bad rows like any other, named by row number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.bad_rows import MAX_PAYLOAD, BadRow, Rejects, Unit, bad_row
from ingest.exact import INTEGER_BITS, UNIT_NS, Refusal, Value, check_instant, from_json, from_text
from ingest.parquet_text import row_text
from ingest.rows import Ints, Rows, merge_rows
from ingest.source_file import RawFile
from ingest.spec import Target
from ingest.typed import Mask, Typed, csv_texts, floats, narrow, scaled_instants
from store.epochs.state import FileId
from store.errors import FeedError, SchemaMismatchError
from store.fs import Fs

BATCH_ROWS = 1 << 16


class ParquetRows:
    """Decoder of Parquet files, and of any other batches with types of their own.

    ``constants`` are columns beside those of a file, with one value for all rows, as text. ``place`` is
    how rows are named instead of by the file's path. ``utc96``: timestamps of the old type INT96, which has no zone,
    are instants in UTC, as Spark writes them; else they are local times.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        known: Sequence[str],
        *,
        alias: bool = False,
        unit: Unit = "row",
        constants: Mapping[str, str | None] | None = None,
        place: str | None = None,
        utc96: bool = False,
    ) -> None:
        self._targets = tuple(targets)
        self._constants = {name: pa.scalar(value, pa.string()) for name, value in (constants or {}).items()}
        self._place, self._utc96 = place, utc96
        self._known = {t.source for t in targets} | set(known)
        self._alias, self._unit = alias, unit

    def decode(self, fs: Fs, split: FileId, rejects: Rejects) -> Iterator[Rows]:
        """Typed rows of a file in batches; FeedError if it is no Parquet file or damaged."""
        try:
            file = _opened(fs, split, self._utc96)
            declared = file.schema_arrow
            wanted = sorted({t.source for t in self._targets} & set(declared.names) - self._constants.keys())
            for target in self._targets:
                if target.source in wanted:
                    _check_type(target, declared.field(target.source).type, split.path)
            extras = [name for name in dict.fromkeys([*declared.names, *self._constants]) if name not in self._known]
            others = _Others(fs, split, [name for name in declared.names if name not in wanted], self._utc96)
            place = self._place or split.path
            start = 1
            for batch in _batches(file, wanted, self._utc96):
                numbers = np.arange(start, start + batch.num_rows, dtype=np.int64)
                rows = self.typed(batch, numbers, place, rejects, others.fields)
                start += batch.num_rows
                for name in extras:
                    rejects.ignored[name] += len(rows)
                yield rows
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            raise FeedError(
                "feed file is no Parquet file, or damaged",
                where=split.path,
                expected="a complete Parquet file",
                found=str(error).splitlines()[0],
                hint="deliver the file again under a new name; nothing of it was committed",
            ) from error

    def payload(self, fs: Fs, split: FileId) -> Callable[[int], bytes]:
        """The whole of a row by its number, as text; numbers must not fall."""
        others = _Others(fs, split, None, self._utc96)

        def text(number: int) -> bytes:
            return row_text(others.fields(number) | self._constants)

        return text

    def typed(
        self,
        batch: pa.RecordBatch,
        numbers: Ints,
        file: str,
        rejects: Rejects,
        others: Callable[[int], Mapping[str, pa.Scalar]] = lambda number: {},
    ) -> Rows:
        """The good rows of a batch; ``numbers`` are their positions in ``file``.

        ``others`` gives fields of a bad row that the batch lacks.
        """
        count = batch.num_rows
        rejects.read += count
        doubt = np.zeros(count, np.bool_)
        columns: list[pa.Array] = []
        sources: list[pa.Array | None] = []
        for target in self._targets:
            found = batch.column(target.source) if target.source in batch.schema.names else None
            if target.source in self._constants:
                found = pa.repeat(self._constants[target.source], count)
            if found is not None and pa.types.is_dictionary(found.type):
                found = found.dictionary_decode()
            sources.append(found)
            if found is None:
                columns.append(pa.nulls(count, target.column.type.arrow))
                continue
            array, odd = _typed(found, target)
            columns.append(array)
            if odd is not None:
                doubt |= odd
        if not doubt.any():
            return Rows(tuple(columns), numbers)
        fast, good = np.flatnonzero(~doubt), pa.array(~doubt)
        exact: list[int] = []
        values: list[list[Value]] = []
        for row in np.flatnonzero(doubt).tolist():
            one = self._one(sources, row, file, int(numbers[row]))
            if isinstance(one, BadRow):
                whole = {name: batch.column(name)[row] for name in batch.schema.names}
                text = row_text({**whole, **others(int(numbers[row])), **self._constants})
                rejects.add_all([replace(one, payload=text[:MAX_PAYLOAD], size=len(text))])
            else:
                exact.append(row)
                values.append(one)
        columns = [column.filter(good) for column in columns]
        return merge_rows(numbers, fast, columns, np.array(exact, np.int64), values, self._targets)

    def _one(self, sources: list[pa.Array | None], row: int, file: str, number: int) -> list[Value] | BadRow:
        values: list[Value] = []
        for target, array in zip(self._targets, sources, strict=True):
            value = None if array is None else _exact(array, row, target, self._alias)
            if isinstance(value, Refusal):
                shown = "" if array is None else _shown(array[row])
                return bad_row(file, number, target.column.name, value.reason, value.expected, shown, unit=self._unit)
            values.append(value)
        return values


class _Others:
    """Further fields of a file (``names`` None: all of them), read only as far as a bad row asks for them."""

    def __init__(self, fs: Fs, split: FileId, names: list[str] | None, utc96: bool) -> None:
        self._fs, self._split, self._names, self._utc96 = fs, split, names, utc96
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._start = self._stop = 1  # numbers of the rows in ``_batch``
        self._batch: pa.RecordBatch | None = None

    def fields(self, number: int) -> dict[str, pa.Scalar]:
        """Fields of the row with this number, counted from 1; rows are asked for in order."""
        if self._names == []:
            return {}
        if self._batches is None:
            self._batches = _batches(_opened(self._fs, self._split, self._utc96), self._names, self._utc96)
        while number >= self._stop:
            self._batch = next(self._batches)
            self._start, self._stop = self._stop, self._stop + self._batch.num_rows
        assert self._batch is not None  # noqa: S101 there are as many rows as of the other fields
        return {name: self._batch.column(name)[number - self._start] for name in self._batch.schema.names}


def _opened(fs: Fs, split: FileId, utc96: bool) -> pq.ParquetFile:
    raw = pa.PythonFile(RawFile(fs, split), mode="r")
    return pq.ParquetFile(raw, coerce_int96_timestamp_unit="us" if utc96 else None)  # in ns far dates would wrap


def _batches(file: pq.ParquetFile, names: list[str] | None, utc96: bool) -> Iterator[pa.RecordBatch]:
    leaves = (file.schema.column(place) for place in range(len(file.schema))) if utc96 else ()
    old = {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}
    for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=names, use_threads=False):
        for name in old.intersection(batch.schema.names):
            place = batch.schema.get_field_index(name)
            batch = batch.set_column(place, name, batch.column(place).view(pa.timestamp("us", "UTC")))
        yield batch


def _shown(value: pa.Scalar) -> str:
    try:
        return str(value)
    except (ValueError, OverflowError):  # a timestamp that datetime cannot hold
        return f"{value.value} {value.type}"


def _check_type(target: Target, found: pa.DataType, file: str) -> None:
    if pa.types.is_dictionary(found):
        found = found.value_type
    name = target.column.type.name
    kinds = pa.types
    text = kinds.is_string(found) or kinds.is_large_string(found)
    number = kinds.is_integer(found) or kinds.is_floating(found) or kinds.is_decimal(found)
    if name in INTEGER_BITS or name in ("float", "double"):
        fits, expected = number, "a number"
    elif name == "Boolean":
        fits, expected = kinds.is_boolean(found), "boolean"
    elif name == "char":
        fits, expected = text or found == pa.uint16(), "string or uint16"
    elif name == "Instant":
        fits = kinds.is_timestamp(found) or kinds.is_date(found) or (text if target.unit == "iso" else number)
        expected = "timestamp, date, " + ("string" if target.unit == "iso" else f"a number in {target.unit}")
    else:
        fits, expected = text, "string"
    if not fits and not kinds.is_null(found):
        raise SchemaMismatchError(
            f"column {target.column.name} cannot be read from this Parquet column",
            where=file,
            column=target.column.name,
            expected=f"{expected}, for {name}",
            found=f"{target.source}: {found}",
            hint="map another column with `from`, or mend the producer",
        )


def _typed(array: pa.Array, target: Target) -> Typed:
    """Typed values and rows in doubt, as in ``ingest.typed``."""
    name, kind, kinds = target.column.type.name, array.type, pa.types
    if kinds.is_null(kind):
        return pa.nulls(len(array), target.column.type.arrow), None
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return csv_texts(array.cast(pa.string()), target)
    if kinds.is_boolean(kind):
        return array, None
    if name == "char":
        return array, _mask(pc.equal(array, 0xFFFF), pc.is_in(array, _SURROGATES))
    if kinds.is_timestamp(kind) or kinds.is_date(kind):
        return _timestamps(array, target)
    if kinds.is_signed_integer(kind) or kind in (pa.uint8(), pa.uint16(), pa.uint32()):
        whole = array.cast(pa.int64())
        if name == "Instant":
            return scaled_instants(whole, target)
        return (
            narrow(whole, target)
            if name in INTEGER_BITS
            else floats(whole.cast(pa.float64(), safe=False), target, finite=False)
        )
    if kinds.is_floating(kind) and name in ("float", "double"):
        return floats(array.cast(pa.float64()), target, finite=False)
    return pa.nulls(len(array), target.column.type.arrow), array.is_valid().to_numpy(zero_copy_only=False)


_SURROGATES = pa.array(range(0xD800, 0xE000), pa.uint16())


def _timestamps(array: pa.Array, target: Target) -> Typed:
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        scaled = Target(target.column, target.source, array.type.unit, None, None, target.stored)
        return scaled_instants(array.view(pa.int64()), scaled)
    return pa.nulls(len(array), target.column.type.arrow), array.is_valid().to_numpy(zero_copy_only=False)


def _mask(*found: pa.BooleanArray) -> Mask | None:
    odd = np.zeros(len(found[0]), np.bool_)
    for array in found:
        odd |= array.fill_null(False).to_numpy(zero_copy_only=False)
    return odd if odd.any() else None


def _exact(array: pa.Array, row: int, target: Target, alias: bool) -> Value | Refusal:
    """One value of a Parquet column by the rules of ``ingest.exact``."""
    if not array[row].is_valid:
        return None
    kind, kinds = array.type, pa.types
    if kinds.is_timestamp(kind):
        count = array[row].value
        if kind.tz is not None:
            return check_instant(count * UNIT_NS[kind.unit], alias)
        return _local(count, UNIT_NS[kind.unit], target, alias)
    if kinds.is_date(kind):
        day: date = array[row].as_py()
        day = day.date() if isinstance(day, datetime) else day
        return _local(day.toordinal() - date(1970, 1, 1).toordinal(), 86_400 * UNIT_NS["s"], target, alias)
    value: Any = array[row].as_py()
    if isinstance(value, str):
        return from_text(value, target, alias)
    if target.column.type.name == "char":
        return from_json(chr(value), target, alias)
    if isinstance(value, float):
        if target.column.type.name in ("float", "double"):
            return from_json(Decimal(value), target, alias) if np.isfinite(value) else value
        value = Decimal(value) if np.isfinite(value) else Decimal("Infinity")
    return from_json(value, target, alias)


def _local(count: int, scale: int, target: Target, alias: bool) -> Value | Refusal:
    """A local time as the exact path reads its ISO text."""
    seconds, below = divmod(count * scale, 1_000_000_000)
    try:
        text = str(np.datetime64(seconds, "s"))
    except (OverflowError, ValueError):
        return check_instant(2**63, alias)
    iso = Target(target.column, target.source, "iso", target.zone, None, target.stored)
    return from_text(f"{text}.{below:09d}", iso, alias)
