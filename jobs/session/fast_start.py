"""Two files in the user's cache with which Spark starts in half the time. Without them it starts as usual.

*The Python launcher.* Spark puts its own zip of PySpark first on the path of each Python process that it starts. A
zip keeps no bytecode, so each of the five processes of a stream would compile PySpark again, 0.7 s of CPU. The launcher
takes the zip off the path, since the same PySpark is installed for this Python.

*The class archive.* Of the 13,000 classes that Spark's JVM loads, nearly all come from an archive, by the JDK's
class-data sharing. The JVM ignores an archive of another JDK, or of jars with other times of change, even if they are
the same: its name tells them apart.

What nobody needs any more of the user's cache: of installations that are gone, or not used for a month.

Whoever makes a new entry removes the old ones of its kind.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
import sysconfig
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from sparkhaven.jobs.session.interpreter import find_java
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.user_cache import cache_directory

KEPT_S = 30 * 86_400.0
_NOTED_S = 86_400.0
_STARTED = re.compile(r"^exec (/\S+|'[^']+') \"\$@\"$", re.MULTILINE)


def note_use(fs: Fs, mark: Path, now_s: float) -> None:
    """Gives a file the present time of change, once a day at most. A cache that cannot be written stays as it is."""
    stat = fs.stat(mark)
    if stat is None or now_s - stat.mtime_ns / 1e9 < _NOTED_S:
        return
    try:
        fs.replace(mark, fs.read(mark), sync=False)
    except OSError:
        return


def is_old(fs: Fs, mark: Path, now_s: float) -> bool:
    """Whether what a file stands for was not used for a month; without the file nobody knows."""
    stat = fs.stat(mark)
    return stat is not None and now_s - stat.mtime_ns / 1e9 > KEPT_S


def remove_launchers(fs: Fs, newest: Path, now_s: float) -> None:
    """Removes launchers like ``newest`` whose Python is gone, and that were not used for a month.

    A Python that is not here may be on another machine, or in another container, which has the same home directory.
    """
    kind = newest.name.rpartition("-")[0]
    for path in [newest.with_name(name) for name in fs.names(newest.parent) if name.startswith(f"{kind}-")]:
        started = _STARTED.search(fs.read(path).decode("utf-8", "replace"))
        if (
            path != newest
            and is_old(fs, path, now_s)
            and started
            and fs.stat(Path("".join(shlex.split(started[1])))) is None
        ):
            fs.unlink(path)


OWNER = ".pyspark"  # beside an archive: the path of its PySpark, and a digest of the jars there
AT_EXIT = "SPARKHAVEN_CLASSES_AT_EXIT"  # the archive that the JVM writes when it ends
_QUIET = "-Xlog:cds*=off"  # else the JVM reports an archive that does not fit on standard output
_LAUNCHER = """#!/bin/sh
export PYTHONPATH="${{PYTHONPATH#*/pyspark.zip:*/py4j-*.zip:*/spark-core_*.jar:}}"
exec {python} "$@"
"""


def python_launcher(fs: Fs, environ: Mapping[str, str]) -> str:
    """The program that Spark starts as Python; ``sys.executable`` where the launcher cannot be used.

    That is where another PySpark than the installed one may be meant, or the cache cannot be written.
    """
    pyspark = _pyspark()
    if pyspark is None or pyspark.parent != Path(sysconfig.get_paths()["purelib"]) or environ.get("SPARK_HOME"):
        return sys.executable
    text = _LAUNCHER.format(python=shlex.quote(sys.executable)).encode()
    path = cache_directory(environ) / f"python-{_digest(sys.executable)}"
    try:
        if (new := fs.stat(path) is None) or fs.read(path) != text:
            fs.mkdirs(path.parent)
            fs.replace(path, text, sync=False)
            if new:
                remove_launchers(fs, path, time.time())
        os.utime(path)  # its last use; written anew, it could not be run for a moment
        if not os.access(path, os.X_OK):
            path.chmod(0o755)
    except OSError:
        return sys.executable
    return str(path) if os.access(path, os.X_OK) else sys.executable  # a cache may be mounted with noexec


def class_archive(fs: Fs, environ: Mapping[str, str]) -> Path:
    """The path of the archive for this JDK and this PySpark, existing or not. SettingsError without a JDK."""
    java = fs.resolve(find_java(fs, environ))
    return cache_directory(environ) / f"classes-{_digest(java, _change(fs, java), _owner(fs, _pyspark()))}.jsa"


def keep_archive(fs: Fs, unnamed: Path, path: Path) -> None:
    """Gives a new archive its name, and removes those of PySparks that are gone or replaced, and those that no Spark
    was started with for a month: each has 160 MB.
    """
    fs.replace(path.with_suffix(OWNER), _owner(fs, _pyspark()).encode(), sync=False)
    fs.rename(unnamed, path)
    for name in fs.names(path.parent):
        file = path.with_name(name)
        if file.suffix != OWNER:
            continue
        owner = fs.read(file).decode()
        if owner != _owner(fs, Path(owner.partition("\n")[0])) or is_old(fs, file, time.time()):
            for gone in (file.with_suffix(path.suffix), file):
                fs.unlink(gone)


def archive_options(fs: Fs, environ: Mapping[str, str]) -> list[str]:
    """Options of the JVM: write the archive that ``AT_EXIT`` names, or use an existing one."""
    if environ.get(AT_EXIT):
        return [f"-XX:ArchiveClassesAtExit={environ[AT_EXIT]}", _QUIET]
    path = class_archive(fs, environ)
    if fs.stat(path) is None:
        return []
    note_use(fs, path.with_suffix(OWNER), time.time())
    return [f"-XX:SharedArchiveFile={path}", _QUIET]


def _owner(fs: Fs, pyspark: Path | None) -> str:
    """A PySpark at its path, and its jars as the JVM compares them."""
    jars = [pyspark / "jars" / name for name in fs.names(pyspark / "jars")] if pyspark is not None else []
    return f"{pyspark}\n{_digest(*((jar.name, _change(fs, jar)) for jar in jars))}"


def _change(fs: Fs, path: Path) -> tuple[int, int] | None:
    stat = fs.stat(path)
    return (stat.size, stat.mtime_ns) if stat is not None else None


def _pyspark() -> Path | None:
    spec = find_spec("pyspark")
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else None


def _digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]
