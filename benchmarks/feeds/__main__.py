"""Feeds in Avro, Protobuf, CSV, Parquet and Delta to durable columns, each against Spark's own pipelines for it.

    python -m benchmarks.feeds [--formats avro protobuf csv parquet delta] [--rows 1000000] [--triggers 3]
                               [--sinks parquet delta] [--ways "as it comes" zstd tuned] [--ours] [--record]

The same rows of ten columns in each format, one million a trigger: Avro and Protobuf as messages of a topic of two
partitions, CSV and Parquet as two files a trigger, Delta as two files a version. Each path runs as a streaming query in
a process and a JVM of its own, one after the other; the first trigger is warm-up, the table shows the fastest of the
others. Peers read by ``from_avro``, ``from_protobuf``, or the source of Spark for such files, and write by the Parquet
sink and by Delta, in the ways of ``benchmarks.peers``, of which the fastest counts. Their output is synced at the end,
and each trigger takes its share. sparkhaven runs with ``fsync``. What each path has written is read back and compared
with what was fed, all columns and rows.

Goal: five times as fast as the fastest way of the peers with Delta. A peer whose jar cannot be fetched is left out.
``--ours`` runs our own paths alone. Exit 1 where the goal is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.feeds.equality import ours, require_equal, theirs
from benchmarks.feeds.peers import FUNCTIONS, function_jars, run_peer, sink_directory, write_delta
from benchmarks.feeds.trades import AVRO_SCHEMA, MESSAGE, SOURCES, avro, descriptor_set, payloads, protobuf, write_files
from benchmarks.figures import add_record, record
from benchmarks.ingest_files import SCHEMA, apart, report, run_ours
from benchmarks.peers import SINKS, WAYS, fastest
from benchmarks.scratch import scratch
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from tests.support.servers.broker import Broker

GOAL = 5.0
FORMATS = ("avro", "protobuf", "csv", "parquet", "delta")
OURS = "sparkhaven, fsync"
STREAM = """name = "bench"
table = "Bench.Trade"
schema = "{work}/Bench.Trade.schema"
[feed]
{feed}
[partition]
internal = {{ column = "src" }}
value = {{ column = "ts", zone = "UTC", format = "yyyy-MM-dd" }}
clock = "2026-11-21T12:00:00Z"
[bad_rows]
max_rows = 0
"""


def feed_of(form: str, work: Path, bootstrap: str, rows: int) -> str:
    """``[feed]`` of our own stream."""
    if form in FUNCTIONS:
        source = f'schema = "{work}/trade.avsc"' if form == "avro" else f'schema = "{work}/trade.desc", message = "'
        source += f'{MESSAGE}"' if form == "protobuf" else ""
        return (
            f'type = "kafka"\nbootstrap = "{bootstrap}"\ntopics = ["{form}"]\nformat = "{form}"\n'
            f"{form} = {{ {source} }}\nmax_per_trigger = {{ rows = {rows} }}"
        )
    limit = f"max_per_trigger = {{ files = {SOURCES} }}"
    if form == "delta":
        return f'type = "delta"\npath = "{work}/delta-feed"\n{limit}'
    return f'type = "files"\npath = "{work}/{form}-feed/*"\nformat = "{form}"\n{limit}'


def fill(bootstrap: str, form: str, rows: int) -> None:
    """A topic of so many messages, named after their format."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(form, SOURCES, 1)])[form].result(30)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 1 << 20, "queue.buffering.max.kbytes": 1 << 20}
    )
    encode = avro() if form == "avro" else protobuf()
    for source in range(SOURCES):
        for number, value in enumerate(payloads(source, rows // SOURCES, encode)):
            producer.produce(form, value, partition=source)
            while number % 20_000 == 0 and len(producer) > 60_000:
                producer.poll(0.01)
    if producer.flush(60):
        raise SystemExit("the broker did not take all messages")


def make_feed(form: str, work: Path, bootstrap: str, args: argparse.Namespace) -> None:
    """The feed, and the files that describe it and our stream."""
    if form in FUNCTIONS:
        fill(bootstrap, form, args.rows * args.triggers)
    else:
        kind = "csv" if form == "csv" else "parquet"  # of which Spark makes the table of Delta
        if not (work / f"{kind}-feed").exists():
            write_files(work / f"{kind}-feed", kind, args.rows // SOURCES, SOURCES * args.triggers)
    if form == "delta":
        apart(write_delta, work, args.triggers)
    (work / form).mkdir()
    (work / form / "bench.toml").write_text(STREAM.format(work=work, feed=feed_of(form, work, bootstrap, args.rows)))


def measure(form: str, work: Path, bootstrap: str, args: argparse.Namespace) -> dict[str, float]:
    """The fastest seconds for a million rows of each path of a format. SystemExit: one has written other rows."""
    begun = time.perf_counter()
    make_feed(form, work, bootstrap, args)
    print(f"\n{form}: the feed was made in {time.perf_counter() - begun:.0f} s", flush=True)
    total = args.rows * args.triggers
    times = {OURS: apart(run_ours, work / form)}
    require_equal(f"{form}, sparkhaven", ours(work / form / "db"), total)
    for sink in args.sinks if not args.ours and has_jars(form) else ():
        for way in args.ways:
            name = f"{sink}, {way}"
            times[name] = apart(run_peer, work, form, sink, way, bootstrap, args.rows)
            require_equal(f"{form}, {name}", theirs(work / sink_directory(form, sink, way)), total)
    return report(times, args.rows)


def has_jars(form: str) -> bool:
    """Whether the function of a peer is there, which is said if it is not."""
    try:
        function_jars(Fs(), form)
    except SettingsError as error:
        print(f"{form}: the peers are left out: {error.what} ({error.found})", flush=True)
        return False
    return True


def main() -> int:
    """Prints a table for each format, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows a trigger")
    parser.add_argument("--triggers", type=int, default=3)
    parser.add_argument("--sinks", nargs="+", choices=SINKS, default=SINKS)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=tuple(WAYS))
    parser.add_argument("--ours", action="store_true", help="only our own paths")
    add_record(parser)
    args = parser.parse_args()
    ratios: dict[str, dict[str, float]] = {}
    measured: dict[str, float] = {}
    with scratch() as work, ExitStack() as opened:
        (work / "Bench.Trade.schema").write_text(SCHEMA)
        (work / "trade.avsc").write_text(AVRO_SCHEMA)
        (work / "trade.desc").write_bytes(descriptor_set())
        needs_broker = FUNCTIONS.keys() & set(args.formats)
        bootstrap = opened.enter_context(Broker(Fs(), work / "broker", heap="1g")).bootstrap if needs_broker else ""
        for form in args.formats:
            best = measure(form, work, bootstrap, args)
            measured[f"feeds.{form}"] = best[OURS]
            for sink in args.sinks:
                seconds = fastest(best, sink)
                if seconds is not None:
                    ratio = ratios.setdefault(form, {})[sink] = seconds / best[OURS]
                    measured |= {f"feeds.{form}.{sink}": seconds, f"feeds.{form}.{sink}.ratio": ratio}
    print(f"\n{'fastest way of':<16}" + "".join(f"{sink:>12}" for sink in args.sinks))
    for form, by_sink in ratios.items():
        print(f"{form:<16}" + "".join(f"{by_sink.get(sink, 0):>11.1f}x" for sink in args.sinks))
    record(parser, args, measured, formats=args.formats)  # the figures of each format stand alone
    return int(any(by_sink.get("delta", GOAL) < GOAL for by_sink in ratios.values()))


if __name__ == "__main__":
    sys.exit(main())
