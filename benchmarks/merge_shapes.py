"""Merges other shapes of a day than ``merge_speed`` has, and sorts the same rows with DuckDB: whole commands.

    python -m benchmarks.merge_shapes                     all shapes, about 8 GB of disk below --dir
    python -m benchmarks.merge_shapes texts --scale 0.1

=========  =====================================================================================
numeric    5 M rows of 20 numbers from 4 sources
texts      1.6 M rows, each with a symbol and two texts of its own, from 4 sources
sources    1 M rows of 10 columns from 200 sources
=========  =====================================================================================

Ours is ``sparkhaven merge --local``: grouped by Sym, sorted by EventTime inside, checksums of the sources verified,
digests of both sides proven equal, everything synced. DuckDB reads Parquet files of the same rows and writes
``ORDER BY Sym, EventTime`` as Parquet, synced, without proof: by snappy, by zstd, and not compressed; the fastest
counts. All are processes of their own, start-up counted, in turn, several times, with modules
compiled as an installer leaves them; medians of seconds and of CPU seconds are shown. ``alone`` is ours with one worker
instead of two; a second worker that does not help is a failure (exit 1), as is a ratio below its target.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.figures import add_record, record
from benchmarks.scratch import scratch
from benchmarks.whole_commands import CODECS, merged, sorted_by_duckdb
from sparkhaven.store.layout import TableName
from tests.support.tables.intraday_rows import IntradayRows

DAY = "2024-03-05"
HEAD = """<Table namespace="Bench" name="Rows" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String" columnType="Grouping"/>
  <Column name="EventTime" dataType="Instant"/>
