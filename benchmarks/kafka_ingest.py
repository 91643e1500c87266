"""A Kafka topic to durable columns: sparkhaven against Spark's Parquet sink and Delta, and itself without Spark.

Every path reads the same topic of two partitions, one million JSON messages of ten columns a batch, from a broker of
its own on loopback. Each runs in a process and a JVM of its own, one after the other; the first batch is warm-up, the
table shows the fastest of the others. The peers read with Spark's Kafka connector and parse with ``from_json``, in the
ways of ``benchmarks.peers``; the fastest counts. Their output is synced at the end, and each batch takes its share.
sparkhaven runs with ``fsync``. The same over TLS: ours, and each peer in its fastest way. "Without Spark" are the same
tasks and the same commit in two processes. ``--parts`` adds what one process needs to read alone, and to read and
decode, plain and over TLS.

    python -m benchmarks.kafka_ingest [--rows 1000000] [--batches 3] [--no-delta] [--no-peers] [--no-tls] [--parts]
        [--ways "as it comes" zstd tuned]
"""

from __future__ import annotations

import argparse
import statistics
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.figures import add_record, record
from benchmarks.ingest_files import FIELDS, SCHEMA, Watch, apart, profile, report
from benchmarks.peers import SINKS, WAYS, consumer, fastest, session, streamed
from benchmarks.scratch import scratch
from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.feeds.base import route
from sparkhaven.ingest.feeds.kafka.broker.reader import KafkaReader
from sparkhaven.ingest.feeds.kafka.broker.topics import KafkaTopics
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.feeds.kafka.source import message_blocks
from sparkhaven.ingest.router import TableRows
from sparkhaven.ingest.spec import StreamSpec
from sparkhaven.jobs.settings.stream_file import load_stream_file
from sparkhaven.jobs.streams.decoding import Decoder
from sparkhaven.jobs.streams.process import run_streams
from sparkhaven.jobs.streams.progress import Progress
from sparkhaven.jobs.streams.stream import RunOptions, open_stream
from sparkhaven.store.epochs.state.log_values import OffsetRange, Split
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import BatchRequest, write_batch
from sparkhaven.writers.batch.task import Task, TaskResult, run_task
from sparkhaven.writers.task import Decode, StreamTarget
from tests.support.kafka.connector_jars import connector_jars
from tests.support.servers.broker import Broker
from tests.support.servers.tls import Tls, tls_listener

TOPIC = "trades"
PARTITIONS = 2
ROUNDS = 6  # of the readers, the first of them warm-up
STREAM = """name = "bench"
table = "Bench.Trade"
schema = "Bench.Trade.schema"
[feed]
type = "kafka"
bootstrap = "{bootstrap}"
topics = ["{topic}"]
format = "json"
max_per_trigger = {{ rows = {rows} }}
[partition]
internal = {{ column = "src" }}
value = {{ column = "ts", zone = "UTC", format = "yyyy-MM-dd" }}
clock = "2026-11-21T12:00:00Z"
[bad_rows]
max_rows = 0
"""


def messages(partition: int, count: int) -> Iterator[bytes]:
    """JSON objects of about 157 bytes."""
    for n in range(count):
        i = n * PARTITIONS + partition
        yield (
            f'{{"id":{i},"src":"s{partition}","sym":"SYM{i * 7919 % 997}",'
            f'"ts":"2026-11-21T{i // 3600 % 24:02}:{i // 60 % 60:02}:{i % 60:02}.{i % 1000000:06}Z",'
            f'"px":{(i * 31 % 100000) / 100},"qty":{i % 5000},"side":"{"BS"[i % 2]}","venue":"V{i % 13}",'
            f'"seq":{i * 3},"live":{"true" if i % 3 == 0 else "false"}}}'
        ).encode()


