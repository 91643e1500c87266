"""A table with an index of each pair of types: one date a type, sorted by it, whose indexes begin with it.

Each value comes often enough that the first key alone leaves more rows than an index settles for. So a condition on two
columns is answered by the index of both.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.layout import TableName
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.store.schema.deployed.schema_changes import ACCEPTED
from sparkhaven.writers.merge.sources.sort_keys import SortKey
from sparkhaven.writers.partitions import add_partition
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_runs import FS, merge

TABLE = TableName("NS", "Pairs")
ROWS = 9_000
CODEC = "io.deephaven.util.codec"
LARGE = 2**53
START = 1_795_132_800_000_000_000  # 2026-11-20 in nanoseconds
NAN = math.nan
Holds = Callable[[Any], bool]


@dataclass(frozen=True)
class Literal:
    """One side of ``=``: as a condition, a query and the JVM write it (None: they cannot), and what equals it.

    Values are as ``Kind.pool`` has them. Of Spark an Instant has whole microseconds.
    """

    where: str | None
    sql: str | None
    java: str | None
    holds: Holds
    in_spark: Holds | None = None


@dataclass(frozen=True)
class Kind:
    """A column, its values (nanoseconds of instants and times), and literals beside it."""

    attributes: str
    arrow: pa.DataType
    java: str
    pool: tuple[Any, ...]
    literals: tuple[Literal, ...]


def same(value: Any) -> Holds:
    """Both zeros are equal, and NaN to itself."""
    if isinstance(value, float) and math.isnan(value):
        return lambda other: isinstance(other, float) and math.isnan(other)
    return lambda other: other == value


def numbers(*values: float, nan: bool = False) -> tuple[Literal, ...]:
    plain = [Literal(repr(v), f"{v!r}" if isinstance(v, int) else f"'{v!r}'::double", repr(v), same(v)) for v in values]
    return (*plain, *([Literal(None, "'NaN'::double", "NaN", same(NAN))] if nan else ()))


def texts(*values: str) -> tuple[Literal, ...]:
    return tuple(Literal(f"'{v}'", f"'{v}'", v, same(v)) for v in values)


def instant(nanoseconds: int) -> Literal:
    seconds, rest = divmod(nanoseconds, 10**9)
    text = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"
    micros = nanoseconds // 1000
    return Literal(f"'{text}'", f"'{text}'", str(micros), same(nanoseconds), lambda v: v // 1000 == micros)


def days(*values: date) -> tuple[Literal, ...]:
    first = date(1970, 1, 1)
    return tuple(Literal(f"'{v}'", f"date '{v}'", str((v - first).days), same(v)) for v in values)


def times(*values: int) -> tuple[Literal, ...]:
    def text(value: int) -> str:
        seconds, rest = divmod(value, 10**9)
        return f"{time(seconds // 3600, seconds // 60 % 60, seconds % 60)}.{rest:09}"

    return tuple(Literal(f"'{text(v)}'", f"'{text(v)}'::TIME_NS", str(v), same(v)) for v in values)


def decimals(*values: str, in_sql: bool = True) -> tuple[Literal, ...]:
    return tuple(Literal(v, v if in_sql else None, v if in_sql else None, same(Decimal(v))) for v in values)


TRUTHS = (Literal("true", "true", "true", same(True)), Literal("false", "false", "false", same(False)))
FLOAT = float(np.float32(0.1))
EARLY, LATE = 3_600 * 10**9, 86_399 * 10**9
KINDS: dict[str, Kind] = {
    "Flag": Kind('dataType="Boolean"', pa.bool_(), "boolean", (True, False, None), TRUTHS),
    "B": Kind('dataType="byte"', pa.int8(), "tinyint", (-127, -1, 0, 1, 127), numbers(-1, 0, 127)),
    "C": Kind(
        'dataType="char"',
        pa.uint16(),
        "string",
        (0, 97, 0xD800, 0xFFFE, None),
        (Literal("'a'", None, "a", same(97)), Literal("0", None, None, same(0))),
    ),
    "S": Kind('dataType="short"', pa.int16(), "smallint", (-(2**15) + 1, -1, 0, 1), numbers(-1, 0, -32767)),
    "I": Kind('dataType="int"', pa.int32(), "int", (-(2**31) + 1, -1, 0, 1, None), numbers(-1, 0, 1)),
    "L": Kind(
        'dataType="long"',
        pa.int64(),
        "bigint",
        (LARGE, LARGE + 1, -LARGE - 1, 0, 2**63 - 1),
        (*numbers(LARGE, LARGE + 1, 0, 2**63 - 1), Literal("9007199254740992.0", None, None, same(LARGE))),
    ),
    "F": Kind(
        'dataType="float"',
        pa.float32(),
        "float",
        (0.0, -0.0, NAN, math.inf, FLOAT, None),
        (*numbers(0.0, -0.0, FLOAT, nan=True), Literal("0", "0", None, same(0))),
    ),
    "D": Kind(
        'dataType="double"',
        pa.float64(),
        "double",
        (0.0, -0.0, NAN, -math.inf, 0.1, float(LARGE)),
        (*numbers(0.0, -0.0, 0.1, nan=True), Literal(str(LARGE), str(LARGE), str(float(LARGE)), same(float(LARGE)))),
    ),
    "At": Kind(
        'dataType="Instant"',
        pa.timestamp("ns", "UTC"),
        "timestamp",
        (START, START + 1, START + 999, START + 1000, -1, -1000),
        tuple(map(instant, (START, START + 1, START + 1000, -1, -1000))),
    ),
    "Sym": Kind('dataType="String"', pa.string(), "string", ("", "a", "b", "é"), texts("a", "é")),
    "Text": Kind(
        'dataType="String"',
        pa.string(),
        "string",
        ("", "a", "\uffff", "\U0001f600", None),
        texts("", "a", "\uffff", "\U0001f600"),
    ),
    "Note": Kind(
        'dataType="String" symbolTable="None"',
        pa.string(),
        "string",
        ("", "b", "\ufffd", "\U0001f600\U0001f601", "x" * 80),
        texts("", "b", "\ufffd"),
    ),
    "Day": Kind(
        f'dataType="LocalDate" objectCodec="{CODEC}.LocalDateCodec" objectCodecArguments="Compact"',
        pa.date32(),
        "date",
        (date(1, 1, 1), date(1969, 12, 31), date(2026, 11, 20), None),
        days(date(1969, 12, 31), date(2026, 11, 20)),
    ),
    "Far": Kind(
        'dataType="LocalDate"',
        pa.date32(),
        "date",
        (date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31), None),
        days(date(1, 1, 1), date(9999, 12, 31)),
    ),
    "Clock": Kind('dataType="LocalTime"', pa.time64("ns"), "bigint", (0, 1, 999, 1000, LATE), times(0, 1, 1000)),
    "Short": Kind(
        f'dataType="LocalTime" objectCodec="{CODEC}.LocalTimeCodec" objectCodecArguments="3"',
        pa.time64("ns"),
        "bigint",
        (0, EARLY, EARLY + 10**6, LATE),
        times(EARLY, EARLY + 10**6),
    ),
    "Px": Kind(
        f'dataType="BigDecimal" objectCodec="{CODEC}.BigDecimalCodec" objectCodecArguments="9,2"',
        pa.decimal128(9, 2),
        "decimal(9,2)",
        (Decimal("-1.25"), Decimal("0.00"), Decimal("0.01"), Decimal("9999999.99"), None),
        decimals("-1.25", "0.00", "0.01"),
    ),
    "Wide": Kind(
        f'dataType="BigDecimal" objectCodec="{CODEC}.BigDecimalCodec" objectCodecArguments="50,10"',
        pa.decimal256(50, 10),
        "string",
        (Decimal("-1.25"), Decimal(0), Decimal("1E-10"), Decimal(10) ** 39),
        decimals("-1.25", "0.0000000001", in_sql=False),
    ),
    "Whole": Kind(
        f'dataType="BigInteger" objectCodec="{CODEC}.BigIntegerCodec" objectCodecArguments="20"',
        pa.decimal128(20, 0),
        "decimal(20,0)",
        (Decimal(-(10**20) + 1), Decimal(-1), Decimal(0), Decimal(10**19)),
        decimals("-1", "0", "10000000000000000000"),
    ),
}
TRIPLES = (("D", "F", "Text"), ("At", "D", "At2"), ("F", "At", "Sym"), ("L", "D", "Note"), ("Text", "F", "D"))
EXTRA = {"At2": "At"}  # a second column of a kind
Rows = dict[str, list[Any]]


def kind_of(name: str) -> Kind:
    return KINDS[EXTRA.get(name, name)]


def day_of(number: int) -> str:
    return str(date(2026, 1, 1) + timedelta(number))


DAYS = {name: day_of(number) for number, name in enumerate(KINDS)}
DAY_OF_TRIPLES = day_of(len(KINDS))


def schema(indexes: Sequence[Sequence[str]]) -> str:
    columns = "".join(f'<Column name="{n}" {kind_of(n).attributes}/>' for n in [*KINDS, *EXTRA])
    listed = "".join(f'<DataIndex columns="{",".join(names)}"/>' for names in indexes)
    return (
        '<Table namespace="NS" name="Pairs" storageType="NestedPartitionedOnDisk">'
        '<Partitions keyFormula="${autobalance_single}"/>'
        '<Column name="Date" dataType="String" columnType="Partitioning"/>'
        f'<Column name="Row" dataType="long"/>{columns}{listed}</Table>'
    )


def make(root: Path) -> PlainRows:
    """The table below ``root``, and its rows."""
    rng = random.Random(7)
    db = IntradayRows(root, schema([]).encode(), fs=FS)
    add_partition(FS, db.layout, "NS", "0")
    rows: Rows = {"Row": list(range(ROWS))}
    rows |= {name: rng.choices(kind_of(name).pool, k=ROWS) for name in [*KINDS, *EXTRA]}
    given = {"Row": pa.array(rows["Row"], pa.int64())}
    given |= {name: pa.array(rows[name], kind_of(name).arrow) for name in [*KINDS, *EXTRA]}
    db.commit({("a", day): pa.table(given) for day in (*DAYS.values(), DAY_OF_TRIPLES)})
    for name, day in DAYS.items():
        deploy(FS, db.layout, schema([(name, other) for other in KINDS if other != name]).encode(), consent=ACCEPTED)
        merge(db.layout, day, table=TABLE, sort=(SortKey(name),))
    deploy(FS, db.layout, schema(TRIPLES).encode(), consent=ACCEPTED)
    merge(db.layout, DAY_OF_TRIPLES, table=TABLE, sort=(SortKey("D"), SortKey("F")))
    return PlainRows(rows)


SEVERAL = ("F", "D", "At", "L")  # columns of which a literal may equal several stored keys, or be between two


def asked() -> Iterator[tuple[str, tuple[str, ...], tuple[Literal, ...]]]:
    """A date, columns that one index of it begins with, and a literal of each.

    Behind a column of which a literal may equal several keys all literals come in turn, behind others one.
    """
    for first, second in itertools.permutations(KINDS, 2):
        one, other = KINDS[first].literals, KINDS[second].literals
        for number in range(max(len(one), len(other)) if first in SEVERAL else 1):
            yield DAYS[first], (first, second), (one[number % len(one)], other[number % len(other)])
    for names in TRIPLES:
        for literals in itertools.product(*(kind_of(name).literals for name in names)):
            yield DAY_OF_TRIPLES, names, literals


class PlainRows:
    """The rows of each date, by column, and which of them a plain loop finds."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._masks: dict[tuple[str, Literal, bool], npt.NDArray[np.bool_]] = {}

    def where(self, names: Sequence[str], literals: Sequence[Literal], *, in_spark: bool = False) -> list[int]:
        """The rows in which each column equals its literal."""
        masks = [self._mask(name, literal, in_spark) for name, literal in zip(names, literals, strict=True)]
        found: list[int] = np.flatnonzero(np.logical_and.reduce(masks)).tolist()
        return found

    def _mask(self, name: str, literal: Literal, in_spark: bool) -> npt.NDArray[np.bool_]:
        key = name, literal, in_spark
        if key not in self._masks:
            holds = literal.in_spark if in_spark and literal.in_spark is not None else literal.holds
            self._masks[key] = np.array([value is not None and holds(value) for value in self.rows[name]], np.bool_)
        return self._masks[key]
