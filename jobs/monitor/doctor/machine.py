"""The machine: versions of packages, Spark, which source reads tables there, and the JDK."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

from sparkhaven.jobs.monitor.doctor.finding import CheckContext, Found, told
from sparkhaven.jobs.monitor.texts import headline, named
from sparkhaven.jobs.session.fast_start import class_archive
from sparkhaven.jobs.session.interpreter import check_jdk
from sparkhaven.jobs.session.spark_jar import SETTING
from sparkhaven.readers.spark.jvm.jar import BESIDE, NAME, digest_of, jar_digest
from sparkhaven.readers.spark.options import DEFAULT_READER, READERS
from sparkhaven.readers.spark.releases import installed_spark
from sparkhaven.store.epochs.reading.stream_state import list_streams
from sparkhaven.store.errors import CoreNotUsableError, SettingsError
from sparkhaven.store.io.read_only_roots import is_writable
from sparkhaven.store.native.library import core
from sparkhaven.store.places import TablePlace

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
    yield ", ".join([f"Python {platform.python_version()}", *listed])
    if tuple(map(int, platform.python_version_tuple()[:2])) < LEAST_PYTHON:
        yield told("E401", "Python is older than 3.11", "install Python 3.11 or later")
    if installed["sparkhaven"] is None:
        yield told("N401", "sparkhaven runs from a checkout that is not installed", "pip install -e .")
    for name in names.get("", ()):
        if installed[name] is None:
            yield told("E401", f"{name} is not installed", f"pip install {name}")
    for extra, without in EXTRAS.items():
        missing = [name for name in names.get(extra, ()) if installed[name] is None]
        if missing:
            message = f"the extra {extra} is not installed ({', '.join(missing)}): {without}"
            yield told("N401", message, f"pip install 'sparkhaven[{extra}]'")
    try:
        core()
    except CoreNotUsableError as error:
        yield told("E401", f"{error.what}: {error.where} ({error.found})", error.hint)
    if platform.system() != "Linux":
        yield told("E401", f"{platform.system()} is not supported. Syncs and locks need Linux", "use Linux")


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
        yield "Spark is not installed. Ingest and merge run in one process"
        return
    yield f"Spark {installed_spark().version}"
    try:
        digest = jar_digest()
    except SettingsError as error:
        yield told("N402", f"Spark reads tables by Python: {error.what}. Results are the same", error.hint)
        return
    yield from _reader(context, digest)


def _reader(context: CheckContext, digest: str | None) -> Iterator[Found]:
    """Which source reads, by the jar of this installation and the defaults that every session begins with."""
    path, defaults = _spark_defaults(context)
    reader = defaults.get(SETTING, DEFAULT_READER)
    if reader not in READERS:
        how = f"write {' or '.join(READERS)} there, or remove the line"
        yield told("E402", f"{path} has {SETTING} {reader}: there is no such reader", how)
    elif reader == "python":
        yield f"Spark reads tables by Python: {path} has {SETTING} python"
    else:
        lies = f", or with {BESIDE} in spark.jars" if context.fs.stat(BESIDE) is not None else ""  # not inside a zip
        yield f"Spark reads tables by Java after sparkhaven.register(spark){lies}"
    for name in defaults.get("spark.jars", "").split(","):
        other = Path(name.removeprefix("file:"))
        if other.name == NAME and context.fs.stat(other) is not None and digest_of(context.fs.read(other)) != digest:
            yield told(
                "E402", f"{path} names {other}, which is of another release: Python reads", f"remove it from {path}"
            )


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
    try:
        yield f"JDK {check_jdk(context.fs, context.environ)}"
    except SettingsError as error:
        yield told("E403", headline(error), error.hint)
        return
    if context.fs.stat(class_archive(context.fs, context.environ)) is None:
        yield told("N403", "no class archive: Spark takes longer to start than necessary", "sparkhaven class-archive")


MOUNTS = Path("/proc/self/mountinfo")
LITTLE, LEAST = 10 << 30, 1 << 30  # bytes
_OCTAL = re.compile(r"\\([0-7]{3})")
_NETWORK = "not guaranteed: other hosts may see commits late, and locks depend on the server"
LACKS = {
    "nfs": _NETWORK,
    "nfs4": _NETWORK,
    "cifs": _NETWORK,
    "smb3": _NETWORK,
    "9p": _NETWORK,
    "ceph": _NETWORK,
    "tmpfs": "not guaranteed: everything is lost when the machine stops",
    "ramfs": "not guaranteed: everything is lost when the machine stops",
    "overlay": "not guaranteed: syncs depend on the layers below, and everything is lost with the container",
}
TESTED = ("ext4", "xfs")


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of ``/proc/self/mountinfo``."""

    place: str
    kind: str
    options: frozenset[str]


