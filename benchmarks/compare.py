"""What comparing two databases of a billion rows costs, whose digests are in the merge records.

    python -m benchmarks.compare [--dates 1000] [--rows 1000000] [--columns 20] [--partitions 2] [--runs 3] [--root DIR]

Two roots with the same merge records, each with ``rows`` rows a date, and no column files: were one opened, the run
would end with an error. The command runs in a process of its own, start and imports included; medians.
Exit 1: not equal, or more than 10 s.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

from benchmarks.scratch import scratch
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.merge_records import MergeOutput, MergeRecord, store_records
from sparkhaven.store.merges.merge_run import MergePhase, MergeRun, Proof
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.partitions import add_partition

TABLE = TableName("Bench", "Compare")
LIMIT_S = 10.0


def schema_of(columns: int) -> bytes:
    rows = "".join(f'<Column name="column{number}" dataType="long"/>' for number in range(columns))
    return (
        f'<Table namespace="{TABLE.namespace}" name="{TABLE.table}" storageType="NestedPartitionedOnDisk">'
        f'<Column name="Date" dataType="String" columnType="Partitioning"/>{rows}</Table>'
    ).encode()


def records(schema: TableSchema, args: argparse.Namespace) -> Iterator[MergeRecord]:
    """One merge a date; the same for the same sizes."""
    rng, day = random.Random(1), date(2020, 1, 1)  # noqa: S311
    share = args.rows // args.partitions
    for _ in range(args.dates):
        outputs = tuple(
            MergeOutput(
                str(number),
                share,
                {column.name: f"{rng.getrandbits(128):032x}" for column in schema.stored},
                {f"{column.name}.dat": FileState(8 * share, rng.getrandbits(32)) for column in schema.stored},
            )
            for number in range(args.partitions)
        )
        proof = Proof(share * args.partitions, share * args.partitions, {}, {})
        phase, run = MergePhase.CLEAN, MergeRun(format="deephaven")
        yield MergeRecord(str(TABLE), day.isoformat(), 1, phase, (), outputs, proof, "import", run=run)
        day += timedelta(1)


def write(root: Path, args: argparse.Namespace) -> TablePlace:
    fs, layout = Fs(), Layout(root)
    fs.mkdirs(root)
    schema = deploy(fs, layout, schema_of(args.columns))
    for number in range(args.partitions):
        add_partition(fs, layout, TABLE.namespace, str(number))
    place = TablePlace(fs, layout, TABLE)
    store_records(place, records(schema, args))
    return place


def compared(one: Path, other: Path) -> tuple[float, int, dict[str, object]]:
    """Seconds, exit code and result of the command."""
    words = [sys.executable, "-m", "sparkhaven", "--root", str(one), "compare", str(other), "--named", "0", "--json"]
    begun = time.perf_counter()
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "SPARKHAVEN_ROOT": ""})
    return time.perf_counter() - begun, done.returncode, json.loads(done.stdout.splitlines()[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("dates", 1000), ("rows", 1_000_000), ("columns", 20), ("partitions", 2), ("runs", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--root", type=Path)
    args = parser.parse_args()
    with scratch(above=args.root) as base:
        one, other = write(base / "one", args), base / "other"
        write(other, args)
        size = sum(path.stat().st_size for path in one.merges.rglob("*.json"))
        runs = [compared(base / "one", other) for _ in range(args.runs)]
    rows = args.dates * args.rows
    seconds = statistics.median(run[0] for run in runs)
    equal = all(code == 0 and result["equal"] and result["rows_read"] == 0 for _, code, result in runs)
    print(f"{rows:,} rows, {args.dates:,} dates, {args.columns} columns, records of {size / 1e6:.1f} MB a side")
    print(f"compare: {seconds:.2f} s, {'equal, no row read' if equal else 'NOT equal'}")
    return 0 if equal and seconds <= LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
