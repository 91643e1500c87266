"""Protobuf payloads as records: one message each, by a descriptor set. ``binary_records`` makes rows of them.

A field that can be unset (a message, a wrapper, ``optional``, part of a oneof, all of proto2) and is so gives null, and
so do fields of a message that is unset. Any other field gives its value, or the default if the payload has none: it
cannot be distinguished. Enums are numbers, or names for a String; a Timestamp is an Instant, a wrapper what is in it.

A payload may be cut where a field ends: then it is a sound one. And an empty payload is a message with nothing set.

The compiled scanner finds fields by their numbers. It has no way for (ValueError): columns of fields in messages
inside, wrappers, repeated fields, enums by name, fields that a message must have, and those of which only one may be
set. Then all payloads go to the exact pass. Another message inside, or a repeated field, leaves those records in doubt
that have it.

The text of a message is made of a plain structure: messages by the names of the fields that are set. Well-known types
are what they stand for: a Timestamp is a time, a wrapper what is in it, a Struct an object. A Duration is written as
Protobuf's own JSON has it. Enums are names where the type has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from sparkhaven.ingest.formats.binary_records import NotARecordError, from_binary, message_indexes, schema_id
from sparkhaven.ingest.formats.json.field_paths import Path, path_of
from sparkhaven.ingest.formats.protobuf.message_type import (
    AS_TEXT,
    BOUNDS,
    DURATION,
    NESTED,
    TIMESTAMP,
    WRAPPERS,
    F,
    FieldPath,
    leaf_of,
    message_type,
)
from sparkhaven.ingest.formats.scan import RecordScanner, ScannerCache, WireField
from sparkhaven.ingest.spec import ProtobufSource, Target
from sparkhaven.ingest.values.instants import check_instant
from sparkhaven.ingest.values.json_text import Moment, NoTextError, WireValue
from sparkhaven.ingest.values.typed_rows import Refusal, Value, not_utf8
from sparkhaven.store.conversions.conversion_table import INTEGER_BITS
from sparkhaven.store.instants import NS_PER_SECOND, fraction_text
from sparkhaven.store.native.abi import (
    WIRE_BOOLEAN,
    WIRE_BYTES,
    WIRE_DOUBLE,
    WIRE_FIXED32,
    WIRE_FIXED64,
    WIRE_FLOAT,
    WIRE_INT,
    WIRE_LONG,
    WIRE_SFIXED32,
    WIRE_SFIXED64,
    WIRE_SINT,
    WIRE_SLONG,
    WIRE_STRING,
    WIRE_TIMESTAMP,
    WIRE_UINT,
    WIRE_ULONG,
)
from sparkhaven.store.quarantine.rejected_rows import Reason

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
        fields = ((_declared(of, field.message_type), inner) for of, inner in value.ListFields())
        return {_shown_name(of): structure(inner, of) for of, inner in fields}
    low, high = BOUNDS.get(field.type, (None, None))
    if low is not None and high is not None and not low <= value <= high:
        raise NoTextError(Refusal(Reason.OVERFLOW, f"a whole number from {low} to {high}"))
    if field.type == F.TYPE_ENUM:
        symbol = field.enum_type.values_by_number.get(value)
        return value if symbol is None else symbol.name
    if field.type == F.TYPE_STRING and isinstance(value, bytes):
        raise NoTextError(Refusal(Reason.NOT_UTF8, "text in UTF-8"))
    return value


def _declared(field: FieldDescriptor, message: Descriptor) -> FieldDescriptor:
    """A field of a wider copy as it was declared, in a message or as an extension of it."""
    extension = field.is_extension
    return (
        message.file.pool.FindExtensionByNumber(message, field.number)
        if extension
        else message.fields_by_name[field.name]
    )


def _shown_name(field: FieldDescriptor) -> str:
    """As Protobuf's own JSON has it."""
    return f"[{field.full_name}]" if field.is_extension else field.name


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


_KINDS: Mapping[int, int] = {
    F.TYPE_BOOL: WIRE_BOOLEAN,
    F.TYPE_INT32: WIRE_INT,
    F.TYPE_ENUM: WIRE_INT,
    F.TYPE_INT64: WIRE_LONG,
    F.TYPE_UINT32: WIRE_UINT,
    F.TYPE_UINT64: WIRE_ULONG,
    F.TYPE_SINT32: WIRE_SINT,
    F.TYPE_SINT64: WIRE_SLONG,
    F.TYPE_FIXED32: WIRE_FIXED32,
    F.TYPE_FIXED64: WIRE_FIXED64,
    F.TYPE_SFIXED32: WIRE_SFIXED32,
    F.TYPE_SFIXED64: WIRE_SFIXED64,
    F.TYPE_FLOAT: WIRE_FLOAT,
    F.TYPE_DOUBLE: WIRE_DOUBLE,
    F.TYPE_STRING: WIRE_STRING,
    F.TYPE_BYTES: WIRE_BYTES,
}


