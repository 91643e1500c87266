"""The machine: versions of packages, Spark, which source reads tables there, and the JDK."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

from sparkhaven.jobs.monitor.doctor.finding import CheckContext, Found
from sparkhaven.jobs.session.fast_start import class_archive
from sparkhaven.jobs.session.java import check_jdk
from sparkhaven.jobs.session.spark_jar import SETTING
from sparkhaven.readers.spark.jvm.jar import BESIDE, NAME, digest_of, jar_digest
from sparkhaven.readers.spark.options import DEFAULT_READER, READERS
from sparkhaven.readers.spark.releases import installed_spark
from sparkhaven.store.errors import CoreNotUsableError, SettingsError
from sparkhaven.store.native.library import core

LEAST_PYTHON = (3, 11)
EXTRAS = {"spark": "ingest and merge in one process only", "kafka": "no Kafka feed", "page": "a page without pictures"}
"""What installations differ in, and what holds without it."""
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)[^;]*(?:;(.*))?")
_EXTRA = re.compile(r"extra == [\"'](\w+)[\"']")


def versions(context: CheckContext) -> Iterator[Found]:
    """Versions of Python and of all packages; a missing package is wrong, a missing extra is not."""
    names = required()
    installed = {name: _version(name) for name in ("sparkhaven", *(name for group in names.values() for name in group))}
    listed = (f"{name} {release}" for name, release in installed.items() if release)
    yield "ok", ", ".join([f"Python {platform.python_version()}", *listed]), None
    if tuple(map(int, platform.python_version_tuple()[:2])) < LEAST_PYTHON:
        yield "wrong", "Python is older than 3.11", "install Python 3.11 or later"
    if installed["sparkhaven"] is None:
        yield "note", "sparkhaven runs from a checkout that is not installed", "pip install -e ."
    for name in names.get("", ()):
        if installed[name] is None:
            yield "wrong", f"{name} is not installed", f"pip install {name}"
    for extra, without in EXTRAS.items():
        missing = [name for name in names.get(extra, ()) if installed[name] is None]
        if missing:
            message = f"the extra {extra} is not installed ({', '.join(missing)}): {without}"
            yield "note", message, f"pip install 'sparkhaven[{extra}]'"
    try:
        core()
    except CoreNotUsableError as error:
        yield "wrong", f"{error.what}: {error.where} ({error.found})", error.hint
    if platform.system() != "Linux":
        yield "wrong", f"{platform.system()} is not supported. Syncs and locks need Linux", "use Linux"


@cache
def required() -> dict[str, list[str]]:
    """Names of the packages that sparkhaven asks for, by extra; those without one under ``""``."""
    groups: dict[str, list[str]] = {}
    for line in _requirements():
        match = _REQUIREMENT.match(line)
        if match is None:
            continue
        marker = match[2] or ""
        extra = _EXTRA.search(marker)
        if extra is None and marker and find_spec("compression") is not None:
            continue  # what later Pythons have themselves
        if not match[1].startswith("sparkhaven"):
            groups.setdefault(extra[1] if extra else "", []).append(match[1])
    return groups


def _requirements() -> list[str]:
    try:
        return requires("sparkhaven") or []
    except PackageNotFoundError:
        return []


@cache
def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def spark(context: CheckContext) -> Iterator[Found]:
    """The release of Spark, and which source reads tables; without Spark, nothing is wrong."""
    if find_spec("pyspark") is None:
        yield "ok", "Spark is not installed. Ingest and merge run in one process", None
        return
    yield "ok", f"Spark {installed_spark().version}", None
    try:
        digest = jar_digest()
    except SettingsError as error:
        yield "note", f"Spark reads tables by Python: {error.what}. Results are the same", error.hint
        return
    yield from _reader(context, digest)


def _reader(context: CheckContext, digest: str | None) -> Iterator[Found]:
    """Which source reads, by the jar of this installation and the defaults that every session begins with."""
    path, defaults = _spark_defaults(context)
    reader = defaults.get(SETTING, DEFAULT_READER)
    if reader not in READERS:
        how = f"write {' or '.join(READERS)} there, or remove the line"
        yield "wrong", f"{path} has {SETTING} {reader}: there is no such reader", how
    elif reader == "python":
        yield "ok", f"Spark reads tables by Python: {path} has {SETTING} python", None
    else:
        lies = f", or with {BESIDE} in spark.jars" if context.fs.stat(BESIDE) is not None else ""  # not inside a zip
        yield "ok", f"Spark reads tables by Java after sparkhaven.register(spark){lies}", None
    for name in defaults.get("spark.jars", "").split(","):
        other = Path(name.removeprefix("file:"))
        if other.name == NAME and context.fs.stat(other) is not None and digest_of(context.fs.read(other)) != digest:
            yield "wrong", f"{path} names {other}, which is of another release: Python reads", f"remove it from {path}"


def _spark_defaults(context: CheckContext) -> tuple[Path, dict[str, str]]:
    """The file of defaults that Spark reads, and what it has; it is where Spark's own programs look for it."""
    environ = context.environ
    spec = find_spec("pyspark")
    home = environ.get("SPARK_HOME") or str(Path(str(spec.origin)).parent if spec is not None else "")
    path = Path(environ.get("SPARK_CONF_DIR") or Path(home, "conf")) / "spark-defaults.conf"
    if context.fs.stat(path) is None:
        return path, {}
    lines = (line.split(None, 1) for line in context.fs.read(path).decode("utf-8", "replace").splitlines())
    return path, {words[0]: words[1].strip() for words in lines if len(words) == 2 and not words[0].startswith("#")}


def jdk(context: CheckContext) -> Iterator[Found]:
    """The JDK that Spark starts; readers, and ingests and merges with --local, need none."""
    if find_spec("pyspark") is None:
        return
    yield "ok", f"JDK {check_jdk(context.fs, context.environ)}", None
    if context.fs.stat(class_archive(context.fs, context.environ)) is None:
        yield "note", "no class archive: Spark takes longer to start than necessary", "sparkhaven class-archive"
