"""Values of columns whose type has a codec (dates, decimals, arrays, ...), one by one and whole.

What a value is, the codings of ``store.types.codings`` say; here is what each kind of source gives them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.values.arrow_columns import Mask, Typed, either, some
from sparkhaven.ingest.values.nested_values import Element, nested_value
from sparkhaven.ingest.values.refusals import Refusal, Value
from sparkhaven.ingest.values.strict_json import strict_json
from sparkhaven.ingest.values.wire_values import Moment, MomentKind
from sparkhaven.store.conversions.coded_arrays import coded_array
from sparkhaven.store.conversions.source_types import Group, source_of
from sparkhaven.store.instants import DAY_NS, UNIT_NS
from sparkhaven.store.native.blobs import unstorable_values
from sparkhaven.store.native.json_lists import BASE64, byte_values
from sparkhaven.store.quarantine.reasons import Reason
from sparkhaven.store.types.codings.byte_array import is_bytes
from sparkhaven.store.types.codings.coding import Coding, Unfit, UnfitError

STRUCTURED = ("array", "object")
_MOMENTS: dict[Group, MomentKind] = {Group.TIMESTAMP: "instant", Group.LOCAL: "local time", Group.DATE: "date"}
_NUMBER = {32: pa.int32(), 64: pa.int64()}
_REASONS = {
    Unfit.NO_VALUE: Reason.NO_VALUE_OF_TYPE,
    Unfit.OVERFLOW: Reason.OVERFLOW,
    Unfit.NOT_EXACT: Reason.NOT_EXACT,
}


def coded_json(value: Any, coding: Coding, alias: bool, element: Element) -> Value | Refusal:
    """A JSON value other than null; ``element`` has the rules for elements of arrays and values of maps."""
    return _storable(unstored_json(value, coding, alias, element), coding)


def unstored_json(value: Any, coding: Coding, alias: bool, element: Element) -> Value | Refusal:
    """The same, where whoever calls asks the coding whether it can be stored."""
    if coding.elements is not None:
        taken: Value | Refusal = nested_value(value, coding, coding.elements, alias, element)
        return taken
    try:
        parsed: Value = coding.from_json(value)
        return parsed
    except UnfitError as error:
        return Refusal(_REASONS[error.why], error.expected)


def coded_text(text: str, coding: Coding, alias: bool, element: Element) -> Value | Refusal:
    """A field of a CSV file, or a text of another source. Arrays and maps are written as JSON."""
    if coding.json in STRUCTURED and ("text" not in coding.sources or text.startswith("[")):
        try:
            return coded_json(strict_json(text), coding, alias, element)
        except (ValueError, RecursionError):
            return Refusal(Reason.NO_VALUE_OF_TYPE, f"{coding.domain}, as JSON")
    try:
        return _storable(coding.parse(text), coding)
    except UnfitError as error:
        return Refusal(_REASONS[error.why], error.expected)


def coded_value(value: Any, coding: Coding, alias: bool, element: Element) -> Value | Refusal:
    """A value of a source with types of its own: a moment, a number, bytes, a list, a dict or a text."""
    if isinstance(value, Moment):
        if value.kind == "date" and pa.types.is_date(coding.arrow):
            return _of_type(value.ns // DAY_NS, pa.int32(), coding)
        if value.kind == "time of day" and pa.types.is_time(coding.arrow):
            return _of_type(value.ns, pa.int64(), coding)
        return Refusal(Reason.WRONG_TYPE, coding.domain, value.kind)
    if isinstance(value, bytes | bytearray):
        return (
            _of_type(bytes(value), pa.binary(), coding) if pa.types.is_binary(coding.arrow) else _wrong(value, coding)
        )
    if isinstance(value, str) and "text" not in coding.sources:
        return _wrong(value, coding)
    if isinstance(value, list) and "nested" not in coding.sources:
        return _wrong(value, coding)
    return _wrong(value, coding) if isinstance(value, float) else coded_json(value, coding, alias, element)


def _wrong(value: Any, coding: Coding) -> Refusal:
    names = {"bytearray": "bytes", "str": "text", "float": "floating number", "list": "array"}
    return Refusal(Reason.WRONG_TYPE, coding.domain, names.get(type(value).__name__, type(value).__name__))


def _of_type(value: Any, kind: pa.DataType, coding: Coding) -> Value | Refusal:
    """A value of a source's Arrow type, converted; what the column is not able to hold is refused."""
    try:
        plain = pa.array([value], kind)
    except (pa.ArrowException, OverflowError):
        return Refusal(Reason.OVERFLOW, coding.domain)
    return _alone(plain if pa.types.is_binary(kind) else plain.view(coding.arrow), coding)