def protobuf_scanner(
    declared: Descriptor, targets: Sequence[Target], paths: Sequence[Path], leaves: Sequence[FieldPath], prefix: bytes
) -> RecordScanner:
    """The scanner for such messages behind ``prefix``; ValueError where there is none."""
    if not targets:
        raise ValueError("no field is wanted")
    _require_plain(declared, targets, leaves)
    fields = list(_fields(declared, {path[0] for path in paths}))
    return RecordScanner("sh_protobuf_scan", targets, paths, fields, prefix=prefix)


def _require_plain(declared: Descriptor, targets: Sequence[Target], leaves: Sequence[FieldPath]) -> None:
    if any(len(leaf.steps) > 1 or leaf.last.is_repeated for leaf in leaves):
        raise ValueError("a path leads into a message")
    if any(field.is_required for field in declared.fields):
        raise ValueError("required fields")
    if any(len(one.fields) > 1 for one in declared.oneofs) or declared.is_extendable:
        raise ValueError("fields of which one is set, or extensions")
    for target, leaf in zip(targets, leaves, strict=True):
        if leaf.last.type == F.TYPE_ENUM and target.column.type.name not in INTEGER_BITS:
            raise ValueError("the name of an enum")


def _fields(declared: Descriptor, wanted: set[str]) -> Iterator[WireField]:
    for field in declared.fields:
        kind = _KINDS.get(field.type)
        if field.type == F.TYPE_MESSAGE and field.message_type.full_name == TIMESTAMP:
            kind = WIRE_TIMESTAMP
        taken = field.name in wanted
        if kind is None or field.is_repeated:
            if taken:
                raise ValueError(f"field {field.name}")
            continue  # a message that has it is in doubt
        path = (field.name,) if taken else None
        unknown = "" if taken else field.name
        yield WireField(kind, path, int(field.has_presence), number=field.number, unknown=unknown)


Message = Any


class ProtobufRecords:
    """The messages of one stream; SettingsError if their schema does not fit the columns."""

    format = "Protobuf"
    not_a_record = Reason.NOT_PROTOBUF

    def __init__(
        self,
        targets: Sequence[Target],
        source: ProtobufSource,
        *,
        alias: bool = False,
        bytes_too: bool = False,
        framed: bool = False,
        compiled: bool = True,
    ) -> None:
        """``bytes_too``: bytes may be texts in UTF-8; ``framed``: payloads begin with the frame of a registry.

        Without ``compiled`` no scanner is used.
        """
        self._targets, self._alias, self._bytes_too, self._framed = tuple(targets), alias, bytes_too, framed
        self._type = message_type(source)
        self._leaves = [leaf_of(self._type.declared, target, source, bytes_too=bytes_too) for target in targets]
        self._paths = [path_of(target.source) for target in targets]
        self._compiled, self._scanners = compiled, ScannerCache(self._scanner_behind)

    def scanner(self, payload: bytes) -> RecordScanner | None:
        """That of messages with the frame of this one."""
        if not self._compiled:
            return None
        try:
            prefix = payload[: len(payload) - len(self._body(payload))] if self._framed else b""
        except NotARecordError:
            return None
        return self._scanners.of(prefix)

    def _scanner_behind(self, prefix: bytes) -> RecordScanner:
        return protobuf_scanner(self._type.declared, self._targets, self._paths, self._leaves, prefix)

    def read(self, payload: bytes) -> Message:
        message = self._type.parser()
        try:
            message.ParseFromString(self._body(payload) if self._framed else payload)
        except (DecodeError, UnicodeDecodeError) as error:
            raise NotARecordError(str(error)[:200]) from None
        if not message.IsInitialized():
            raise NotARecordError(f"it lacks {', '.join(message.FindInitializationErrors()[:5])}")
        odd = _other_wire(message, self._type.declared, self._paths)
        if odd:
            raise NotARecordError(f"field {odd} is of another type on the wire")
        return message

    def _body(self, payload: bytes) -> bytes:
        """What is behind the frame of a payload, if that names our type."""
        if schema_id(payload) is None:
            raise NotARecordError("it does not begin with a zero byte and the id of its schema")
        try:
            indexes, start = message_indexes(payload)
        except ValueError as error:
            raise NotARecordError(str(error)) from None
        if indexes not in self._type.indexes:
            ours = " or ".join(str(list(path)) for path in sorted(self._type.indexes))
            name = self._type.declared.full_name
            raise NotARecordError(f"its frame names message {list(indexes)} of its schema, {name} is {ours}")
        return payload[start:]

    def value(self, message: Message, index: int) -> Value | Refusal:
        leaf, target = self._leaves[index], self._targets[index]
        value = _field_value(message, leaf)
        if value is None:
            return None
        if leaf.kind in (AS_TEXT, NESTED):
            try:
                return from_binary(structure(value, leaf.last), target, self._alias)
            except NoTextError as error:
                return error.refusal
        if leaf.kind == "STRING" and isinstance(value, bytes):  # proto2 does not look when it parses
            return _not_text(value)
        if leaf.kind == TIMESTAMP:
            if not 0 <= value.nanos < NS_PER_SECOND:
                return no_timestamp(value.nanos)
            return check_instant(value.seconds * NS_PER_SECOND + value.nanos, target, self._alias)
        low, high = BOUNDS.get(leaf.last.type, (None, None))
        if low is not None and high is not None and not low <= value <= high:
            return Refusal(Reason.OVERFLOW, f"{leaf.kind.lower()}, a whole number from {low} to {high}")
        if leaf.kind == "ENUM" and (target.column.type.name == "String" or target.column.type.coding is not None):
            enum = leaf.last.enum_type
            symbol = enum.values_by_number.get(value)
            if symbol is None:
                return Refusal(Reason.NO_ENUM_VALUE, f"a value of {enum.full_name}", str(value))
            value = symbol.name
        return from_binary(value, target, self._alias, bytes_too=self._bytes_too)

    def shown(self, message: Message, index: int) -> str:
        value = _field_value(message, self._leaves[index])
        return str(value).strip() if self._leaves[index].kind in (TIMESTAMP, AS_TEXT, NESTED) else repr(value)

    def unknown(self, message: Message) -> list[str]:
        return list(dict.fromkeys(_unknown(message, self._paths, ())))

    def absent(self, message: Message) -> tuple[int, ...]:
        return ()  # a column without a field in the schema is an error of the settings


