"""Values at the borders of each source type, and by exact arithmetic what a column must make of each of them.

The oracle knows no Arrow: whole numbers, fractions and the IEEE formats, as Python's own integers have them.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from sparkhaven.store.types.datatypes import DOUBLE_NULL, FLOAT_NULL

BAD = "refused"
BITS = {"byte": 8, "short": 16, "int": 32, "long": 64}
DIGITS = {"float": (24, -149, FLOAT_NULL, 128), "double": (53, -1074, DOUBLE_NULL, 1024)}
SCALE = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
UUID = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
EDGES = sorted(
    {0, 1, 2, 0xD800, 0xFFFE, 0xFFFF, 0x10000}
    | {
        sign * ((1 << bits) + step)
        for bits in (7, 8, 15, 24, 31, 53, 63, 64)
        for step in (-1, 0, 1)
        for sign in (1, -1)
    }
)
FLOATS = [
    *(0.0, -0.0, 0.1, 0.5, 1.0, 3.5, 127.0, 128.0, -128.0, 1e39, -1e300, 2.0**-149, 2.0**-1074, 1.5 * 2.0**-149),
    *(2.0**24 + 1, 2.0**53, 2.0**63, -(2.0**63), FLOAT_NULL, DOUBLE_NULL, math.nan, math.inf, -math.inf, 65535.0),
]  # fmt: skip
DECIMALS = ["0.10", "0.50", "12.00", "-0.25", "9007199254740993.00", "9223372036854775807.00", "9223372036854775808.00"]
TEXTS = ["", "a", "ab", "é", "€", "\U0001f600", "\x00", "\uffff", "2013-01-01T05:00:00Z", "2013-01-01"]
BYTES = [b"a", b"IBM ", b"\xff", b"\xc3\xa9"]
DAYS = [0, -106_752, -106_751, 106_751, 106_752, 2**31 - 1, -(2**31)]


def _within(low: int, high: int, values: list[int]) -> list[int]:
    return sorted({low, high, *(v for v in values if low <= v <= high)})


def _stamps(unit: str) -> list[int]:
    most = (2**63 - 1) // SCALE[unit]
    low, high = (-(2**63), 2**63 - 1) if unit != "s" else (-(2**63) // 1000 + 1, 2**63 // 1000)  # Parquet has no s
    return _within(low, high, [0, 1, -1, most, most + 1, -most, -most - 1])


def sources() -> dict[str, pa.Array]:
    """An array for each way that values come, by its Arrow type or encoding; the last value is null."""
    made: dict[str, pa.Array] = {"null": pa.nulls(2), "bool": pa.array([True, False, None])}
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        kind, signed = getattr(pa, name)(), name.startswith("i")
        bits = kind.bit_width - signed
        made[name] = pa.array([*_within(-(1 << bits) if signed else 0, (1 << bits) - 1, EDGES), None], kind)
    with np.errstate(over="ignore"):
        made["float16"] = pa.array([*(np.float16(v) for v in FLOATS), None], pa.float16())
        made["float32"] = pa.array([*(float(np.float32(v)) for v in FLOATS), None], pa.float32())
    made["float64"] = pa.array([*FLOATS, None])
    decimals = [*map(Decimal, DECIMALS), None]
    made["decimal128"] = pa.array(decimals, pa.decimal128(38, 2))
    made["decimal256"] = pa.array(decimals, pa.decimal256(50, 2))
    made["decimal32"] = pa.array([Decimal("0.10"), Decimal("12.00"), None], pa.decimal32(6, 2))
    texts = [*TEXTS, None]
    invalid = pa.array([b"a", b"\xffb", None]).view(pa.string())
    made |= {"string": pa.array(texts), "large_string": pa.array(texts, pa.large_string()), "not UTF-8": invalid}
    made |= {"string_view": pa.array(texts, pa.string_view()), "dictionary": pa.array(texts).dictionary_encode()}
    made["json"] = pa.array(['{"a":1}', "a", TEXTS[-2], None], pa.json_())
    made["uuid"] = pa.array([bytes.fromhex(UUID.replace("-", "")), bytes(16), None], pa.uuid())
    made |= {"binary": pa.array([*BYTES, None]), "large_binary": pa.array([*BYTES, None], pa.large_binary())}
    made["binary_view"] = pa.array([*BYTES, None], pa.binary_view())
    made["fixed"] = pa.array([b"IBM ", b"\xff\xfe\xfd\xfc", None], pa.binary(4))
    for unit in SCALE:
        made[f"timestamp {unit}"] = pa.array([*_stamps(unit), None], pa.timestamp(unit, "America/New_York"))
        made[f"local {unit}"] = pa.array([*_stamps(unit), None], pa.timestamp(unit))
    days = pa.array([*DAYS, None], pa.int32()).view(pa.date32())
    made |= {"date32": days, "date64": pa.array([0, 86_400_000, None], pa.int64()).view(pa.date64())}
    made["time32"] = pa.array([0, 86_399_999, None], pa.time32("ms"))
    made["duration"] = pa.array([-1, 2**40, None], pa.duration("us"))
    made["time64"] = pa.array([0, 86_399_999_999_999, None], pa.time64("ns"))
    made |= {"list": pa.array([[1], None]), "struct": pa.array([{"a": 1}, None])}
    return made


def nearest(value: Fraction, column: str) -> float:
    """The value of the type next to a number; of two as near the one whose last bit is 0."""
    digits, smallest, _, top = DIGITS[column]
    if not value:
        return 0.0
    exponent = max(math.floor(math.log2(abs(value))) - digits - 2, smallest)
    while abs(value) / Fraction(2) ** exponent >= 1 << digits:
        exponent += 1
    rounded = round(value / Fraction(2) ** exponent) * Fraction(2) ** exponent
    return float(rounded) if abs(rounded) < Fraction(2) ** top else math.copysign(math.inf, value)


def expected(value: Any, kind: pa.DataType, column: str, given: frozenset[str]) -> Any:
    """What a column of a type makes of one value, with these options: the value that is read back, or ``BAD``."""
    if value is None:
        return None
    types = pa.types
    if types.is_boolean(kind):
        return value if column == "Boolean" else BAD
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _number(value, kind, column, given)
    if types.is_timestamp(kind):
        at = value * SCALE[kind.unit]
        return at if column == "Instant" and (kind.tz or "zone" in given) and _stored(at, kind.tz) else BAD
    if types.is_date(kind):
        days = value if types.is_date32(kind) else value // 86_400_000
        if column == "Instant":
            return days * 86_400 * 10**9 if "zone" in given and _stored(days * 86_400 * 10**9, None) else BAD
        return _number(days, pa.int64(), column, given) if column in ("int", "long") else BAD
    if types.is_time(kind) or types.is_duration(kind):
        return _number(value, pa.int64(), column, given) if column in ("int", "long") else BAD
    if types.is_nested(kind):
        return BAD
    if isinstance(value, bytes):
        if "binary_as_text" not in given and kind != pa.string():
            return BAD
        try:
            value = value.decode("utf-8")
        except UnicodeDecodeError:
            return BAD
    return _text(value, kind, column, given)


def _stored(at: int, zone: str | None) -> bool:
    edge = 2 * 86_400 * 10**9 if zone is None else 0  # a local time is not proven to be in range close to the ends
    return -(2**63) + edge < at < 2**63 - edge


def _text(value: str, kind: pa.DataType, column: str, given: frozenset[str]) -> Any:
    if kind == pa.uuid():
        return value if column == "String" else BAD
    if column == "String":
        return BAD if value == "\x00" else value
    if column == "char":
        return ord(value) if len(value) == 1 and ord(value) < 0xFFFF else BAD
    zones = {"2013-01-01T05:00:00Z": 1_357_016_400} | ({"2013-01-01": 1_356_998_400} if "zone" in given else {})
    return zones[value] * 10**9 if column == "Instant" and value in zones else BAD


def _number(value: Any, kind: pa.DataType, column: str, given: frozenset[str]) -> Any:
    special = isinstance(value, float) and not math.isfinite(value)
    if column in DIGITS:
        if special:
            return value
        found = nearest(Fraction(value), column)
        exact = not math.isinf(found) and Fraction(found) == Fraction(value)
        if found == DIGITS[column][2] or not (exact or "lossy" in given):
            return BAD
        return math.copysign(found, value) if not value else found
    if special or column == "String":
        return BAD
    whole = Fraction(value)
    if column == "Instant":
        at = whole * SCALE["ms"]
        return int(at) if "unit" in given and at.denominator == 1 and abs(at) < 2**63 else BAD
    if whole.denominator != 1:
        return BAD
    if column == "Boolean":
        return bool(whole) if pa.types.is_integer(kind) and whole in (0, 1) else BAD
    if column == "char":
        return int(whole) if pa.types.is_integer(kind) and 0 <= whole < 0xFFFF else BAD
    return int(whole) if abs(whole) < 1 << (BITS[column] - 1) else BAD
