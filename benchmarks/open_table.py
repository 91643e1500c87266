"""What opening costs beside much that is not asked for: 10,000 locations of 3,000 dates, 600,000 taken files, 100,000
removals.

    python -m benchmarks.open_table [--locations 10000] [--dates 3000] [--files 600000] [--removals 100000] [--root DIR]

The reader pins the newest epoch and decodes the locations of one date; the writer's start puts the state together and
looks at every frame of the log; the planner takes the positions. Medians of five. Exit 1 if the reader takes more than
50 ms.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.commit_cost import TABLE, open_log
from benchmarks.wide_epochs import report
from store.epochs.load import load_positions
from store.epochs.pins import Pin
from store.epochs.removals import Removal, write_removals
from store.epochs.resume import resume
from store.epochs.state import Batch, FileId
from store.fs import Fs
from store.layout import Layout, LocationKey

LIMIT_MS = 50.0
STREAM = "bench"
TOGETHER = 1000  # removals that are recorded at once
LOOKS = 5


def fill(root: Path, locations: int, dates: int, files: int, removals: int) -> None:
    """One epoch that makes all locations, one that takes all files, removals of locations that are no more, a head."""
    fs, layout, now = Fs(), Layout(root), time.time_ns()
    keys = [LocationKey(f"source{number // dates}", f"d{number % dates:06}") for number in range(locations)]
    with open_log(root) as log:
        reports = tuple(report(log, key, 20, 1) for key in keys)
        log.commit(Batch(STREAM, 0, (), reports, 1, sum(each.rows for each in reports)))
        taken = tuple(
            FileId(f"/feed/of/files/{number:012}.json", 100 + number, now + number) for number in range(files)
        )
        log.commit(Batch(STREAM, 1, taken, (), 1, 0))
        proof = {"digests": {f"column{number}": f"{number:032x}" for number in range(20)}}
        for start in range(0, removals, TOGETHER):
            some = range(start, min(start + TOGETHER, removals))
            gone = [
                Removal(LocationKey("old", f"o{n}"), 1, 1000, "delete", 2, proof if n == start else {}) for n in some
            ]
            write_removals(fs, layout, TABLE, STREAM, gone)
        log.refresh()
        log.write_head()


def milliseconds(look: Callable[[], object]) -> float:
    """The median of some looks."""
    times = []
    for _ in range(LOOKS):
        before = time.perf_counter()
        look()
        times.append(1000 * (time.perf_counter() - before))
    return statistics.median(times)


def main() -> int:
    """Prints the figures; 1 beyond the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given = (("locations", 10_000), ("dates", 3000), ("files", 600_000), ("removals", 100_000))
    for name, default in given:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--root", type=Path, default=None)
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="open-table-", dir=args.root))
    fs, layout = Fs(), Layout(root)
    try:
        fill(root, *(getattr(args, name) for name, _ in given))
        date = f"d{args.dates // 2:06}"
        reader = milliseconds(lambda: Pin.of(fs, layout, TABLE, STREAM).state.locations.of_date(date))
        boot = fs.boot_id()
        writer = milliseconds(lambda: resume(fs, layout, TABLE, STREAM, boot_id=boot, time_ms=1))
        planner = milliseconds(lambda: load_positions(fs, layout, TABLE, STREAM))
        sizes = {path.suffix: path.stat().st_size for path in layout.streams(TABLE).iterdir()}
    finally:
        shutil.rmtree(root)
    print(f"reader opens and decodes one date: {reader:.1f} ms")
    print(f"writer's start: {writer:.0f} ms; planner's start: {planner:.0f} ms")
    print("bytes: " + ", ".join(f"{suffix} {size:,}" for suffix, size in sorted(sizes.items())))
    print(f"limit {LIMIT_MS:.0f} ms: {'met' if reader <= LIMIT_MS else 'NOT met'}")
    return int(reader > LIMIT_MS)


if __name__ == "__main__":
    sys.exit(main())
