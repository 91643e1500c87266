"""The Spark reader in a session: its jar is put where driver and executors find it, once a session.

Spark's driver loads classes by a loader that takes further jars while it runs; executors fetch those that the context
lists. A server of Spark Connect resolves a frame anew with each query, but a plan is taken once. There Python reads, as
where the jar cannot be put in place, with the same results: one line in the log says why.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkhaven.jobs.session.interpreter import is_remote
from sparkhaven.readers.spark.jvm.jar import DIGEST, jar_digest, jar_file
from sparkhaven.readers.spark.options import DEFAULT_READER, READERS
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.suggestions import meant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING = "spark.sparkhaven.reader"
_TAKES_JARS = ("org.apache.spark.util.MutableURLClassLoader", "org.apache.spark.util.ChildFirstURLClassLoader")
_LOG = logging.getLogger("sparkhaven.spark")
_PLACED: dict[str, str | None] = {}


def reader_setting(spark: SparkSession) -> str:
    """The reader of batches that the session's setting names. SettingsError: it is none of ``READERS``."""
    name: str = spark.conf.get(SETTING, DEFAULT_READER)
    if name not in READERS:
        raise SettingsError(
            "the session's setting names no reader",
            where=SETTING,
            expected=" | ".join(READERS),
            found=name,
            hint=meant(name, READERS),
        )
    return name


def place_jar(spark: SparkSession, reader: str) -> str | None:
    """Puts the jar in place where the session has none; None if Java reads, else the reason why Python does.

    SettingsError: the reader that is asked for is Java, which cannot read.
    """
    if reader == "python":
        return f"{SETTING} or the option reader is python"
    session = _name(spark)
    if session not in _PLACED:
        _PLACED[session] = _place(spark)
        if _PLACED[session] is not None and reader == "auto":
            _LOG.warning(
                "Spark reads tables by Python: %s. Results are the same, reading takes longer", _PLACED[session]
            )
    reason = _PLACED[session]
    if reader == "jvm" and reason is not None:
        raise SettingsError(
            "Java cannot read in this session", where=SETTING, found=reason, hint=f"set {SETTING} to auto or python"
        )
    return reason


def _name(spark: SparkSession) -> str:
    if is_remote(spark):
        return str(spark.session_id)
    return str(spark.sparkContext.applicationId)


def _place(spark: SparkSession) -> str | None:
    """The reason why Java cannot read."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if is_remote(spark):
        return "a server of Spark Connect resolves a frame anew with each query"
    try:
        jar, digest = str(jar_file(Fs(), os.environ)), jar_digest()
        return _place_in_driver(spark.sparkContext, jar, digest)
    except (SettingsError, Py4JError, PySparkException) as error:
        return str(error).splitlines()[0]


def _place_in_driver(context: Any, jar: str, digest: str | None) -> str | None:
    loader = context._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getResource(DIGEST) is None:
        taker = loader
        while taker is not None and taker.getClass().getName() not in _TAKES_JARS:
            taker = taker.getParent()
        if taker is None:
            return f"the driver's class loader takes no jars. Name {jar} in spark.jars"
        taker.addURL(context._jvm.java.io.File(jar).toURI().toURL())
    loaded = loader.getResource(DIGEST)
    if loaded is None:
        return f"the driver does not find the classes of {jar}"
    scanner = context._jvm.java.util.Scanner(loader.getResourceAsStream(DIGEST))
    try:
        if scanner.next() != digest:
            return (
                f"the session has the jar of another release, {_jar_of(loaded.toString())}. Remove it from spark.jars"
            )
    finally:
        scanner.close()
    if context.master.partition("[")[0] != "local" and not _is_listed(context, jar):
        context._jsc.addJar(jar)
    return None


def _jar_of(url: str) -> str:
    """The file of ``jar:file:/some.jar!/entry``."""
    return url.removeprefix("jar:").removeprefix("file:").partition("!")[0]


def _is_listed(context: Any, jar: str) -> bool:
    listed = context._jsc.sc().listJars()
    return any(listed.apply(number).endswith(Path(jar).name) for number in range(listed.size()))
