"""From produced to visible: how long a message of a steady topic takes until a reader of the table sees it.

A producer sends 1,000 JSON rows a second to a topic of one partition. A stream in a process of its own follows it, and
this process looks again and again at what a reader gets. For sparkhaven (``fsync``; with ``--local`` in one process,
and in Spark) that is the column ``id`` of a table that is opened anew whenever the stream's log has grown. For Delta it
is the rows that the newest files of its log name, which is less than a reader of Delta has to do. Delta runs with the
parallel collector, Spark's checkpoints as our own streams set them, statistics of no column, and no checkpoint of its
log meanwhile; it does not sync what it writes. QuestDB gets the rows from a consumer of Kafka by its own client, a
flush whenever the topic has no more, ``cairo.commit.mode=sync``; a reader counts the rows of its table. All run as fast
as their batches allow; the first seconds are warm-up.

Spark's real-time mode is left out: Spark 4.2 refuses it for Delta and for files, by its list of allowed sinks
(``STREAMING_REAL_TIME_MODE.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST``), so no rows of it become a table.

    python -m pip install questdb pandas
    python -m benchmarks.latency [--seconds 30] [--warm 15] [--rate 1000] [--paths local,spark,delta,questdb]
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
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import questdb_ingest
from benchmarks.figures import add_record, record
from benchmarks.ingest_files import SCHEMA, Watch, profile
from benchmarks.kafka_ingest import STREAM, messages, parsed
from benchmarks.peers import TUNED, session
from benchmarks.scratch import scratch
from sparkhaven.jobs.session.spark_or_local import Where
from sparkhaven.jobs.settings.stream_file import load_stream_file
from sparkhaven.jobs.streams.process import run_streams
from sparkhaven.jobs.streams.stream import RunOptions
from sparkhaven.readers import open_table
from sparkhaven.store.errors import TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.writers.spark.stream_query import stream_conf
from tests.support.kafka.connector_jars import connector_jars
from tests.support.servers.broker import Broker

LOOK_SECONDS = 0.001
START_SECONDS = 120.0
GOALS = {"local": (0.025, 0.060), "spark": (0.100, 0.200)}  # seconds: p50, p99
AGAINST_DELTA = 8.0
FIGURES = {
    "local": "latency.local",
    "spark": "latency",
    "delta": "latency.delta",
    "questdb": "latency.questdb",
}
NAMES = {
    "local": "sparkhaven --local",
    "spark": "sparkhaven in Spark",
    "delta": "from_json -> Delta",
    "questdb": "consumer -> QuestDB",
}
DELTA_CONF = {  # beside those of our own streams
    "spark.databricks.delta.properties.defaults.checkpointInterval": "100000",
    "spark.databricks.delta.properties.defaults.dataSkippingNumIndexedCols": "0",  # numbers of rows alone
    "spark.databricks.delta.stats.collect": "true",
}


def serve_ours(work: Path, topic: str, where: Where) -> None:
    """Our stream until SIGTERM; then where the time of its batches went."""
    watch = Watch()
    settings = load_stream_file(Fs(), work / f"{topic}.toml", {})
    (run,) = run_streams(Fs(), Layout(work / "db"), [settings], RunOptions(where=where), watch)
    if run.error is not None:
        raise run.error
    profile(f"{NAMES[where]}, {len(watch.outcomes)} batches", watch.outcomes)


def serve_delta(work: Path, topic: str, bootstrap: str) -> None:
    """The stock stream until SIGTERM."""
    spark = session(TUNED, connector_jars(Fs()), delta=True, extra=stream_conf() | DELTA_CONF)
    writer = parsed(spark, bootstrap, topic).writeStream.format("delta").trigger(processingTime="0 seconds")
    query = writer.option("checkpointLocation", str(work / "checkpoint")).start(str(work / "delta"))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    while query.isActive and not stop.wait(0.2):
        pass
    if (error := query.exception()) is not None:
        raise SystemExit(f"Delta: {error}")
    periods = [p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress if p["numInputRows"]]
    print(f"Delta: median batch {float(np.median(periods)):.2f} s", flush=True)
    query.stop()
    spark.stop()


def serve_questdb(address: str, topic: str, bootstrap: str) -> None:
    """A consumer that sends what it gets, until SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    settings = {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "fetch.wait.max.ms": 5})
    consumer.subscribe([topic])
    with questdb_ingest.sender(address) as sender:
        while not stop.is_set():
            if lines := [message.value() for message in consumer.consume(10_000, 0.002)]:
                questdb_ingest.by_row(sender, topic, lines)
    consumer.close()


def seen_of_questdb(address: str, table: str) -> Callable[[], int]:
    """How many rows the server counts."""

    def look() -> int:
        return int(questdb_ingest.query(address, f"select count() from {table}")["dataset"][0][0])

    return look


