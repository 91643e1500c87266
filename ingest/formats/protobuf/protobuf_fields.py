"""The fields of a Protobuf message as the compiled scanner finds them by their numbers.

ValueError for what it has no way for: columns of fields in messages inside, wrappers, repeated fields, enums by name,
fields that a message must have, and those of which only one may be set. Then all payloads go to the exact pass. Another
message inside, or a repeated field, leaves those records in doubt that have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from sparkhaven.ingest.formats.json.field_paths import Path
from sparkhaven.ingest.formats.protobuf.message_type import TIMESTAMP, FieldPath
from sparkhaven.ingest.formats.scan.record_scanner import RecordScanner, WireField
from sparkhaven.ingest.formats.scan.text_ids import ROOM, TextRoom
from sparkhaven.ingest.spec.stream_spec import Target
from sparkhaven.store.conversions.conversion_table import INTEGER_BITS
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

F = FieldDescriptor
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
    declared: Descriptor,
    targets: Sequence[Target],
    paths: Sequence[Path],
    leaves: Sequence[FieldPath],
    prefix: bytes,
    room: TextRoom = ROOM,
) -> RecordScanner | None:
    """The scanner for such messages behind ``prefix``; None where there is none."""
    try:
        if not targets:
            return None
        _require_plain(declared, targets, leaves)
        fields = list(_fields(declared, {path[0] for path in paths}))
        return RecordScanner("sh_protobuf_scan", targets, paths, fields, prefix=prefix, room=room)
    except ValueError:
        return None


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