def mount_of(text: str, path: Path) -> Mount | None:
    """The mount of a resolved path; of several on one directory the last counts."""
    mount: Mount | None = None
    above = {str(path), *map(str, path.parents)}
    for line in text.splitlines():
        front, _, back = line.partition(" - ")
        fields, kind = front.split(" "), back.split(" ")
        if len(fields) < 6 or len(kind) < 3:
            continue
        mount_point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
        if mount_point in above and (mount is None or len(mount_point) >= len(mount.place)):
            mount = Mount(mount_point, kind[0], frozenset([*fields[5].split(","), *kind[2].split(",")]))
    return mount


def guarantees(mount: Mount) -> Found:
    """Whether commits on a mount survive a power failure, as a finding."""
    where = f"{mount.place} is {mount.kind}"
    if mount.options & {"nobarrier", "barrier=0"}:
        return told(
            "E411",
            f"{where} without write barriers. A power failure may lose committed rows",
            "mount it without nobarrier",
        )
    if "ro" in mount.options:
        return told("N413", f"{where}, mounted read-only. Readers work, streams and merges do not")
    if mount.kind in TESTED:
        return f"{where}: synced files and renames survive a power failure"
    move = "keep the root on ext4 or xfs of one host"
    lack = LACKS.get(mount.kind) or (LACKS["nfs"] if mount.kind.startswith("fuse") else None)
    return told("N411", f"{where}: {lack or 'not tested with power failures'}", move if lack else None)


def directories(context: CheckContext) -> dict[Path, list[str]]:
    """Resolved directories of the database, and what they hold: the root, and storage partitions."""
    fs, layout = context.fs, context.layout
    contents = {_nearest(context, layout.root): ["root"]}
    for namespace in fs.names(layout.root / "Systems"):
        for name in fs.names(layout.partitions(namespace)):
            path = layout.partitions(namespace) / name
            if fs.stat(path) is not None:
                contents.setdefault(_nearest(context, path), []).append(f"storage partition {namespace}/{name}")
    return contents


def file_systems(context: CheckContext) -> Iterator[Found]:
    """Each mount once; a storage partition whose link is broken is wrong."""
    fs, layout = context.fs, context.layout
    mounts = fs.read(MOUNTS).decode("utf-8", "replace")
    reported = set()
    for path in directories(context):
        mount = mount_of(mounts, path)
        if mount is not None and mount not in reported:
            reported.add(mount)
            yield guarantees(mount)
    for namespace in fs.names(layout.root / "Systems"):
        for name in fs.names(layout.partitions(namespace)):
            path = layout.partitions(namespace) / name
            if fs.stat(path) is None:
                text = f"the link of storage partition {path} is broken"
                yield told("E236", text, "mount its volume, or correct the link")


def free_space(context: CheckContext) -> Iterator[Found]:
    contents: dict[int, list[str]] = {}
    sizes: dict[int, tuple[Path, int]] = {}
    for path, parts in directories(context).items():
        stat = context.fs.stat(path)
        if stat is not None:
            contents.setdefault(stat.device, []).extend(parts)
            sizes[stat.device] = path, context.fs.free_bytes(path)
    for device, (path, free) in sizes.items():
        text = f"{free / (1 << 30):,.1f} GiB free at {path} ({named(contents[device])})"
        if free < LITTLE:
            hint = f"free space there. `{context.command('stats')}` reports waste"
            yield told("E412" if free < LEAST else "N412", text, hint)
        else:
            yield text


def permissions(context: CheckContext) -> Iterator[Found]:
    """Whether this user may write where commands write: the root, logs of streams, storage partitions."""
    fs, layout = context.fs, context.layout
    if not is_writable(layout.root):
        yield told("N413", f"{layout.root} is a copy, or is mounted read-only. Readers work, streams and merges do not")
        return
    paths = [*directories(context), layout.schemas()]
    for table in context.tables:
        streams = layout.streams(table)
        paths += [streams, *(layout.stream_log(table, name) for name in list_streams(TablePlace(fs, layout, table)))]
    refused = [path for path in dict.fromkeys(paths) if fs.stat(path) is not None and not fs.may_write(path)]
    if refused:
        text = (
            f"user {os.geteuid()} may not write {named(refused)}. Commands that change something end with exit code 2"
        )
        yield told("E413", text, f"run them as the owner of {refused[0]}, or change its owner or permissions")
    else:
        yield f"user {os.geteuid()} may write all that commands write"


def _nearest(context: CheckContext, path: Path) -> Path:
    path = context.fs.resolve(path)
    return next((candidate for candidate in (path, *path.parents) if context.fs.stat(candidate) is not None), Path("/"))
