"""Columns of random tables: every type, values at its edges, and Arrow arrays from and to plain Python values.

A value is a bool, an int (also of instants, dates and times: nanoseconds or days), a float, a text, bytes, a Decimal or
a tuple of these; None is null.
"""

from __future__ import annotations

import math
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

CODEC = "io.deephaven.util.codec"
Rows = Counter[tuple[Any, ...]]
INSTANT = pa.timestamp("ns", "UTC")
TEXTS = ("", "a", "b", "B", "é", "\U0001f600", "\uffee", "\u00ff", "zz", "10", "9", "x" * 40)
_NAN = struct.pack(">d", math.nan)


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


@dataclass(frozen=True)
class Kind:
    """A type of column: how a schema declares it, what a feed has, and what a filter can ask.

    ``pool``: its values, with edges of the type. ``null_value``: what stands for null in its files, so that a feed may
    not have it. ``literal``: a value as filters write it, None: they cannot compare it. ``key``: an index may have it,
    ``group``: rows may be grouped by it. ``outside``: what a feed may have, and the column cannot store. ``empty``:
    what stands for no value, where a column has no null.
    """

    name: str
    attributes: str
    arrow: pa.DataType
    pool: tuple[Any, ...]
    null_value: Any = None
    literal: Callable[[Any], str | None] = lambda value: None
    key: bool = False
    group: bool = False
    json: bool = False
    outside: tuple[Any, ...] = ()
    empty: Any = None

    def draw(self, rng: random.Random) -> Any:
        return self.empty if rng.random() < 0.12 else rng.choice(self.pool)

    def array(self, values: Sequence[Any]) -> pa.Array:
        """The values in the column's type of Arrow."""
        if pa.types.is_date(self.arrow):
            return pa.array(values, pa.int32()).view(self.arrow)
        if pa.types.is_time(self.arrow):
            return pa.array(values, pa.int64()).view(self.arrow)
        return pa.array(values, self.arrow)


def plain(column: pa.ChunkedArray) -> list[Any]:
    """The values of an Arrow column."""
    if not column.num_chunks:
        return []
    array = pa.concat_arrays(column.chunks) if column.num_chunks > 1 else column.chunk(0)
    kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.dictionary_decode()
    elif pa.types.is_date32(kind):
        array = array.view(pa.int32())
    elif pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        array = array.view(pa.int64())
    elif pa.types.is_list(kind) and pa.types.is_timestamp(kind.value_type):
        array = array.cast(pa.list_(pa.int64()))
    values: list[Any] = array.to_pylist()
    if pa.types.is_nested(kind):
        return [value if value is None else tuple(value) for value in values]
    return values


def cell(value: Any) -> Any:
    """A value in a form that is equal where, and only where, a reader has to show the same."""
    if isinstance(value, float):
        return _NAN if math.isnan(value) else struct.pack(">d", value)
    return tuple(map(cell, value)) if isinstance(value, tuple) else value


def cells(columns: Iterable[Col], values: Iterable[Iterable[Any]]) -> Iterator[tuple[Any, ...]]:
    """Rows, each in cells, whose values are given column by column."""
    shown = (
        [cell(column.kind.empty if value is None else value) for value in each]
        for column, each in zip(columns, values, strict=True)
    )
    return zip(*shown, strict=True)


def rows_of(columns: Iterable[Col], values: Iterable[Iterable[Any]]) -> Rows:
    """The same, each row with how often it is there."""
    return Counter(cells(columns, values))


def _number(value: Any) -> str | None:
    return repr(value) if not isinstance(value, float) or math.isfinite(value) else None


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _day(value: int) -> str | None:
    ordinal = value + date(1970, 1, 1).toordinal()
    return f"'{date.fromordinal(ordinal).isoformat()}'" if 0 < ordinal < date.max.toordinal() else None


def _time(value: int) -> str:
    seconds, fraction = divmod(value, 10**9)
    return f"'{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:09}'"


def _instant(value: int) -> str:
    seconds, fraction = divmod(value, 10**9)
    second = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    return f"'{second:%Y-%m-%dT%H:%M:%S}.{fraction:09}Z'"


def _decimal(value: Decimal) -> str:
    return f"{value:f}"


