"""One row of a Parquet file as text, exact and repairable by hand, and back: a JSON object of the fields' values.

What JSON has no number for is a string that says it fully: ``"NaN"``, ``"12.50"`` for a decimal, ISO texts for dates
and timestamps (with ``Z`` where the type has a zone), base64 for bytes. Reading back, a string is therefore taken as
the text of a value, not as a string that happens to stand where a number should.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from ingest.exact import Refusal, Value, from_json, from_text
from ingest.spec import Target


def row_text(fields: Mapping[str, pa.Scalar]) -> bytes:
    """The payload of a rejected row."""
    return json.dumps({name: _plain(value) for name, value in fields.items()}).encode("ascii")


def from_row_text(value: Any, target: Target, alias: bool = False) -> Value | Refusal:
    """A value of such an object (``json.loads`` with ``parse_float=Decimal``) by the rules of its column."""
    if not isinstance(value, str):
        return from_json(value, target, alias)
    if target.column.type.name == "Instant" and "-" in value[1:]:
        target = replace(target, unit="iso")
    return from_text(value, target, alias)


def _plain(scalar: pa.Scalar) -> Any:
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_timestamp(kind):
        return f"{np.datetime64(scalar.value, kind.unit)}{'Z' if kind.tz is not None else ''}"
    value: Any = scalar.as_py()
    if kind == pa.uint16():
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, list | dict):
        return json.loads(json.dumps(value, default=str))
    return value if isinstance(value, str | int | bool) else str(value)
