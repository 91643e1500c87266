"""A real Kafka broker on loopback, for people and for tests: one process, its data in one directory.

``python -m tests.support.servers.broker`` (``make kafka``) starts one, fills the topic of the demo with flights and
runs until it is stopped. Broker and controller are one JVM (KRaft). It is ready when its log has the line for it, and
stopped by its process handle; a watchdog ends it with the process that started it. A restart finds the same topics on
the same ports, since both belong to the directory.
"""

from __future__ import annotations

import argparse
import base64
import os
import socket
import subprocess
import tempfile
import time
import uuid
import zlib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from demo.program import run_program, wait_until_stopped
from sparkhaven.jobs.session.interpreter import find_java
from sparkhaven.jobs.session.jars import Artifact, jars
from sparkhaven.store.errors import RetryableFeedError, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.user_cache import cache_directory
from tests.support.servers.watchdog import Watchdog

VERSION, NEWER = "3.9.2", "4.1.1"
LOGGER = Artifact("org.slf4j", "slf4j-simple", "1.7.36", alone=True)  # Kafka logs by slf4j 1.7
READY = "Kafka Server started"
START_SECONDS = 60.0
STOP_SECONDS = 30.0
SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # after a kill the broker can register again only when its former session has ended
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "auto.create.topics.enable": "false",
    "log.retention.check.interval.ms": "1000",
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "0",
}


@dataclass(frozen=True)
class Node:
    """A broker's place in a cluster: its number, the port of its controller, and all controllers with their cluster."""

    number: int
    controller: int
    voters: str
    cluster: str = field(default_factory=lambda: base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="))

    @classmethod
    def alone(cls) -> Node:
        """A cluster of one."""
        port = free_port()
        return cls(1, port, f"1@127.0.0.1:{port}")


class Broker:
    """One broker below ``directory``. ``settings`` override the defaults; ``heap``: maximum heap of its JVM."""

    def __init__(
        self,
        fs: Fs,
        directory: Path,
        *,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        listeners: Mapping[str, int] | None = None,
        environ: Mapping[str, str] = os.environ,
        heap: str = "256m",
        version: str = VERSION,
        node: Node | None = None,
    ) -> None:
        self._fs, self._directory, self._environ, self._heap = fs, directory, environ, heap
        artifacts = Artifact("org.apache.kafka", "kafka_2.13", version), LOGGER
        self._class_path = os.pathsep.join(map(str, jars(fs, f"kafka-{version}", artifacts, environ)))
        self._classes = ClassArchive(fs, fs.resolve(find_java(fs, environ)), environ, version)
        self._node = node or Node.alone()
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: Watchdog | None = None
        self._port = port or free_port()
        fs.mkdirs(directory)
        ports = {"PLAINTEXT": self._port, **(listeners or {}), "CONTROLLER": self._node.controller}
        own = {
            "node.id": str(self._node.number),
            "controller.quorum.voters": self._node.voters,
            "listeners": ",".join(f"{name}://127.0.0.1:{number}" for name, number in ports.items()),
            "log.dirs": str(directory / "data"),
        }
        lines = [f"{name}={value}\n" for name, value in {**SETTINGS, **own, **(settings or {})}.items()]
        fs.replace(self._properties, "".join(lines).encode(), sync=False)

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self._port}"

    @property
    def log(self) -> Path:
        """The log of the broker."""
        return self._directory / "broker.log"

    @property
    def data(self) -> Path:
        """Its topics and its metadata; may be copied and put back while it is stopped."""
        return self._directory / "data"

    @property
    def _properties(self) -> Path:
        return self._directory / "server.properties"

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, *format_options: str) -> None:
        """Starts the broker, and formats its directory the first time. RetryableFeedError if it does not start."""
        if self._fs.stat(self.data / "meta.properties") is None:
            cluster = f"--cluster-id={self._node.cluster}"
            done = subprocess.run(
                self._java("kafka.tools.StorageTool", "format", cluster, *format_options, "-c"),
                capture_output=True,
                text=True,
                timeout=START_SECONDS,
                check=False,
            )
            if done.returncode:
                raise SettingsError(
                    "the broker's directory cannot be formatted", where=self.data, found=done.stdout + done.stderr
                )
        with self.log.open("wb") as log:
            # in a session of its own, so that Ctrl-C in a terminal ends this process, which ends the broker
            self._process = subprocess.Popen(
                self._java("kafka.Kafka"), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._watchdog = Watchdog(self._process.pid)
        self._wait()

    def stop(self) -> None:
        """Stops the broker with SIGTERM; may be called when it does not run."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
            self._classes.keep()
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._forget()

    def kill(self) -> None:
        """Kills the broker with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._forget()

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process else None

    def _forget(self) -> None:
        if self._watchdog is not None:
            self._watchdog.close()
        self._process = self._watchdog = None

    def _java(self, main: str, *words: str) -> list[str]:
        quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *self._classes.options(main == "kafka.Kafka")]
        heap = f"-Xmx{self._heap}"
        return [str(self._classes.java), heap, *quick, "-cp", self._class_path, main, *words, str(self._properties)]

    def _wait(self) -> None:
        end = time.monotonic() + START_SECONDS
        while True:
            said = self._fs.read(self.log)
            if READY.encode() in said:
                return
            process = self._process
            if process is None or process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise RetryableFeedError(
                    "the broker does not start",
                    where=self.log,
                    expected=f"the line {READY!r} within {START_SECONDS:.0f} seconds",
                    found=_error_summary(said.decode("utf-8", "replace")),
                    hint="read the log. Another process may use its port. Then start it again",
                )
            time.sleep(0.05)