def _alone(array: pa.Array, coding: Coding) -> Value | Refusal:
    """The value of an array of one. Dates and times are numbers, since Python has not all of them."""
    values, doubt = _converted(array, coding)
    if doubt is not None and doubt[0]:
        reason = Reason.NO_VALUE_OF_TYPE if is_bytes(array.type) else Reason.NOT_EXACT
        return Refusal(
            reason, coding.domain, "" if is_bytes(array.type) else str(array.view(_NUMBER[array.type.bit_width])[0])
        )
    taken: Value = values[0].value if pa.types.is_temporal(coding.arrow) else values[0].as_py()
    return taken


def _storable(value: Value | Refusal, coding: Coding) -> Value | Refusal:
    """The value, or why no bytes can be made of it. Only arrays, maps and bytes can be values and yet have none."""
    if isinstance(value, Refusal) or not (pa.types.is_nested(coding.arrow) or pa.types.is_binary(coding.arrow)):
        return value
    try:
        unstorable = coding.unstorable(pa.array([value], coding.arrow))
    except (pa.ArrowException, UnicodeEncodeError, OverflowError):
        return Refusal(Reason.NO_VALUE_OF_TYPE, coding.domain)
    return value if unstorable is None else Refusal(Reason.NO_VALUE_OF_TYPE, coding.domain)


def coded_texts(texts: pa.StringArray, coding: Coding) -> Typed:
    """Whole columns of CSV fields; null texts are null already."""
    values, doubt = byte_values(texts, BASE64) if pa.types.is_binary(coding.arrow) else coding.parse_all(texts)
    return stored(values, coding, doubt)


def coded_column(array: pa.Array, coding: Coding) -> Typed:
    """A whole column of a typed source; values that the column cannot hold are in doubt."""
    return _converted(array, coding)


def coded_scalar(scalar: pa.Scalar, coding: Coding, alias: bool, element: Element) -> Value | Refusal:
    """One value of a typed source, which is in doubt."""
    kinds, kind = pa.types, scalar.type
    if kinds.is_map(kind):
        return coded_json(dict(scalar.as_py()), coding, alias, element)  # the last value of a key counts
    if kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_integer(kind) or kinds.is_decimal(kind):
        return coded_json(scalar.as_py(), coding, alias, element)
    if hasattr(kind, "value_type") and (moment := _MOMENTS.get(source_of(kind.value_type).group)) is not None:
        unit = _unit_ns(kind.value_type)
        moments = [Moment(moment, item.value, unit) if item.is_valid else None for item in scalar.values]
        return coded_value(moments, coding, alias, element)
    if kinds.is_nested(kind):
        return (
            Refusal(Reason.WRONG_TYPE, coding.domain)
            if kinds.is_struct(kind)
            else coded_value(scalar.as_py(), coding, alias, element)
        )
    return _alone(pa.repeat(scalar, 1), coding)


def _unit_ns(kind: pa.DataType) -> int:
    """Nanoseconds of one of the counts that dates and timestamps are."""
    if pa.types.is_date(kind):
        return DAY_NS if pa.types.is_date32(kind) else UNIT_NS["ms"]
    return UNIT_NS[kind.unit]


def _converted(array: pa.Array, coding: Coding) -> Typed:
    try:
        values, doubt = coded_array(array, coding)
    except UnfitError:
        return pa.nulls(len(array), coding.arrow), some(np.asarray(array.is_valid()))
    return stored(values, coding, doubt)


def stored(values: pa.Array, coding: Coding, doubt: Mask | None) -> Typed:
    """A whole column; values of which no bytes can be made are in doubt, too."""
    unstorable = unstorable_values(values, coding)
    if unstorable is not None and not coding.has_null:  # the router refuses null
        unstorable = some(unstorable & np.asarray(values.is_valid()))
    return values, either(doubt, unstorable)
