"""Values of Arrow columns as JSON and people have them.

A time of the day is an ISO text without zeros at its end, bytes are base64, a map is a dict by its keys. Instants and
dates that Python's own types cannot hold are ISO texts. Other values are as ``to_pylist`` gives them.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.framing.canonical import finite
from sparkhaven.store.instants import DAY_NS, UNIT_NS, clock_text, day_text, timestamp_text


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
