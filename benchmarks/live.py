"""What `sparkhaven serve` adds: from a commit to rows that are seen, and scans against the engine's own reader.

1. *Our side.* A writer in a process of its own commits one row at a time at odd moments: to a location that is there,
   to a new source, a new date, a new stream. Measured until the subscriber of the table is called.
2. *With an engine*, at each of its cycles: until a listener inside of the engine has the row. Its mean cannot be below
   half a cycle.
3. *Scans.* Sums of three columns of one large location, by the engine: from our column files, and from the same rows in
   one zstd Parquet file, read as one that stays as it is and as one of a directory that may grow; the faster counts.
   Runs in turn after one of each; the sums must be equal. The engine keeps what it has decoded of Parquet as long as
   its heap has room: with few rows later runs read its memory, with more than fit the file. Ours it reads where the
   files are mapped; nothing of them is in its heap.

    python -m benchmarks.live [--epochs 200] [--cycles 100,20] [--rows 50000000] [--small 5000000] [--runs 5]
        [--heap 2GiB] [--no-engine]

The scans run with ``--rows``, which do not fit the heap of the engine, and by the second engine with ``--small``.

2 and 3 need `make setup-deephaven`. Exit 1 if a target is missed: on our side 10 ms for epochs and 200 ms for sources,
dates and streams (p50), 1.2 cycles (p50), first scans twice as fast, later ones too if Parquet does not fit into a
quarter of the heap. A negative time: the row was seen while its record was
still being synced.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.figures import add_record, record
from benchmarks.scratch import scratch
from benchmarks.served.writer import COLUMNS, DAY, OWN, Kind, rows, schema, write
from sparkhaven.jobs.cli.options import memory_bytes
from sparkhaven.readers.live.live_root import LiveRoot
from sparkhaven.readers.live.shown_locations import LiveLocation
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from tests.support.places import REPOSITORY
from tests.support.tables.intraday_rows import IntradayRows

PYTHON = REPOSITORY / ".venv-deephaven" / "bin" / "python"
OURS_MS: Mapping[Kind, float] = {"epoch": 10.0, "source": 10.0, "date": 10.0, "stream": 200.0}
CYCLES, AGAINST_PARQUET = 1.2, 2.0
SCANNED = {
    "ours": "column files, served",
    "parquet": "zstd Parquet",
    "growing": "zstd Parquet that may grow",
    "memory": "a table in the heap",
}
WAIT_SECONDS = 120.0
BLOCK = 5_000_000

Times = dict[int, tuple[Kind, float]]


class Subscriber:
    """Notes when rows of a table are shown: ``placed`` by the number in a new source, ``grown`` in order."""

    def __init__(self, root: Path) -> None:
        self._live = LiveRoot(Fs(), Layout(root), None, note=print, now_ms=lambda: 0)
        self.placed: dict[int, float] = {}
        self.grown: list[float] = []
        (self._key,) = self._live.keys.values()
        self._live.backend.follow_places(self._key, self._on_place, lambda: None, _fail)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self._live.run(self._stop, time.monotonic, nullcontext, lambda *_: None, lambda health: None)

    def _on_place(self, location: LiveLocation, values: object) -> None:
        if location.at.internal.startswith("s"):
            self.placed[int(location.at.internal[1:])] = time.monotonic()
        shown = [0]

        def on_size(size: int) -> None:
            if location.at.internal == OWN:
                self.grown += [time.monotonic()] * (size - shown[0])
                shown[0] = size

        self._live.backend.follow_size(self._key, location, on_size, lambda: None, _fail)

    def stop(self) -> None:
        """Follows no longer."""
        self._stop.set()
        self._thread.join()


def _fail(error: Exception) -> None:
    raise error


def written(root: Path, table: str, plan: Mapping[Kind, int], first: int) -> Times:
    """What a writer has committed, and when."""
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=write, args=(root, table, plan, first, sender))
    process.start()
    times: Times = receiver.recv()
    process.join()
    return times


def our_side(work: Path, epochs: int) -> dict[str, list[float]]:
    """Seconds from commit to callback, by kind."""
    root = work / "ours"
    IntradayRows(root, schema("Tick")).commit({("a", DAY): rows(0, 1)})
    subscriber = Subscriber(root)
    plan: dict[Kind, int] = {"epoch": epochs, "source": epochs // 6, "date": epochs // 6, "stream": epochs // 6}
    times = written(root, "Tick", plan, 1)
    _wait(lambda: len(subscriber.placed) + len(subscriber.grown) > len(times))
    subscriber.stop()
    grown = iter(subscriber.grown[1:])
    seconds: dict[str, list[float]] = {kind: [] for kind in plan}
    for number, (kind, committed) in sorted(times.items()):
        seconds[kind].append((next(grown) if kind == "epoch" else subscriber.placed[number]) - committed)
    return seconds


def _wait(done: Any) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while not done():
        if time.monotonic() > until:
            raise SystemExit(f"rows were not seen within {WAIT_SECONDS:.0f} seconds")
        time.sleep(0.05)


class Engine:
    """An engine in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process, self._log = process, log
        self._answer()

    def ask(self, do: str, **arguments: Any) -> Any:
        """The result of a method of ``benchmarks.served.engine``."""
        assert self._process.stdin is not None  # noqa: S101  a pipe
        print(json.dumps({"do": do, **arguments}), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None  # noqa: S101  a pipe
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the engine has ended:\n{self._log.read_text(encoding='utf-8')}")
        return json.loads(line)["result"]


@contextmanager
def engine(root: Path, cycle_ms: int, heap: int) -> Iterator[Engine]:
    """An engine over a root until the end of the body."""
    words = [str(PYTHON), "-P", "-m", "benchmarks.served.engine", str(root), str(cycle_ms), str(heap)]
    environ, log = {**os.environ, "PYTHONPATH": str(REPOSITORY)}, root.with_suffix(".log")
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environ
        )
    try:
        yield Engine(process, log)
        process.communicate(timeout=WAIT_SECONDS)
    finally:
        process.kill()
        process.wait()


