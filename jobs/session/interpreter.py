"""Which Python Spark runs for a source: it plans and reads there, so it must have what this program has.

Unless told otherwise Spark runs the first ``python3`` on PATH, which is another one where a program was started by the
full path of its interpreter.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sparkhaven.store.errors import SettingsError
from sparkhaven.writers.spark.workers import require_own_package

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_ASK = "import sys, numpy, pyarrow, xxhash, sparkhaven.store; print('{}.{}'.format(*sys.version_info))"
_SECONDS = 60


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
