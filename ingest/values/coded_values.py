"""Values of columns whose type has a codec (dates, decimals, arrays, ...), one by one and whole.

What a value is, the codings of ``store.types.codings`` say; here is what each kind of source gives them.

Elements of arrays and maps that have a plain type follow the rules of a column of that type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.spec import Target
from sparkhaven.ingest.values.arrow_columns import Mask, Typed, either, some
from sparkhaven.ingest.values.json_text import Moment, MomentKind, strict_json
from sparkhaven.ingest.values.typed_rows import Refusal, Value
from sparkhaven.store.conversions.conversion_table import Group, source_of
from sparkhaven.store.conversions.number_arrays import coded_array
from sparkhaven.store.instants import DAY_NS, UNIT_NS
from sparkhaven.store.native.codings import unstorable_values
from sparkhaven.store.native.json_lists import BASE64, byte_values
from sparkhaven.store.quarantine.rejected_rows import Reason
from sparkhaven.store.types.codings.byte_array import is_bytes
from sparkhaven.store.types.codings.coding import Coding, Unfit, UnfitError
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage

Element = Callable[[Any, Target, bool], Value | Refusal]
"""The value of an element for the column of its type, by the rules of a source."""


@lru_cache(maxsize=16)
def element_target(name: str) -> Target:
    """The column that an element of this plain type could be of."""
    column = Column("element", data_type(name), Kind.NORMAL, Storage.FIXED, -1, None)
    return Target(column, "element", "iso", None, None, False)


def has_settings(target: Target) -> bool:
    """Whether a column has settings that its elements follow, if it has any."""
    return target.unit != "iso" or (target.zone, target.far, target.form) != (None, None, None)


def with_settings(take: Element, target: Target) -> Element:
    """The rules of a source for elements of a column with settings of its own."""
    if not has_settings(target):
        return take

    def taken(value: Any, element: Target, alias: bool) -> Value | Refusal:
        one = replace(element, unit=target.unit, zone=target.zone, far=target.far, form=target.form)
        return take(value, one, alias)

    return taken


def nested_value(value: Any, coding: Coding, name: str, alias: bool, element: Element) -> Any:
    """A list or dict as a column of the coding has it, or why it is refused. ``name``: the plain type of elements."""
    if coding.json == "object":
        return _map(value, coding, name, alias, element)
    if not isinstance(value, list):
        return Refusal(Reason.NO_VALUE_OF_TYPE, coding.domain)
    values = []
    for given in value:
        taken = element(given, element_target(name), alias)
        if isinstance(taken, Refusal):
            return _within(taken, coding)
        if taken is None and name == "Boolean":
            return Refusal(Reason.NO_VALUE_OF_TYPE, coding.domain)
        values.append(taken)
    return values


def _map(value: Any, coding: Coding, name: str, alias: bool, element: Element) -> Any:
    if not isinstance(value, dict):
        return Refusal(Reason.NO_VALUE_OF_TYPE, coding.domain)
    entries = []
    for key, given in value.items():
        taken = element(given, element_target(name), alias)
        if isinstance(taken, Refusal):
            return _within(taken, coding)
        entries.append((key, taken))
    return entries


def _within(refusal: Refusal, coding: Coding) -> Refusal:
    return replace(refusal, expected=f"{coding.domain}, each {refusal.expected}")


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
    """A JSON value other than null; the caller asks the coding whether it can be stored."""
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
