"""From produced to visible: how long a message of a steady topic takes until a reader of the table sees it.

A producer sends 1,000 JSON rows a second to a topic of one partition. A stream in a process of its own follows it, and
this process looks again and again at what a reader gets: for sparkhaven (``fsync``) the column ``id`` of a newly opened
table, for Delta the rows that the newest files of its log name, which is less than a reader of Delta has to do. Both
run as fast as their batches allow; the first seconds are warm-up. Delta does not sync what it writes.

    python -m benchmarks.latency [--seconds 60] [--rate 1000] [--no-delta]
"""

from __future__ import annotations

import argparse
import json
import platform
import signal
import sys
import threading
import time
from array import array
from collections.abc import Callable
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyspark
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.figures import add_record, record
from benchmarks.ingest_files import SCHEMA, Watch, profile
from benchmarks.kafka_ingest import STREAM, messages, parsed, peer
from benchmarks.scratch import scratch
from sparkhaven.jobs.settings.stream_file import load_stream_file
from sparkhaven.jobs.streams.process import run_streams
from sparkhaven.jobs.streams.stream import RunOptions
from sparkhaven.readers import open_table
from sparkhaven.store.errors import TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from tests.support.servers.broker import Broker

WARM_SECONDS = 20.0
LOOK_SECONDS = 0.005
START_SECONDS = 120.0
P50, P99, AGAINST_DELTA = 0.100, 0.200, 8.0


def serve_ours(work: Path, topic: str) -> None:
    """Our stream until SIGTERM; then where the time of its batches went."""
    watch = Watch()
    settings = load_stream_file(Fs(), work / f"{topic}.toml", {})
    (run,) = run_streams(Fs(), Layout(work / "db"), [settings], RunOptions(), watch)
    if run.error is not None:
        raise run.error
    profile(f"sparkhaven, {len(watch.outcomes)} batches", watch.outcomes)


def serve_delta(work: Path, topic: str, bootstrap: str) -> None:
    """The stock stream until SIGTERM."""
    spark = peer("delta")
    writer = parsed(spark, bootstrap, topic).writeStream.format("delta")
    query = writer.option("checkpointLocation", str(work / "checkpoint")).start(str(work / "delta"))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    while query.isActive and not stop.wait(0.2):
        pass
    periods = [p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress if p["numInputRows"]]
    print(f"Delta: median batch {float(np.median(periods)):.2f} s", flush=True)
    query.stop()
    spark.stop()


def seen_of_ours(work: Path) -> Callable[[], int]:
    """How many rows a reader sees."""

    def look() -> int:
        try:
            return int(open_table(work / "db", "Bench.Trade").to_arrow(columns=["id"]).num_rows)
        except TableNotFoundError:
            return 0

    return look


def seen_of_delta(work: Path) -> Callable[[], int]:
    """How many rows the files of the table's log name."""
    version, rows = 0, 0

    def look() -> int:
        nonlocal version, rows
        while (path := work / "delta" / "_delta_log" / f"{version:020}.json").exists():
            actions = [json.loads(line) for line in path.read_text().splitlines()]
            rows += sum(json.loads(action["add"]["stats"])["numRecords"] for action in actions if "add" in action)
            version += 1
        return rows

    return look


class Source(threading.Thread):
    """Sends rows of a steady rate; ``sent[i]`` is when row i was given to the client."""

    def __init__(self, bootstrap: str, topic: str, rate: int) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
        self._topic, self._rate = topic, rate
        self.sent = array("d")
        self.stop = threading.Event()

    def run(self) -> None:
        """Sends until stopped, ten times a second at least."""
        begin, rows = time.perf_counter(), messages(0, sys.maxsize)
        while not self.stop.is_set():
            due = int((time.perf_counter() - begin) * self._rate) - len(self.sent)
            for row in islice(rows, max(due, 0)):
                self.sent.append(time.perf_counter())
                self._producer.produce(self._topic, row, partition=0)
            self._producer.poll(0)
            time.sleep(0.005)
        self._producer.flush(30)


