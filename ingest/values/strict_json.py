"""JSON as its standard allows it and no further, with numbers as they are written."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any


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
