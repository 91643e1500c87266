"""The programs that Spark starts, Python and the JDK, checked beforehand: a missing one is one clear error.

The Python of a source plans and reads there, so it must have what this program has. Unless told otherwise Spark runs
the first ``python3`` on PATH, which is another one where a program was started by the full path of its interpreter.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sparkhaven.readers.spark.releases import installed_spark
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.spark.workers import require_own_package

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_ASK = "import sys, numpy, pyarrow, xxhash, sparkhaven.store; print('{}.{}'.format(*sys.version_info))"
_SECONDS = 60
LEAST_MAJOR = 17
WITHOUT_SUBJECTS = 24  # JDK that took away what Hadoop asks for the user by; Spark 4.2 brings a Hadoop that does not
FOR_ANY_JDK = (4, 2)
_JDK_HINT = "install a JDK 17 or later (Debian: openjdk-17-jdk-headless), or set JAVA_HOME to one"
_JDK_VERSION = re.compile(r"\"?(\d+)(?:\.(\d+))?")


def settle_interpreter(spark: SparkSession) -> None:
    """Lets a local session run this interpreter, unless the user has named one; checks one that is named.

    SettingsError: the interpreter that Spark runs cannot read tables, or would import another sparkhaven. Over Spark
    Connect the server decides.
    """
    if is_remote(spark):
        return
    context = spark.sparkContext
    require_own_package(context)
    named = os.environ.get("PYSPARK_PYTHON") or context.getConf().get("spark.pyspark.python")
    if not named and context.master.partition("[")[0] == "local":
        context.pythonExec = sys.executable
        return
    require_interpreter(context)


def require_interpreter(context: SparkContext) -> None:
    """SettingsError: the driver cannot run the interpreter, it lacks what reading needs, or its version is another."""
    program = require_program(context)
    trouble = None if program == sys.executable else _trouble(program)
    if trouble is None:
        return
    raise SettingsError(
        "Spark runs another Python than this program, and that one cannot read tables",
        where="PYSPARK_PYTHON",
        expected=f"a Python {_version()} with sparkhaven, like {sys.executable}",
        found=f"{program}: {trouble}",
        hint=f"set PYSPARK_PYTHON={sys.executable}, or the setting spark.pyspark.python, before the session starts",
    )


def require_program(context: SparkContext) -> str:
    """The program on the driver that has the name of the workers' interpreter; Spark plans a Python source with it.

    SettingsError: there is none.
    """
    program: str | None = shutil.which(context.pythonExec)
    if program is None:
        raise SettingsError(
            "the driver cannot start the workers' interpreter, with which Spark plans there",
            where="PYSPARK_PYTHON",
            expected=f"a program on this machine, as seen from {Path.cwd()}",
            found=context.pythonExec,
            hint="unpack the environment of the workers where the job is submitted. Or name an"
            " interpreter that has the same path on all machines",
        )
    return program


def is_remote(spark: SparkSession) -> bool:
    """Whether a session is of Spark Connect, whose server runs elsewhere."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def refuse_remote(spark: SparkSession) -> None:
    """SettingsError for a session of Spark Connect: this program has no part in the tasks of its server."""
    if is_remote(spark):
        raise SettingsError(
            "the Spark session belongs to another process",
            where="sparkhaven.write_frame, deephaven_writer",
            expected="a classic session",
            found="Spark Connect",
            hint='use frame.write.format("deephaven"), or frame.writeStream.format("deephaven"): they work there',
        )


@cache
def _trouble(program: str) -> str | None:
    """What is wrong with an interpreter, None if nothing is; asked once."""
    try:
        done = subprocess.run([program, "-c", _ASK], capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
    return None if done.stdout.strip() == _version() else f"it is Python {done.stdout.strip()}"


def _version() -> str:
    return "{}.{}".format(*sys.version_info)


def check_jdk(fs: Fs, environ: Mapping[str, str]) -> int:
    """The major version of the JDK that Spark starts; SettingsError if it is missing, too old, or too new for it."""
    java = find_java(fs, environ)
    text = _release(fs, java) or _java_version(java)
    major = _major(text)
    if major is None or major < LEAST_MAJOR:
        raise SettingsError(
            "the JDK is too old for Spark", where=java, expected=f"{LEAST_MAJOR} or later", found=text, hint=_JDK_HINT
        )
    release = installed_spark()
    if major >= WITHOUT_SUBJECTS and release.numbers < FOR_ANY_JDK:
        raise SettingsError(
            f"the JDK is too new for Spark {release.series}",
            where=java,
            expected="JDK 17 or 21, or Spark 4.2 or later",
            found=text,
            hint="set JAVA_HOME to such a JDK",
        )
    return major


def find_java(fs: Fs, environ: Mapping[str, str]) -> Path:
    """The java that ``spark-class`` finds: JAVA_HOME first, then PATH. SettingsError if there is none."""
    home = environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if fs.stat(java) is None:
            raise SettingsError("JAVA_HOME has no bin/java", where="JAVA_HOME", found=home, hint=_JDK_HINT)
        return java
    path = shutil.which("java", path=environ.get("PATH", ""))
    if path is None:
        raise SettingsError("no java found", where="PATH", expected=f"a JDK {LEAST_MAJOR} or later", hint=_JDK_HINT)
    return Path(path)


def _release(fs: Fs, java: Path) -> str | None:
    """JAVA_VERSION of the JDK's ``release`` file, without starting a JVM."""
    path = fs.resolve(java).parent.parent / "release"
    if fs.stat(path) is None:
        return None
    lines = fs.read(path).decode("utf-8", "replace").splitlines()
    return next((line.partition("=")[2].strip().strip('"') for line in lines if line.startswith("JAVA_VERSION=")), None)


def _java_version(java: Path) -> str:
    """The first line of ``java -version`` that names a version."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingsError("java cannot be started", where=java, found=str(error), hint=_JDK_HINT) from None
    lines = (answer.stderr + answer.stdout).splitlines()
    quoted = next((line for line in lines if '"' in line), "")
    return quoted.split('"')[1] if quoted else (lines[0] if lines else "no answer")


def _major(text: str) -> int | None:
    """17 of ``17.0.15``, 8 of ``1.8.0_402``."""
    match = _JDK_VERSION.match(text)
    if match is None:
        return None
    first = int(match[1])
    return int(match[2]) if first == 1 and match[2] else first
