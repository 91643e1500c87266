"""A table with every type that has a codec, and rows of it, null now and then."""

from __future__ import annotations

import random
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from sparkhaven.store.layout import TableName
from sparkhaven.store.types.codings.row_set import encode_rows
from sparkhaven.store.types.model import TableSchema

TABLE = TableName("Test", "Coded")
DAY = "2024-03-05"
CODEC = "io.deephaven.util.codec"
COLUMNS = {
    "Day": f'dataType="LocalDate" objectCodec="{CODEC}.LocalDateCodec" objectCodecArguments="Compact"',
    "Far": 'dataType="java.time.LocalDate"',
    "Clock": 'dataType="LocalTime"',
    "Short": f'dataType="LocalTime" objectCodec="{CODEC}.LocalTimeCodec" objectCodecArguments="3"',
    "Px": f'dataType="BigDecimal" objectCodec="{CODEC}.BigDecimalCodec" objectCodecArguments="18,6"',
    "Wide": f'dataType="BigDecimal" objectCodec="{CODEC}.BigDecimalCodec" objectCodecArguments="50,10"',
    "Free": 'dataType="java.math.BigDecimal"',
    "Whole": f'dataType="BigInteger" objectCodec="{CODEC}.BigIntegerCodec" objectCodecArguments="20"',
    "Huge": 'dataType="BigInteger"',
    "Raw": f'dataType="byte[]" objectCodec="{CODEC}.SimpleByteArrayCodec"',
    "Key": f'dataType="byte[]" objectCodec="{CODEC}.ByteArrayCodec" objectCodecArguments="4"',
    "Bytes": 'dataType="byte[]"',
    "Flags": 'dataType="boolean[]"',
    "Units": 'dataType="char[]"',
    "Shorts": 'dataType="short[]"',
    "Ints": 'dataType="int[]"',
    "Longs": 'dataType="long[]"',
    "Floats": 'dataType="float[]"',
    "Doubles": 'dataType="double[]"',
    "Texts": 'dataType="String[]"',
    "Moments": 'dataType="java.time.Instant[]"',
    "Weights": 'dataType="java.util.Map"',
    "Rows": 'dataType="io.deephaven.engine.rowset.RowSet"',
    "Tags": 'dataType="StringSet"',
    "Thing": 'dataType="com.example.Thing"',
}
SCHEMA = (
    '<Table namespace="Test" name="Coded" storageType="NestedPartitionedOnDisk">'
    '<Partitions keyFormula="${autobalance_by_first_grouping_column}"/>'
    '<Column name="Date" dataType="String" columnType="Partitioning"/>'
    '<Column name="Sym" dataType="String" columnType="Grouping"/><Column name="N" dataType="long"/>'
    + "".join(f'<Column name="{name}" {attributes}/>' for name, attributes in COLUMNS.items())
    + "</Table>"
).encode()


def coded_row(rng: random.Random, number: int) -> dict[str, Any]:
    """One row by its number. Times of day are nanoseconds, instants too, of whole microseconds."""
    some = rng.randrange(1, 9)
    row = {
        "Day": date(1, 1, 1) + timedelta(days=rng.randrange(3_600_000)),
        "Far": date(2024, 1, 1) + timedelta(days=rng.randrange(-800, 800)),
        "Clock": rng.randrange(86_400_000_000_000),
        "Short": rng.randrange(86_400_000) * 1_000_000,
        "Px": Decimal(rng.randrange(-(10**18) + 1, 10**18)).scaleb(-6),
        "Wide": Decimal(rng.randrange(-(10**27), 10**27)).scaleb(-10),
        "Free": rng.choice(["0", "-0.001", "12.5", str(10**60 + number)]),
        "Whole": Decimal(rng.randrange(-(10**20) + 1, 10**20)),
        "Huge": str(rng.randrange(-(10**70), 10**70)),
        "Raw": rng.randbytes(some),
        "Key": rng.randbytes(4),
        "Bytes": rng.randbytes(some - 1),
        "Flags": [rng.random() < 0.5 for _ in range(some - 1)],
        "Units": [rng.choice([0x41, 0, 0xFFFE, None]) for _ in range(some - 1)],
        "Shorts": [rng.choice([None, -(2**15) + 1, 2**15 - 1, 0]) for _ in range(some - 1)],
        "Ints": [rng.choice([None, -(2**31) + 1, 2**31 - 1, 0]) for _ in range(some - 1)],
        "Longs": [rng.choice([None, -(2**63) + 1, 2**63 - 1, number]) for _ in range(some - 1)],
        "Floats": [rng.choice([None, 1.5, -0.0, float("inf")]) for _ in range(some - 1)],
        "Doubles": [rng.choice([None, 0.1, -0.0, float("-inf")]) for _ in range(some - 1)],
        "Texts": [rng.choice([None, "", "a", "\U0001f600", "x" * 300]) for _ in range(some - 1)],
        "Moments": [rng.choice([None, 0, -1000, 1_700_000_000_123_456_000 + number * 1000]) for _ in range(some - 1)],
        "Rows": encode_rows(np.array([number, number + 9]), np.array([number + some // 2 + 1, number + 900])),
        "Weights": [(text, rng.choice([None, 1.5])) for text in "abc"[: some % 4]],
        "Thing": b"\xac\xed" + rng.randbytes(some),
    }
    row = {name: None if rng.random() < 0.1 else value for name, value in row.items()}
    tags = sorted(set(rng.choices(["", "a", "b", "é", "\U0001f600", "\uffee", "T1"], k=some - 1)), key=_units)
    return row | {"Sym": rng.choice(["AAPL", "IBM", None]), "N": number, "Tags": tags}


def _units(text: str) -> bytes:
    return text.encode("utf-16-be")


def coded_table(schema: TableSchema, rows: list[dict[str, Any]]) -> pa.Table:
    """Rows in the Arrow types of their columns."""
    arrays = {}
    for column in schema.stored:
        values, kind = [row[column.name] for row in rows], column.type.arrow
        counts = pa.types.is_time(kind)
        arrays[column.name] = pa.array(values, pa.int64()).view(kind) if counts else pa.array(values, kind)
    return pa.table(arrays)


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table as ``coded_row`` has them, ordered by number."""
    columns = {}
    for name in table.column_names:
        columns[name] = counted(table.column(name).combine_chunks()).to_pylist()
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return sorted(rows, key=lambda row: row["N"])


def key_text(name: str, value: Any) -> str:
    """A date, a time or a number of such a row as filters write it."""
    if name not in ("Clock", "Short"):
        return f"{value:f}" if isinstance(value, Decimal) else str(value)
    seconds, fraction = divmod(value, 1_000_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:09}"


def counted(column: pa.Array) -> pa.Array:
    """The column with times, and instants of arrays, as nanoseconds."""
    kind, kinds = column.type, pa.types
    if kinds.is_time(kind) or kinds.is_duration(kind):
        return column.cast(pa.time64("ns")).view(pa.int64())
    if hasattr(kind, "value_type") and kinds.is_timestamp(kind.value_type):
        return column.cast(pa.list_(pa.timestamp("ns", "UTC"))).cast(pa.list_(pa.int64()))
    return column
