"""What every epoch costs that touches every location: 2,000 locations of 20 columns, 500 epochs.

    python -m benchmarks.wide_epochs [--epochs 500] [--locations 2000] [--columns 20] [--keep 100] [--root DIR]

Each batch adds 1,000 rows to every location and goes the way of the driver: commit, publish, and what is due between
batches. Four of five columns are numbers, every fifth holds symbols. A pause is what comes between two batches. The
files of the columns are not written: the log does not look into them. Exit 1 beyond a target: longest pause 2 median
batches, 250 MiB, 100 bytes of log for a location and column.
"""

from __future__ import annotations

import argparse
import gc
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.parts.commit_cost import open_log, prepare
from benchmarks.scratch import scratch
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.log_values import Batch, FileId, LocationReport
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.types.committed_columns import FileState, RangeStats

TABLE = TableName("Bench", "Commits")
PAUSES, MEMORY, BYTES = 2.0, 250.0, 100.0
ROWS = 1000


@dataclass(frozen=True, slots=True)
class Found:
    """Seconds of each batch and of what came after it, log bytes of each epoch, memory in MiB, seconds to open."""

    batches: Sequence[float]
    pauses: Sequence[float]
    log_bytes: Sequence[int]
    floor: int
    memory: float
    opened: float


def report(log: StreamLog, key: LocationKey, columns: int, number: int) -> LocationReport:
    """As many rows again for one location."""
    base = log.state.locations.get(key)
    start = base.rows if base else 0
    stop = start + ROWS
    files: dict[str, FileState] = {}
    stats: dict[str, RangeStats] = {}
    for column in range(columns):
        name, crc = f"column{column}", (stop * 2_654_435_761 + column) % (1 << 32)
        if column % 5 == 4:
            files |= {f"{name}.dat": FileState(4 * stop, crc), f"{name}.sym": FileState(8 * number, crc)}
            files[f"{name}.sym.bytes"] = FileState(9 * number, crc)
            stats[name] = RangeStats(start, stop, number % 7, 0, f"AA{number % 90}", f"ZZTOP{number % 97}")
        else:
            files[f"{name}.dat"] = FileState(8 * stop, crc)
            stats[name] = RangeStats(start, stop, number % 3, 0, start, crc if column % 2 else crc / 7)
            if column % 2 == 0:
                stats[name] = RangeStats(start, stop, number % 3, 0, start / 3, crc / 7)
    return LocationReport(key, base.epoch if base else 0, start, stop, files, stats)


def run(
    root: Path, epochs: int, locations: int, columns: int, keep: int, least: int = 1 << 20, fs: Fs | None = None
) -> Found:
    """All epochs of one stream, then a reader's opening of it."""
    keys = [LocationKey(f"source{number % 10}", f"d{number // 10:06}") for number in range(locations)]
    batches, pauses, grown = [], [], []
    with open_log(root, keep=keep, least=least, fs=fs) as log:
        prepare(root, keys)
        path = Layout(root).stream_log(TABLE, "bench")
        for number in range(epochs):
            reports = tuple(report(log, key, columns, number) for key in keys)
            taken = (FileId(f"/feed/{number:08}.json", 1, time.time_ns()),)
            batch = Batch("bench", number, taken, reports, 1, ROWS * locations)
            size, before = path.stat().st_size, time.perf_counter()
            log.commit(batch)
            log.publish()
            done = time.perf_counter()
            grown.append(path.stat().st_size - size)
            batches.append(done - before)
            del reports, batch
            before = time.perf_counter()
            log.compact_if_due()
            pauses.append(time.perf_counter() - before)
        floor = log.state.floor
    gc.collect()
    before = time.perf_counter()
    load_stream(StreamPlace(Fs(), Layout(root), TABLE, "bench"))
    opened = time.perf_counter() - before
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Found(batches, pauses, grown, floor, memory, opened)


def main() -> int:
    """Prints the figures; 1 beyond a target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("epochs", 500), ("locations", 2000), ("columns", 20), ("keep", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--root", type=Path, default=None)
    args = parser.parse_args()
    with scratch("wide-epochs", args.root) as root:
        measured = run(root, args.epochs, args.locations, args.columns, args.keep)
    median = statistics.median(measured.batches)
    pauses = max(measured.pauses) / median
    epoch_bytes = statistics.median(measured.log_bytes)
    width = epoch_bytes / (args.locations * args.columns)
    print(f"batch: median {median:.3f} s, longest {max(measured.batches):.3f} s")
    usual, longest = statistics.median(measured.pauses), max(measured.pauses)
    print(f"pause: median {usual:.3f} s, longest {longest:.3f} s, {pauses:.2f} batches")
    print(f"log: {epoch_bytes:,.0f} bytes an epoch, {width:.1f} for a location and column; floor {measured.floor}")
    print(f"memory: {measured.memory:.0f} MiB; a reader opens the stream in {1000 * measured.opened:.1f} ms")
    met = pauses <= PAUSES and measured.memory <= MEMORY and width <= BYTES
    print(f"targets: {PAUSES:.0f} batches, {MEMORY:.0f} MiB, {BYTES:.0f} bytes: {'met' if met else 'NOT met'}")
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
