"""Canonical JSON: the same object is the same bytes, always.

Standard JSON has no NaN and no infinities: they become texts.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

from sparkhaven.store.errors import CorruptFileError


def finite(value: object) -> object:
    """The value with texts for numbers that are not finite, also within dicts and lists."""
    if isinstance(value, dict):
        return {key: finite(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [finite(child) for child in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


BEHIND = b"\n"  # canonical JSON has none
# what decoding raises for JSON of another form, an infinite number for a whole one included
BROKEN = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, struct.error)


def dump(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def load(payload: bytes, where: object) -> dict[str, Any]:
    """The JSON object of a payload; anything else is a CorruptFileError."""
    try:
        value = json.loads(written(payload))
    except ValueError as error:
        raise CorruptFileError("record is not JSON", where=where, expected="JSON", found=error) from error
    if not isinstance(value, dict):
        raise CorruptFileError("record is not a JSON object", where=where, expected="{...}", found=type(value).__name__)
    return value


def written(payload: bytes) -> bytes:
    """The JSON of a payload, without what is packed behind it."""
    end = payload.find(BEHIND)
    return payload if end < 0 else payload[:end]
