"""Codings of BigDecimal and BigInteger, by the arguments of ``BigDecimalCodec`` and ``BigIntegerCodec``."""

from __future__ import annotations

import re

from sparkhaven.store.types.codings.decimals.decimal_numbers import MOST_DIGITS
from sparkhaven.store.types.codings.decimals.fixed_decimals import FixedDecimals
from sparkhaven.store.types.codings.decimals.free_decimals import FreeDecimals


def decimal_coding(codec: str, arguments: str, width: int | None) -> FixedDecimals | FreeDecimals:
    """By the codec's simple name and arguments; ValueError says what is expected instead."""
    parts = re.fullmatch(r"(?:([1-9]\d{0,4}),(\d{1,5})(?:,(true|false|allowRounding))?)?", arguments)
    if codec != "BigDecimalCodec" or parts is None:
        raise ValueError("BigDecimalCodec with precision,scale[,allowRounding], or nothing")
    if not arguments:
        return FreeDecimals(whole=False)
    precision, scale = int(parts[1]), int(parts[2])
    if precision > MOST_DIGITS or scale > precision:
        raise ValueError(f"BigDecimalCodec with a precision of at most {MOST_DIGITS}, and a scale not above it")
    return FixedDecimals(precision, scale, rounds=parts[3] in ("true", "allowRounding"))


def integer_coding(codec: str, arguments: str, width: int | None) -> FixedDecimals | FreeDecimals:
    """By the codec's simple name and arguments; ValueError says what is expected instead."""
    if codec != "BigIntegerCodec" or not re.fullmatch(r"([1-9]\d{0,4})?", arguments):
        raise ValueError("BigIntegerCodec with a precision, or nothing")
    if not arguments:
        return FreeDecimals(whole=True)
    if int(arguments) > MOST_DIGITS:
        raise ValueError(f"BigIntegerCodec with a precision of at most {MOST_DIGITS}")
    return FixedDecimals(int(arguments), 0, whole=True)