def _field_value(message: Message, leaf: FieldPath) -> Any:
    for name, unsettable in leaf.steps:
        if unsettable and not message.HasField(name):
            return None
        message = getattr(message, name)
    return message


def _not_text(value: bytes) -> Refusal:
    try:
        value.decode("utf-8")
    except UnicodeDecodeError as error:
        return not_utf8(error)
    return Refusal(Reason.WRONG_TYPE, "text in UTF-8", "bytes")


_WHOLE: Path = ()
"""What is left of a path that ends at a message: all of it is taken."""


def _inner(message: Message, declared: Descriptor, paths: Sequence[Path]) -> Iterator[tuple[str, Any, Any, list[Path]]]:
    """The messages inside that paths lead into: name, message, declared type, what is left of the paths."""
    whole = _WHOLE in paths
    for set_field, value in message.ListFields():
        name, deeper = set_field.name, [path[1:] for path in paths if path[:1] == (set_field.name,)]
        if set_field.message_type is None or not (whole or (deeper and not set_field.is_extension)):
            continue
        kind, left = _declared(set_field, declared).message_type, deeper + [_WHOLE] * whole
        if kind.GetOptions().map_entry:
            of_values = kind.fields_by_name["value"].message_type
            if of_values is not None:
                yield from ((name, value[key], of_values, left) for key in value)
        elif set_field.is_repeated:
            yield from ((name, element, kind, left) for element in value)
        else:
            yield name, value, kind, left


def _other_wire(message: Message, declared: Descriptor, paths: Sequence[Path], prefix: str = "") -> str:
    """A field whose number the schema has for another wire type. Parsers set it aside: it would look like unset."""
    for field in UnknownFieldSet(message):
        declared_field = declared.fields_by_number.get(field.field_number)
        if declared_field is not None:
            return f"{prefix}{declared_field.name}"
    for name, inner, type_of, deeper in _inner(message, declared, paths):
        odd = _other_wire(inner, type_of, deeper, f"{prefix}{name}.")
        if odd:
            return odd
    return ""


def _unknown(message: Message, paths: Sequence[Path], prefix: Path) -> list[str]:
    heads = {path[0] for path in paths if path}
    names = [str(field.field_number) for field in UnknownFieldSet(message)]
    if _WHOLE not in paths:
        names = [field.name for field, _ in message.ListFields() if field.name not in heads] + names
    unknown = [".".join((*prefix, name)) for name in names]
    for name, inner, _, deeper in _inner(message, message.DESCRIPTOR, paths):
        unknown += _unknown(inner, deeper, (*prefix, name))
    return unknown