"""
NUMBERS = 18
TABLE = TableName("Bench", "Rows")
TARGETS = {"numeric": 2.5, "texts": 2.0, "sources": 1.5}


@dataclass(frozen=True)
class Shape:
    """Rows in all, sources, and the columns beside Sym and EventTime."""

    rows: int
    sources: int
    columns: tuple[tuple[str, str], ...]  # name and attributes

    @property
    def schema(self) -> bytes:
        """The schema of the table."""
        lines = "".join(f'  <Column name="{name}" {attributes}/>\n' for name, attributes in self.columns)
        return f"{HEAD}{lines}</Table>\n".encode()


NO_TABLE = 'dataType="String" symbolTable="None" encoding="UTF_8"'
KINDS = ("double", "int", "long", "short")
SHAPES = {
    "numeric": Shape(5_000_000, 4, tuple((f"N{i}", f'dataType="{KINDS[i % 4]}"') for i in range(NUMBERS))),
    "texts": Shape(
        1_600_000,
        4,
        (("Id", 'dataType="String"'), ("Note", NO_TABLE), ("Detail", NO_TABLE), ("Seq", 'dataType="long"')),
    ),
    "sources": Shape(1_000_000, 200, tuple((f"N{i}", f'dataType="{KINDS[i % 4]}"') for i in range(8))),
}


def rows_of(shape: Shape, number: int, first: int, seed: int) -> pa.Table:
    """Rows of one source: times rise, symbols are mixed, ids and texts do not repeat."""
    chance = np.random.default_rng(seed)
    times = 1_709_622_000_000_000_000 + np.sort(chance.integers(0, 8 * 3600 * 10**9, number))
    symbols = pa.array([f"S{i:04d}" for i in range(2000)])
    chosen = pa.array(chance.zipf(1.3, number).clip(1, 2000) - 1, pa.int32())
    columns = {
        "Sym": pa.DictionaryArray.from_arrays(chosen, symbols),
        "EventTime": pa.array(times, pa.timestamp("ns", "UTC")),
    }
    for name, attributes in shape.columns:
        columns[name] = _values(name, attributes, number, first, chance)
    return pa.table(columns)


def _values(name: str, attributes: str, number: int, first: int, chance: np.random.Generator) -> pa.Array:
    if name == "Id":
        keys = chance.permutation(number) + first
        return pa.array([f"order-{key * 2654435761 % 2**32:08x}-{key}" for key in keys.tolist()])
    if name == "Note":
        return pa.array([f"filled at {key / 7:.6f} of {key}" for key in range(first, first + number)])
    if name == "Detail":
        return pa.array(
            [f'{{"route":"R{key % 31}","lot":{key},"tag":"{key * 31:x}"}}' for key in range(first, first + number)]
        )
    if "double" in attributes:
        return pa.array(np.round(chance.normal(100, 5, number), 2))
    if "int" in attributes:
        return pa.array(chance.integers(1, 10_000, number), pa.int32())
    if "short" in attributes:
        return pa.array(chance.integers(0, 300, number), pa.int16())
    return pa.array(np.arange(first, first + number), pa.int64())


def make(directory: Path, shape: Shape, scale: float) -> None:
    """The day as intraday locations in ``place/db``, and as Parquet files in ``place/parquet``."""
    db, files = IntradayRows(directory / "db", shape.schema), directory / "parquet"
    files.mkdir()
    source_rows = int(shape.rows * scale) // shape.sources
    tables = [(f"source-{i:03d}", rows_of(shape, source_rows, i * source_rows, i)) for i in range(shape.sources)]
    for name, table in tables:
        pq.write_table(table, files / f"{name}.parquet")
    for low in range(0, source_rows, 1 << 20):
        db.commit({(name, DAY): table.slice(low, 1 << 20) for name, table in tables})
    db.log.close()


def main() -> int:
    """Runs the shapes and prints a table."""
    parser = argparse.ArgumentParser(description="merge of other shapes against ORDER BY of DuckDB")
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=f"of {', '.join(SHAPES)}; default: all")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the rows")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--dir", type=Path, default=None)
    add_record(parser)
    arguments = parser.parse_args()
    heads = ("ours s", "cpu s", "alone s", "cpu s", "DuckDB s", "cpu s", "against DuckDB", "against alone")
    print(f"{'':10} {'rows':>10}" + "".join(f"{head:>{max(9, len(head) + 1)}}" for head in heads))
    right, measured = True, dict[str, float]()
    for name in arguments.shapes or SHAPES:
        with scratch("merge-shapes", arguments.dir) as directory:
            make(directory, SHAPES[name], arguments.scale)
            db, files, out = directory / "db", directory / "parquet", directory / "out.parquet"
            merged(db, TABLE, DAY, 1)  # compiles modules
            timings: list[list[tuple[float, float]]] = [[], [], *([] for _ in CODECS)]
            for _ in range(arguments.repeat):
                timings[0].append(merged(db, TABLE, DAY, arguments.workers))
                timings[1].append(merged(db, TABLE, DAY, 1))
                for way, codec in enumerate(CODECS, start=2):
                    timings[way].append(sorted_by_duckdb(files, out, arguments.workers, codec))
        medians = [tuple(statistics.median(column) for column in zip(*timing, strict=True)) for timing in timings]
        medians = [*medians[:2], min(medians[2:])]
        (together, _), (alone, _), (peer, _) = medians
        right &= together < alone and peer / together >= TARGETS[name]
        figure = f"shapes.{FIGURES[name]}"
        measured |= {figure: together, f"{figure}.duckdb": peer}
        measured |= {f"{figure}.ratio": peer / together, f"{figure}.one_worker": alone / together}
        rows = int(SHAPES[name].rows * arguments.scale)
        figures = "".join(f"{seconds:9.2f}" for median in medians for seconds in median)
        print(f"{name:10} {rows:10,}{figures}{peer / together:14.2f}x{alone / together:13.2f}x", flush=True)
    record(parser, arguments, measured, shapes=[])
    return 0 if right else 1


FIGURES = {"numeric": "numbers", "texts": "texts", "sources": "sources"}


if __name__ == "__main__":
    raise SystemExit(main())
