"""The canonical text of a value that did not come as JSON text: the same value gives the same text, parseable as JSON.

Objects and arrays are compact, and fields keep their order. Decimals have all of their digits and no exponent; floating
point numbers are as short as they read back. What JSON has no form for is a text, in quotes inside of objects and
arrays: ``NaN``, bytes in base64, times in ISO 8601.

Also here: JSON as its standard allows it and no further, with numbers as they are written.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from sparkhaven.ingest.values.refusals import Refusal
from sparkhaven.ingest.values.wire_values import Moment, WireValue

_MOST_ZEROS = 1000  # digits that are written out for an exponent


class NoTextError(ValueError):
    """A value that has no text; ``refusal`` says why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.explanation)
        self.refusal = refusal


def json_text(value: Any) -> str:
    """The JSON text of a value. NoTextError if it has none."""
    text = _word(value)
    if text is not None:
        return json.dumps(text, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json_text(str(name))}:{json_text(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(json_text, value)) + "]"
    return _digits(value) if isinstance(value, Decimal) else json.dumps(value)


def plain_text(value: Any) -> str:
    """The text that a String column takes of a value: its JSON text, a text without quotes. NoTextError as above."""
    text = _word(value)
    return json_text(value) if text is None else text


def _word(value: Any) -> str | None:
    """The text of a value that JSON has no number, word, object or array for."""
    if isinstance(value, str):
        return value
    if isinstance(value, Moment | WireValue):
        text = value.text
        if isinstance(text, Refusal):
            raise NoTextError(text)
        return text
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return str(value) if isinstance(value, UUID) else None


def _digits(value: Decimal) -> str:
    """A decimal without an exponent, unless that would be mostly zeros."""
    exponent = value.as_tuple().exponent
    return f"{value:f}" if isinstance(exponent, int) and -_MOST_ZEROS < exponent <= 0 else str(value)


class Extreme(Decimal):
    """A number that stands for one which ``Decimal`` cannot hold; ``text`` is how that is written."""

    text: str

    def __str__(self) -> str:
        return self.text


def exact_number(text: str) -> Decimal:
    """The number that a text writes by digits, point and exponent, however large that is.

    ``Decimal`` refuses exponents beyond 10^18; such a number is infinite for every type, or tiny for every type.
    """
    try:
        return Decimal(text)
    except InvalidOperation:
        mantissa, _, exponent = text.lower().partition("e")
        sign = "-" if mantissa.startswith("-") else ""
        small = "1e-99999" if Decimal(mantissa) else "0"
        extreme = Extreme(sign + (small if exponent.startswith("-") or small == "0" else "Infinity"))
        extreme.text = text
        return extreme


def strict_json(text: str) -> Any:
    """The value of a JSON text; the last of two equal keys counts. ValueError if it is none."""
    # ``loads`` refuses a byte order mark in its own words
    return json.loads(text) if text.startswith("\ufeff") else _DECODER.decode(text)


def _whole(text: str) -> int | Decimal:
    return int(text) if len(text) < 4000 and text != "-0" else Decimal(text)


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON value")


_DECODER = json.JSONDecoder(parse_float=exact_number, parse_int=_whole, parse_constant=_no_constant)
