"""Merges a day that does not fit the memory of a worker; prints the peak resident memory, a worker.

    python -m benchmarks.parts.merge_memory                 10 M rows x 20 columns under 1 GiB per worker
    python -m benchmarks.parts.merge_memory --memory 512    the same under 512 MiB
    python -m benchmarks.parts.merge_memory --shape symbols --rows 1600000 --memory 256   symbols all differ
    python -m benchmarks.parts.merge_memory --rows 86000000 --against 16384   10 GB, and its speed against memory

The merge runs in a process of its own, whose workers are threads. Peak is the kernel's ``VmHWM``: all resident
pages, those of mapped source files included. (``ru_maxrss`` would be that of the parent before the child began.)
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.figures import add_record, record
from benchmarks.scratch import scratch
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.date_merges import merge_dates
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.merge.sources.sort_keys import SortKey
from tests.support.places import REPOSITORY
from tests.support.tables.intraday_rows import IntradayRows

DAY = "2024-03-05"
TABLE = TableName("Bench", "Wide")
SOURCES = 4
BATCH = 1 << 18
DOUBLES, LONGS, INTS = 6, 3, 3


def schema() -> bytes:
    """Twenty stored columns: five symbol, text and instant ones, the rest numbers."""
    names = [
        ("Sym", 'String" columnType="Grouping'),
        ("Venue", "String"),
        ("Account", "String"),
        ("Note", 'String" symbolTable="None'),
        ("EventTime", "Instant"),
        *((f"Px{i}", "double") for i in range(DOUBLES)),
        *((f"Id{i}", "long") for i in range(LONGS)),
        *((f"Qty{i}", "int") for i in range(INTS)),
        ("Cond", "short"),
        ("Flags", "byte"),
        ("Last", "Boolean"),
    ]
    columns = "".join(f'<Column name="{name}" dataType="{kind}"/>' for name, kind in names)
    return (
        f'<Table namespace="{TABLE.namespace}" name="{TABLE.table}" storageType="NestedPartitionedOnDisk">'
        f'<Partitions keyFormula="${{autobalance_single}}"/>'
        f'<Column name="Date" dataType="String" columnType="Partitioning"/>{columns}</Table>'
    ).encode()


def batch_of(number: int, seed: int) -> pa.Table:
    """Rows of one batch: a third of them in one giant group."""
    rng = np.random.default_rng(seed)

    def coded(count: int, prefix: str, *, giant: bool = False) -> pa.Array:
        codes = rng.integers(0, count, number)
        if giant:
            codes[rng.random(number) < 0.33] = 0
        return pa.DictionaryArray.from_arrays(
            pa.array(codes, pa.int32()), pa.array([f"{prefix}{i}" for i in range(count)])
        )

    columns = {
        "Sym": coded(3000, "S", giant=True),
        "Venue": coded(20, "V"),
        "Account": coded(20_000, "A"),
        "Note": pa.array([f"note {i % 997}" if i % 3 else None for i in range(number)], pa.string()),
        "EventTime": pa.array(rng.integers(1_709_622_000, 1_709_650_000, number) * 10**9, pa.timestamp("ns", "UTC")),
        **{f"Px{i}": rng.normal(100, 5, number) for i in range(DOUBLES)},
        **{f"Id{i}": rng.integers(0, 2**60, number) for i in range(LONGS)},
        **{f"Qty{i}": pa.array(rng.integers(0, 10_000, number), pa.int32()) for i in range(INTS)},
        "Cond": pa.array(rng.integers(0, 30, number), pa.int16()),
        "Flags": pa.array(rng.integers(0, 100, number), pa.int8()),
        "Last": pa.array(rng.random(number) < 0.5),
    }
    return pa.table(columns)


def symbol_schema() -> bytes:
    """Two symbol columns in which nearly every row has a text of its own, a text without symbol table, and a time."""
    columns = "".join(
        f'<Column name="{name}" dataType="{kind}"/>'
        for name, kind in (
            ("Order", "String"),
            ("Client", "String"),
            ("Note", 'String" symbolTable="None'),
            ("EventTime", "Instant"),
        )
    )
    return schema().split(b'<Column name="Sym"')[0] + columns.encode() + b"</Table>"


def symbol_batch(number: int, seed: int) -> pa.Table:
    """Rows of one batch; no text comes twice."""
    rng = np.random.default_rng(seed)
    keys = rng.permutation(number) + seed * 10_000_000
    return pa.table(
        {
            "Order": pa.array([f"O{key:016d}" for key in keys.tolist()]),
            "Client": pa.array([f"client-{key * 7919 % 10**12:x}" for key in keys.tolist()]),
            "Note": pa.array([f"note {key}" for key in keys.tolist()]),
            "EventTime": pa.array(
                rng.integers(1_709_622_000, 1_709_650_000, number) * 10**9, pa.timestamp("ns", "UTC")
            ),
        }
    )


NIGHT = {"rows": 86_000_000, "against": 16_384}  # sizes of the figures of a night
SHAPES = {"wide": (schema, batch_of), "symbols": (symbol_schema, symbol_batch)}


def make(root: Path, rows: int, shape: str = "wide") -> None:
    """The day as committed intraday locations."""
    schema_, batch = SHAPES[shape]
    db = IntradayRows(root, schema_())
    source_rows = rows // SOURCES
    for source in range(SOURCES):
        for low in range(0, source_rows, BATCH):
            db.commit({(f"source-{source}", DAY): batch(min(BATCH, source_rows - low), source * 1000 + low)})
    db.log.close()


def forget_merge(root: Path) -> None:
    """Removes what a merge has left, so that the day can be merged again."""
    shutil.rmtree(Layout(root).system(TABLE.namespace))


def peak() -> int:
    """Peak resident bytes of this process."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024


