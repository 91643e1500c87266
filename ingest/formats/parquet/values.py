"""Values of Parquet columns, whole and one by one: which types fit a column, and what becomes of each value."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.formats.parquet.text import time_text
from ingest.spec import Target
from ingest.values.columns import Mask, Typed, compact
from ingest.values.exact import INTEGER_BITS, from_json, from_text
from ingest.values.instants import UNIT_NS, check_instant, local_instant
from ingest.values.refusals import Refusal, Value
from ingest.values.typed import csv_texts, floats, narrow, scaled_instants
from store.errors import SchemaMismatchError
from store.types.frozen import frozen

DAY_NS = 86_400 * UNIT_NS["s"]


@frozen
class Source:
    """A column of a batch. ``far`` has, in ms, the timestamps of type INT96 that ``array`` cannot hold."""

    array: pa.Array
    far: pa.TimestampArray | None = None

    def scalar(self, row: int) -> pa.Scalar:
        """What stands in a row."""
        if self.far is not None and self.far[row].is_valid:
            return self.far[row]
        return self.array[row]


def show(value: pa.Scalar) -> str:
    """A value for people."""
    if value.is_valid and (pa.types.is_date(value.type) or pa.types.is_timestamp(value.type)):
        return time_text(value)
    return str(value)


def check_type(target: Target, found: pa.DataType, file: str, *, bytes_too: bool = False) -> None:
    """SchemaMismatchError for a type of which no value can ever fit the column."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    name = target.column.type.name
    kinds = pa.types
    text = kinds.is_string(found) or kinds.is_large_string(found) or (bytes_too and _is_bytes(found))
    loose = target.form is not None and (target.form.quoted or bool(target.form.true))
    number = kinds.is_integer(found) or kinds.is_floating(found) or kinds.is_decimal(found)
    if name in INTEGER_BITS or name in ("float", "double"):
        fits, expected = number or (text and loose), "a number"
    elif name == "Boolean":
        fits, expected = kinds.is_boolean(found) or (text and loose), "boolean"
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
            hint="map another column with `from`, or correct the producer"
            + ("; or set binary_as_text = true in [feed] if the bytes are texts" if _is_bytes(found) else ""),
        )


def typed_values(source: Source, target: Target) -> Typed:
    """Typed values and rows in doubt, as in ``ingest.values.typed``."""
    made, doubt = _typed(source.array, target)
    if source.far is not None:
        far = source.far.is_valid().to_numpy(zero_copy_only=False)
        doubt = far if doubt is None else doubt | far
    return made, doubt


def _typed(array: pa.Array, target: Target) -> Typed:
    name, kind, kinds = target.column.type.name, array.type, pa.types
    if kinds.is_null(kind):
        return pa.nulls(len(array), target.column.type.arrow), None
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return _texts(array.cast(pa.string()), target)
    if _is_bytes(kind):
        return _bytes(array.cast(pa.binary()), target)
    if kinds.is_boolean(kind):
        return array, None
    if name == "char":
        return array, _mask(pc.equal(array, 0xFFFF), _surrogates(array))
    if kinds.is_timestamp(kind) and kind.tz is not None:
        return scaled_instants(array.view(pa.int64()), replace(target, unit=kind.unit))
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


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _texts(texts: pa.StringArray, target: Target) -> Typed:
    if target.form is not None and target.form.quoted:
        texts = compact(pc.if_else(pc.equal(texts, ""), None, texts))
    return csv_texts(texts, target)


def _bytes(array: pa.BinaryArray, target: Target) -> Typed:
    """Bytes as texts; those that are not UTF-8 are in doubt."""
    try:
        return _texts(array.cast(pa.string()), target)
    except pa.ArrowInvalid:
        odd = np.array([not _is_utf8(value) for value in array.to_pylist()], np.bool_)
    made, doubt = _texts(pc.if_else(pa.array(odd), None, array).cast(pa.string()), target)
    return made, odd if doubt is None else doubt | odd


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _surrogates(array: pa.UInt16Array) -> pa.BooleanArray:
    return pc.and_(pc.greater_equal(array, 0xD800), pc.less(array, 0xE000))


def _mask(*found: pa.BooleanArray) -> Mask | None:
    odd = np.zeros(len(found[0]), np.bool_)
    for array in found:
        odd |= array.fill_null(False).to_numpy(zero_copy_only=False)
    return odd if odd.any() else None


def exact_value(source: Source, row: int, target: Target, alias: bool) -> Value | Refusal:
    """One value of a Parquet column by the rules of ``ingest.values.exact``."""
    scalar = source.scalar(row)
    if not scalar.is_valid:
        return None
    kind, kinds = scalar.type, pa.types
    if kinds.is_timestamp(kind):
        count = scalar.value * UNIT_NS[kind.unit]
        return check_instant(count, target, alias) if kind.tz is not None else local_instant(count, target, alias)
    if kinds.is_date(kind):
        return local_instant(scalar.value * (DAY_NS if kinds.is_date32(kind) else UNIT_NS["ms"]), target, alias)
    value: Any = scalar.as_py()
    if isinstance(value, bytes):
        try:
            value = value.decode("utf-8")
        except UnicodeDecodeError as error:
            return Refusal(f"not UTF-8 (at byte {error.start})", "text in UTF-8")
    if isinstance(value, str):
        return None if target.form is not None and target.form.quoted and not value else from_text(value, target, alias)
    if target.column.type.name == "char":
        return from_json(chr(value), target, alias)
    if isinstance(value, float):
        if target.column.type.name in ("float", "double"):
            return from_json(Decimal(value), target, alias) if np.isfinite(value) else value
        value = Decimal(value) if np.isfinite(value) else Decimal("Infinity")
    return from_json(value, target, alias)
