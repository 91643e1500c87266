"""Whether the bytes of an Avro payload are what its schema says, before they are decoded.

fastavro is quick and trusts what it reads: a negative index into a union or an enum counts from the end, any byte is a
boolean, an ``int`` may have 64 bits and a longer number is wrapped, a decimal is rounded to its precision, and a schema
that names itself is followed until the stack is at its end, which ends the process. Each of these is a bad row.

A schema becomes one function for each of its types. A function takes the payload, where its value begins, and how many
records lie around it; it returns where the value ends.

Logical types are taken exactly: their numbers as they were sent, of any year and to the nanosecond. fastavro makes
datetimes of them, which end in the year 9999 and at microseconds. So a schema's logical types are given names of ours,
and fastavro's table of readers has what is read for those names. As the specification says, a logical type that does
not fit the type that it stands on is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from fastavro.read import LOGICAL_READERS

from sparkhaven.ingest.formats.binary_records import NotARecordError
from sparkhaven.ingest.values.json_text import Moment, MomentKind, WireValue
from sparkhaven.store.instants import DAY_NS, UNIT_NS, fraction_text

MAX_DEPTH = 100  # records in each other
MAX_EMPTY = 100_000  # entries that take no bytes, in all lists of a payload

Check = Callable[[bytes, int, int], int]
_FIXED = {"null": 0, "float": 4, "double": 8}


def checker(schema: Any) -> Check:
    """The check of a schema as ``fastavro.parse_schema`` gives it. Raises NotARecordError, or IndexError at the end."""
    empty = [0]  # entries without bytes in the lists of one payload
    check = _check(schema, {}, empty)

    def whole(payload: bytes, offset: int, depth: int) -> int:
        empty[0] = 0
        return check(payload, offset, depth)

    return whole


def check_payload(check: Check, payload: bytes, start: int) -> None:
    """NotARecordError unless the payload from ``start`` on is one value and nothing else."""
    try:
        end = check(payload, start, 0)
    except IndexError:
        end = len(payload) + 1
    if end > len(payload):
        raise NotARecordError("it ends too early")
    if end < len(payload):
        raise NotARecordError(f"{len(payload) - end} bytes are left over")


def fields_in(schema: Any, path: Sequence[str]) -> set[str] | None:
    """None if records of a schema may have a field at ``path``, else the names that there are instead of its first."""
    return _fields(schema, path, _records(schema))


def _fields(schema: Any, path: Sequence[str], named: Mapping[str, Any]) -> set[str] | None:
    if isinstance(schema, Sequence) and not isinstance(schema, str):
        branches = [_fields(branch, path, named) for branch in schema]
        return None if None in branches else set().union(*(names for names in branches if names))
    kind = schema["type"] if isinstance(schema, Mapping) else schema
    if not isinstance(kind, str):
        return _fields(kind, path, named)
    if not path:
        return None
    if kind == "map":
        return _fields(schema["values"], path[1:], named)  # its keys are data
    record = named.get(kind) if kind not in ("record", "error") else schema
    if record is None:
        return set()
    inner = {field["name"]: field["type"] for field in record["fields"]}
    return _fields(inner[path[0]], path[1:], named) if path[0] in inner else set(inner)


def _records(schema: Any) -> dict[str, Any]:
    if isinstance(schema, Sequence) and not isinstance(schema, str):
        return {name: record for branch in schema for name, record in _records(branch).items()}
    if not isinstance(schema, Mapping):
        return {}
    own = {schema["name"]: schema} if schema["type"] in ("record", "error") else {}
    parts = [schema.get("items"), schema.get("values"), *(field["type"] for field in schema.get("fields", ()))]
    if not isinstance(schema["type"], str):
        parts.append(schema["type"])
    return own | {name: record for part in parts for name, record in _records(part).items()}


def _check(schema: Any, named: dict[str, Check], empty: list[int]) -> Check:
    if isinstance(schema, Sequence) and not isinstance(schema, str):
        return _union([_check(branch, named, empty) for branch in schema])
    kind = schema["type"] if isinstance(schema, Mapping) else schema
    if not isinstance(kind, str):
        return _check(kind, named, empty)
    attributes = schema if isinstance(schema, Mapping) else {}
    if kind in ("record", "error"):
        fields: list[Check] = []
        named[attributes["name"]] = record = _record(fields)
        fields += [_check(field["type"], named, empty) for field in attributes["fields"]]
        return record
    if kind == "array":
        return _blocks(_check(attributes["items"], named, empty), empty)
    if kind == "map":
        return _blocks(_entry(_check(attributes["values"], named, empty)), empty)
    if kind == "fixed":
        named[attributes["name"]] = check = _decimal(_skip(attributes["size"]), attributes)
        return check
    if kind == "enum":
        named[attributes["name"]] = check = _enum(len(attributes["symbols"]))
        return check
    return _primitive(kind, attributes) or named[kind]


def _primitive(kind: str, attributes: Mapping[str, Any]) -> Check | None:
    if kind in ("string", "bytes"):
        return _decimal(_text, attributes)
    if kind == "boolean":
        return _boolean
    if kind in ("int", "long"):
        return _int if kind == "int" else _long
    return _skip(_FIXED[kind]) if kind in _FIXED else None


def _number(payload: bytes, offset: int) -> tuple[int, int]:
    """A zigzag number and where it ends."""
    byte = payload[offset]
    offset += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), offset
    bits, shift = byte & 0x7F, 7
    while True:
        byte = payload[offset]
        offset += 1
        bits |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
        if shift > 63:
            raise NotARecordError("a number of more than ten bytes")
    if bits >> 64:
        raise NotARecordError("a number of more than 64 bits")
    return (bits >> 1) ^ -(bits & 1), offset


def _long(payload: bytes, offset: int, depth: int) -> int:
    return offset + 1 if payload[offset] < 0x80 else _number(payload, offset)[1]


def _int(payload: bytes, offset: int, depth: int) -> int:
    if payload[offset] < 0x80:
        return offset + 1
    value, offset = _number(payload, offset)
    if not -(2**31) <= value < 2**31:
        raise NotARecordError(f"an int of more than 32 bits ({value})")
    return offset


def _boolean(payload: bytes, offset: int, depth: int) -> int:
    if payload[offset] > 1:
        raise NotARecordError(f"a boolean that is neither 0 nor 1 ({payload[offset]})")
    return offset + 1


def _text(payload: bytes, offset: int, depth: int) -> int:
    length, offset = _number(payload, offset)
    if length < 0:
        raise NotARecordError(f"a negative length ({length})")
    return offset + length


def _skip(size: int) -> Check:
    return lambda payload, offset, depth: offset + size


def _decimal(check: Check, attributes: Mapping[str, Any]) -> Check:
    """``check``, and that a decimal has no more digits than its type says."""
    if attributes.get("logicalType") != "decimal" or not isinstance(attributes.get("precision"), int):
        return check
    limit, size = 10 ** attributes["precision"], attributes.get("size")

    def digits(payload: bytes, offset: int, depth: int) -> int:
        end = check(payload, offset, depth)
        start = offset if size is not None else _number(payload, offset)[1]
        if abs(int.from_bytes(payload[start:end], "big", signed=True)) >= limit:
            raise NotARecordError(f"a decimal of more than {attributes['precision']} digits")
        return end

    return digits


def _enum(count: int) -> Check:
    def enum(payload: bytes, offset: int, depth: int) -> int:
        index, offset = _number(payload, offset)
        if not 0 <= index < count:
            raise NotARecordError(f"no symbol of the enum ({index})")
        return offset

    return enum


def _union(branches: list[Check]) -> Check:
    def union(payload: bytes, offset: int, depth: int) -> int:
        index, offset = _number(payload, offset)
        if not 0 <= index < len(branches):
            raise NotARecordError(f"no branch of the union ({index})")
        return branches[index](payload, offset, depth)

    return union


def _record(fields: list[Check]) -> Check:
    def record(payload: bytes, offset: int, depth: int) -> int:
        if depth >= MAX_DEPTH:
            raise NotARecordError(f"more than {MAX_DEPTH} records in each other")
        for check in fields:
            offset = check(payload, offset, depth + 1)
        return offset

    return record


def _entry(value: Check) -> Check:
    return lambda payload, offset, depth: value(payload, _text(payload, offset, depth), depth)


def _blocks(item_check: Check, empty: list[int]) -> Check:
    """Entries of an array or map: blocks of a count, before a negative one's entries their size, until a count of 0."""

    def blocks(payload: bytes, offset: int, depth: int) -> int:
        while True:
            count, offset = _number(payload, offset)
            if count == 0:
                return offset
            size = None
            if count < 0:
                size, offset = _number(payload, offset)
            start = offset
            if abs(count) > len(payload) - offset and abs(count) > MAX_EMPTY:
                raise NotARecordError(f"a list of {abs(count)} entries")
            for _ in range(abs(count)):
                before, offset = offset, item_check(payload, offset, depth)
                if offset == before:  # its type takes no bytes, so none of the entries does
                    empty[0] += abs(count)
                    if empty[0] > MAX_EMPTY:
                        raise NotARecordError(f"lists of more than {MAX_EMPTY} entries without bytes")
                    break
            if size is not None and offset - start != size:
                raise NotARecordError(f"a block of {offset - start} bytes that says {size}")

    return blocks