def fill(bootstrap: str, rows: int) -> None:
    """``rows`` messages over both partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 1 << 20, "queue.buffering.max.kbytes": 1 << 20}
    )
    for partition in range(PARTITIONS):
        for number, value in enumerate(messages(partition, rows // PARTITIONS)):
            producer.produce(TOPIC, value, partition=partition)
            if number % 20_000 == 0:
                while len(producer) > 60_000:
                    producer.poll(0.01)
    assert producer.flush(60) == 0  # noqa: S101


def run_ours(work: Path, name: str = "bench") -> list[float]:
    """Seconds from each visible batch to the next: all of a batch, planning and commit included."""
    watch = Watch()
    settings = load_stream_file(Fs(), work / f"{name}.toml", {})
    (run,) = run_streams(Fs(), Layout(work / f"{name}-db"), [settings], RunOptions(once=True), watch)
    if run.error is not None:
        raise run.error
    profile("ours, Spark", watch.outcomes)
    return [0.0, *(later - earlier for earlier, later in pairwise(watch.moments))]


_CACHE = WorkerCache()


def work_on(target: StreamTarget, decode: Decode, task: Task) -> TaskResult:
    """One task in a worker process."""
    return run_task(Fs(), _CACHE, target, decode, task)


def run_without_spark(work: Path, rows: int, batches: int) -> list[float]:
    """The same tasks and the same commit, in two processes that are kept."""
    settings = load_stream_file(Fs(), work / "bench.toml", {})
    fs, layout, seconds, outcomes = Fs(), Layout(work / "loop-db"), [], []
    with ExitStack() as opened:
        run = open_stream(fs, layout, settings, opened, Progress())
        target = StreamTarget(layout, settings.table, run.name, run.schema, run.log.state.generation)
        decode = Decoder(fs, settings.spec, run.schema)
        context = get_context("spawn")
        pools = [opened.enter_context(ProcessPoolExecutor(1, mp_context=context)) for _ in range(PARTITIONS)]

        def execute(
            splits: Sequence[OffsetRange], scratch: str, instead: Mapping[Split, Split | None]
        ) -> list[TaskResult]:
            tasks = [Task(n, 0, scratch, [split], instead=instead) for n, split in enumerate(splits)]
            futures = [pool.submit(work_on, target, decode, task) for pool, task in zip(pools, tasks, strict=True)]
            return [future.result() for future in futures]

        size = rows // PARTITIONS
        for number in range(batches):
            splits = [OffsetRange(TOPIC, n, number * size, (number + 1) * size) for n in range(PARTITIONS)]
            started = time.perf_counter()
            outcomes.append(
                write_batch(
                    fs,
                    run.log,
                    target,
                    WorkerCache(),
                    BatchRequest(
                        partial(execute, splits),
                        query_id=str(uuid.uuid4()),
                        batch_id=number,
                    ),
                )
            )
            seconds.append(time.perf_counter() - started)
    profile("ours, no Spark", outcomes)
    return seconds


def peer(sink: str, way: str) -> SparkSession:
    """A session for a stock sink behind Spark's Kafka connector."""
    return session(way, connector_jars(Fs()), delta=sink == "delta")


def parsed(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    """What a team would write: the connector's values through ``from_json`` with the schema."""
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).options(**options)
    values = source.option("subscribe", topic).option("startingOffsets", "earliest").load()
    rows = values.select(f.from_json(f.col("value").cast("string"), FIELDS).alias("row")).select("row.*")
    return rows.withColumn("ts", f.to_timestamp("ts"))


def run_sink(work: Path, sink: str, way: str, bootstrap: str, rows: int, **security: str) -> list[float]:
    """Seconds of each batch of a stock sink."""
    spark, options = peer(sink, way), {**security, **consumer(way), "maxOffsetsPerTrigger": str(rows)}
    name = f"{sink}-{way.replace(' ', '-')}{'-tls' if security else ''}"
    seconds = streamed(parsed(spark, bootstrap, TOPIC, **options), sink, work, name)
    spark.stop()
    return seconds


def run_sink_over(work: Path, sink: str, way: str, tls: Tls, rows: int) -> list[float]:
    """The same over TLS."""
    return run_sink(work, sink, way, tls.bootstrap, rows, **tls.connector)


