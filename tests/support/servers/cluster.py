"""A standalone Spark cluster on loopback, for people and for tests: a master and workers, each a process of its own.

``python -m tests.support.servers.cluster`` (``make cluster``) starts one and runs until it is stopped. Each worker
has its own work directory and one core; a watchdog ends them with the process that started them.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import pyspark

from demo.program import run_program, wait_until_stopped
from sparkhaven.jobs.session.fast_start import python_launcher
from sparkhaven.store.errors import CommitError
from sparkhaven.store.io.fs import Fs
from tests.support.servers.broker import free_port
from tests.support.servers.watchdog import Watchdog

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
STARTED = re.compile(rb"Starting Spark master at (spark://\S+)")
READY = re.compile(rb"Successfully registered with master")
START_SECONDS = 60.0
LOGGING = """rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %m%n
"""


class Daemon:
    """One process of Spark's standalone cluster, with its log."""

    def __init__(self, words: list[str], environ: Mapping[str, str], log: Path, ready: re.Pattern[bytes]) -> None:
        self.log, self._ready = log, ready
        with log.open("wb") as opened:
            self._process = subprocess.Popen(
                [str(SPARK_CLASS), *words],
                env=dict(environ),
                cwd=log.parent,
                stdin=subprocess.DEVNULL,
                stdout=opened,
                stderr=opened,
                start_new_session=True,  # Ctrl-C in a terminal ends this process, which ends the daemons
            )
        self._watchdog: Watchdog | None = Watchdog(self._process.pid)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def wait(self) -> re.Match[bytes]:
        """What its log says when it is ready. CommitError: it ended before, or took too long."""
        end = time.monotonic() + START_SECONDS
        while not (found := self._ready.search(said := self.log.read_bytes())):
            if self._process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise CommitError(
                    "a process of the Spark cluster does not start",
                    where=self.log,
                    expected=f"{self._ready.pattern.decode()!r} within {START_SECONDS:.0f} seconds",
                    found=said[-500:].decode("utf-8", "replace"),
                    hint="read the log, and check that a JDK 17 or later is installed",
                )
            time.sleep(0.02)
        return found

    def send(self, number: int) -> None:
        """Sends a signal."""
        self._process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Ends it; SIGKILL if it does not end by itself. May be called twice."""
        if self._watchdog is None:
            return
        self._process.send_signal(number)
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._watchdog.close()
        self._watchdog = None


class Cluster:
    """A master and workers of one core below ``directory``; all end with the body.

    ``environ`` is that of the daemons, which executors inherit: PYSPARK_PYTHON names the workers' interpreter.
    ``options``: further Java options of master and workers. A master that is started again knows its applications.
    """

    def __init__(
        self, directory: Path, environ: Mapping[str, str], *, workers: int = 2, memory: str = "600m", options: str = ""
    ) -> None:
        self._directory, self._count, self._memory = directory, workers, memory
        logging = f"-Dlog4j2.configurationFile=file:{directory}/log4j2.properties"
        recovery = f"-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryDirectory={directory}/master"
        self._environ = {
            **environ,
            "SPARK_DAEMON_JAVA_OPTS": f"{logging} {recovery} {options} -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        self._port = free_port()
        self.master: Daemon
        self.workers: list[Daemon] = []

    @property
    def url(self) -> str:
        """The master's URL, for ``--master``."""
        return f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> Cluster:
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / "log4j2.properties").write_text(LOGGING, encoding="utf-8")
        self.start_master()
        try:
            for _ in range(self._count):
                self.start_worker()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def start_master(self) -> None:
        """Starts the master, again at the same address."""
        words = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(self._port)]
        log = self._directory / "master.log"
        self.master = Daemon([*words, "--webui-port", "0"], self._environ, log, STARTED)
        self.master.wait()

    def start_worker(self) -> Daemon:
        """Starts one worker more; its executors are its children."""
        number = len(self.workers)
        address = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        place = ["--cores", "1", "--memory", self._memory, "--work-dir", str(self._directory / f"work-{number}")]
        words = ["org.apache.spark.deploy.worker.Worker", *address, *place, self.url]
        worker = Daemon(words, self._environ, self._directory / f"worker-{number}.log", READY)
        self.workers.append(worker)
        worker.wait()
        return worker

    def _stop(self) -> None:
        for daemon in (*self.workers, self.master):
            daemon.stop()


def main() -> int:
    """Starts a cluster of two workers of one core and waits for Ctrl-C."""
    parser = argparse.ArgumentParser(prog="tests.support.servers.cluster", description=main.__doc__)
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="workers of one core (default 2)")
    parser.add_argument("--memory", default="1g", help="memory of each worker (default 1g)")
    given = parser.parse_args()
    environ = {**os.environ, "PYSPARK_PYTHON": python_launcher(Fs(), os.environ)}
    with ExitStack() as opened:
        place = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="sparkhaven-cluster-")))
        cluster = opened.enter_context(Cluster(place, environ, workers=given.workers, memory=given.memory))
        submit = SPARK_CLASS.with_name("spark-submit")
        print(f"master at {cluster.url}, {given.workers} workers of one core, logs in {place}")
        print(f"try: make zip && {submit} --master {cluster.url} --py-files sparkhaven.zip \\")
        print("     jobs/ingest_stream.py --root DIR conf/streams/flights.toml --once")
        wait_until_stopped()
    return 0


if __name__ == "__main__":
    run_program("cluster", main)
