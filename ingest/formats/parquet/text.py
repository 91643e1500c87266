"""One row of a Parquet file as text, exact and repairable by hand, and back: a JSON object of the fields' values.

What JSON has no number for is a string that says it fully: ``"NaN"``, ``"12.50"`` for a decimal, ISO texts for dates
and timestamps (with ``Z`` where the type has a zone), base64 for bytes. Reading back, a string is therefore taken as
the text of a value, not as a string that happens to stand where a number should.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from ingest.spec import Target
from ingest.values.exact import from_json, from_text
from ingest.values.instants import UNIT_NS, settled
from ingest.values.refusals import Refusal, Value, out_of_range

_FAR_YEAR = re.compile(r"[0-9]{5,}-|-[0-9]+-")


def row_text(fields: Mapping[str, pa.Scalar]) -> bytes:
    """The payload of a rejected row."""
    return json.dumps({name: _plain(value) for name, value in fields.items()}).encode("ascii")


def from_row_text(value: Any, target: Target, alias: bool = False) -> Value | Refusal:
    """A value of such an object (``json.loads`` with ``parse_float=Decimal``) by the rules of its column."""
    if not isinstance(value, str):
        return from_json(value, target, alias)
    if target.column.type.name == "Instant" and "-" in value[1:]:
        if _FAR_YEAR.match(value):
            return settled(out_of_range(not value.startswith("-")), target)
        target = replace(target, unit="iso")
    return from_text(value, target, alias)


def time_text(scalar: pa.Scalar) -> str:
    """A date or timestamp of any year as an ISO text."""
    kind = scalar.type
    if pa.types.is_date(kind):
        return str(np.datetime64(scalar.value, "D" if pa.types.is_date32(kind) else "ms"))
    return f"{np.datetime64(scalar.value, kind.unit)}{'Z' if kind.tz is not None else ''}"


def _plain(scalar: pa.Scalar) -> Any:
    if not scalar.is_valid:
        return None
    kind, kinds = scalar.type, pa.types
    if kinds.is_dictionary(kind):
        return _plain(scalar.value)
    if kinds.is_date(kind) or kinds.is_timestamp(kind):
        return time_text(scalar)
    if kinds.is_time(kind):
        seconds, below = divmod(scalar.value * UNIT_NS[kind.unit], UNIT_NS["s"])
        return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{below:09d}"
    if kinds.is_duration(kind):
        return f"{scalar.value} {kind.unit}"
    if kinds.is_struct(kind):
        return {kind.field(place).name: _plain(scalar[place]) for place in range(kind.num_fields)}
    if kinds.is_map(kind):
        return [[_plain(entry[0]), _plain(entry[1])] for entry in scalar.values]
    if kinds.is_nested(kind):
        return [_plain(item) for item in scalar.values]
    value: Any = scalar.as_py()
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return value if isinstance(value, str | int | bool) else str(value)