Schema = Any
Make = Callable[[Any], Moment | WireValue | UUID]

_PREFIX = "sparkhaven-"
_DURATION_BYTES, _UUID_BYTES = 12, 16


def _moment(kind: MomentKind, unit_ns: int) -> Make:
    return lambda count: Moment(kind, count, unit_ns)


def _duration(value: bytes) -> WireValue:
    """Months, days and milliseconds, as ISO 8601 writes an interval."""
    months, days, millis = (int.from_bytes(value[offset : offset + 4], "little") for offset in (0, 4, 8))
    seconds, below = divmod(millis, 1000)
    return WireValue("duration", f"P{months}M{days}DT{seconds}{fraction_text(below * UNIT_NS['ms'])}S")


_TIMESTAMPS: tuple[tuple[str, MomentKind], ...] = (("", "instant"), ("local-", "local time"))
_MAKE: Mapping[str, Make] = {
    "int-date": _moment("date", DAY_NS),
    "int-time-millis": _moment("time of day", UNIT_NS["ms"]),
    "long-time-micros": _moment("time of day", UNIT_NS["us"]),
    **{
        f"long-{prefix}timestamp-{name}": _moment(kind, UNIT_NS[unit])
        for prefix, kind in _TIMESTAMPS
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
    "fixed-duration": _duration,
    "fixed-uuid": lambda value: UUID(bytes=bytes(value)),
}
_SIZES = {"fixed-duration": _DURATION_BYTES, "fixed-uuid": _UUID_BYTES}


_PLAIN = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string", "enum", "fixed", "array"})


def as_record(schema: Schema) -> Schema:
    """A schema of one plain value, as keys often have, as that of a record with the field ``value``: of equal bytes.

    Any other schema stays as it is.
    """
    fields = [{"name": "value", "type": schema}]
    return {"type": "record", "name": "SparkhavenPlain", "fields": fields} if _is_plain(schema) else schema


def _is_plain(schema: Schema) -> bool:
    if isinstance(schema, list):
        return bool(schema) and all(map(_is_plain, schema))
    kind = schema.get("type") if isinstance(schema, dict) else schema
    return kind in _PLAIN if isinstance(kind, str) else isinstance(kind, dict | list) and _is_plain(kind)


def with_own_names(schema: Schema) -> Schema:
    """The schema with our names for its logical types."""
    if isinstance(schema, list):
        return [with_own_names(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    renamed = {
        key: with_own_names(value) if key in ("type", "items", "values") else value for key, value in schema.items()
    }
    if isinstance(renamed.get("fields"), list):
        renamed["fields"] = [with_own_names(field) for field in renamed["fields"]]
    name = f"{renamed.get('type')}-{renamed.get('logicalType')}"
    if name in _MAKE and renamed.get("size") == _SIZES.get(name):
        renamed["logicalType"] = _PREFIX + str(renamed["logicalType"])
    return renamed


def _reader(make: Make) -> Callable[..., Moment | WireValue | UUID]:
    return lambda value, writer_schema=None, reader_schema=None: make(value)


for _name, _make in _MAKE.items():
    _type, _, _logical = _name.partition("-")
    LOGICAL_READERS[f"{_type}-{_PREFIX}{_logical}"] = _reader(_make)