class ClassArchive:
    """The classes of a broker as the JVM maps them: half of its start. The first broker that ends leaves them."""

    def __init__(self, fs: Fs, java: Path, environ: Mapping[str, str], version: str) -> None:
        self._fs, self.java = fs, java
        stat = fs.stat(java)
        release = zlib.crc32(f"{java} {stat and stat.mtime_ns}".encode())
        self._path = cache_directory(environ) / f"kafka-{version}-{release:08x}.jsa"
        self._unnamed = self._path.with_suffix(f".{os.getpid()}-{id(self):x}")

    def options(self, whole: bool) -> list[str]:
        """Of the JVM: uses the archive, or writes one when a ``whole`` broker ends. One of other jars is ignored."""
        if self._fs.stat(self._path) is not None:
            return [f"-XX:SharedArchiveFile={self._path}", "-Xlog:cds*=off"]
        return [f"-XX:ArchiveClassesAtExit={self._unnamed}", "-Xlog:cds*=off"] if whole else []

    def keep(self) -> None:
        """Gives an archive that was written its name."""
        if self._fs.stat(self._unnamed) is not None:
            self._fs.rename(self._unnamed, self._path)


def _error_summary(said: str) -> str:
    """The first exception in a log, or its last lines."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return next((line for line in lines if "Exception: " in line), " / ".join(lines[-3:]) or "nothing")[:500]


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        number: int = opened.getsockname()[1]
        return number


def main() -> int:
    """Starts a broker with the flights of the demo in a topic, and waits for Ctrl-C."""
    from demo.topic import TOPIC, fill

    parser = argparse.ArgumentParser(prog="tests.support.servers.broker", description=main.__doc__)
    parser.add_argument("--port", type=int, default=9092, help="port on 127.0.0.1 (default 9092)")
    parser.add_argument("--directory", type=Path, help="directory of its data. Default: a temporary one")
    given = parser.parse_args()
    with ExitStack() as opened:
        directory = given.directory or Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="sparkhaven-")))
        broker = opened.enter_context(Broker(Fs(), directory.absolute(), port=given.port, heap="512m"))
        filled = fill(broker.bootstrap, TOPIC)
        print(f"broker at {broker.bootstrap}, log in {broker.log}")
        print(f"topic {TOPIC}: {filled:,} messages sent" if filled else f"topic {TOPIC} exists")
        print(f"try: KAFKA={broker.bootstrap} sparkhaven --root DIR ingest conf/streams/flights-kafka.toml --once")
        wait_until_stopped()
    return 0


if __name__ == "__main__":
    run_program("broker", main)
