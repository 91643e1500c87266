"""``make demo-live``: trades sent to a real broker, a Spark stream that commits them, an engine that ticks.

Broker, stream (``sparkhaven ingest``), engine (``sparkhaven serve --ui``) and its client are processes of their own, on
loopback. The client shows once a second the last price of each symbol and the age of the newest row. Then the whole
table, as the client has it and as our own reader has it, is compared with what was sent; any difference is exit code 1.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import pyarrow as pa
from rich.console import Console

from demo.figures import Figure
from demo.flights import WAIT_S, Demo
from demo.live import browser
from demo.live.trades import TABLE, VARIABLE, TradeSource, compare, create_topic
from demo.program import run_program
from sparkhaven.jobs.session.spark_session import import_root
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from tests.support.servers.broker import Broker
from tests.support.servers.watchdog import Watchdog

ENGINE = ".venv-deephaven"
LOOK_SECONDS = 1.0
PICTURE = "grid.png"


class WatcherProcess:
    """The client, in the environment of the engine. SettingsError: it has ended."""

    def __init__(self, demo: Demo, engine: Path, served: dict[str, Any]) -> None:
        address = urlsplit(served["url"])
        self._log = demo.base / "watcher.log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [str(engine), "-P", str(Path(__file__).with_name("watcher.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._ask({"host": address.hostname, "port": address.port, "key": served["key"], "variable": VARIABLE})

    def look(self) -> dict[str, Any]:
        """What it sees now: ``rows``, ``last`` price by symbol, ``age_us`` of the newest row."""
        view: dict[str, Any] = self._ask({"do": "look"})
        return view

    def save(self, path: Path) -> pa.Table:
        self._ask({"do": "save", "path": str(path)})
        with pa.ipc.open_file(path) as file:
            return file.read_all()

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None  # noqa: S101  both are pipes
        print(json.dumps(request), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SettingsError("the client of the engine has ended", where=self._log, hint="read its log")
        return json.loads(line)["result"]


def run(demo: Demo, rows_a_second: int, seconds: float) -> list[Figure]:
    """From topic to grid; the figures that were found."""
    engine = import_root() / ENGINE / "bin" / "python"
    if not engine.exists():
        raise SettingsError("no Deephaven engine is installed", where=engine, hint="`make setup-deephaven` makes one")
    root = demo.base / "db"
    root.mkdir()
    with ExitStack() as opened:
        with demo.stage("start: broker, Spark stream, engine, and a client of it"):
            broker = opened.enter_context(Broker(Fs(), demo.base / "broker", heap="512m"))
            create_topic(broker.bootstrap)
            settings = import_root() / "sparkhaven" / "conf" / "streams" / "trades.toml"
            stream = opened.enter_context(_running(demo, root, ["ingest", str(settings)], KAFKA=broker.bootstrap))
            server = opened.enter_context(_running(demo, root, ["serve", "--ui", "--port", "0", "--memory", "1GiB"]))
            served = _first_line(demo, server, "serve")
            source = TradeSource(broker.bootstrap, rows_a_second)
            source.start()
            opened.callback(source.stop)
            _wait_for_table(demo, stream, root)
            client = WatcherProcess(demo, engine, served)
            opened.callback(_end, client.process)
        with demo.stage(f"watch: {rows_a_second:,} rows a second are sent, the engine's client looks once a second"):
            looks = list(_watched(demo.console, client, seconds))
            sent = source.finish()
            _wait_for(client, sent.num_rows)
        with demo.stage("compare: the client's whole table with what was sent"):
            shown = client.save(demo.base / "table.arrow")
            fewer = sum(after < before for before, after in pairwise(looks))
            compared = [Figure("looks with fewer rows than the one before", 0, fewer)]
            compared += compare(sent, shown, "in the engine")
        with demo.stage("picture: the engine's grid in a browser"):
            _picture(demo, served)
        with demo.stage("stop: by SIGTERM, the stream after its batch"):
            done = _end(stream)
            rows = sum(json.loads(line).get("rows", 0) for line in done[1].splitlines())
            compared.append(Figure("exit code of the stream", 0, done[0]))
            compared.append(Figure("rows that the stream reports", sent.num_rows, rows))
            compared.append(Figure("exit code of the engine", 0, _end(server)[0]))
        with demo.stage("read: the same rows through our own reader"):
            compared += compare(sent, open_table(root, TABLE).to_arrow(), "read by open_table")
    return compared


def _watched(console: Console, client: WatcherProcess, seconds: float) -> Iterator[int]:
    begun = time.monotonic()
    while (now := time.monotonic() - begun) < seconds:
        view = client.look()
        age = "no row yet" if view["age_us"] is None else f"newest {view['age_us'] / 1e6:6.3f} s old"
        prices = "  ".join(f"{symbol} {price:.2f}" for symbol, price in view["last"].items())
        console.print(f"{now:5.1f} s  {view['rows']:>9,} rows, {age}   {prices}", highlight=False, soft_wrap=True)
        yield view["rows"]
        time.sleep(max(0.0, LOOK_SECONDS - (time.monotonic() - begun - now)))


def _wait_for_table(demo: Demo, stream: subprocess.Popen[str], root: Path) -> None:
    """Until the stream has deployed its table. SettingsError: it has ended, or takes too long."""
    until = time.monotonic() + WAIT_S
    while Fs().stat(Layout(root).schema(TableName.parse(TABLE))) is None:
        if stream.poll() is not None or time.monotonic() > until:
            raise SettingsError("the stream does not start", where=demo.base / "ingest.log", hint="read its log")
        time.sleep(0.1)


def _wait_for(client: WatcherProcess, rows: int) -> None:
    """Until the client has all rows. SettingsError: that takes too long."""
    until = time.monotonic() + WAIT_S
    while (shown := client.look()["rows"]) < rows:
        if time.monotonic() > until:
            raise SettingsError("the engine does not get all rows", expected=rows, found=shown)


def _picture(demo: Demo, served: dict[str, Any]) -> None:
    path = browser.program()
    if path is None:
        demo.console.print(browser.HINT)
        return
    url = f"{served['url']}/iframe/table/?name={VARIABLE}&psk={served['key']}"
    with browser.Browser(path, demo.base) as opened:
        (demo.base / PICTURE).write_bytes(opened.picture(url))
    demo.console.print(f"the grid as a browser draws it: {demo.base / PICTURE}", soft_wrap=True)


# --- processes -------------------------------------------------------------------------------------------------


@contextmanager
def _running(demo: Demo, root: Path, words: Sequence[str], **environ: str) -> Iterator[subprocess.Popen[str]]:
    """A command until the end of the body, and no longer than this process; its log is ``<word>.log``."""
    demo.console.print(f"[dim]$ sparkhaven --root {root} {' '.join(words)}", highlight=False, soft_wrap=True)
    with _log(demo, words[0]) as log:
        process = demo.start(root, words, environ, log)
    watchdog = Watchdog(process.pid)
    try:
        yield process
    finally:
        watchdog.close()
        process.kill()
        process.communicate()


def _log(demo: Demo, word: str) -> IO[str]:
    return (demo.base / f"{word}.log").open("w", encoding="utf-8")


def _first_line(demo: Demo, process: subprocess.Popen[str], word: str) -> dict[str, Any]:
    assert process.stdout is not None  # noqa: S101  it is a pipe
    line = process.stdout.readline()
    if not line:
        raise SettingsError(f"`sparkhaven {word}` has ended", where=demo.base / f"{word}.log", hint="read its log")
    record: dict[str, Any] = json.loads(line)
    return record


def _end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Ends a process by SIGTERM, its input first; exit code and what it has written."""
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=WAIT_S)
    return process.returncode, output


def main() -> int:
    parser = argparse.ArgumentParser(prog="demo.live.run", description=__doc__)
    parser.add_argument("--db", type=Path, default=Path("demo-live-db"), help="directory to fill")
    parser.add_argument("--rows-a-second", type=int, default=1_000, help="default 1000")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long to watch (default 30)")
    args = parser.parse_args()
    if args.rows_a_second < 1 or args.seconds <= 0:
        parser.error("--rows-a-second and --seconds are positive")
    demo = Demo.below(args.db)
    return demo.verdict(run(demo, args.rows_a_second, args.seconds))


if __name__ == "__main__":
    run_program("demo", main)
