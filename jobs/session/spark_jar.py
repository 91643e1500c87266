"""The Spark reader in a session: its jar is put where driver and executors find it, once a session.

Spark's driver loads classes by a loader that takes further jars while it runs; executors fetch those that the context
lists. A server of Spark Connect resolves a frame anew with each query, but a plan is taken once. There Python reads, as
where the jar cannot be put in place, with the same results: one line in the log says why.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from sparkhaven.jobs.session.interpreter import is_remote
from sparkhaven.readers.spark.jvm.jar import DIGEST, jar_digest, jar_file
from sparkhaven.readers.spark.options import DEFAULT_READER, READERS
from sparkhaven.store.errors import SettingsError, meant
from sparkhaven.store.io.fs import Fs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING = "spark.sparkhaven.reader"
_TAKES_JARS = ("org.apache.spark.util.MutableURLClassLoader", "org.apache.spark.util.ChildFirstURLClassLoader")
_SOURCE = "io.sparkhaven.spark.DeephavenSource"
_LOG = logging.getLogger("sparkhaven.spark")
_PLACED: dict[str, str | None] = {}
_PLACING = Lock()  # threads of a program may register at once


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
    with _PLACING:
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
        return _place_in_driver(spark.sparkContext)
    except SettingsError as error:
        return error.what if error.found is None else f"{error.what}: {error.found}, {error.where}"
    except (Py4JError, PySparkException) as error:
        return str(error).splitlines()[0]


def _place_in_driver(context: Any) -> str | None:
    """As ``_place``. A jar that the session has been given is taken, if it is of this release. SettingsError."""
    loader = context._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getResource(DIGEST) is None:
        reason = _load(context, loader, str(jar_file(Fs(), os.environ)))
        if reason is not None:
            return reason
    jar = _jar_of(loader.getResource(DIGEST).toString())
    scanner = context._jvm.java.util.Scanner(loader.getResourceAsStream(DIGEST))
    try:
        if scanner.next() != jar_digest():
            return f"the session has the jar of another release, {jar}. Remove it from spark.jars"
    finally:
        scanner.close()
    if context.master.partition("[")[0] != "local" and not _is_listed(context, jar):
        context._jsc.addJar(jar)
    return None


def _load(context: Any, loader: Any, jar: str) -> str | None:
    """The reason why the driver's loader cannot have the jar.

    Spark makes an object of every source that it knows whenever it looks for any. So one that this release of Spark
    cannot make is noticed before, by a loader that is thrown away: else the session would find no format any more.
    """
    from py4j.protocol import Py4JJavaError

    taker = loader
    while taker is not None and taker.getClass().getName() not in _TAKES_JARS:
        taker = taker.getParent()
    if taker is None:
        return f"the driver's class loader takes no jars. Name {jar} in spark.jars"
    urls = context._gateway.new_array(context._jvm.java.net.URL, 1)
    urls[0] = context._jvm.java.io.File(jar).toURI().toURL()
    tried = context._jvm.java.net.URLClassLoader(urls, loader)
    try:
        tried.loadClass(_SOURCE).newInstance()
    except Py4JJavaError as error:
        return f"Spark {context.version} cannot load the classes of {jar}: {error.java_exception.toString()}"
    finally:
        tried.close()
    taker.addURL(urls[0])
    return None if loader.getResource(DIGEST) is not None else f"the driver does not find the classes of {jar}"


def _jar_of(url: str) -> str:
    """The file of ``jar:file:/some%20jar.jar!/entry``."""
    return unquote(url.removeprefix("jar:").removeprefix("file:").rpartition("!")[0])


def _is_listed(context: Any, jar: str) -> bool:
    """Whether executors fetch a jar of this name: lists have URLs."""
    listed = context._jsc.sc().listJars()
    name = Path(jar).name
    return any(unquote(listed.apply(number)).rpartition("/")[2] == name for number in range(listed.size()))
