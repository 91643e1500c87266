"""JSON messages to durable, visible rows: sparkhaven from Kafka against QuestDB's own Python client, in one run.

QuestDB has no feed of its own: a program parses the messages and sends rows. Both ways to do that are timed on
messages that lie in memory already, without Kafka and Spark: ``json`` and a call a row, and Arrow's JSON reader with a
data frame a batch. One process sends all rows, then as many as there are cores send their parts at once; the faster
counts. Rows are ordered by their arrival, which spares the server its sorting. Seconds run until it counts all rows of
the batch; ``cairo.commit.mode=sync``. sparkhaven reads the same messages from a broker as a Spark stream (``fsync``),
as in ``benchmarks.kafka_ingest``. First batches are warm-up, the fastest of the others counts.

    python -m pip install questdb pandas
    python -m benchmarks.questdb_ingest [--rows 1000000] [--batches 3] [--senders 1 2]
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import islice
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.json import ParseOptions, read_json

from benchmarks.figures import add_record, record
from benchmarks.ingest_files import SCHEMA, apart, report
from benchmarks.kafka_ingest import PARTITIONS, STREAM, TOPIC, fill, messages, run_ours
from benchmarks.peers import fastest
from benchmarks.scratch import scratch
from sparkhaven.jobs.session.jars import Artifact, jars
from sparkhaven.store.io.fs import Fs
from tests.support.servers.broker import Broker, free_port

VERSION = "9.3.4"
JAR = Artifact("org.questdb", "questdb", VERSION, alone=True)
SYMBOLS = ("src", "sym", "side", "venue")
START_SECONDS = 60.0
TABLE = (
    "create table {name} (id long, src symbol, sym symbol, ts timestamp_ns, px double, qty long, side symbol,"
    " venue symbol, seq long, live boolean, arrived timestamp) timestamp(arrived) partition by day wal"
)
Send = Callable[[Any, str, Sequence[bytes]], None]


def query(address: str, text: str) -> Any:
    """The answer of the server to one statement."""
    url = f"http://{address}/exec?{urllib.parse.urlencode({'query': text})}"
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


@contextmanager
def server(directory: Path) -> Iterator[str]:
    """A server with its data below ``directory``; its address."""
    (jar,) = jars(Fs(), f"questdb-{VERSION}", (JAR,))
    address = f"127.0.0.1:{free_port()}"
    own = {"HTTP_BIND_TO": address, "HTTP_MIN_ENABLED": "false", "PG_ENABLED": "false", "LINE_TCP_ENABLED": "false"}
    own |= {"CAIRO_COMMIT_MODE": "sync", "TELEMETRY_ENABLED": "false"}
    environ = dict(os.environ) | {f"QDB_{name}": value for name, value in own.items()}
    command = ["java", "-Xmx4g", "-p", str(jar), "-m", "io.questdb/io.questdb.ServerMain", "-d", str(directory)]
    directory.mkdir()
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
        try:
            until = time.monotonic() + START_SECONDS
            while True:
                try:
                    query(address, "select 1")
                    break
                except OSError:
                    if time.monotonic() > until or process.poll() is not None:
                        raise SystemExit(f"QuestDB did not start:\n{(directory / 'log').read_text()[-2000:]}") from None
                    time.sleep(0.1)
            yield address
        finally:
            process.terminate()
            process.wait(30)


def by_row(sender: Any, table: str, lines: Sequence[bytes]) -> None:
    """Each message parsed by ``json`` and sent by a call of its own; the client sends them in portions."""
    from questdb.ingress import ServerTimestamp, TimestampNanos

    for line in lines:
        row = json.loads(line)
        row["ts"] = TimestampNanos(_nanoseconds(row["ts"]))
        symbols = {name: row.pop(name) for name in SYMBOLS}
        sender.row(table, symbols=symbols, columns=row, at=ServerTimestamp)
    sender.flush()


def _nanoseconds(text: str) -> int:
    hour, minute, rest = text[11:-1].split(":")
    second, micros = rest.split(".")
    return ((_DAY + int(hour) * 3600 + int(minute) * 60 + int(second)) * 10**6 + int(micros)) * 1000


_DAY = 1_795_219_200  # 2026-11-21, the day of all messages


def by_frame(sender: Any, table: str, lines: Sequence[bytes]) -> None:
    """The messages of a batch parsed by Arrow and sent as one data frame."""
    from questdb.ingress import ServerTimestamp

    fields = pa.schema([("ts", pa.timestamp("ns", "UTC"))])
    table_ = read_json(io.BytesIO(b"\n".join(lines)), parse_options=ParseOptions(explicit_schema=fields))
    for name in SYMBOLS:
        index = table_.schema.get_field_index(name)
        table_ = table_.set_column(index, name, table_.column(name).dictionary_encode())
    sender.dataframe(table_.to_pandas(), table_name=table, symbols=list(SYMBOLS), at=ServerTimestamp)
    sender.flush()


def need_client() -> None:
    """SystemExit: the client is not installed, which nothing else of a run would tell before its first batch."""
    if missing := [name for name in ("questdb", "pandas") if find_spec(name) is None]:
        raise SystemExit(f"the client is missing: python -m pip install {' '.join(missing)}")


def sender(address: str) -> Any:
    """The client, which sends in portions."""
    need_client()
    from questdb.ingress import Sender

    return Sender.from_conf(f"http::addr={address};auto_flush_rows=75000;request_timeout=60000;")


def send_part(address: str, way: str, part: int, rows: Sequence[int], begin: Barrier) -> None:
    """One of several processes that send at once: its ``rows`` of each batch, once all are ready."""
    send, feed = WAYS[way], messages(part % PARTITIONS, sum(rows))
    with sender(address) as opened:
        for count in rows:
            lines = list(islice(feed, count))
            begin.wait()
            send(opened, f"questdb_{way}", lines)


def run_questdb(work: Path, way: str, senders: int, rows: int, batches: int) -> list[float]:
    """Seconds of each batch, from its messages in the memory of the senders until the server counts its rows."""
    name, seconds, context = f"questdb_{way}", [], get_context("spawn")
    begin = context.Barrier(senders + 1)
    shares = [rows // senders + (part < rows % senders) for part in range(senders)]
    with server(work / f"{name}_{senders}") as address:
        query(address, TABLE.format(name=name))
        arguments = [(address, way, part, [share] * batches, begin) for part, share in enumerate(shares)]
        processes = [context.Process(target=send_part, args=of, daemon=True) for of in arguments]
        for process in processes:
            process.start()
        for number in range(1, batches + 1):
            while begin.n_waiting < senders:  # a sender that has failed comes to no barrier
                _need_all(processes, name)
                time.sleep(0.005)
            begin.wait()
            begun = time.perf_counter()
            while query(address, f"select count() from {name}")["dataset"][0][0] < rows * number:
                _need_all(processes, name)
                time.sleep(0.005)
            seconds.append(time.perf_counter() - begun)
        for process in processes:
            process.join(60)
    return seconds


def _need_all(processes: Sequence[BaseProcess], name: str) -> None:
    if any(process.exitcode for process in processes):
        raise SystemExit(f"{name}: a sender has failed")


WAYS: dict[str, Send] = {"rows": by_row, "frames": by_frame}


def main() -> None:
    """Runs all and prints the table."""
    options = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    options.add_argument("--rows", type=int, default=1_000_000, help="messages a batch")
    options.add_argument("--batches", type=int, default=3)
    options.add_argument("--senders", type=int, nargs="+", default=[1, 2], help="processes that send at once")
    add_record(options)
    args = options.parse_args()
    need_client()
    with scratch() as work:
        with Broker(Fs(), work / "broker", heap="1g") as broker:
            fill(broker.bootstrap, args.rows * args.batches)
            (work / "Bench.Trade.schema").write_text(SCHEMA)
            (work / "bench.toml").write_text(STREAM.format(bootstrap=broker.bootstrap, topic=TOPIC, rows=args.rows))
            times = {OURS: apart(run_ours, work)}
        for way in WAYS:
            for senders in args.senders:
                name = f"{way}, {senders} at once"
                times[name] = run_questdb(work, way, senders, args.rows, args.batches)
        best = report(times, args.rows)
    measured = {"questdb": best[OURS]}
    for way in WAYS:
        if (seconds := fastest(best, way)) is not None:
            measured |= {f"questdb.{way}": seconds, f"questdb.{way}.ratio": seconds / measured["questdb"]}
    record(options, args, measured)


OURS = "sparkhaven from Kafka, fsync"

if __name__ == "__main__":
    main()