def seen_of_ours(work: Path, topic: str) -> Callable[[], int]:
    """How many rows a reader sees, who opens the table whenever its stream's log is another one or longer."""
    layout = Layout(work / "db")
    log = layout.stream_log(TableName("Bench", topic.title()), "bench")
    rows, known = 0, None

    def look() -> int:
        nonlocal rows, known
        try:
            stat = log.stat()
            if (now := (stat.st_ino, stat.st_size)) != known:
                rows = open_table(work / "db", f"Bench.{topic.title()}").to_arrow(columns=["id"]).num_rows
                known = now
        except (FileNotFoundError, TableNotFoundError):
            pass  # not there yet, or just being replaced
        return rows

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
    serve: Callable[..., None],
    arguments: tuple[object, ...],
    source: Source,
    look: Callable[[], int],
    args: argparse.Namespace,
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
                begin, until = now + args.warm, now + args.warm + args.seconds
            seen.extend([now] * (count - len(seen)))
            time.sleep(LOOK_SECONDS)
    finally:
        source.stop.set()
        source.join()
        process.terminate()
        process.join(60)
    sent = np.array(source.sent[: len(seen)])
    latencies: np.ndarray = (np.array(seen) - sent)[sent >= begin]
    if not begin or not len(latencies):
        raise SystemExit(f"{serve.__name__}: no row was seen in time")
    return latencies


def main() -> int:
    """Measures both and prints the table; 1 if a target is missed."""
    options = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    options.add_argument("--seconds", type=float, default=30.0, help="measured time, after the warm-up")
    options.add_argument("--warm", type=float, default=15.0, help="seconds that do not count")
    options.add_argument("--rate", type=int, default=1000, help="rows a second")
    options.add_argument("--paths", default=",".join(NAMES), help="which; Delta needs its jars, QuestDB its client")
    add_record(options)
    args = options.parse_args()
    if "questdb" in args.paths.split(","):
        questdb_ingest.need_client()
    times: dict[str, np.ndarray] = {}
    with scratch() as work, Broker(Fs(), work / "broker", heap="512m") as broker:
        server = broker.bootstrap
        admin = AdminClient({"bootstrap.servers": server})
        for path in args.paths.split(","):
            admin.create_topics([NewTopic(path, 1, 1)])[path].result(30)
            source = Source(server, path, args.rate)
            if path == "delta":
                times[path] = measure(serve_delta, (work, path, server), source, seen_of_delta(work), args)
                continue
            if path == "questdb":
                with questdb_ingest.server(work / path) as address:
                    questdb_ingest.query(address, questdb_ingest.TABLE.format(name=path))
                    look = seen_of_questdb(address, path)
                    times[path] = measure(serve_questdb, (address, path, server), source, look, args)
                continue
            table = f"Bench.{path.title()}"
            (work / f"{table}.schema").write_text(SCHEMA.replace('name="Trade"', f'name="{path.title()}"'))
            text = STREAM.format(bootstrap=server, topic=path, rows=1_000_000).replace("Bench.Trade", table)
            (work / f"{path}.toml").write_text(text + '[commit]\ntrigger = "0 seconds"\n')
            times[path] = measure(serve_ours, (work, path, path), source, seen_of_ours(work, path), args)
    report(times)
    measured = {
        f"{FIGURES[path]}.p{percent}": float(np.quantile(latencies, percent / 100)) * 1e3
        for path, latencies in times.items()
        for percent in (50, 99)
    }
    for peer, name in (("delta", "latency.local.ratio"), ("questdb", "latency.questdb.ratio")):
        if {peer, "local"} <= times.keys():
            measured[name] = measured[f"latency.{peer}.p50"] / measured["latency.local.p50"]
    missed = [path for path, goal in GOALS.items() if path in times and exceeds(times[path], goal)]
    if {"delta", "spark"} <= times.keys():
        ratio = measured["latency.delta.p50"] / measured["latency.p50"]
        measured["latency.delta.ratio"] = ratio
        if ratio < AGAINST_DELTA:
            missed.append("delta")
    record(options, args, measured)
    goals = ", ".join(f"{NAMES[path]} p50 {p50 * 1e3:.0f} p99 {p99 * 1e3:.0f} ms" for path, (p50, p99) in GOALS.items())
    print(
        f"goals: {goals}, {AGAINST_DELTA:.0f} x against Delta: {'missed by ' + ', '.join(missed) if missed else 'met'}"
    )
    return int(bool(missed))


def exceeds(latencies: np.ndarray, goal: tuple[float, float]) -> bool:
    """Whether a path is slower than its goals."""
    p50, p99 = np.quantile(latencies, [0.5, 0.99])
    return bool(p50 > goal[0] or p99 > goal[1])


def report(times: dict[str, np.ndarray]) -> None:
    """Prints a line a path."""
    print(f"\n{'path':<22}{'rows':>10}{'p50 ms':>10}{'p99 ms':>10}{'most ms':>10}")
    for path, latencies in times.items():
        p50, p99 = np.quantile(latencies, [0.5, 0.99])
        figures = f"{p50 * 1e3:>10.0f}{p99 * 1e3:>10.0f}{latencies.max() * 1e3:>10.0f}"
        print(f"{NAMES[path]:<22}{len(latencies):>10,}{figures}", flush=True)
    machine = f"{platform.system()} {platform.release()}"
    print(f"\nPython {platform.python_version()}, pyspark {pyspark.__version__}, {machine}")


if __name__ == "__main__":
    sys.exit(main())
