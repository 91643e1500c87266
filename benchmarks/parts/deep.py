"""What `verify --deep` and the scan of one column take against a copy of the same bytes in memory, one core, CPU time.

    python -m benchmarks.parts.deep [--rows 20000000] [--rounds 5] [--no-statistics]

Files are in the page cache, just written. A scan looks for the largest value of a column of each kind, of texts the
longest: whole columns, or in batches as `to_batches` makes them. The table is open; `benchmarks.open_table` times that.
The search is numpy's: Arrow's sum of a column of ints alone takes as long as a copy of it. Commits have statistics, as
those of a stream have: they spare a scan the search for nulls, and `verify` holds them against the values. The copy
goes from one array of as many bytes to another that was touched before. Goal: 60 % of its speed.

Where the time of `verify --deep` goes, in ms of 97 for 880 MB: 50 for the bytes to come from memory, which are mapped
and populated (mapping 5; read by the system into a buffer they took 94), 10 for checksums, 30 for values and texts
against their bounds, 2 in Python. Files that stay in the page cache for long lie there in smaller pieces, on some
systems: the same then took up to 140 ms, 35 of them for the mapping.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.figures import add_record, record
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.table import Table, pinned_of
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_runs import QuickFs

SCHEMA = b"""<Table namespace="Bench" name="Deep" storageType="NestedPartitionedOnDisk">
<Partitions keyFormula="${autobalance_single}"/>
<Column name="Date" dataType="String" columnType="Partitioning"/>
<Column name="L" dataType="long"/><Column name="I" dataType="int"/><Column name="D" dataType="double"/>
<Column name="S" dataType="String"/><Column name="T" dataType="String" symbolTable="None" encoding="UTF_8"/>
</Table>"""
COPIED = 1 << 28
IN_CACHE = 1 << 15  # lengths that are computed at once, so that no memory is touched for the first time


def make(root: Path, rows: int, *, statistics: bool = True) -> None:
    """One location."""
    db, rng = IntradayRows(root, SCHEMA, fs=QuickFs(), statistics=statistics), np.random.default_rng(3)
    words = pa.array([f"SYM{i}" for i in range(5000)])
    for first in range(0, rows, 1 << 20):
        count = min(1 << 20, rows - first)
        numbers = rng.integers(1, 1 << 40, count)
        columns = {
            "L": pa.array(numbers),
            "I": pa.array((numbers >> 12).astype(np.int32)),
            "D": pa.array(numbers / 7),
            "S": pa.DictionaryArray.from_arrays(pa.array((numbers % 5000).astype(np.int32)), words),
            "T": pa.array(numbers).cast(pa.string()),
        }
        db.commit({("s", "2026-11-20"): pa.table(columns)})
    db.log.close()


def best(work: Callable[[], object], rounds: int) -> float:
    """CPU seconds of the fastest of some rounds."""
    times = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


def scan(table: Table, name: str) -> list[object]:
    """Every value of one column is looked at."""
    return [largest(chunk) for chunk in table.to_arrow(columns=[name]).column(name).chunks]


def batches(table: Table, name: str) -> list[object]:
    """The same batch by batch."""
    return [largest(batch.column(0)) for batch in table.to_batches([name])]


def largest(values: pa.Array) -> object:
    """The largest number or symbol id, or the length of the longest text."""
    if pa.types.is_dictionary(values.type):
        return values.indices.to_numpy().max()
    if pa.types.is_string(values.type):
        ends = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, 4 * values.offset)
        parts = (ends[first : first + IN_CACHE + 1] for first in range(0, len(values), IN_CACHE))
        return max((part[1:] - part[:-1]).max() for part in parts)
    return values.to_numpy().max()


def main() -> None:
    """Prints a line a work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-statistics", action="store_true")
    add_record(parser)
    args = parser.parse_args()
    pa.set_cpu_count(1)
    source, target = np.ones(COPIED, np.uint8), np.ones(COPIED, np.uint8)
    copied = COPIED / best(lambda: np.copyto(target, source), args.rounds)
    print(f"{'work':<28}{'MB':>10}{'GB/s a core':>14}{'of the copy':>14}")
    print(f"{'copy in memory':<28}{COPIED / 1e6:>10.0f}{copied / 1e9:>14.2f}{1:>14.0%}")
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "root"
        make(root, args.rows, statistics=not args.no_statistics)
        files = [path for path in root.rglob("*") if path.is_file() and path.suffix in (".dat", ".bytes", ".sym")]
        works: list[tuple[str, int, Callable[[], object]]] = [
            ("verify --deep", sum(path.stat().st_size for path in files), lambda: deep(root))
        ]
        table = Table(pinned_of(open_table(root, "Bench.Deep")).with_checks(None))
        for name in "LIDST":
            size = sum(path.stat().st_size for path in files if path.name.split(".")[0] == name)
            works.append((f"scan of {name}", size, partial(scan, table, name)))
            works.append((f"scan of {name} in batches", size, partial(batches, table, name)))
        speeds = {"copy in memory": copied}
        for label, size, work in works:
            speed = size / best(work, args.rounds)
            speeds[label] = speed
            print(f"{label:<28}{size / 1e6:>10.0f}{speed / 1e9:>14.2f}{speed / copied:>14.0%}", flush=True)
    measured = {"deep.copy": "copy in memory", "deep.verify": "verify --deep", "deep.texts": "scan of T"}
    measured["deep.symbols"] = "scan of S"
    record(parser, args, {name: speeds[label] / 1e9 for name, label in measured.items()})


def deep(root: Path) -> None:
    """Raises if anything is found."""
    report = verify(Fs(), Layout(root), deep=True)
    assert not report.findings, report.findings  # noqa: S101


if __name__ == "__main__":
    main()
