"""A standalone Spark cluster on this machine: a master and two workers, as its own scripts would start them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.support.processes import lines_of

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
READY = "Successfully registered with master"
LOGGING = """rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %m%n
"""


@contextmanager
def standalone(base: Path, environ: dict[str, str], workers: int = 2) -> Iterator[str]:
    """The master's URL; ``environ`` is that of the daemons, which executors inherit. All end with the body."""
    base.mkdir()
    (base / "log4j2.properties").write_text(LOGGING)
    options = f"-Dlog4j2.configurationFile=file:{base}/log4j2.properties -XX:+UseSerialGC"
    environ = {
        **environ,
        "SPARK_DAEMON_JAVA_OPTS": options,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    daemons: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        daemons.append(
            subprocess.Popen([SPARK_CLASS, *words], env=environ, cwd=base, stderr=subprocess.PIPE, text=True)
        )
        return daemons[-1]

    try:
        address = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = start("org.apache.spark.deploy.master.Master", *address)
        url = next(found[1] for line in lines_of(master) if (found := STARTED.search(line)))
        for number in range(workers):
            place = ["--cores", "1", "--memory", "600m", "--work-dir", str(base / f"work-{number}")]
            worker = start("org.apache.spark.deploy.worker.Worker", *address, *place, url)
            next(line for line in lines_of(worker) if READY in line)
        yield url
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(30)
            assert daemon.stderr is not None
            daemon.stderr.close()