def _boolean(value: bool) -> str:
    return str(value).lower()


_DOUBLES = (math.nan, 0.0, -0.0, 0.0, -0.0, math.inf, -math.inf, 1.5, 7.0, 1e300, 5e-324, -1.7976931348623155e308, 0.1)
_SINGLES = (math.nan, 0.0, -0.0, 0.0, -0.0, math.inf, -math.inf, 1.5, 7.0, *map(_single, (1e30, 1e-45, 0.1)))
_MAX_SINGLE, _MAX_DOUBLE = 3.4028234663852886e38, 1.7976931348623157e308
_LAST_TIME = 86_400 * 10**9 - 1
PLAIN = (
    Kind("Boolean", 'dataType="Boolean"', pa.bool_(), (True, False), None, _boolean, True, True, True),
    Kind("byte", 'dataType="byte"', pa.int8(), (-127, -1, 0, 1, 7, 127), -128, _number, True, True, True),
    Kind("char", 'dataType="char"', pa.uint16(), (0, 9, 65, 0x3B1, 0xD800, 0xFFFE), 0xFFFF, _number, True, True),
    Kind("short", 'dataType="short"', pa.int16(), (-32767, -1, 0, 1, 5, 32767), -32768, _number, True, True, True),
    Kind(
        "int",
        'dataType="int"',
        pa.int32(),
        (1 - 2**31, -7, -1, 0, 1, 3, 2**31 - 1),
        -(2**31),
        _number,
        True,
        True,
        True,
    ),
    Kind(
        "long",
        'dataType="long"',
        pa.int64(),
        (1 - 2**63, -3, 0, 1, 2, 2**53 + 1, 2**63 - 1),
        -(2**63),
        _number,
        True,
        True,
        True,
    ),
    Kind("float", 'dataType="float"', pa.float32(), _SINGLES, -_MAX_SINGLE, _number, True, True),
    Kind("double", 'dataType="double"', pa.float64(), _DOUBLES, -_MAX_DOUBLE, _number, True, True),
    Kind(
        "Instant",
        'dataType="Instant"',
        INSTANT,
        (1 - 2**63, -(10**18), -1, 0, 1, 999, 1000, 1_709_550_000_123_456_789, 2**63 - 1),
        -(2**63),
        _instant,
        True,
        True,
    ),
    Kind("symbol", 'dataType="String"', pa.string(), TEXTS, None, _text, True, True, True),
    Kind(
        "text",
        'dataType="String" symbolTable="None" encoding="UTF_8"',
        pa.string(),
        TEXTS,
        None,
        _text,
        True,
        False,
        True,
    ),
)
CODED = (
    Kind(
        "date",
        'dataType="LocalDate"',
        pa.date32(),
        (-719_528, -719_162, -1, 0, 19_786, 2_932_896),
        None,
        _day,
        True,
        outside=(-719_529, 2_932_897),
    ),
    Kind(
        "compact date",
        f'dataType="LocalDate" objectCodec="{CODEC}.LocalDateCodec" objectCodecArguments="Compact"',
        pa.date32(),
        (-719_528, -719_162, -1, 0, 19_786, 2_932_896),
        None,
        _day,
        True,
        outside=(-719_529, 2_932_897),
    ),
    Kind("time", 'dataType="LocalTime"', pa.time64("ns"), (0, 1, 48_600 * 10**9, _LAST_TIME), None, _time, True),
    Kind(
        "decimal",
        f'dataType="BigDecimal" objectCodec="{CODEC}.BigDecimalCodec" objectCodecArguments="18,6"',
        pa.decimal128(18, 6),
        tuple(map(Decimal, ("0.000000", "-0.000001", "12.500000", "999999999999.999999", "-999999999999.999999"))),
        None,
        _decimal,
        True,
    ),
    Kind("any decimal", 'dataType="java.math.BigDecimal"', pa.string(), ("0", "-0.001", "12.5", "1" + "0" * 60)),
    Kind(
        "whole",
        f'dataType="BigInteger" objectCodec="{CODEC}.BigIntegerCodec" objectCodecArguments="20"',
        pa.decimal128(20, 0),
        tuple(map(Decimal, (0, -1, 2**63, 10**20 - 1, 1 - 10**20))),
        None,
        _decimal,
        True,
    ),
    Kind(
        "second",
        f'dataType="LocalTime" objectCodec="{CODEC}.LocalTimeCodec" objectCodecArguments="0"',
        pa.time64("ns"),
        (0, 10**9, 86_399 * 10**9),
        None,
        _time,
        True,
        outside=(1, _LAST_TIME),
    ),
    Kind(
        "wide decimal",
        f'dataType="BigDecimal" objectCodec="{CODEC}.BigDecimalCodec" objectCodecArguments="40,2"',
        pa.decimal256(40, 2),
        tuple(map(Decimal, ("0.00", "-0.01", "12.50", "9" * 38 + ".99", "-" + "9" * 38 + ".99"))),
    ),
    Kind("any whole", 'dataType="java.math.BigInteger"', pa.string(), ("0", "-1", "9" * 50)),
    Kind(
        "latin text",
        'dataType="String" symbolTable="None" encoding="ISO_8859_1"',
        pa.string(),
        ("", "a", "é", "\u00ff", "zz", "9"),
        None,
        _text,
        True,
        outside=("\U0001f600",),
    ),
    Kind("bytes", 'dataType="byte[]"', pa.binary(), (b"", b"\0", b"\xff\x80", b"abc" * 9)),
    Kind(
        "three bytes",
        f'dataType="byte[]" objectCodec="{CODEC}.ByteArrayCodec" objectCodecArguments="3"',
        pa.binary(),
        (b"\0\0\0", b"abc", b"\xff\xff\xff"),
        outside=(b"", b"four"),
    ),
    Kind("object", 'dataType="com.example.Thing"', pa.binary(), (b"\0", b"thing", b"\xac\xed\0\x05")),
    Kind("Booleans", 'dataType="boolean[]"', pa.list_(pa.bool_()), ((), (True,), (False, True, True))),
    Kind("chars", 'dataType="char[]"', pa.list_(pa.uint16()), ((), (65, None), (0xD800, 0, 0xFFFE))),
    Kind("shorts", 'dataType="short[]"', pa.list_(pa.int16()), ((), (0, None), (-32767, 32767))),
    Kind("ints", 'dataType="int[]"', pa.list_(pa.int32()), ((), (0,), (None, 1 - 2**31, 2**31 - 1))),
    Kind("longs", 'dataType="long[]"', pa.list_(pa.int64()), ((), (2**53 + 1, None), (1 - 2**63, 2**63 - 1))),
    Kind("floats", 'dataType="float[]"', pa.list_(pa.float32()), ((), (-0.0, 0.0, None), (math.nan, -math.inf))),
    Kind("doubles", 'dataType="double[]"', pa.list_(pa.float64()), ((), (-0.0, 0.0, None), (math.nan, math.inf, 0.1))),
    Kind("texts", 'dataType="String[]"', pa.list_(pa.string()), ((), ("", None), ("\U0001f600", "x" * 300))),
    Kind("instants", 'dataType="Instant[]"', pa.list_(INSTANT), ((), (0, None), (-1000, 1_700_000_000_123_456_789))),
    Kind("text set", 'dataType="StringSet"', pa.list_(pa.string()), ((), ("a",), ("", "b", "é")), empty=()),
    Kind("map", 'dataType="java.util.Map"', pa.map_(pa.string(), pa.float64()), ((), (("a", 1.5), ("b", None)))),
    Kind(
        "text map",
        f'dataType="java.util.Map" objectCodec="{CODEC}.StringStringMapCodec"',
        pa.map_(pa.string(), pa.string()),
        ((), (("a", ""), ("é", "x"))),
    ),
)
KINDS = {kind.name: kind for kind in (*PLAIN, *CODED)}
WIDER = {"byte": "short", "short": "int", "int": "long", "float": "double", "symbol": "text"}
"""What a column may become beside its values."""


@dataclass(frozen=True)
class Col:
    """A column of a table: ``key`` stands for its values, whatever its name becomes."""

    key: str
    name: str
    kind: Kind
    role: str = ""

    @property
    def element(self) -> str:
        """The column in a schema file."""
        return f'<Column name="{self.name}" {self.kind.attributes}{self.role}/>'
