"""The message type of Protobuf payloads, from a FileDescriptorSet, and the fields in it that columns come from.

Parsers of Protobuf cut a number that is too long for its field, and set aside the value of a closed enum that they do
not know, without a word. So payloads are parsed by a wider copy of the type, in which 32-bit numbers that are varints,
and enums, have 64 bits; on the wire they look the same. What the field was declared as is then held against the value.

What cannot be is found here, before anything is read: a field that is not there, or of a type that the column cannot
take (see ``store.conversions``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from sparkhaven.ingest.formats.json.field_paths import path_of
from sparkhaven.ingest.spec import ProtobufSource, Target
from sparkhaven.ingest.values.instants import UNITS_OF, count_target, is_counted
from sparkhaven.store.conversions import conversion_table
from sparkhaven.store.conversions.conversion_table import INTEGER_BITS, column_rule, rule
from sparkhaven.store.errors import SettingsError

F = FieldDescriptor
TIMESTAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_WIDER = {F.TYPE_INT32: F.TYPE_INT64, F.TYPE_UINT32: F.TYPE_UINT64, F.TYPE_SINT32: F.TYPE_SINT64}
_WIDER[F.TYPE_ENUM] = F.TYPE_INT64
BOUNDS = {F.TYPE_UINT32: (0, 2**32 - 1), F.TYPE_INT32: (-(2**31), 2**31 - 1)}
BOUNDS |= {F.TYPE_SINT32: BOUNDS[F.TYPE_INT32], F.TYPE_ENUM: BOUNDS[F.TYPE_INT32]}

_INTEGERS = ("INT32", "INT64", "UINT32", "UINT64", "SINT32", "SINT64", "FIXED32", "FIXED64", "SFIXED32", "SFIXED64")
AS_TEXT = "TEXT"  # kind of a leaf of which a String takes the text, whatever it is
NESTED = "NESTED"  # of one whose elements go into an array or map
LIST, STRUCT = "google.protobuf.ListValue", "google.protobuf.Struct"
_SOURCES = {
    **dict.fromkeys(_INTEGERS, conversion_table.INT64),
    **dict.fromkeys(("FLOAT", "DOUBLE"), conversion_table.FLOAT64),
    "BOOL": conversion_table.BOOLEAN,
    "STRING": conversion_table.TEXT,
    "ENUM": conversion_table.TEXT,
    "BYTES": conversion_table.BYTES,
}
_NAMES = {getattr(F, f"TYPE_{name}"): name for name in (*_SOURCES, "MESSAGE", "GROUP")}
_HOW = "protoc --include_imports --descriptor_set_out=FILE.desc FILE.proto"


@dataclass(frozen=True, slots=True)
class MessageType:
    """A type as it was declared, and its wider copy with the class that parses it.

    ``indexes`` are its places in its file and in the messages around it. Serializers differ in whether entries of maps
    count, so there may be two.
    """

    declared: Descriptor
    wide: Descriptor
    parser: Any
    indexes: frozenset[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class FieldPath:
    """The field that a column comes from: the fields on the way to it, the last one as declared, and its kind.

    ``steps`` are (name, whether it can be unset); ``kind`` is its type, ``AS_TEXT`` or ``NESTED``.
    """

    steps: tuple[tuple[str, bool], ...]
    last: FieldDescriptor
    kind: str


@lru_cache(maxsize=16)
def message_type(source: ProtobufSource) -> MessageType:
    """The type that payloads are of; SettingsError if the file is no descriptor set or the type is not in it."""
    files = _files(source)
    declared = _pool(files, source)
    wide = _pool([_widened(file) for file in files], source)
    name = source.message.removeprefix(".")
    try:
        message, copy = declared.FindMessageTypeByName(name), wide.FindMessageTypeByName(name)
    except KeyError:
        names = sorted(full_name for file in files for full_name in _names(file.package, file.message_type))
        raise SettingsError(
            "the descriptor set has no such message",
            where=source.where,
            expected=", ".join(names[:20]) + ("" if len(names) <= 20 else ", ..."),
            found=source.message,
            hint="name it with its package, like pkg.Trade",
        ) from None
    return MessageType(message, copy, message_factory.GetMessageClass(copy), _indexes(message))


def _indexes(declared: Descriptor) -> frozenset[tuple[int, ...]]:
    file = descriptor_pb2.FileDescriptorProto()
    declared.file.CopyToProto(file)
    names = declared.full_name.removeprefix(f"{file.package}." if file.package else "").split(".")
    every: list[int] = []
    own: list[int] = []
    siblings: Sequence[descriptor_pb2.DescriptorProto] = file.message_type
    for name in names:
        every.append([message.name for message in siblings].index(name))
        written = [message.name for message in siblings if not message.options.map_entry]
        own.append(written.index(name))
        siblings = siblings[every[-1]].nested_type
    return frozenset({tuple(every), tuple(own)})


def leaf_of(declared: Descriptor, target: Target, source: ProtobufSource, *, bytes_too: bool = False) -> FieldPath:
    """Where the values of a column come from; ``bytes_too``: bytes may be texts in UTF-8.

    SettingsError if there is no such field, or it does not fit.
    """
    path = path_of(target.source)
    here, steps = declared, []
    for depth, name in enumerate(path):
        field = here.fields_by_name.get(name)
        if field is None:
            raise _unfit(
                target,
                source,
                "has no field in the message",
                ", ".join(sorted(here.fields_by_name)) or "no field at all",
                f"{'.'.join(path[: depth + 1])} in {here.full_name}",
                "name the field with `from` under [columns], as the .proto spells it",
            )
        steps.append((name, field.has_presence))
        inner = field.message_type
        structured = target.column.type.coding is not None and "nested" in target.column.type.coding.sources
        if field.is_repeated and not ((target.as_text or structured) and depth + 1 == len(path)):
            hint = "take the column out, or send one value a message"
            raise _unfit(target, source, "comes from a repeated field", "a field with one value", target.source, hint)
        if depth + 1 < len(path):
            if inner is None:
                hint = "a dot leads into a message. Write \\. for a dot in a name"
                raise _unfit(target, source, "has a path through no message", "a message", f"field {name}", hint)
            here = inner
    if target.as_text and (field.type != F.TYPE_STRING or field.is_repeated):
        return FieldPath(tuple(steps), field, AS_TEXT)
    if target.column.type.coding is not None and "nested" in target.column.type.coding.sources:
        return _nested(tuple(steps), field, target, source)
    if inner is not None and inner.full_name in WRAPPERS:
        field = inner.fields_by_name["value"]
        steps.append(("value", False))
    kind = TIMESTAMP if inner is not None and inner.full_name == TIMESTAMP else _NAMES.get(field.type, "")
    fitted = "STRING" if kind == "BYTES" and bytes_too else kind
    _check_fit(target, source, fitted, inner if kind in ("MESSAGE", "GROUP") else None)
    return FieldPath(tuple(steps), field, kind)


def _nested(
    steps: tuple[tuple[str, bool], ...], field: FieldDescriptor, target: Target, source: ProtobufSource
) -> FieldPath:
    """A repeated field or a map whose elements an array or map takes; a ListValue or Struct, of which each is asked."""
    coding, inner = target.column.type.coding, field.message_type
    assert coding is not None  # noqa: S101
    entry = inner is not None and bool(inner.GetOptions().map_entry)
    if inner is not None and not field.is_repeated and inner.full_name == (STRUCT if coding.json == "object" else LIST):
        return FieldPath(steps, field, NESTED)
    element = inner.fields_by_name["value"] if entry and inner is not None else field
    if element.message_type is not None and element.message_type.full_name in WRAPPERS:
        element = element.message_type.fields_by_name["value"]
    kind = _NAMES.get(element.type, "")
    moment = element.message_type is not None and element.message_type.full_name == TIMESTAMP
    known = conversion_table.TIMESTAMP if moment else _SOURCES.get(kind)
    options = frozenset({"unit"} if target.unit != "iso" else ())
    cell = None if known is None or known is conversion_table.BYTES else rule(known, coding.elements or "String")
    fits = cell is not None and cell.takes(options)
    keys = not entry or (inner is not None and inner.fields_by_name["key"].type == F.TYPE_STRING)
    if not (fits and keys and field.is_repeated and entry == (coding.json == "object")):
        shown = f"{'map' if entry else 'repeated' if field.is_repeated else 'single'} {kind.lower()}"
        hint = "choose another field with `from`, or another type in the schema"
        raise _unfit(
            target, source, f"of type {target.column.type.name} cannot take the field", coding.domain, shown, hint
        )
    return FieldPath(steps, field, NESTED)


def _check_fit(target: Target, source: ProtobufSource, kind: str, inner: Descriptor | None) -> None:
    if is_counted(target):
        target = count_target(target)
    name = target.column.type.name
    iso = target.unit == "iso"
    coded = _SOURCES.get(kind) if target.column.type.coding is not None else None
    if coded is not None and column_rule(coded, target.column.type).takes():
        return
    if _takes(kind, name) and (name != "Instant" or kind == TIMESTAMP or iso == (kind == "STRING")):
        return
    hint = "choose another field with `from`, or another type in the schema"
    if inner is not None:
        hint = f"name a field in it, like {target.source}.{next(iter(inner.fields_by_name), 'field')}"
    elif kind == "BYTES":
        hint = "set binary_as_text = true in [feed] if the bytes are texts, or as_text = true for base64"
    elif name in UNITS_OF and kind in _INTEGERS and iso:
        hint = 'say what the number counts: unit = "s", "ms", "us" or "ns"'
    shown = inner.full_name if inner is not None else kind.lower()
    unit = "" if iso or name != "Instant" else f" in {target.unit}"
    expected = ", ".join(sorted(field.lower() for field in _SOURCES if _takes(field, name)))
    text = f"of type {name}{unit} cannot take the field"
    raise _unfit(target, source, text, f"{expected}{f' or {TIMESTAMP}' * (name == 'Instant')}", shown, hint)


def _takes(kind: str, name: str) -> bool:
    """Whether a column of this plain type takes a field of this kind; an Instant takes numbers by its unit."""
    if kind == "ENUM":
        return name == "String" or name in INTEGER_BITS
    source = conversion_table.TIMESTAMP if kind == TIMESTAMP else _SOURCES.get(kind)
    return source is not None and rule(source, name).takes(frozenset({"unit"}))


def _unfit(target: Target, source: ProtobufSource, text: str, expected: str, found: str, hint: str) -> SettingsError:
    where = f"{source.where}: {source.message}"
    return SettingsError(f"column {target.column.name} {text}", where=where, expected=expected, found=found, hint=hint)


def _files(source: ProtobufSource) -> Sequence[descriptor_pb2.FileDescriptorProto]:
    descriptor_set = descriptor_pb2.FileDescriptorSet()
    try:
        descriptor_set.ParseFromString(source.definition)
        files = list(descriptor_set.file)
        sound = bool(files) and all(file.name for file in files)
    except (DecodeError, UnicodeDecodeError):
        sound = False
    if not sound or source.where.endswith(".proto"):
        text = source.where.endswith(".proto")
        raise SettingsError(
            "the schema of Protobuf payloads is not compiled" if text else "no descriptor set",
            where=source.where,
            expected="a FileDescriptorSet, which protoc makes of .proto files",
            found="the text of a .proto file" if text else f"{len(source.definition)} bytes that are none",
            hint=f"{_HOW}, and name FILE.desc in `protobuf`",
        )
    return files


def _pool(files: Sequence[descriptor_pb2.FileDescriptorProto], source: ProtobufSource) -> Any:
    pool, waiting = descriptor_pool.DescriptorPool(), {file.name: file for file in files}

    def add(name: str) -> None:
        file = waiting.pop(name, None)
        if file is not None:
            for needed in file.dependency:
                add(needed)
            pool.AddSerializedFile(file.SerializeToString())

    try:
        for file in files:
            add(file.name)
    except TypeError as error:
        raise SettingsError(
            "the descriptor set is not complete",
            where=source.where,
            expected="all files that its files import",
            found=str(error)[:300],
            hint=_HOW,
        ) from None
    return pool


def _widened(file: descriptor_pb2.FileDescriptorProto) -> descriptor_pb2.FileDescriptorProto:
    copy = descriptor_pb2.FileDescriptorProto()
    copy.CopyFrom(file)
    fields = [*copy.extension]
    for message in _messages(copy.message_type):
        fields += [*message.field, *message.extension]
    for field in fields:
        if field.type == F.TYPE_ENUM:
            field.ClearField("type_name")
            field.ClearField("default_value")  # it is a name; an unset field is null whatever it says
        field.type = _WIDER.get(field.type, field.type)
    return copy


def _messages(
    messages: Sequence[descriptor_pb2.DescriptorProto],
) -> Iterator[descriptor_pb2.DescriptorProto]:
    for message in messages:
        yield message
        yield from _messages(message.nested_type)


def _names(prefix: str, messages: Sequence[descriptor_pb2.DescriptorProto]) -> Iterator[str]:
    for message in messages:
        name = f"{prefix}.{message.name}" if prefix else message.name
        yield name
        inner = [nested for nested in message.nested_type if not nested.options.map_entry]
        yield from _names(name, inner)
