"""One row of a Parquet file as text, exact and repairable by hand: a JSON object of the fields' values.

What JSON has no number for is a string that says it fully: ``"NaN"``, ``"12.50"`` for a decimal, ISO texts for dates
and timestamps (with ``Z`` where the type has a zone), base64 for bytes. Reading back, a string is therefore taken as
the text of a value, not as a string that happens to stand where a number should (``parquet.repaired``). A text that is
not UTF-8 is an object with its bytes.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from sparkhaven.ingest.spec.stream_spec import Target
from sparkhaven.ingest.values.json_text import NoTextError, plain_text
from sparkhaven.ingest.values.refusals import not_utf8
from sparkhaven.ingest.values.wire_values import Moment, WireValue
from sparkhaven.store.conversions.conversion_table import INTEGER_BITS
from sparkhaven.store.conversions.number_arrays import DAY_MS
from sparkhaven.store.conversions.plain_arrays import plain_scalar
from sparkhaven.store.conversions.source_types import Group, source_of
from sparkhaven.store.instants import DAY_NS, UNIT_NS, clock_text, day_text, timestamp_text


@dataclass(frozen=True, slots=True)
class RowForm:
    """How fields are written that a column takes otherwise than as they look.

    ``counted``: dates, times and durations that are stored as numbers. ``texts``: values that are stored as their text.
    ``bytes_too``: bytes are texts; those that are not UTF-8 are an object, which nobody takes for a text.
    """

    counted: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    bytes_too: bool = False


def row_form(targets: Sequence[Target], *, bytes_too: bool = False) -> RowForm:
    counted = (target.source for target in targets if target.column.type.name in INTEGER_BITS)
    others = {target.source for target in targets if not target.as_text}
    texts = (target.source for target in targets if target.as_text and target.source not in others)
    return RowForm(frozenset(counted), frozenset(texts), bytes_too)


def row_text(fields: Mapping[str, pa.Scalar], form: RowForm) -> bytes:
    """The payload of a rejected row."""
    return json.dumps({name: _field(name, value, form) for name, value in fields.items()}).encode("ascii")


def nested_text(scalar: pa.Scalar) -> str:
    """A list, struct or map as it stands in such a payload."""
    return json.dumps(_plain(scalar), ensure_ascii=False)


def _field(name: str, scalar: pa.Scalar, form: RowForm) -> Any:
    group = source_of(scalar.type).group
    if scalar.is_valid and name in form.counted and group in (Group.DATE, Group.SPAN):
        return scalar.value // DAY_MS if pa.types.is_date64(scalar.type) else scalar.value
    if scalar.is_valid and group is Group.BYTES and form.bytes_too:
        data = scalar.as_py()
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return _base64(data)
    if scalar.is_valid and name in form.texts:
        with suppress(NoTextError):
            return scalar_text(scalar)
    return _plain(scalar)


def text_of(scalar: pa.Scalar) -> str:
    """A text as it is; UnicodeDecodeError for one that is not UTF-8."""
    return bytes(scalar.as_buffer()).decode("utf-8")


def _base64(data: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(data).decode("ascii")}


def time_text(scalar: pa.Scalar) -> str:
    """A date or timestamp of any year as an ISO text."""
    kind = scalar.type
    if pa.types.is_date(kind):
        return day_text(scalar.value) if pa.types.is_date32(kind) else timestamp_text(scalar.value, "ms")
    return f"{timestamp_text(scalar.value, kind.unit)}{'Z' if kind.tz is not None else ''}"


def scalar_text(scalar: pa.Scalar) -> str:
    """The canonical text of a value (``ingest.values.json_text``). NoTextError for a text that is not UTF-8."""
    return plain_text(_structure(scalar))


def _structure(scalar: pa.Scalar) -> Any:
    """A value as ``json_text`` takes it. A map is an object if its keys are texts, else a list of pairs."""
    scalar = plain_scalar(scalar)
    if not scalar.is_valid:
        return None
    kind, kinds = scalar.type, pa.types
    if kinds.is_date(kind):
        return Moment("date", scalar.value if kinds.is_date32(kind) else scalar.value // DAY_MS, DAY_NS)
    if kinds.is_timestamp(kind):
        return Moment("local time" if kind.tz is None else "instant", scalar.value, UNIT_NS[kind.unit])
    if kinds.is_time(kind):
        return Moment("time of day", scalar.value, UNIT_NS[kind.unit])
    if kinds.is_duration(kind):
        return WireValue("duration", f"{scalar.value} {kind.unit}")
    if kinds.is_struct(kind):
        return {kind.field(index).name: _structure(scalar[index]) for index in range(kind.num_fields)}
    if kinds.is_map(kind):
        pairs = [[_structure(entry[0]), _structure(entry[1])] for entry in scalar.values]
        return dict(pairs) if all(isinstance(key, str) for key, _ in pairs) else pairs
    if kinds.is_nested(kind):
        return [_structure(element) for element in scalar.values]
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        try:
            return text_of(scalar)
        except UnicodeDecodeError as error:
            raise NoTextError(not_utf8(error)) from None
    value = scalar.as_py()
    return value if isinstance(value, bool | int | float | Decimal | bytes) else str(value)


def _plain(scalar: pa.Scalar) -> Any:
    if not scalar.is_valid:
        return None
    kind, kinds = scalar.type, pa.types
    if kinds.is_dictionary(kind):
        return _plain(scalar.value)
    if kinds.is_date(kind) or kinds.is_timestamp(kind):
        return time_text(scalar)
    if kinds.is_time(kind):
        return clock_text(scalar.value * UNIT_NS[kind.unit])
    if kinds.is_duration(kind):
        return f"{scalar.value} {kind.unit}"
    if kinds.is_struct(kind):
        return {kind.field(index).name: _plain(scalar[index]) for index in range(kind.num_fields)}
    if kinds.is_map(kind):
        return [[_plain(entry[0]), _plain(entry[1])] for entry in scalar.values]
    if kinds.is_nested(kind):
        return [_plain(element) for element in scalar.values]
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        try:
            return text_of(scalar)
        except UnicodeDecodeError:
            return _base64(bytes(scalar.as_buffer()))
    value: Any = scalar.as_py()
    if isinstance(value, bytes) or (isinstance(value, float) and not math.isfinite(value)):
        return plain_text(value)
    return value if isinstance(value, str | int | float) else str(value)
