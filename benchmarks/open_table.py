"""What opening costs beside much that is not asked for: 10,000 locations of 3,000 dates, 600,000 taken files, 100,000
removals.

    python -m benchmarks.open_table [--locations 10000] [--dates 3000] [--files 600000] [--removals 100000]
                                    [--columns 20] [--root DIR]

The reader opens the table and reads one date as Arrow, with its files; the planner takes the positions and asks for a
file; the writer opens the log. Each look is a process of its own, so nothing of ours is cached; libraries are imported
and the page cache is warm. The files of a column are one file with many names. Medians of five. Exit 1 if the reader
takes more than 50 ms.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.figures import add_record, record
from benchmarks.parts.commit_cost import TABLE, open_log, prepare
from benchmarks.scratch import scratch
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.epochs.files.removals import write_removals
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.reading.stream_state import load_joint_positions
from sparkhaven.store.epochs.state.log_values import Batch, FileId, LocationReport
from sparkhaven.store.epochs.state.removed_locations import Removal, RemovalPhase
from sparkhaven.store.format.table.tbl import encode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.store.types.committed_columns import FileState, RangeStats
from sparkhaven.store.types.model import TableSchema
from tests.support.tables.column_files import create_column

LIMIT_MS = 50.0
STREAM = "bench"
ROWS = 1000
TOGETHER = 1000  # removals that are recorded at once
LOOKS = 5


def schema_of(columns: int) -> bytes:
    """A table of whole numbers."""
    rows = "".join(f'<Column name="column{number}" dataType="long"/>' for number in range(columns))
    return (
        f'<Table namespace="{TABLE.namespace}" name="{TABLE.table}" storageType="NestedPartitionedOnDisk">'
        '<Partitions keyFormula="${autobalance_single}"/>'
        f'<Column name="Date" dataType="String" columnType="Partitioning"/>{rows}</Table>'
    ).encode()


def write_files(layout: Layout, schema: TableSchema, keys: list[LocationKey]) -> LocationReport:
    """The same rows for each location; what the first one holds."""
    fs, data = Fs(), np.arange(ROWS, dtype="<i8").tobytes()
    first = layout.intraday_location(TABLE, keys[0])
    for column in schema.stored:
        create_column(fs, first, column)
        path = first / f"{column.name}.dat"
        fs.write_at(path, path.stat().st_size, data)
    fs.write_new(first / "table.tbl", encode_tbl(schema))
    names = [path.name for path in first.iterdir()]
    for key in keys[1:]:
        directory = layout.intraday_location(TABLE, key)
        for name in names:
            os.link(first / name, directory / name)
    files = {f"{column.name}.dat": FileState(len(data), zlib.crc32(data)) for column in schema.stored}
    stats = {column.name: RangeStats(0, ROWS, 0, 0, 0, ROWS - 1) for column in schema.stored}
    return LocationReport(keys[0], 0, 0, ROWS, files, stats)


def fill(root: Path, locations: int, dates: int, files: int, removals: int, columns: int) -> None:
    """One epoch that makes all locations, one that takes all files, removals of locations that are no more, a head."""
    fs, layout, now = Fs(), Layout(root), time.time_ns()
    schema = deploy(fs, layout, schema_of(columns))
    keys = [LocationKey(f"source{number // dates}", f"d{number % dates:06}") for number in range(locations)]
    with open_log(root) as log:
        prepare(root, keys)
        filled = write_files(layout, schema, keys)
        reports = tuple(LocationReport(key, 0, 0, ROWS, filled.files, filled.stats) for key in keys)
        log.commit(Batch(STREAM, 0, (), reports, 1, ROWS * len(keys)))
        log.publish()
        taken = tuple(
            FileId(f"/feed/of/files/{number:012}.json", 100 + number, now + number) for number in range(files)
        )
        log.commit(Batch(STREAM, 1, taken, (), 1, 0))
        proof = {"digests": {f"column{number}": f"{number:032x}" for number in range(20)}}
        for start in range(0, removals, TOGETHER):
            some = range(start, min(start + TOGETHER, removals))
            gone = [
                Removal(LocationKey("old", f"o{n}"), 1, 1000, RemovalPhase.DELETE, 2, proof if n == start else {})
                for n in some
            ]
            write_removals(StreamPlace(fs, layout, TABLE, STREAM), gone)
        log.refresh()
        log.write_head()


def look(role: str, root: Path, date: str) -> float:
    """Milliseconds of one opening in this process."""
    pa.array([""], pa.string())  # pyarrow imports pandas with its first array: no cost of a table
    before = time.perf_counter()
    opened: StreamLog | None = None
    match role:
        case "reader":
            assert open_table(root, str(TABLE)).to_arrow(dates=[date]).num_rows  # noqa: S101
        case "planner":
            files = load_joint_positions([StreamPlace(Fs(), Layout(root), TABLE, STREAM)])[0].copy()
            assert files.known("/feed/of/files/none.json") is None  # noqa: S101
        case _:
            opened = open_log(root)
    took = 1000 * (time.perf_counter() - before)
    if opened is not None:
        opened.close()
    return took


def milliseconds(role: str, root: Path, date: str) -> float:
    """The median of some looks, each in a process of its own; the first warms the page cache."""
    words = [sys.executable, "-m", "benchmarks.open_table", "--look", role, "--date", date, "--root", str(root)]
    times = [float(subprocess.run(words, check=True, capture_output=True, text=True).stdout) for _ in range(LOOKS + 1)]
    return statistics.median(times[1:])


def main() -> int:
    """Prints the figures; 1 beyond the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    defaults = (("locations", 10_000), ("dates", 3000), ("files", 600_000), ("removals", 100_000), ("columns", 20))
    for name, default in defaults:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--root", type=Path, default=None)
    parser.add_argument("--look", choices=["reader", "planner", "writer"], help=argparse.SUPPRESS)
    parser.add_argument("--date", help=argparse.SUPPRESS)
    add_record(parser)
    args = parser.parse_args()
    if args.look:
        print(look(args.look, args.root, args.date))
        return 0
    with scratch("open-table", args.root) as root:
        fill(root, *(getattr(args, name) for name, _ in defaults))
        date = f"d{args.dates // 2:06}"
        reader, planner, writer = (milliseconds(role, root, date) for role in ("reader", "planner", "writer"))
        sizes = {path.suffix: path.stat().st_size for path in Layout(root).streams(TABLE).iterdir()}
    print(f"reader opens the table and reads one date: {reader:.1f} ms")
    print(f"writer's start: {writer:.0f} ms; planner's start: {planner:.0f} ms")
    print("bytes: " + ", ".join(f"{suffix} {size:,}" for suffix, size in sorted(sizes.items())))
    print(f"limit {LIMIT_MS:.0f} ms: {'met' if reader <= LIMIT_MS else 'NOT met'}")
    record(parser, args, {"open_table": reader})
    return int(reader > LIMIT_MS)


if __name__ == "__main__":
    sys.exit(main())