def listened(served: Engine, root: Path, epochs: int) -> list[float]:
    """Seconds from commit to the listener."""
    served.ask("listen", variable="Bench_Tick", column="N")
    times = written(root, "Tick", {"epoch": epochs}, 1_000_000_000)
    numbers = {str(number) for number in times}
    _wait(lambda: numbers <= served.ask("seen").keys())
    shown = served.ask("seen")
    seconds = [shown[str(number)] - committed for number, (_, committed) in sorted(times.items())]
    return seconds[epochs // 10 :]  # the first compile the engine


def scan_data(work: Path, root: Path, count: int) -> Path:
    """One location of so many rows, and the same as one zstd Parquet file."""
    db, path = IntradayRows(root, schema("Scan")), work / "parquet" / "scan.parquet"
    path.parent.mkdir(exist_ok=True)
    with pq.ParquetWriter(path, rows(0, 0).schema, compression="zstd") as writer:
        for first in range(0, count, BLOCK):
            block = rows(first, min(BLOCK, count - first))
            db.commit({("a", DAY): block})
            writer.write_table(block)
    db.log.close()
    return path


def _quantiles(seconds: Iterable[float]) -> tuple[float, float, float]:
    p50, p99, most = np.quantile(np.array(list(seconds)) * 1e3, [0.5, 0.99, 1.0])
    return float(p50), float(p99), float(most)


def _report(name: str, seconds: list[float], limit_ms: float) -> bool:
    p50, p99, most = _quantiles(seconds)
    met = p50 <= limit_ms
    figures = f"{p50:>9.1f}{p99:>9.1f}{most:>9.1f}"
    print(f"{name:<44}{len(seconds):>6}{figures}{limit_ms:>10.0f}  {'met' if met else 'missed'}", flush=True)
    return met


def figures_of(scans: Mapping[str, list[float]], count: int, name: str) -> dict[str, float]:
    """The figures of later scans, by name."""
    values = count * len(COLUMNS) / 1e6
    seconds = {path: statistics.median(runs[1:]) for path, runs in scans.items()}
    peer = min(seconds["parquet"], seconds["growing"])
    return {
        f"{name}.sums": values / seconds["ours"],
        f"{name}.parquet": values / peer,
        f"{name}.ratio": peer / seconds["ours"],
    }


def scanned(scans: Mapping[str, list[float]], count: int) -> list[bool]:
    """Prints the table of the scans; whether each goal is met."""
    values = count * len(COLUMNS) / 1e6
    seconds = {name: statistics.median(runs[1:]) for name, runs in scans.items()}
    ratio = min(seconds["parquet"], seconds["growing"]) / seconds["ours"]
    first = min(scans["parquet"][0], scans["growing"][0]) / scans["ours"][0]
    print(f"\nsums of {count:,} rows x {len(COLUMNS)} columns, medians of later runs, M values a second")
    for name, runs in scans.items():
        print(f"{SCANNED[name]:<32}{values / seconds[name]:8.1f}, first {values / runs[0]:8.1f}")
    judged = {"first scan": first} if "memory" in scans else {"first scan": first, "later scans": ratio}
    for name, figure in judged.items():
        met = "met" if figure >= AGAINST_PARQUET else "missed"
        print(f"{name}: ratio {figure:.2f}, target {AGAINST_PARQUET:.0f}: {met}")
    if "memory" in scans:
        print(f"later scans: ratio {ratio:.2f}, of arrays in the heap")
    return [figure >= AGAINST_PARQUET for figure in judged.values()]


def main() -> int:
    """Measures and prints the tables; 1 if a target is missed."""
    options = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    options.add_argument("--epochs", type=int, default=200)
    options.add_argument("--cycles", default="100,20", help="of the engine, in milliseconds")
    options.add_argument("--rows", type=int, default=50_000_000, help="of the scan by the engine of the first cycle")
    options.add_argument("--small", type=int, default=5_000_000, help="of the scan by that of the second")
    options.add_argument("--runs", type=int, default=5, help="of each scan")
    options.add_argument("--heap", default="2GiB", help="of the engine")
    options.add_argument("--no-engine", action="store_true", help="our side only")
    add_record(options)
    args = options.parse_args()
    if not args.no_engine and not PYTHON.exists():
        raise SettingsError("no Deephaven engine is installed", where=PYTHON, hint="make setup-deephaven")
    met = []
    measured: dict[str, float] = {}
    with scratch() as work:
        print(f"{'milliseconds from commit to':<44}{'rows':>6}{'p50':>9}{'p99':>9}{'most':>9}{'target':>10}")
        for kind, callback_s in our_side(work, args.epochs).items():
            met.append(_report(f"our callback: {kind}", callback_s, OURS_MS[kind]))  # type: ignore[index]
        cycles = [] if args.no_engine else [int(cycle) for cycle in args.cycles.split(",")]
        for number, cycle in enumerate(cycles):
            root = work / f"served{cycle}"
            IntradayRows(root, schema("Tick")).commit({("a", DAY): rows(0, 1)})
            count = (args.rows, args.small)[number] if number < 2 else 0
            scan = scan_data(work, root, count) if count else None
            with engine(root, cycle, memory_bytes(args.heap)) as served:
                seen = listened(served, root, args.epochs)
                measured[f"live.cycle_{cycle}.p50"] = _quantiles(seen)[0]
                met.append(_report(f"a listener, cycle {cycle} ms", seen, CYCLES * cycle))
                if scan is not None:
                    fits = count * len(COLUMNS) * 8 < memory_bytes(args.heap) / 4
                    arguments = {"parquet": str(scan), "columns": COLUMNS, "runs": args.runs, "memory": fits}
                    scans = served.ask("scan", variable="Bench_Scan", **arguments)
                    measured |= figures_of(scans, count, "live.small" if number else "live")
                    met += scanned(scans, count)
            if scan is not None:
                scan.unlink()
    print(f"\nPython {platform.python_version()}, {platform.system()} {platform.release()}, {os.cpu_count()} cores")
    record(options, args, measured)
    return int(not all(met))


if __name__ == "__main__":
    sys.exit(main())
