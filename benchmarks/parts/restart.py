"""From a kill to the first new epoch: what a log of many epochs adds to the start of a stream.

A stream of one-row files is written for some epochs, and its process ends in mid-batch: a tail is appended, nothing
says so. Then `sparkhaven ingest` starts as a process of its own, recovers and commits what waits. The clock runs from
its start until a reader sees the row. The start beside a log of ten epochs is the yardstick: what Spark and Python need
anyway. One log keeps the last 100 epochs for rollback, as is the default, one keeps them all. Starts alternate; the
table shows medians. The profile tells what of a start has to do with the log, each part timed alone.

    python -m benchmarks.parts.restart [--epochs 10000] [--starts 5]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pyspark

from benchmarks.figures import add_record, record
from benchmarks.ingest_files import SCHEMA, STREAM
from sparkhaven.jobs.settings.stream_file import load_stream_file
from sparkhaven.jobs.streams.decoding import Decoder
from sparkhaven.jobs.streams.progress import Progress
from sparkhaven.jobs.streams.stream import open_stream
from sparkhaven.readers import open_table
from sparkhaven.store.epochs.reading.stream_state import load_joint_positions, load_stream
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.epochs.state.log_values import FileId, Split
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import BatchRequest, write_batch
from sparkhaven.writers.batch.task import Task, TaskResult, run_task
from sparkhaven.writers.task import Decode, StreamTarget

LIMIT_SECONDS = 1.0
FEW = 10
KEPT = 100
START_SECONDS = 120.0


def put(feed: Path, number: int) -> FileId:
    """A file of one row; its time is its number, so that the order of the files is that of the epochs."""
    row = {"id": number, "src": "s", "sym": f"SYM{number % 97}", "ts": "2026-11-21T00:00:00Z", "px": 1.5, "qty": 1}
    row |= {"side": "B", "venue": "V", "seq": number, "live": True}
    path = feed / f"{number:08}.json"
    path.write_text(json.dumps(row) + "\n")
    os.utime(path, ns=(stamp := time.time_ns(), stamp))
    return FileId(str(path), path.stat().st_size, stamp)


def run_here(
    memory: WorkerCache,
    target: StreamTarget,
    decode: Decode,
    split: FileId,
    scratch: str,
    instead: Mapping[Split, Split | None],
) -> list[TaskResult]:
    """The one task of a batch."""
    return [run_task(Fs(), memory, target, decode, Task(0, 0, scratch, [split], alone=True, instead=instead))]


def fill(work: Path, epochs: int) -> None:
    """Epochs of one file each, then a death between append and commit."""
    fs, layout, memory = Fs(), Layout(work / "db"), WorkerCache()
    settings = load_stream_file(fs, work / "bench.toml", {})
    with ExitStack() as opened:
        run = open_stream(fs, layout, settings, opened, Progress())
        generation, policy = run.log.state.generation, CommitPolicy("none")
        target = StreamTarget(layout, settings.table, run.name, run.schema, generation, policy)
        decode = Decoder(fs, settings.spec, run.schema)
        for number in range(epochs):
            execute = partial(run_here, memory, target, decode, put(work / "feed", number))
            write_batch(fs, run.log, target, memory, BatchRequest(execute, query_id="fill", batch_id=number))
            run.log.compact_if_due()
        run_here(memory, target, decode, put(work / "feed", epochs), "killed", {})
        os._exit(0)


def seconds_to_new_epoch(work: Path) -> float:
    """Starts the stream and waits until a reader sees one more row than before."""
    root = work / "db"
    log = Layout(root).stream_log(TableName.parse("Bench.Trade"), "bench")
    before = open_table(root, "Bench.Trade").to_arrow(columns=["id"]).num_rows
    put(work / "feed", before + 1000)
    words = ["--root", str(root), "ingest", str(work / "bench.toml")]
    started = time.perf_counter()
    with subprocess.Popen([sys.executable, "-m", "sparkhaven.jobs.cli.main", *words], stderr=subprocess.DEVNULL) as job:
        size = log.stat().st_size
        while True:
            known, size = size, log.stat().st_size  # before the look: what is committed after it changes the size again
            # a look at the table would take the processor from the start
            if size != known and open_table(root, "Bench.Trade").to_arrow(columns=["id"]).num_rows > before:
                break
            if time.perf_counter() - started > START_SECONDS or job.poll() is not None:
                raise SystemExit("the stream made no new epoch")
            time.sleep(0.01)
        took = time.perf_counter() - started
        job.kill()
    return took


def profile(work: Path) -> dict[str, float]:
    """Seconds of each part of a start that reads the log."""
    fs, layout = Fs(), Layout(work / "db")
    settings = load_stream_file(fs, work / "bench.toml", {})
    place = StreamPlace(fs, layout, settings.table, "bench")
    seconds, before = {}, time.perf_counter()
    with ExitStack() as opened:
        open_stream(fs, layout, settings, opened, Progress())
        seconds["driver opens and recovers"] = time.perf_counter() - before
    for name, part in (
        ("planner asks where to go on", lambda place: load_joint_positions([place])),
        ("reader loads the state", load_stream),
    ):
        before = time.perf_counter()
        part(place)
        seconds[name] = time.perf_counter() - before
    return seconds


def main() -> int:
    """Prints the table; 1 if many epochs cost more than they may."""
    options = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    options.add_argument("--epochs", type=int, default=10_000)
    options.add_argument("--starts", type=int, default=5, help="of each log")
    add_record(options)
    args = options.parse_args()
    top = Path(tempfile.mkdtemp(prefix="sparkhaven-bench-"))
    logs = {
        f"{FEW} epochs": (FEW, KEPT, top / "few"),
        f"{args.epochs:,} epochs, {KEPT} kept": (args.epochs, KEPT, top / "default"),
        f"{args.epochs:,} epochs, all kept": (args.epochs, 2 * args.epochs, top / "all"),
    }
    times: dict[str, list[float]] = {name: [] for name in logs}
    try:
        for epochs, keep, work in logs.values():
            (work / "feed").mkdir(parents=True)
            (work / "Bench.Trade.schema").write_text(SCHEMA)
            commit = f'[commit]\ndurability = "none"\nkeep_epochs = {keep}\ntrigger = "0 seconds"\n'
            text = STREAM.replace("feed/*", str(work / "feed" / "*.json")).replace("FORMAT", "json") + commit
            (work / "bench.toml").write_text(text)
            filler = get_context("spawn").Process(target=fill, args=(work, epochs))
            filler.start()
            filler.join()
            seconds_to_new_epoch(work)  # with the tail to cut, and files not in memory
        for _ in range(args.starts):
            for name, (_, _, work) in logs.items():
                times[name].append(seconds_to_new_epoch(work))
        print(f"{'log':<28}{'bytes':>12}{'s to the first new epoch':>26}   all")
        for name, (_, _, work) in logs.items():
            size = sum(path.stat().st_size for path in (work / "db").rglob("*.log"))
            listed = " ".join(f"{seconds:.2f}" for seconds in times[name])
            print(f"{name:<28}{size:>12,}{statistics.median(times[name]):>26.2f}   {listed}")
        print()
        for name, (_, _, work) in logs.items():
            parts = ", ".join(f"{part} {seconds:.3f} s" for part, seconds in profile(work).items())
            print(f"{name}: {parts}")
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print(
        f"\nPython {platform.python_version()}, pyspark {pyspark.__version__}, {platform.system()} {platform.release()}"
    )
    yardstick, folded, kept = (statistics.median(runs) for runs in times.values())
    more = max(folded, kept) - yardstick
    record(options, args, {"restart.short": yardstick, "restart.folded": folded, "restart.kept": kept - yardstick})
    print(f"{args.epochs:,} epochs add {more:.2f} s to the start at most, limit {LIMIT_SECONDS:.0f} s")
    return int(more > LIMIT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
