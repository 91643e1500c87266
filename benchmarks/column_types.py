"""What each column type costs: values a second written, read, merged, and decoded from JSON; beside Parquet by pyarrow.

``python -m benchmarks.column_types [--rows 400000] [--rounds 5] [--only double[],LocalDate]``. Written and read are
the bytes of a column in memory, against ``pyarrow.parquet`` with the same array in memory, without compression,
with a dictionary or without, whichever is faster. Merged is a date of one source with
this column alone, beside one with a ``long``.
JSON is decoded from lines with this field alone, beside a column of ``double``. Ingest decodes lines with a field of
each of these types, and of all types, beside as many numbers. All is processor time, the best of the rounds.

Targets: types of one width are written, read and merged at half the speed of ``long``. Arrays of numbers and bytes are
at least as fast as Parquet. Dates, times and decimals take at most twice the time of a ``double`` from JSON, and an
ingest of them 1.2 times that of numbers. Ends with 1 beyond one.
"""

from __future__ import annotations

import argparse
import io
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.parts.column_texts import decoding
from sparkhaven.store.format.column.codecs import Base, codec_for
from sparkhaven.store.format.column.region import DAT, Region
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.document.schema_file import parse_schema
from sparkhaven.store.types.model import Column
from sparkhaven.writers.merge.date_merges import merge_dates
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.partitions import add_partition
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.coded_rows import COLUMNS, DAY, coded_row

PLAIN = {"L": 'dataType="long"', "D": 'dataType="double"'}
SEED_ROWS = 2000  # different rows; a column has them again and again
SPELLED = ("Day", "Far", "Clock", "Short", "Px", "Wide", "Whole")  # which JSON writes as a text or number
FIXED_SHARE, JSON_SHARE, INGEST_SHARE = 0.5, 2.0, 1.2


@dataclass(frozen=True)
class Speed:
    """Nanoseconds a value. ``spelled`` None: not measured."""

    write: float
    read: float
    merge: float
    parquet_write: float
    parquet_read: float
    json: float | None


def best(run: Callable[[], object], rounds: int, values: int) -> float:
    """Nanoseconds of the processor a value."""
    taken = []
    for _ in range(rounds):
        begun = time.process_time_ns()
        run()
        taken.append(time.process_time_ns() - begun)
    return min(taken) / values


def schema_text(attributes: str) -> bytes:
    return (
        '<Table namespace="Bench" name="Types" storageType="NestedPartitionedOnDisk">'
        '<Column name="Date" dataType="String" columnType="Partitioning"/>'
        f'<Column name="X" {attributes}/></Table>'
    ).encode()


def column_of(attributes: str, name: str = "X") -> Column:
    return replace(parse_schema(schema_text(attributes), "Bench.Types.schema").schema.columns[1], name=name)


def values_of(name: str, column: Column, rows: int) -> pa.Array:
    """So many values, one in ten of them null. Dates are of the years that tables have."""
    rng = random.Random(7)  # noqa: S311
    if name in PLAIN:
        seed = [None if rng.random() < 0.1 else rng.randrange(10**9) for _ in range(SEED_ROWS)]
    else:
        seed = [coded_row(rng, number)["Far" if name == "Day" else name] for number in range(SEED_ROWS)]
    counts = pa.types.is_time(column.type.arrow)
    array = pa.array(seed, pa.int64()).view(column.type.arrow) if counts else pa.array(seed, column.type.arrow)
    return array.take(pa.array(np.arange(rows) % SEED_ROWS))


def opened(column: Column, files: dict[str, bytes], rows: int) -> Callable[[], object]:
    """Reads the whole column once."""
    buffers = {name: pa.py_buffer(data) for name, data in files.items()}
    companions = {name.removeprefix("X"): data for name, data in buffers.items() if name != "X" + DAT}
    region = Region(column, "X.dat", "LITTLE_ENDIAN", rows, buffers["X" + DAT], companions)
    return lambda: codec_for(column).open(region)(0, rows, None)


def parquet(array: pa.Array, rounds: int) -> tuple[float, float]:
    """Nanoseconds a value to write and to read, by the faster of two ways each."""
    table, writes, reads = pa.table({"X": array}), [], []
    for coded in (False, True):

        def write(coded: bool = coded) -> bytes:
            sink = io.BytesIO()
            pq.write_table(table, sink, compression="none", use_dictionary=coded)
            return sink.getvalue()

        data = write()
        writes.append(best(write, rounds, len(array)))
        reads.append(best(partial(_read, data), rounds, len(array)))
    return min(writes), min(reads)


def _read(data: bytes) -> pa.Table:
    return pq.read_table(io.BytesIO(data), use_threads=False)


