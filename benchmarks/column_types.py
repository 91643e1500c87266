"""What each column type costs: values a second written, read, merged, and decoded from JSON; beside Parquet by pyarrow.

``python -m benchmarks.column_types [--rows 400000] [--rounds 5] [--only double[],LocalDate] [--record]``.
Written and read are the bytes of a column in memory, against ``pyarrow.parquet`` with the same array in memory,
without compression, with a dictionary or without, whichever is faster, and a column of ``long``. Merged is a date of
one source with this column alone, beside one with a ``long``.
JSON is decoded from lines with this field alone, beside a column of ``double``. Ingest decodes lines with a field of
each of these types, and of all types, beside as many numbers. All is processor time, the best of the rounds, and
what is compared takes part in each round.

Targets: types of one width are written, read and merged at half the speed of ``long``. Arrays of numbers and bytes are
at least as fast as Parquet. Dates, times and decimals take at most twice the time of a ``double`` from JSON. Ends
with 1 beyond one.
"""

from __future__ import annotations

import argparse
import io
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.figures import add_record, record
from benchmarks.parts.column_texts import decoding
from sparkhaven.store.format.column.codecs import Base, Encoded, codec_for
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
FIXED_SHARE, JSON_SHARE = 0.5, 2.0
HEADS = ("write", "of long", "Parquet", "read", "of long", "Parquet", "merge", "of long", "JSON", "double")


@dataclass(frozen=True)
class Costs:
    """Nanoseconds a value, and those of the same work with a column of ``long``, or as Parquet."""

    own: float
    long: float
    parquet: float


@dataclass(frozen=True)
class Speed:
    """What one type costs. ``json``: from JSON, and of ``double``; None: not measured."""

    write: Costs
    read: Costs
    merge: float
    long_merge: float
    json: tuple[float, float] | None


def in_turn(ways: Sequence[Callable[[], object]], rounds: int, values: int) -> list[float]:
    """Nanoseconds of the processor a value, of each way its best round. All ways take part in each round."""
    taken = [float("inf")] * len(ways)
    for _ in range(rounds):
        for index, run in enumerate(ways):
            begun = time.process_time_ns()
            run()
            taken[index] = min(taken[index], (time.process_time_ns() - begun) / values)
    return taken


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


Ways = tuple[Callable[[], object], Callable[[], object]]


def stored(column: Column, array: pa.Array) -> Ways:
    """Writes and reads the whole column once."""
    codec, rows = codec_for(column), len(array)

    def write() -> Encoded:
        return codec.encode(column, array, Base())

    buffers = {file: pa.py_buffer(bytes(part)) for file, part in write().parts.items()}
    companions = {name.removeprefix(column.name): data for name, data in buffers.items() if not name.endswith(DAT)}
    region = Region(column, "X.dat", "LITTLE_ENDIAN", rows, buffers[column.name + DAT], companions)
    return write, lambda: codec.open(region)(0, rows, None)


def parquet(array: pa.Array, dictionary: bool) -> Ways:
    """The same with Parquet."""
    table = pa.table({"X": array})

    def write() -> bytes:
        sink = io.BytesIO()
        pq.write_table(table, sink, compression="none", use_dictionary=dictionary)
        return sink.getvalue()

    data = write()
    return write, lambda: pq.read_table(io.BytesIO(data), use_threads=False)


@contextmanager
def merging(attributes: str, array: pa.Array) -> Iterator[Callable[[], object]]:
    """Merges a date of the column, in this process, with its proof."""
    with tempfile.TemporaryDirectory() as scratch:
        db = IntradayRows(Path(scratch), schema_text(attributes), durability="fsync")
        db.commit({("a", DAY): pa.table({"X": array})})
        add_partition(db.fs, db.layout, "Bench", "0")
        executor, options = LocalExecutor(1), MergeOptions(rewrite=True)
        place = TablePlace(db.fs, db.layout, db.table)

        def run() -> None:
            for result in merge_dates(place, [DAY], options, executor=executor, clock=time.time):
                if result.error is not None:
                    raise result.error

        yield run