def run_parts(work: Path, bootstrap: str, rows: int) -> list[float]:
    """CPU seconds of one process for a million messages: reading alone, and with decoding, plain and over TLS."""
    times: dict[tuple[str, str], list[tuple[float, float]]] = {}
    size = rows // PARTITIONS
    for over, name in (("plain", "bench"), ("TLS", "tls")):
        settings = load_stream_file(Fs(), work / f"{name}.toml", {})
        feed = settings.spec.feed
        assert isinstance(feed, KafkaOptions)  # noqa: S101
        schema = load_deployed(TablePlace(Fs(), Layout(work / "loop-db"), settings.table))
        topic_id = KafkaTopics(feed).look()[TOPIC].topic_id
        reader = KafkaReader(feed)

        def read(split: OffsetRange, reader: KafkaReader = reader) -> None:
            for _ in reader.read(split):
                pass

        def decode(
            split: OffsetRange,
            reader: KafkaReader = reader,
            spec: StreamSpec = settings.spec,
            schema: TableSchema = schema,
        ) -> None:
            rejects = Rejects(spec.bad_rows)
            blocks = message_blocks(reader, split, {0: TableRows(spec, schema, rejects)}, None, time.time)
            for _ in route((block for _, block in blocks), rejects):
                pass

        for turn in range(ROUNDS):
            for number, step in enumerate((read, decode)):
                before, cpu = time.perf_counter(), time.process_time()
                step(OffsetRange(TOPIC, 0, number * size, (number + 1) * size, topic_id))
                spent = time.perf_counter() - before, time.process_time() - cpu
                if turn:  # the first connects and imports
                    times.setdefault((over, step.__name__), []).append(spent)
        reader.close()
    for (over, step_name), spent_each in times.items():
        wall, cpu = (statistics.median(column) * 1e6 / size for column in zip(*spent_each, strict=True))
        print(f"one process, {step_name}, {over}: {wall:.2f} s and {cpu:.2f} CPU s for 1 M messages", flush=True)
    return [cpu for spent_each in times.values() for _, cpu in spent_each]


def main() -> None:
    """Runs every path and prints the table."""
    options = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    options.add_argument("--rows", type=int, default=1_000_000, help="messages a batch")
    options.add_argument("--batches", type=int, default=3)
    options.add_argument("--no-delta", action="store_true", help="leave Delta out (it needs its jars)")
    options.add_argument("--no-peers", action="store_true", help="only our own paths")
    options.add_argument("--no-tls", action="store_true", help="plaintext only")
    options.add_argument("--ways", nargs="+", choices=WAYS, default=tuple(WAYS), help="of the peers")
    options.add_argument("--parts", action="store_true", help="only our own path, without Spark, and its parts")
    add_record(options)
    args = options.parse_args()
    with scratch() as work:
        tls = tls_listener(work)
        with Broker(Fs(), work / "broker", heap="1g", settings=tls.settings, listeners=tls.listeners) as broker:
            times = paths(work, broker.bootstrap, tls, args)
        best = report(times, args.rows)
    measured = {name: best[path] for name, path in OURS.items() if path in best}
    for over, ours in (("", "kafka"), ("TLS, ", "kafka.tls")):
        for sink in SINKS:
            seconds = fastest(best, f"{over}{sink}")
            if seconds is not None:
                measured |= {f"{ours}.{sink}": seconds, f"{ours}.{sink}.ratio": seconds / measured[ours]}
    record(options, args, measured)


def paths(work: Path, bootstrap: str, tls: Tls, args: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds of each batch of all paths that were asked for."""
    started = time.perf_counter()
    fill(bootstrap, args.rows * args.batches)
    print(f"topic: {args.rows * args.batches:,} messages in {time.perf_counter() - started:.0f} s", flush=True)
    (work / "Bench.Trade.schema").write_text(SCHEMA)
    plain = STREAM.format(bootstrap=bootstrap, topic=TOPIC, rows=args.rows)
    (work / "bench.toml").write_text(plain)
    (work / "tls.toml").write_text(
        plain.replace(bootstrap, tls.bootstrap).replace("[partition]", f"{tls.client}[partition]")
    )
    times: dict[str, list[float]] = {}
    if not args.parts:
        times[OURS["kafka"]] = apart(run_ours, work)
    times[OURS["kafka.without_spark"]] = apart(run_without_spark, work, args.rows, args.batches)
    if args.parts:
        apart(run_parts, work, bootstrap, args.rows)
        return times
    sinks = () if args.no_peers else ("parquet",) if args.no_delta else SINKS
    for sink in sinks:
        for way in args.ways:
            times[f"{sink}, {way}"] = apart(run_sink, work, sink, way, bootstrap, args.rows)
    if not args.no_tls:
        times[OURS["kafka.tls"]] = apart(run_ours, work, "tls")
        for sink in sinks:
            best = {way: min(times[f"{sink}, {way}"][1:]) for way in args.ways}
            way = min(args.ways, key=best.__getitem__)
            times[f"TLS, {sink}, {way}"] = apart(run_sink_over, work, sink, way, tls, args.rows)
    return times


OURS = {
    "kafka": "sparkhaven, fsync",
    "kafka.tls": "the same over TLS",
    "kafka.without_spark": "the same without Spark",
}


if __name__ == "__main__":
    main()
