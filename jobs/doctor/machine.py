"""The machine: versions of packages, the JDK, and jars."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version

from sparkhaven.jobs.doctor.finding import CheckContext, Found
from sparkhaven.jobs.session import delta_session
from sparkhaven.jobs.session.fast_start import class_archive
from sparkhaven.jobs.session.jars import present
from sparkhaven.jobs.session.java import check_jdk
from sparkhaven.store.io.user_cache import cache_directory
from sparkhaven.store.native.library import core

PACKAGES = ("pyspark", "delta-spark", "pyarrow", "numpy", "pandas", "duckdb", "confluent-kafka", "fastavro", "protobuf")
LEAST_PYTHON = (3, 11)
_PIN = re.compile(r"([A-Za-z0-9._-]+)==([0-9][^;,\s]*)")


def versions(context: CheckContext) -> Iterator[Found]:
    """Versions of Python and of all packages; a missing package or one of another version is wrong."""
    found = {name: _version(name) for name in ("sparkhaven", *PACKAGES)}
    yield "ok", ", ".join([f"Python {platform.python_version()}", *(f"{n} {v}" for n, v in found.items() if v)]), None
    if tuple(map(int, platform.python_version_tuple()[:2])) < LEAST_PYTHON:
        yield "wrong", "Python is older than 3.11", "install Python 3.11 or later"
    yield from _mismatches(found, _pins(_requirements()))
    if core() is None:
        how = "install sparkhaven anew where pip can get ziglang; SPARKHAVEN_NATIVE must not be 0"
        yield "note", "there is no compiled core: same results, but JSON and CSV take longer to decode", how
    if platform.system() != "Linux":
        yield "wrong", f"{platform.system()} is not supported: syncs and locks need Linux", "use Linux"


def _mismatches(found: Mapping[str, str | None], pins: Mapping[str, str]) -> Iterator[Found]:
    for name, there in found.items():
        if name == "sparkhaven" and there is None:
            yield "note", "sparkhaven runs from a checkout that is not installed", "pip install -e ."
        elif there is None:
            yield "wrong", f"{name} is not installed", f"pip install {name}{'==' * (name in pins)}{pins.get(name, '')}"
        elif name in pins and there != pins[name]:
            yield "wrong", f"{name} is {there}, expected {pins[name]}", f"pip install {name}=={pins[name]}"


def _pins(requirements: Iterable[str]) -> dict[str, str]:
    return {match[1]: match[2] for line in requirements if "extra" not in line and (match := _PIN.match(line))}


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


def jdk(context: CheckContext) -> Iterator[Found]:
    """The JDK that Spark starts; readers, and ingests and merges with --local, need none."""
    yield "ok", f"JDK {check_jdk(context.fs, context.environ)}", None
    if context.fs.stat(class_archive(context.fs, context.environ)) is None:
        yield (
            "note",
            "no class archive: Spark takes longer to start than necessary",
            "sparkhaven class-archive",
        )


def jars(context: CheckContext) -> Iterator[Found]:
    """The jars of Delta, with which Spark writes the quarantine."""
    name = f"delta-{delta_session.VERSION}"
    if present(context.fs, name, context.environ) is not None:
        yield "ok", f"jars of {name} are in {cache_directory(context.environ)}", None
    else:
        what = f"jars of {name} are not in {cache_directory(context.environ)}: a stream in Spark"
        yield "note", f"{what} with a quarantine fetches them when it starts", "sparkhaven jars"
