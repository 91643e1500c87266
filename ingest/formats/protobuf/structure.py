"""Protobuf values as plain structures, of which a text is made: messages by the names of the fields that are set.

Well-known types are what they stand for: a Timestamp is a time, a wrapper what is in it, a Struct an object. A Duration
is written as Protobuf's own JSON has it. Enums are names where the type has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from sparkhaven.ingest.formats.protobuf.message_type import BOUNDS, DURATION, TIMESTAMP, WRAPPERS, F
from sparkhaven.ingest.values.json_text import NoTextError
from sparkhaven.ingest.values.refusals import Refusal
from sparkhaven.ingest.values.wire_values import Moment, WireValue
from sparkhaven.store.instants import NS_PER_SECOND, fraction_text
from sparkhaven.store.quarantine.reasons import Reason

_MOST_NS = NS_PER_SECOND - 1
_STRUCT, _VALUE, _LIST = (f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))


def structure(value: Any, field: FieldDescriptor) -> Any:
    """The structure of a field's value; ``field`` as it was declared. NoTextError for a value that its type lacks."""
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        inner = field.message_type.fields_by_name["value"]
        return {_key(key): _one(value[key], inner) for key in value}
    return [_one(element, field) for element in value] if field.is_repeated else _one(value, field)


def _one(value: Any, field: FieldDescriptor) -> Any:
    if field.message_type is not None:
        special = _SPECIAL.get(field.message_type.full_name)
        if special is not None:
            return special(value)
        declared = field.message_type.fields_by_name
        return {set_field.name: structure(inner, declared[set_field.name]) for set_field, inner in value.ListFields()}
    low, high = BOUNDS.get(field.type, (None, None))
    if low is not None and high is not None and not low <= value <= high:
        raise NoTextError(Refusal(Reason.OVERFLOW, f"a whole number from {low} to {high}"))
    if field.type == F.TYPE_ENUM:
        symbol = field.enum_type.values_by_number.get(value)
        return value if symbol is None else symbol.name
    if field.type == F.TYPE_STRING and isinstance(value, bytes):
        raise NoTextError(Refusal(Reason.NOT_UTF8, "text in UTF-8"))
    return value


def no_timestamp(nanos: int) -> Refusal:
    """Why a Timestamp is refused that has so many nanoseconds."""
    return Refusal(Reason.NO_TIMESTAMP, "nanos from 0 to 999,999,999", f"nanos {nanos}")


def _key(key: Any) -> str:
    return ("true" if key else "false") if isinstance(key, bool) else str(key)


def _timestamp(value: Any) -> Moment:
    if not 0 <= value.nanos <= _MOST_NS:
        raise NoTextError(no_timestamp(value.nanos))
    return Moment("instant", value.seconds * NS_PER_SECOND + value.nanos, 1)


def _duration(value: Any) -> WireValue:
    if abs(value.nanos) > _MOST_NS or value.seconds * value.nanos < 0:
        expected = "nanos of the sign of the seconds"
        raise NoTextError(Refusal(Reason.NO_DURATION, expected, f"nanos {value.nanos}"))
    sign = "-" if value.seconds < 0 or value.nanos < 0 else ""
    return WireValue("duration", f"{sign}{abs(value.seconds)}{fraction_text(abs(value.nanos))}s")


def _object(value: Any) -> dict[str, Any]:
    return {name: _value(value.fields[name]) for name in value.fields}


def _list(value: Any) -> list[Any]:
    return [_value(element) for element in value.values]


def _value(value: Any) -> Any:
    kind = value.WhichOneof("kind")
    if kind in (None, "null_value"):
        return None
    inner = getattr(value, kind)
    return _object(inner) if kind == "struct_value" else _list(inner) if kind == "list_value" else inner


_SPECIAL: Mapping[str, Callable[[Any], Any]] = {
    TIMESTAMP: _timestamp,
    DURATION: _duration,
    **dict.fromkeys(WRAPPERS, attrgetter("value")),
    _STRUCT: _object,
    _VALUE: _value,
    _LIST: _list,
}
