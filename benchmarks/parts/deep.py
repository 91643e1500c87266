"""What `verify --deep` and the scan of one column take against a copy of the same bytes in memory, one core.

    python -m benchmarks.parts.deep [--rows 20000000] [--rounds 5] [--no-statistics] [--no-first]

`verify --deep` and the copy are CPU time, with files in the page cache, just written. A scan looks for the largest
value of a column of each kind, of texts at each length and each byte: whole columns, or in batches as `to_batches`
makes them. Each scan has a table of its own, which is open, and compares the checksums of the files. It is timed by the
clock: first with nothing in the page cache, which needs root, then with the files there. The figure of numbers is that
of the slowest of three types.
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
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.figures import add_record, record
from benchmarks.whole_commands import uncached
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.snapshot import Snapshot, pinned_of
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.scan.checksums import Checks
from tests.support.disks.model_fs import QuickFs
from tests.support.tables.intraday_rows import IntradayRows

SCHEMA = b"""<Table namespace="Bench" name="Deep" storageType="NestedPartitionedOnDisk">
<Partitions keyFormula="${autobalance_single}"/>
<Column name="Date" dataType="String" columnType="Partitioning"/>
<Column name="L" dataType="long"/><Column name="I" dataType="int"/><Column name="D" dataType="double"/>
<Column name="S" dataType="String"/><Column name="T" dataType="String" symbolTable="None" encoding="UTF_8"/>
</Table>"""
NAMES = {"L": "numbers", "I": "numbers", "D": "numbers", "S": "symbols", "T": "texts"}
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


def clocked(root: Path, work: Callable[[Snapshot], object], rounds: int, *, first: bool) -> float:
    """Median seconds of some scans of a table that is open, of a ``first`` one with nothing in the page cache."""
    times = []
    for _ in range(rounds):
        table = opened(root)
        if first:
            uncached()
        begun = time.perf_counter()
        work(table)
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def opened(root: Path) -> Snapshot:
    """The table, which compares checksums whenever it reads a file."""
    return Snapshot(pinned_of(open_table(root, "Bench.Deep")).with_checks(Checks(kept=0)))


def scan(table: Snapshot, name: str) -> list[object]:
    """Every value of one column is looked at."""
    return [largest(chunk) for chunk in table.to_arrow(columns=[name]).column(name).chunks]


def batches(table: Snapshot, name: str) -> list[object]:
    """The same batch by batch."""
    return [largest(batch.column(0)) for batch in table.to_batches([name])]


def largest(values: pa.Array) -> object:
    """The largest number or symbol id, or the length of the longest text and the largest byte of all."""
    if pa.types.is_dictionary(values.type):
        return values.indices.to_numpy().max()
    if pa.types.is_string(values.type):
        ends = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, 4 * values.offset)
        parts = (ends[first : first + IN_CACHE + 1] for first in range(0, len(values), IN_CACHE))
        octets = np.frombuffer(values.buffers()[2], np.uint8, ends[-1] - ends[0], ends[0])
        return max((part[1:] - part[:-1]).max() for part in parts), octets.max()
    return values.to_numpy().max()


def main() -> None:
    """Prints a line a work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-statistics", action="store_true")
    parser.add_argument("--no-first", action="store_true", help="only files in the page cache: emptying it needs root")
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
        verified = sum(path.stat().st_size for path in files) / best(partial(deep, root), args.rounds)
        print(f"{'verify --deep':<28}{'':>10}{verified / 1e9:>14.2f}{verified / copied:>14.0%}")
        speeds: dict[str, float] = {}
        for name in NAMES:
            size = sum(path.stat().st_size for path in files if path.name.split(".")[0] == name)
            works = {
                f"scan of {name}, first": (partial(scan, name=name), True),
                f"scan of {name}": (partial(scan, name=name), False),
                f"scan of {name} in batches": (partial(batches, name=name), False),
            }
            for label, (work, first) in works.items():
                if first and args.no_first:
                    continue
                speeds[label] = size / clocked(root, work, args.rounds, first=first) / 1e9
                print(
                    f"{label:<28}{size / 1e6:>10.0f}{speeds[label]:>14.2f}{speeds[label] * 1e9 / copied:>14.0%}",
                    flush=True,
                )
    record(parser, args, {"deep.copy": copied / 1e9, "deep.verify": verified / 1e9, **figures_of(speeds)})


def figures_of(speeds: Mapping[str, float]) -> dict[str, float]:
    """The figures by name: of each kind the slowest of its columns."""
    kinds = {kind: [name for name, of in NAMES.items() if of == kind] for kind in NAMES.values()}
    return {
        f"deep.{kind}.{when}": min(speeds[f"scan of {name}{rest}"] for name in names)
        for kind, names in kinds.items()
        for when, rest in (("first", ", first"), ("warm", ""))
        if f"scan of {names[0]}{rest}" in speeds
    }


def deep(root: Path) -> None:
    """Raises if anything is found."""
    report = verify(Fs(), Layout(root), deep=True)
    assert not report.findings, report.findings  # noqa: S101


if __name__ == "__main__":
    main()