def measure(
    serve: Callable[..., None], arguments: tuple[object, ...], source: Source, look: Callable[[], int], seconds: float
) -> np.ndarray:
    """Seconds from sent to seen of each row of the measured time."""
    process = get_context("spawn").Process(target=serve, args=arguments)
    process.start()
    source.start()
    seen = array("d")
    begin, until = 0.0, time.perf_counter() + START_SECONDS
    try:
        while time.perf_counter() < until:
            count, now = look(), time.perf_counter()
            if count < len(seen):
                raise SystemExit(f"{len(seen) - count} rows that were seen are gone")
            if count and not begin:
                begin, until = now + WARM_SECONDS, now + WARM_SECONDS + seconds
            seen.extend([now] * (count - len(seen)))
            time.sleep(LOOK_SECONDS)
    finally:
        source.stop.set()
        source.join()
        process.terminate()
        process.join(60)
    sent = np.array(source.sent[: len(seen)])
    return (np.array(seen) - sent)[sent >= begin] if begin else np.empty(0)


def main() -> int:
    """Measures both and prints the table; 1 if a target is missed."""
    options = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    options.add_argument("--seconds", type=float, default=60.0, help="measured time, after the warm-up")
    options.add_argument("--rate", type=int, default=1000, help="rows a second")
    options.add_argument("--no-delta", action="store_true", help="leave Delta out (it needs its jars)")
    add_record(options)
    args = options.parse_args()
    times = {}
    with scratch() as work:
        (work / "Bench.Trade.schema").write_text(SCHEMA)
        with Broker(Fs(), work / "broker", heap="512m") as broker:
            server = broker.bootstrap
            admin = AdminClient({"bootstrap.servers": server})
            for creation in admin.create_topics([NewTopic("ours", 1, 1), NewTopic("delta", 1, 1)]).values():
                creation.result(30)
            text = STREAM.format(bootstrap=server, topic="ours", rows=1_000_000)
            (work / "ours.toml").write_text(text + '[commit]\ntrigger = "0 seconds"\n')
            source, look = Source(server, "ours", args.rate), seen_of_ours(work)
            times["sparkhaven, fsync"] = measure(serve_ours, (work, "ours"), source, look, args.seconds)
            if not args.no_delta:
                source, look = Source(server, "delta", args.rate), seen_of_delta(work)
                times["from_json -> Delta"] = measure(serve_delta, (work, "delta", server), source, look, args.seconds)
    print(f"\n{'path':<22}{'rows':>10}{'p50 ms':>10}{'p99 ms':>10}{'most ms':>10}{'p50 against ours':>19}")
    ours = float(np.median(times["sparkhaven, fsync"]))
    for name, latencies in times.items():
        p50, p99 = np.quantile(latencies, [0.5, 0.99])
        figures = f"{p50 * 1e3:>10.0f}{p99 * 1e3:>10.0f}{latencies.max() * 1e3:>10.0f}{p50 / ours:>18.1f}x"
        print(f"{name:<22}{len(latencies):>10,}{figures}", flush=True)
    print(
        f"\nPython {platform.python_version()}, pyspark {pyspark.__version__}, {platform.system()} {platform.release()}"
    )
    p50, p99 = np.quantile(times["sparkhaven, fsync"], [0.5, 0.99])
    ratios = [float(np.median(latencies)) / p50 for name, latencies in times.items() if "Delta" in name]
    missed = p50 > P50 or p99 > P99 or any(ratio < AGAINST_DELTA for ratio in ratios)
    measured = {"latency.p50": p50 * 1e3, "latency.p99": p99 * 1e3}
    if "from_json -> Delta" in times:
        delta = np.quantile(times["from_json -> Delta"], [0.5, 0.99])
        measured |= {"latency.delta.p50": delta[0] * 1e3, "latency.delta.p99": delta[1] * 1e3}
        measured["latency.delta.ratio"] = delta[0] / p50
    record(options, args, {name: float(value) for name, value in measured.items()})
    outcome = "missed" if missed else "met"
    print(f"targets: p50 {P50 * 1e3:.0f} ms, p99 {P99 * 1e3:.0f} ms, {AGAINST_DELTA:.0f}x: {outcome}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
