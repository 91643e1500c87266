"""Streams the rows of a read into one Parquet, CSV or Arrow file, in constant memory; values as JSON and people have.

As JSON a time of the day is an ISO text without zeros at its end, bytes are base64, a map is a dict by its keys.
Instants and dates that Python's own types cannot hold are ISO texts. Other values are as ``to_pylist`` gives them.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.errors import SettingsError
from sparkhaven.store.framing import finite
from sparkhaven.store.instants import DAY_NS, UNIT_NS, clock_text, day_text, timestamp_text
from sparkhaven.store.io.read_only_roots import refuse_change


def cell_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column."""
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in cell_values(chunk)]
    kind, kinds = column.type, pa.types
    if kinds.is_time(kind):
        if (pc.max(column.cast(pa.int64() if kind.bit_width == 64 else pa.int32())).as_py() or 0) >= _day(kind):
            return [None if count is None else clock_text(count) for count in _nanoseconds(column)]  # 24:00
        texts = pc.replace_substring_regex(column.cast(pa.string()), r"\.?0+$", "")
        return list((texts if _has_fraction(kind) else column.cast(pa.string())).to_pylist())
    if kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind):
        return [None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()]
    if kinds.is_map(kind):
        return [_map(scalar) if scalar.is_valid else None for scalar in column]
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        return [cell_values(scalar.values) if scalar.is_valid else None for scalar in column]
    if kinds.is_struct(kind):
        fields = {field.name: cell_values(array) for field, array in zip(kind, column.flatten(), strict=True)}
        rows = (dict(zip(fields, row, strict=True)) for row in zip(*fields.values(), strict=True))
        return [row if valid else None for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)]
    return _far(column) if kinds.is_date(kind) or kinds.is_timestamp(kind) else list(column.to_pylist())


def _day(kind: pa.DataType) -> int:
    return DAY_NS // UNIT_NS[kind.unit]


def _nanoseconds(column: pa.Array) -> list[int | None]:
    counts = column.cast(pa.int64() if column.type.bit_width == 64 else pa.int32()).to_pylist()
    return [None if count is None else count * UNIT_NS[column.type.unit] for count in counts]


def _has_fraction(kind: pa.DataType) -> bool:
    return str(kind) != "time32[s]"


def _map(scalar: pa.MapScalar) -> dict[Any, Any]:
    keys, items = (cell_values(scalar.values.field(index)) for index in range(2))
    return dict(zip(keys, items, strict=True))


def _far(column: pa.Array) -> list[Any]:
    """Dates and timestamps; as texts, if Python's types cannot hold all of them."""
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):  # nanoseconds: PyArrow would need pandas, which commands do without
        if pa.types.is_date(column.type):
            days = column.cast(pa.date32()).view(pa.int32()).to_pylist()
            return [None if day is None else day_text(day) for day in days]
        unit, zone = column.type.unit, "" if column.type.tz is None else "+00:00"
        counts = column.view(pa.int64()).to_pylist()
        return [None if count is None else f"{timestamp_text(count, unit)}{zone}" for count in counts]


def nested_text(value: object) -> str:
    """A list or dict of such values as JSON; what JSON has no number for is a text."""
    return json.dumps(finite(value), ensure_ascii=False, default=_text)


def _text(value: object) -> str:
    isoformat = getattr(value, "isoformat", None)
    return str(isoformat()) if isoformat else str(value)


def is_written_as_text(kind: pa.DataType) -> bool:
    """Whether a file of texts has values of a type as ``cell_values`` gives them."""
    kinds = pa.types
    of_bytes = kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind)
    return bool(kinds.is_time(kind) or of_bytes or kinds.is_nested(kind))


def value_texts(column: pa.Array) -> pa.StringArray:
    """Values of such a type as texts; nested ones as JSON."""
    values = cell_values(column)
    return pa.array([value if value is None or isinstance(value, str) else nested_text(value) for value in values])


FIRST_DAY, LAST_DAY = -12_687_428, 11_248_737  # -32767-01-01 and 32767-12-31


class BatchWriter(Protocol):
    """The common interface of the writers of pyarrow."""

    def write_batch(self, batch: pa.RecordBatch) -> None: ...


def _parquet(path: Path, schema: pa.Schema) -> AbstractContextManager[BatchWriter]:
    from pyarrow import parquet  # most reads write no file

    return parquet.ParquetWriter(path, schema, compression="zstd")  # type: ignore[no-any-return]


def _csv(path: Path, schema: pa.Schema) -> AbstractContextManager[BatchWriter]:
    return CsvFile(path, schema)


class CsvFile:
    """CSV of any rows: what has no form there is a text, as ``cell_values`` says."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        from pyarrow import csv  # most reads write no file

        fields = [field.with_type(pa.string()) if is_written_as_text(field.type) else field for field in schema]
        self._schema = pa.schema(fields)
        self._writer = csv.CSVWriter(path, self._schema)

    def __enter__(self) -> CsvFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            _refuse_far(name, array)
        columns = [value_texts(array) if is_written_as_text(array.type) else array for array in batch.columns]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))


def _refuse_far(name: str, column: pa.Array) -> None:
    """SettingsError for a year that Arrow's CSV does not write."""
    kind, kinds = column.type, pa.types
    if not kinds.is_date(kind) and not kinds.is_timestamp(kind):
        return
    ends = pc.min_max(column.cast(pa.int32() if kinds.is_date32(kind) else pa.int64()))
    day = 1 if kinds.is_date32(kind) else DAY_NS // UNIT_NS["ms" if kinds.is_date64(kind) else kind.unit]
    for end in (ends["min"].as_py(), ends["max"].as_py()):
        if end is not None and not FIRST_DAY <= end // day <= LAST_DAY:
            raise SettingsError(
                "CSV has no form for a date or time of this year",
                where=f"column {name}",
                expected="years from -32767 to 32767",
                found=day_text(end // day),
                hint="write .parquet or .arrow, or leave such rows out",
            )


WRITERS: dict[str, Callable[[Path, pa.Schema], AbstractContextManager[BatchWriter]]] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".arrow": pa.ipc.new_file,
}


def check_target(path: Path) -> Path:
    """A path that ``export`` can write.

    SettingsError for another suffix, a missing directory, or a root that is never written above it.
    """
    if path.suffix not in WRITERS:
        raise SettingsError(
            "the file name has no known ending",
            where=path,
            expected="a name that ends in " + ", ".join(WRITERS),
            found=path.suffix or "no suffix",
        )
    if not path.parent.is_dir():
        raise SettingsError("no such directory", where=path.parent, hint="create it first")
    refuse_change(path)
    return path


def export(batches: pa.RecordBatchReader, path: Path) -> int:
    """Writes all batches and returns their rows; the file appears atomically.

    ``batches`` must have plain string columns (``to_batches(dictionaries=False)``): neither CSV nor an Arrow file
    can hold a dictionary that changes from batch to batch. In CSV a null is an empty field, an empty string ``""``;
    bytes are base64, lists and maps JSON.
    """
    check_target(path)
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    rows = 0
    try:
        with WRITERS[path.suffix](temporary, batches.schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return rows