def measured(name: str, attributes: str, rows: int, rounds: int) -> Speed:
    column, long, double = column_of(attributes), column_of(PLAIN["L"]), column_of(PLAIN["D"])
    array, numbers = values_of(name, column, rows), values_of("L", long, rows)
    ways = stored(column, array), stored(long, numbers), parquet(array, False), parquet(array, True)
    costs = []
    for runs in zip(*ways, strict=True):
        own, of_long, *of_parquet = in_turn(runs, rounds, rows)
        costs.append(Costs(own, of_long, min(of_parquet)))
    with merging(attributes, array) as own_merge, merging(PLAIN["L"], numbers) as long_merge:
        merge, merge_of_long = in_turn([own_merge, long_merge], max(1, rounds // 2), rows)
    json = None
    if name in SPELLED:
        spelled, plain = in_turn(
            [decoding({column: array}), decoding({double: values_of("D", double, rows)})], rounds, rows
        )
        json = spelled, plain
    write, read = costs
    return Speed(write, read, merge, merge_of_long, json)


def beyond(column: Column, speed: Speed) -> list[str]:
    """The targets that are missed."""
    missed, kind = [], column.type
    sides = {"write": speed.write, "read": speed.read}
    if kind.fixed is not None:
        pairs = {
            **{what: (costs.own, costs.long) for what, costs in sides.items()},
            "merge": (speed.merge, speed.long_merge),
        }
        slow = [what for what, (own, of_long) in pairs.items() if own > of_long / FIXED_SHARE]
        missed += [f"{what} at less than half the speed of long" for what in slow]
    elif kind.name != "String[]" and (kind.name.endswith("[]") or pa.types.is_binary(kind.arrow)):
        missed += [f"{what} slower than Parquet" for what, costs in sides.items() if costs.own > costs.parquet]
    if speed.json is not None and speed.json[0] > JSON_SHARE * speed.json[1]:
        missed.append("from JSON in more than twice the time of double")
    return missed


def ingested(names: Sequence[str], rows: int, rounds: int) -> tuple[float, float]:
    """Nanoseconds a row of lines with columns of these types, and of lines with as many numbers."""
    ways = []
    for kinds in (names, ["LD"[index % 2] for index in range(len(names))]):
        every = {**PLAIN, **COLUMNS}
        columns = [(kind, column_of(every[kind], f"C{index}")) for index, kind in enumerate(kinds)]
        ways.append(decoding({column: values_of(kind, column, rows) for kind, column in columns}))
    coded, numbers = in_turn(ways, rounds, rows)
    return coded, numbers


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="names of types, separated by commas")
    add_record(parser)
    options = parser.parse_args(words)
    chosen = {name for name in options.only.split(",") if name}
    Fs()
    print(f"{'nanoseconds a value':22}" + "".join(f"{head:>9}" for head in HEADS))
    missed: list[str] = []
    for name, attributes in COLUMNS.items():
        column = column_of(attributes)
        if chosen and column.type.name not in chosen:
            continue
        speed = measured(name, attributes, options.rows, options.rounds)
        label = f"{column.type.name} {column.codec_args or ''}".strip()
        show(label, speed)
        missed += [f"{label}: {one}" for one in beyond(column, speed)]
    groups = {"spelled": ("dates, times, decimals", SPELLED), "all": ("all types", tuple(COLUMNS))}
    ratios = {}
    for group, (label, names) in groups.items() if not chosen else ():
        coded, numbers = ingested(names, options.rows // 100, options.rounds)
        ratios[f"types.{group}.ratio"] = coded / numbers
        print(f"ingest of {label}: {coded:.0f} ns a row of {len(names)} columns, of numbers {numbers:.0f}", flush=True)
    for one in missed:
        print(f"beyond its target: {one}")
    record(parser, options, ratios)
    return 1 if missed else 0


def show(label: str, speed: Speed) -> None:
    cells: list[float] = []
    for costs in (speed.write, speed.read):
        cells += costs.own, costs.long, costs.parquet
    cells += speed.merge, speed.long_merge, *(speed.json or ())
    print(f"{label[:22]:22}" + "".join(f"{cell:9.1f}" for cell in cells), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
