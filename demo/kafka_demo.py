"""``make demo-kafka``: 336,776 real flights through a topic of a real broker into the table, with a kill in between.

A broker is started on loopback and its topic filled; the streaming job is killed with SIGKILL after its first epoch,
loses Spark's checkpoint as well, and is started again. The table is then compared with the known counts of the
data; any difference is exit code 1.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import time
from contextlib import ExitStack
from pathlib import Path

from demo import feed as flights
from demo.figures import Figure, figures, same_as_package
from demo.flights import WAIT_S, Demo
from demo.program import run_program
from demo.topic import TOPIC, fill
from sparkhaven.jobs.session.spark_session import import_root
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SettingsError, TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from tests.support.servers.broker import Broker

STREAM = "flights-kafka"
AFTER_TRUNCATE = "intraday rows after truncate"  # nothing is truncated here


def run(demo: Demo) -> list[Figure]:
    """Topic to table; the figures that were found."""
    root = demo.base / "db"
    layout, table = Layout(root), TableName.parse(flights.TABLE)
    settings = import_root() / "sparkhaven" / "conf" / "streams" / "flights-kafka.toml"
    with ExitStack() as opened:
        with demo.stage("broker: started on loopback, its topic filled with the flights"):
            broker = opened.enter_context(Broker(Fs(), demo.base / "broker", heap="512m"))
            sent = fill(broker.bootstrap, TOPIC)
            demo.console.print(f"{sent:,} messages in topic {TOPIC} at {broker.bootstrap}")
        with demo.stage("ingest: killed after its first epoch"):
            demo.console.print(_killed(demo, root, settings, broker))
            shutil.rmtree(layout.spark_checkpoint(table, STREAM), ignore_errors=True)
            demo.console.print("Spark's checkpoint deleted as well: it is only a cache")
        with demo.stage("ingest: started again, to the end of the topic"):
            demo.command(root, "ingest", str(settings), "--once", "--spark", KAFKA=broker.bootstrap)
        state = load_stream(StreamPlace(Fs(), layout, table, STREAM))
        with demo.stage("read: everything back through Arrow"):
            whole = open_table(root, flights.TABLE).to_arrow()
            rows = {key: location.rows for key, location in state.locations.items()}
            compared = [figure for figure in figures(whole, rows, 0) if figure.name != AFTER_TRUNCATE]
            compared += [same_as_package(whole), Figure("messages in the topic", flights.ROWS, sent)]
            compared.append(Figure("offsets committed", sent, sum(end.stop for end in state.offsets.values())))
    return compared


def _killed(demo: Demo, root: Path, settings: Path, broker: Broker) -> str:
    with (demo.base / "killed-job.log").open("w") as log:  # its Spark, orphaned, complains at length
        running = demo.start(root, ("ingest", str(settings)), {"KAFKA": broker.bootstrap}, log)
        end = time.monotonic() + WAIT_S
        try:
            while (state := _state(root)) is None or not state.epoch:
                if running.poll() is not None or time.monotonic() > end:
                    raise SettingsError("the streaming job does not start", where=log.name)
                time.sleep(0.01)
        finally:
            running.send_signal(signal.SIGKILL)
            running.communicate()
    committed = sum(location.rows for location in state.locations.values())
    return f"killed with SIGKILL after epoch {state.epoch} ({committed:,} rows committed)"


def _state(root: Path) -> StreamState | None:
    try:
        return load_stream(StreamPlace(Fs(), Layout(root), TableName.parse(flights.TABLE), STREAM))
    except TableNotFoundError:
        return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="demo.kafka_demo", description=__doc__)
    parser.add_argument("--db", type=Path, default=Path("demo-kafka-db"), help="directory to fill")
    demo = Demo.below(parser.parse_args().db)
    return demo.verdict(run(demo))


if __name__ == "__main__":
    run_program("demo", main)