def merge_time(attributes: str, array: pa.Array, scratch: Path, rounds: int) -> float:
    """Nanoseconds a value of a date's merge, in this process, with its proof."""
    db = IntradayRows(scratch, schema_text(attributes), durability="fsync")
    db.commit({("a", DAY): pa.table({"X": array})})
    add_partition(db.fs, db.layout, "Bench", "0")
    executor = LocalExecutor(1, processes=False)

    def run() -> None:
        options = MergeOptions(rewrite=True)
        for result in merge_dates(
            TablePlace(db.fs, db.layout, db.table), [DAY], options, executor=executor, clock=time.time
        ):
            if result.error is not None:
                raise result.error

    return best(run, rounds, len(array))


def measured(name: str, attributes: str, rows: int, rounds: int) -> tuple[Column, Speed]:
    column = column_of(attributes)
    array = values_of(name, column, rows)
    codec = codec_for(column)
    encoded = codec.encode(column, array, Base(), False)
    files = {file: bytes(part) for file, part in encoded.parts.items()}
    spelled = name in (*SPELLED, "D")
    json_ns = best(decoding({column: array}), rounds, rows) if spelled else None
    with tempfile.TemporaryDirectory() as scratch:
        merged = merge_time(attributes, array, Path(scratch), max(1, rounds // 2))
    wrote = best(lambda: codec.encode(column, array, Base(), False), rounds, rows)
    read = best(opened(column, files, rows), rounds, rows)
    return column, Speed(wrote, read, merged, *parquet(array, rounds), json_ns)


def beyond(column: Column, speed: Speed, long: Speed, double: Speed) -> list[str]:
    """The targets that are missed."""
    missed = []
    kind = column.type
    if kind.fixed is not None:
        slow = [w for w in ("write", "read", "merge") if getattr(speed, w) > getattr(long, w) / FIXED_SHARE]
        missed += [f"{what} at less than half the speed of long" for what in slow]
    elif kind.name != "String[]" and (kind.name.endswith("[]") or pa.types.is_binary(kind.arrow)):
        missed += ["write slower than Parquet"] * (speed.write > speed.parquet_write)
        missed += ["read slower than Parquet"] * (speed.read > speed.parquet_read)
    if speed.json is not None and double.json is not None and speed.json > JSON_SHARE * double.json:
        missed.append("from JSON in more than twice the time of double")
    return missed


def ingested(names: Sequence[str], rows: int, rounds: int) -> tuple[float, float]:
    """Nanoseconds a row of lines with columns of these types, and of lines with as many numbers."""
    taken = []
    for kinds in (names, ["LD"[index % 2] for index in range(len(names))]):
        every = {**PLAIN, **COLUMNS}
        columns = [(kind, column_of(every[kind], f"C{index}")) for index, kind in enumerate(kinds)]
        decode = decoding({column: values_of(kind, column, rows) for kind, column in columns})
        taken.append(best(decode, rounds, rows))
    return taken[0], taken[1]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="names of types, separated by commas")
    options = parser.parse_args(words)
    chosen = {name for name in options.only.split(",") if name}
    Fs()
    _, long = measured("L", PLAIN["L"], options.rows, options.rounds)
    _, double = measured("D", PLAIN["D"], options.rows, options.rounds)
    print("nanoseconds a value     write     read    merge   Parquet write    read   from JSON")
    show("long", long)
    show("double", double)
    missed: list[str] = []
    for name, attributes in COLUMNS.items():
        column = column_of(attributes)
        if chosen and column.type.name not in chosen:
            continue
        column, speed = measured(name, attributes, options.rows, options.rounds)
        label = f"{column.type.name} {column.codec_args or ''}".strip()
        show(label, speed)
        missed += [f"{label}: {one}" for one in beyond(column, speed, long, double)]
    for label, names in {"dates, times, decimals": SPELLED, "all types": tuple(COLUMNS)}.items() if not chosen else ():
        coded, numbers = ingested(names, options.rows // 10, options.rounds)
        print(f"ingest of {label}: {coded:.0f} ns a row of {len(names)} columns, of numbers {numbers:.0f}", flush=True)
        if coded > INGEST_SHARE * numbers:
            missed.append(f"ingest of {label}: {coded / numbers:.2f} times that of numbers")
    for one in missed:
        print(f"beyond its target: {one}")
    return 1 if missed else 0


def show(label: str, speed: Speed) -> None:
    json = "" if speed.json is None else f"{speed.json:12.0f}"
    cells: list[Any] = [speed.write, speed.read, speed.merge, speed.parquet_write, speed.parquet_read]
    print(f"{label[:20]:20}" + "".join(f"{cell:9.1f}" for cell in cells) + json, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
