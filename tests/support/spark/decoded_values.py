"""Values of a codec, sound and damaged, by the decoders of Python and of Java: each gives the same value, or refuses.

    python -m tests.support.spark.decoded_values [--values 100000] [--seed 1] [--only Texts,Moments]

Values are what writers make of random ones. Most are then changed: a bit, a byte, a piece cut out, put in or doubled, a
number set to a bound. The run ends with 1 where the two differ, or where Python raises an error that is none of ours.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from sparkhaven.readers.spark.jvm.plan_file import decoder_words
from sparkhaven.readers.spark.options import ReadOptions
from sparkhaven.readers.spark.spark_types import spark_batch, spark_schema
from sparkhaven.store.errors import CorruptFileError, SchemaMismatchError
from sparkhaven.store.format.column.charset import StoredEnds
from sparkhaven.store.format.column.coded import decode_coded, decode_coded_blobs, encode_coded
from sparkhaven.store.format.column.prefix import LITTLE
from sparkhaven.store.types.codings.coding import FixedCoding, entry_values, value_bytes
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage
from sparkhaven.store.types.null_char import OLD_NULL, column_with_null
from tests.support.spark.java_rows import run_java, shown
from tests.support.writers.coded_rows import CODEC, coded_row

BOUNDS = (0, 1, 2, 127, 128, 254, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
DECLARED: dict[str, tuple[str, str | None, str | None]] = {  # by the columns of ``coded_rows``, and some more
    "Day": ("LocalDate", None, "Compact"),
    "Far": ("LocalDate", None, None),
    "Clock": ("LocalTime", None, None),
    "Short": ("LocalTime", None, "3"),
    "Px": ("BigDecimal", None, "18,6"),
    "Tiny": ("BigDecimal", None, "9,2"),
    "Middle": ("BigDecimal", None, "38,10"),
    "Wide": ("BigDecimal", None, "50,10"),
    "Free": ("BigDecimal", None, None),
    "Whole": ("BigInteger", None, "20"),
    "Huge": ("BigInteger", None, None),
    "Raw": ("byte[]", f"{CODEC}.SimpleByteArrayCodec", None),
    "Key": ("byte[]", f"{CODEC}.ByteArrayCodec", "4"),
    "Sure": ("byte[]", f"{CODEC}.ByteArrayCodec", "4,notNull"),
    "Bytes": ("byte[]", None, None),
    "Flags": ("boolean[]", None, None),
    "Units": ("char[]", None, None),
    "Shorts": ("short[]", None, None),
    "Ints": ("int[]", None, None),
    "Longs": ("long[]", None, None),
    "Floats": ("float[]", None, None),
    "Doubles": ("double[]", None, None),
    "Texts": ("String[]", None, None),
    "Moments": ("Instant[]", None, None),
    **{f"{kind}s": ("Map", f"{CODEC}.String{kind}MapCodec", None) for kind in ("Boolean", "Int", "Long", "String")},
    "Weights": ("Map", None, None),
    "Thirds": ("Map", f"{CODEC}.StringFloatMapCodec", None),
    "Rows": ("RowSet", None, None),
    "Thing": ("com.example.Thing", None, None),
}
VALUES = {"Tiny": "Px", "Middle": "Px", "Sure": "Key", "Thirds": "Weights", "Booleans": "Weights"}
CHOICES = {
    "Units": ({"char": "int"}, {"char": "string"}),
    "Moments": ({"instant": "long"}, {"instant": "timestamp"}, {"instant": "timestamp-truncate"}),
}


@dataclass(frozen=True)
class Case:
    """One column, read with some options, and the bytes of values."""

    column: Column
    options: ReadOptions
    values: list[bytes]

    @property
    def head(self) -> bytes:
        """What the Java program is told of it."""
        coding = self.column.type.coding
        assert coding is not None
        words = decoder_words(coding, self.options)
        assert words is not None, self.column.name
        type_ = spark_schema([self.column], self.options).fields[0].dataType
        return _sized(words.encode()) + _sized(type_.json().encode())


def cases(count: int, seed: int, only: Sequence[str] = ()) -> Iterator[Case]:
    """The columns, ``count`` values for each with each of its options."""
    for name in only or DECLARED:
        rng = random.Random(f"{seed} {name}")
        kind = data_type(DECLARED[name][0], *DECLARED[name][1:])
        storage = Storage.FIXED if kind.fixed is not None else Storage.BLOB
        column = Column(name, kind, Kind.NORMAL, storage, 1)
        for number, chosen in enumerate(CHOICES.get(name, ({},))):
            read = column_with_null(column, OLD_NULL) if name == "Units" and not number else column
            values = [_changed(value, rng, kind.fixed is not None) for value in _sound(column, rng, count)]
            yield Case(read, ReadOptions(Path(), name, **chosen), [value for value in values if value])  # type: ignore[arg-type]


def _sound(column: Column, rng: random.Random, count: int) -> list[bytes]:
    """The bytes of random values, those of null left out where they are none."""
    coding = column.type.fixed or column.type.blob
    assert coding is not None
    values = [_value(column, rng, number) for number in range(count)]
    if column.name == "Sure":
        values = [b"1234" if value is None else value for value in values]
    if pa.types.is_time(coding.arrow):
        array = pa.array(values, pa.int64()).view(coding.arrow)
    else:
        array = pa.array(values, coding.arrow)
    if isinstance(coding, FixedCoding):
        stored = entry_values(np.frombuffer(encode_coded(array, coding), np.uint8), coding)
    else:
        stored = value_bytes(array, coding)
    return [value for value in stored.to_pylist() if value is not None]


def _value(column: Column, rng: random.Random, number: int) -> Any:
    name = VALUES.get(column.name, column.name)
    if pa.types.is_map(column.type.arrow) and column.name not in ("Weights", "Thirds"):
        kind = column.type.arrow.item_type
        values = (
            ["a", "\U0001f600", ""] if pa.types.is_string(kind) else [True, None] if kind == pa.bool_() else [7, None]
        )
        return [(key, rng.choice(values)) for key in rng.sample(["", "a", "é", "b" * 200], rng.randrange(4))]
    value = coded_row(rng, number)[name]
    if value is not None and column.name == "Tiny":
        value = (value % 9_999_999).quantize(Decimal("0.01"))
    if value and column.name == "Moments" and rng.random() < 0.3:
        return [None if instant is None else instant + rng.randrange(2000) for instant in value]
    return value


def _changed(value: bytes, rng: random.Random, fixed: bool) -> bytes:
    """The value as it is, now and then, or with one to three changes; of the same length where that is fixed."""
    data = bytearray(value)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        if not data:
            break
        at = rng.randrange(len(data))
        change = rng.randrange(3 if fixed else 7)
        if change == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif change == 1:
            data[at] = rng.choice(
                (0, 1, 0x70, 0x71, 0x74, 0x7C, 0x7F, 0x80, 0xC0, 0xED, 0xF0, 0xFE, 0xFF, rng.randrange(256))
            )
        elif change == 2:
            width = rng.choice((1, 2, 4, 8))
            number = (rng.choice(BOUNDS) + rng.randrange(-1, 2)) % 256**width
            data[at : at + width] = number.to_bytes(width, "big")[: len(data) - at]
        elif change == 3:
            del data[at:]
        elif change == 4:
            del data[at : at + rng.choice((1, 2, 4, 8))]
        elif change == 5:
            data[at:at] = rng.randbytes(rng.choice((1, 2, 4, 8)))
        else:
            size = rng.randrange(1, 32)
            other = rng.randrange(len(data))
            data[at:at] = data[other : other + size]
    return bytes(data)


def by_python(case: Case) -> list[str]:
    """What the readers of Python give for each value, as ``SparkValues.java`` writes it."""
    return [_by_python(case, value) for value in case.values]


def _by_python(case: Case, value: bytes) -> str:
    column = case.column
    try:
        if column.type.fixed is not None:
            array = decode_coded(pa.py_buffer(value), column.type.fixed, "here")
        else:
            assert column.type.blob is not None
            ends = pa.py_buffer(np.array([len(value)], "<i8"))
            array = decode_coded_blobs(StoredEnds(ends, 0, LITTLE, "here"), pa.py_buffer(value), column.type.blob)
        batch = pa.RecordBatch.from_arrays([array], names=[column.name])
        return shown(spark_batch(batch, [column], case.options).column(0), 0)
    except CorruptFileError:
        return "damaged"
    except SchemaMismatchError as error:
        return f"refused: {error.what}|{error.expected}|{error.found}|{error.hint}"


def by_java(cases: Iterable[Case], scratch: Path) -> list[str]:
    """The same of all values of all cases."""
    path = scratch / "values"
    with path.open("wb") as out:
        for case in cases:
            out.write(case.head + struct.pack(">i", len(case.values)))
            for value in case.values:
                out.write(_sized(value))
    return run_java("values", path)


def differences(cases: Sequence[Case], scratch: Path) -> list[str]:
    """The values for which Python and Java differ, each with what they give."""
    given = iter(by_java(cases, scratch))
    differing = []
    for case in cases:
        for value, python in zip(case.values, by_python(case), strict=True):
            java = next(given)
            if python != java:
                differing.append(f"{case.column.name} {value.hex()}: Python {python}, Java {java}")
    assert next(given, None) is None
    return differing


def _sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def main(words: Sequence[str] | None = None) -> int:
    """0: all alike; 1: some are not."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--values", type=int, default=100_000, help="values of each column and option")
    reader.add_argument("--seed", type=int, default=1)
    reader.add_argument("--only", default="", help="columns, separated by commas")
    options = reader.parse_args(words)
    only = [name for name in options.only.split(",") if name]
    total, wrong = 0, 0
    with TemporaryDirectory() as scratch:
        for part in range(-(-options.values // 2_000)):
            tried = list(cases(min(2_000, options.values), options.seed * 1_000_003 + part, only))
            differing = differences(tried, Path(scratch))
            total, wrong = total + sum(len(case.values) for case in tried), wrong + len(differing)
            for line in differing[:20]:
                print(line[:600], flush=True)
    print(f"{total:,} values, {wrong:,} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
