"""The fields of an Avro schema as the compiled scanner reads them, one after the other.

ValueError for what it has no way for: lists, maps, unions of more than one type and null, records that may be null, and
logical types but for times, dates and instants. Then all payloads of the schema go to the exact pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from fastavro.read import LOGICAL_READERS

from sparkhaven.ingest.formats.avro.payload_proof import fields_in
from sparkhaven.ingest.formats.avro.registry import Schema
from sparkhaven.ingest.formats.json.field_paths import Path, Tree
from sparkhaven.ingest.formats.scan.record_scanner import NO_UNION, RecordScanner, WireField
from sparkhaven.ingest.formats.scan.text_ids import ROOM, TextRoom
from sparkhaven.ingest.spec.stream_spec import Target
from sparkhaven.store.native.abi import (
    WIRE_BOOLEAN,
    WIRE_BYTES,
    WIRE_DOUBLE,
    WIRE_ENUM,
    WIRE_FIXED,
    WIRE_FLOAT,
    WIRE_INT,
    WIRE_LONG,
    WIRE_NULL,
    WIRE_STRING,
)

_KINDS = {
    "null": WIRE_NULL,
    "boolean": WIRE_BOOLEAN,
    "int": WIRE_INT,
    "long": WIRE_LONG,
    "float": WIRE_FLOAT,
    "double": WIRE_DOUBLE,
    "string": WIRE_STRING,
    "bytes": WIRE_BYTES,
}
_INSTANTS: Mapping[str, Literal["ns", "us", "ms"]] = {
    "long-sparkhaven-timestamp-millis": "ms",
    "long-sparkhaven-timestamp-micros": "us",
    "long-sparkhaven-timestamp-nanos": "ns",
}
_COUNTS = ("date", "time-millis", "time-micros", *(f"local-timestamp-{unit}" for unit in ("millis", "micros", "nanos")))
_PASSED = frozenset(f"{kind}-sparkhaven-{name}" for kind in ("int", "long") for name in _COUNTS)


def avro_scanner(
    schema: Schema,
    targets: Sequence[Target],
    paths: Sequence[Path],
    tree: Tree,
    prefix: bytes,
    room: TextRoom = ROOM,
) -> RecordScanner | None:
    """The scanner for records of this schema behind ``prefix``; None where there is none."""
    always: list[str] = []
    try:
        if not targets or not isinstance(schema, Mapping) or schema.get("type") != "record":
            return None
        fields = list(_fields(schema, tree, (), always))
        missing = set(paths) - {field.path for field in fields}
        if any(fields_in(schema, path) is None for path in missing):  # it is there, in a way that we do not read
            return None
        fields += [WireField(WIRE_NULL, path) for path in sorted(missing)]
        return RecordScanner("sh_avro_scan", targets, paths, fields, prefix=prefix, always=always, room=room)
    except ValueError:
        return None


def _fields(record: Mapping[str, Any], tree: Tree, prefix: Path, always: list[str]) -> Iterator[WireField]:
    """Those of a record in its order, with the fields of the records in it. ``always`` gets the names to count."""
    for field in record["fields"]:
        name, kind = field["name"], field["type"]
        wanted, path = tree.get(name), (*prefix, name)
        if wanted is None:
            always.append(".".join(path))
            yield from _passed(kind)
        elif wanted:
            if not isinstance(kind, Mapping) or kind["type"] != "record":
                raise ValueError(f"a path leads through {path}")
            yield from _fields(kind, wanted, path, always)
        else:
            yield _value(kind, path)


def _passed(kind: Any) -> Iterator[WireField]:
    """What nobody wants."""
    if isinstance(kind, Mapping) and kind["type"] == "record":
        for field in kind["fields"]:
            yield from _passed(field["type"])
    else:
        yield _value(kind, None)


def _value(kind: Any, path: Path | None) -> WireField:
    nulls = NO_UNION
    if isinstance(kind, list):
        if len(kind) != 2 or kind.count("null") != 1:
            raise ValueError("a union of other types than one and null")
        nulls = kind.index("null")
        kind = kind[1 - nulls]
    attributes: Mapping[str, Any] = kind if isinstance(kind, Mapping) else {"type": kind}
    name = attributes["type"]
    logical = f"{name}-{attributes.get('logicalType')}"
    if logical in LOGICAL_READERS and logical not in _INSTANTS and (path is not None or logical not in _PASSED):
        raise ValueError(f"the logical type {logical}")
    if name == "enum":
        return WireField(WIRE_ENUM, path, nulls, len(attributes["symbols"]))
    if name == "fixed":
        return WireField(WIRE_FIXED, path, nulls, int(attributes["size"]))
    if not isinstance(name, str) or name not in _KINDS:
        raise ValueError(f"the type {name}")
    return WireField(_KINDS[name], path, nulls, unit=_INSTANTS.get(logical, ""))
