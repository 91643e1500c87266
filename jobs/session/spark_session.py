"""The Spark session of a job: built once, with what the workers need, quiet by default.

Run as a module it checks the JDK and prints only errors: ``python -m sparkhaven.jobs.session.spark_session``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sparkhaven.jobs.session.fast_start import archive_options, python_launcher
from sparkhaven.jobs.session.interpreter import check_jdk
from sparkhaven.jobs.session.spark_or_local import is_submitted
from sparkhaven.readers.spark.releases import installed_spark
from sparkhaven.store.errors import SettingsError, SparkhavenError
from sparkhaven.store.io.fs import Fs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The JVM only schedules: rows never cross it, and no session of a job reads a table by Java. Without its optimising
# compiler and parallel garbage collector the workers gain a tenth of a micro-batch on two cores. Compiled code would
# have 48 MB then, which many queries fill: making room again and again takes as long as collecting garbage.
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=128m")
_MEMORY = re.compile(r"\d+[kmgt]\Z")


def import_root() -> Path:
    """Where these packages are imported from: a checkout, site-packages, or a zip given with ``--py-files``."""
    return Path(__file__).absolute().parents[3]


def check_memory(text: str) -> None:
    """SettingsError unless the text is an amount of memory as a JVM takes it."""
    if not _MEMORY.match(text):
        raise SettingsError("not an amount of memory", expected="a whole number with k, m, g or t, like 2g", found=text)


def settings(*, workers: int | None, memory: str, submitted: bool) -> dict[str, str]:
    """Spark's settings for a job. ``workers`` None = all cores. A submitted job keeps its master and memory."""
    check_memory(memory)
    if workers is not None and workers < 1:
        raise SettingsError("the job has no worker", expected="1 or more", found=workers)
    conf = {
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        "spark.speculation": "false",  # a second copy of a task would wait for the lock of the first
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    if not submitted:
        conf |= {
            "spark.master": f"local[{workers or '*'}]",
            "spark.driver.memory": memory,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
        }
        logging = import_root() / "sparkhaven" / "conf" / "log4j2.properties"
        logged = [f"-Dlog4j2.configurationFile=file:{logging}"] if logging.is_file() else []  # not inside a zip
        conf["spark.driver.extraJavaOptions"] = " ".join([*JVM_OPTIONS, *logged])
    return conf


def require_jdk(fs: Fs, environ: Mapping[str, str]) -> None:
    """SettingsError without Spark or a JDK; for jobs that change something before Spark starts."""
    installed_spark()
    if not is_submitted(environ):
        check_jdk(fs, environ)


def build_session(
    name: str,
    *,
    workers: int | None = None,
    memory: str = "1g",
    verbose: bool = False,
    extra: Mapping[str, str] | None = None,
) -> SparkSession:
    """The session of one job, or the one that spark-submit has prepared. ``extra`` overrides the settings here.

    Spark's own errors are logged only if ``verbose``: the job itself reports what stops it.
    SettingsError when Spark or the JDK is missing or too old, before Spark starts.
    """
    environ = os.environ
    installed_spark()
    submitted = is_submitted(environ)
    conf = settings(workers=workers, memory=memory, submitted=submitted)
    if submitted:
        environ.setdefault("PYSPARK_PYTHON", sys.executable)
    else:
        fs = Fs()
        require_jdk(fs, environ)
        python = python_launcher(fs, environ)
        conf["spark.pyspark.python"] = conf["spark.pyspark.driver.python"] = python
        conf["spark.driver.extraJavaOptions"] += "".join(f" {option}" for option in archive_options(fs, environ))
        _prepare_workers(environ, python)
        _end_jvm_without((extra or {}).get("spark.jars", ""))
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    for key, text in {**conf, **(extra or {})}.items():
        builder = builder.config(key, text)
    session = builder.getOrCreate()
    if submitted:
        # Spark starts the planner of a stream's source with a wrong path to --py-files
        sent = session.sparkContext.environment
        sent["PYTHONPATH"] = _with_import_root(sent.get("PYTHONPATH", ""))
        sent["PYTHONSAFEPATH"] = "1"  # the job may be submitted in a checkout
    session.sparkContext.setLogLevel("ERROR" if verbose else "OFF")
    server = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None and not verbose:
        server.handle_error = lambda request, address: None  # else it prints a traceback when the JVM dies
    return session


def is_alive(spark: SparkSession) -> bool:
    """Whether the JVM of a session answers and its context has not been stopped."""
    from py4j.protocol import Py4JError

    try:
        context = spark.sparkContext._jsc
        return context is not None and not context.sc().isStopped()
    except (OSError, Py4JError):
        return False


def end_session(spark: SparkSession) -> None:
    """Stops Spark, which may have ended already."""
    from py4j.protocol import Py4JError

    with suppress(OSError, Py4JError):
        spark.stop()


def _end_jvm_without(jars: str) -> None:
    """Ends a JVM of an earlier session of this process that was started without these jars.

    A JVM finds classes only in jars that it is started with; the session then starts a new one.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if not jars or gateway is None or SparkContext._active_spark_context is not None:
        return
    loaded = gateway.jvm.java.lang.System.getProperty("spark.jars") or ""
    if all(jar in loaded for jar in jars.split(",")):
        return
    end_jvm()


def end_jvm() -> None:
    """Ends the JVM of this process, whose session has ended; the next session starts another one."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None


def _prepare_workers(environ: MutableMapping[str, str], python: str) -> None:
    """Lets workers run this interpreter and find these packages: they inherit the environment of the JVM.

    A ``sparkhaven`` in the working directory, as a checkout has one, is not looked at.
    """
    environ.setdefault("PYTHONSAFEPATH", "1")
    environ["PYSPARK_PYTHON"] = environ["PYSPARK_DRIVER_PYTHON"] = python
    environ["PYTHONPATH"] = _with_import_root(environ.get("PYTHONPATH", ""))


def _with_import_root(paths: str) -> str:
    root = str(import_root())
    return os.pathsep.join([root, *(path for path in paths.split(os.pathsep) if path and path != root)])


if __name__ == "__main__":
    try:
        check_jdk(Fs(), os.environ)
    except SparkhavenError as error:
        sys.exit(f"sparkhaven: {error.what}; {error.hint}")