def child(root: Path, memory: int, workers: int) -> int:
    """Merges and prints what it took as JSON."""
    begun = time.perf_counter()
    before = peak()
    options = MergeOptions(sort=(SortKey("EventTime"),), memory=memory, workers=workers)
    place = TablePlace(Fs(), Layout(root), TABLE)
    with LocalExecutor(workers) as executor:
        (result,) = merge_dates(place, [DAY], options, executor=executor, clock=time.time)
    if result.error is not None:
        raise result.error
    report = {
        "rows": result.rows_out,
        "pieces": result.pieces,
        "seconds": time.perf_counter() - begun,
        "start": before,
        "driver": peak(),
        "worker": before + (peak() - before) / workers,
    }
    print(json.dumps(report))
    return 0


def run_child(root: Path, memory: int, workers: int) -> dict[str, float]:
    """Runs ``child`` in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.parts.merge_memory", "--child", str(root)]
    command += ["--memory-bytes", str(memory), "--workers", str(workers)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=REPOSITORY)
    report: dict[str, float] = json.loads(done.stdout)
    return report


def main() -> int:
    """Makes the day, merges it in a child, prints a table; 1 if a worker took more than its limit."""
    parser = argparse.ArgumentParser(description="merge of a day under a memory limit")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="wide", help="symbols: all distinct")
    parser.add_argument("--memory", type=int, default=1024, help="MiB per worker")
    parser.add_argument("--memory-bytes", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--against", type=int, default=0, help="MiB per worker with which the same day is merged too")
    parser.add_argument("--child", type=Path, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--dir", type=Path, default=None)
    add_record(parser)
    arguments = parser.parse_args()
    if arguments.child is not None:
        return child(arguments.child, arguments.memory_bytes, arguments.workers)
    limit = arguments.memory << 20
    with scratch("merge-memory", arguments.dir) as directory:
        print(f"making {arguments.rows:,} rows, shape {arguments.shape}, in {SOURCES} sources", file=sys.stderr)
        make(directory / "db", arguments.rows, arguments.shape)
        report = run_child(directory / "db", limit, arguments.workers)
        show(report, arguments.shape, arguments.memory, arguments.workers)
        measured = {"merge.memory": report["worker"] / (1 << 20)}
        if arguments.against:
            forget_merge(directory / "db")
            other = run_child(directory / "db", arguments.against << 20, arguments.workers)
            show(other, arguments.shape, arguments.against, arguments.workers)
            speed = other["seconds"] / report["seconds"]
            print(f"  {speed:.0%} of the speed that it has with {arguments.against} MiB")
            measured = {"night.memory": measured["merge.memory"], "night.speed": 100 * speed}
    record(parser, arguments, measured, **(NIGHT if arguments.against else {}))
    return 0 if report["worker"] <= limit else 1


def show(report: dict[str, float], shape: str, memory: int, workers: int) -> None:
    """Prints what one merge took."""
    print(
        f"{report['rows']:,} rows, shape {shape}, limit {memory} MiB per worker, {workers} workers, "
        f"{report['pieces']} pieces, {report['seconds']:.1f} s; Python {platform.python_version()}, "
        f"numpy {np.__version__}, pyarrow {pa.__version__}"
    )
    for name in ("start", "driver", "worker"):
        print(f"  peak of {name:7} {report[name] / (1 << 20):8.0f} MiB")


if __name__ == "__main__":
    raise SystemExit(main())
