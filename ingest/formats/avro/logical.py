"""What Avro's logical types stand for, exactly: their numbers as they were sent, of any year and to the nanosecond.

fastavro makes datetimes of them, which end in the year 9999 and at microseconds. So a schema's logical types are given
names of ours, and fastavro's table of readers has what is read for those names. As the specification says, a logical
type that does not fit the type that it stands on is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from fastavro.read import LOGICAL_READERS

from sparkhaven.ingest.values.wire_values import Moment, MomentKind, WireValue
from sparkhaven.store.instants import DAY_NS, UNIT_NS, fraction_text

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
