"""The canonical text of a value that did not come as JSON text: the same value gives the same text, parseable as JSON.

Objects and arrays are compact, and fields keep their order. Decimals have all of their digits and no exponent; floating
point numbers are as short as they read back. What JSON has no form for is a text, in quotes inside of objects and
arrays: ``NaN``, bytes in base64, times in ISO 8601. Values of binary formats that Python has no exact type for are
values of ours: times of any year and unit, and intervals.

Also here: JSON as its standard allows it and no further, with numbers as they are written.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Literal
from uuid import UUID

from sparkhaven.ingest.values.typed_rows import Refusal
from sparkhaven.store.instants import DAY_NS, clock_text, day_text
from sparkhaven.store.quarantine.rejected_rows import Reason

MomentKind = Literal["instant", "local time", "date", "time of day"]
_MOST_ZEROS = 1000  # digits that are written out for an exponent


@dataclass(frozen=True, slots=True)
class Moment:
    """A count of ``unit_ns`` nanoseconds as it was sent: since 1970 in UTC, since 1970 on local clocks, or midnight."""

    kind: MomentKind
    count: int
    unit_ns: int

    @property
    def ns(self) -> int:
        """The count in nanoseconds."""
        return self.count * self.unit_ns

    @property
    def text(self) -> str | Refusal:
        """ISO 8601, with T between date and time and Z for UTC. A fraction has 3, 6 or 9 digits, or is left out."""
        days, rest = divmod(self.ns, DAY_NS)
        if self.kind == "time of day":
            late = Refusal(Reason.NO_TIME_OF_DAY, "a time before 24:00", str(self.count))
            return late if days else clock_text(rest)
        day = day_text(days)
        if self.kind == "date":
            return day
        return f"{day}T{clock_text(rest)}{'Z' if self.kind == 'instant' else ''}"


@dataclass(frozen=True, slots=True)
class WireValue:
    """A value of which the format says how it is written, and no type of ours takes, like an interval."""

    kind: str
    text: str


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
