"""Jars from Maven's repositories, fetched once by the Ivy inside pyspark into the user's cache directory.

A set of jars is complete when its directory has the list of their sizes, which is written last: an interrupted fetch
starts again, a complete one needs no network.

Delta's jars are for programs that read the quarantine, a Delta table, with Spark. No stream needs them: the quarantine
is written without Delta's own code, by runs in Spark too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from sparkhaven.jobs.session.interpreter import check_jdk, find_java
from sparkhaven.readers.spark.releases import installed_spark
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.user_cache import cache_directory

LIST = "jars.json"
FETCH_SECONDS = 600.0
DELTA_VERSION = "4.4.0"
DELTA_SPARKS = ("4.0", "4.1", "4.2")  # that this version of Delta has a jar for
BESIDE = ("delta-storage", "delta-kernel-api", "delta-kernel-defaults", "delta-kernel-unitycatalog")


@dataclass(frozen=True, slots=True)
class Artifact:
    """A Maven artifact; ``alone``: without its dependencies."""

    organisation: str
    name: str
    version: str
    alone: bool = False


def jars(fs: Fs, name: str, artifacts: Sequence[Artifact], environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The jars of ``artifacts`` and their dependencies in the cache under ``name``, fetched if they are missing.

    SettingsError when they cannot be fetched.
    """
    directory = cache_directory(environ) / name
    cached = _complete(fs, directory)
    return cached if cached is not None else _fetch(fs, directory, artifacts, environ)


def _complete(fs: Fs, directory: Path) -> list[Path] | None:
    listed = directory / LIST
    if fs.stat(listed) is None:
        return None
    sizes: dict[str, int] = json.loads(fs.read(listed))
    stats = {name: fs.stat(directory / name) for name in sizes}
    if any(stat is None or stat.size != sizes[name] for name, stat in stats.items()):
        return None
    return [directory / name for name in sizes]


def _fetch(fs: Fs, directory: Path, artifacts: Sequence[Artifact], environ: Mapping[str, str]) -> list[Path]:
    check_jdk(fs, environ)
    fs.mkdirs(directory.parent)
    lock = fs.lock(directory.parent, wait=True)
    try:
        cached = _complete(fs, directory)  # another process may have fetched them
        if cached is not None:
            return cached
        staging = directory.with_name(f".{directory.name}.fetching")
        fs.remove_tree(staging)
        fs.mkdirs(staging)
        for artifact in artifacts:
            _run_ivy(fs, staging, artifact, directory, environ)
        shutil.rmtree(staging / "ivy", ignore_errors=True)
        names = sorted(name for name in fs.names(staging) if name.endswith(".jar"))
        sizes = {name: stat.size for name in names if (stat := fs.stat(staging / name)) is not None}
        fs.replace(staging / LIST, json.dumps(sizes, indent=1).encode())
        fs.remove_tree(directory)
        fs.rename(staging, directory)
        return [directory / name for name in names]
    finally:
        if lock is not None:
            lock.release()


def _run_ivy(fs: Fs, staging: Path, artifact: Artifact, directory: Path, environ: Mapping[str, str]) -> None:
    coordinates = (artifact.organisation, artifact.name, artifact.version)
    line = [
        str(find_java(fs, environ)),
        "-jar",
        str(_ivy()),
        *("-cache", str(staging / "ivy"), "-dependency", *coordinates),
        *(["-notransitive"] if artifact.alone else []),
        *("-confs", "default", "-retrieve", str(staging / "[artifact]-[revision].[ext]"), "-types", "jar", "bundle"),
    ]
    try:
        done = subprocess.run(
            line, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False, env=dict(environ)
        )
        output = done.stdout + done.stderr
        failed = done.returncode != 0 or "UNRESOLVED DEPENDENCIES" in output or "FAILED DOWNLOADS" in output
    except subprocess.TimeoutExpired:
        output, failed = f"no answer within {FETCH_SECONDS:.0f} seconds", True
    if failed:
        raise SettingsError(
            f"the jars of {':'.join(coordinates)} cannot be fetched",
            where=directory,
            expected="jars from Maven Central at the first run, later from the cache",
            found=_reason(output),
            hint="connect to the network or set a proxy, and try again",
        )


def _reason(output: str) -> str:
    lines = [line.strip(" :\t") for line in output.splitlines()]
    marks = ("Exception", "not found", "refused", "timed out", "unresolved", "Unknown host")
    reasons = [line for line in lines if any(mark in line for mark in marks)]
    return (reasons or [line for line in lines if line] or ["no message"])[0][:300]


def _ivy() -> Path:
    spec = find_spec("pyspark")
    package_paths = list(spec.submodule_search_locations or []) if spec else []
    ivy_jars = [jar for package_path in package_paths for jar in sorted(Path(package_path, "jars").glob("ivy-*.jar"))]
    if not ivy_jars:
        raise SettingsError("pyspark has no Ivy among its jars", expected="pyspark/jars/ivy-*.jar", found=package_paths)
    return ivy_jars[0]


def delta_jars(fs: Fs, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Delta's jars in the cache, fetched if they are missing.

    SettingsError: they cannot be fetched, or Delta has none for the Spark that is installed.
    """
    release = installed_spark().series
    if release not in DELTA_SPARKS:
        raise SettingsError(
            "Delta has no jars for the Spark that is installed",
            expected=f"pyspark of one of {', '.join(DELTA_SPARKS)}",
            found=f"pyspark {release}",
            hint="list and requeue rejected rows without Spark, see `sparkhaven quarantine list --help`",
        )
    names = (f"delta-spark_{release}_2.13", *BESIDE)
    artifacts = [Artifact("io.delta", name, DELTA_VERSION, alone=True) for name in names]  # the rest comes with Spark
    return jars(fs, f"delta-{DELTA_VERSION}-spark-{release}", artifacts, environ)
