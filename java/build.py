"""Compiles the Spark reader: ``python java/build.py [--spark DIRECTORY] [OUT.jar]``.

``setup.py`` calls it while the package is built. It needs ``javac`` of a JDK 17 or later, and the jars of a Spark:
those of the installed pyspark, or of ``SPARK_HOME``. The same sources, compiler and Spark give the same bytes. One that
was made from the same sources is left alone. Without the jar Spark reads by Python.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
JAR = SOURCES.parent / "readers" / "spark" / "sparkhaven-spark.jar"
DIGEST = "io/sparkhaven/spark/sources"  # JarSources reads it
RELEASE = "17"  # what Spark 4 asks for
OPTIONS = ("--release", RELEASE, "-proc:none", "-encoding", "UTF-8", "-g", "-Xlint:all,-path,-classfile", "-Werror")


def source_files() -> list[Path]:
    """Java files, and what else goes into the jar as it is, below META-INF."""
    others = (path for path in (SOURCES / "META-INF").rglob("*") if path.is_file())
    return sorted([*SOURCES.rglob("*.java"), *others])


def digest() -> str:
    """SHA-256 of all sources and their places below ``java/``, which the jar has in it."""
    sha256 = hashlib.sha256()
    for path in source_files():
        sha256.update(path.relative_to(SOURCES).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return sha256.hexdigest()


def compiler(environ: Mapping[str, str]) -> str:
    """``javac`` of JAVA_HOME, else of PATH. FileNotFoundError: there is none."""
    home = environ.get("JAVA_HOME")
    command = shutil.which("javac", path=str(Path(home) / "bin") if home else environ.get("PATH", ""))
    if command is None:
        where = f"JAVA_HOME={home}" if home else "PATH"
        raise FileNotFoundError(f"no javac in {where}: install a JDK 17 or later (Debian: openjdk-17-jdk-headless)")
    return command


def spark_jars(environ: Mapping[str, str]) -> Path:
    """The directory of Spark's jars: the installed pyspark's, else SPARK_HOME's. FileNotFoundError: there is none."""
    spec = importlib.util.find_spec("pyspark")
    homes = [Path(spec.origin).parent] if spec and spec.origin else []
    homes += [Path(environ["SPARK_HOME"])] if environ.get("SPARK_HOME") else []
    for home in homes:
        if any((home / "jars").glob("spark-catalyst_*.jar")):
            return home / "jars"
    raise FileNotFoundError("no jars of Spark: install pyspark 4, or set SPARK_HOME")


def is_current(target: Path) -> bool:
    """Whether the jar is there and of these sources."""
    try:
        with zipfile.ZipFile(target) as jar:
            return jar.read(DIGEST).decode() == digest()
    except (OSError, KeyError, zipfile.BadZipFile):
        return False


def build(target: Path = JAR, jars: Path | None = None, environ: Mapping[str, str] = os.environ) -> bool:
    """Makes the jar, unless it is there from the same sources; whether it was made. OSError, CalledProcessError."""
    if is_current(target):
        return False
    command, jars = compiler(environ), jars or spark_jars(environ)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    with tempfile.TemporaryDirectory() as scratch:
        classes = Path(scratch) / "classes"
        java = [path for path in source_files() if path.suffix == ".java"]
        subprocess.run([command, *OPTIONS, "-cp", f"{jars}/*", "-d", str(classes), *map(str, java)], check=True)
        try:
            _pack(unfinished, dict(_entries(classes)))
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
    return True


def _entries(classes: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents of a jar."""
    yield "META-INF/MANIFEST.MF", b"Manifest-Version: 1.0\r\n\r\n"
    yield DIGEST, digest().encode()
    for path in source_files():
        if path.suffix != ".java":
            yield path.relative_to(SOURCES).as_posix(), path.read_bytes()
    for path in classes.rglob("*.class"):
        yield path.relative_to(classes).as_posix(), path.read_bytes()


def _pack(target: Path, entries: Mapping[str, bytes]) -> None:
    """A manifest is the first entry of a jar; the others stand sorted; all have the first time that a zip knows."""
    with zipfile.ZipFile(target, "w") as jar:
        for name in sorted(entries, key=lambda name: (name != "META-INF/MANIFEST.MF", name)):
            info = zipfile.ZipInfo(name)
            info.external_attr = 0o644 << 16
            jar.writestr(info, entries[name], zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compiles the Spark reader.")
    parser.add_argument("target", type=Path, nargs="?", default=JAR)
    parser.add_argument("--spark", type=Path, help="a Spark whose jars/ it is compiled with")
    given = parser.parse_args()
    try:
        done = build(given.target, given.spark / "jars" if given.spark else None)
    except FileNotFoundError as error:
        sys.exit(f"{given.target} is not made: {error}. Spark reads by Python without it")
    except subprocess.CalledProcessError as error:
        sys.exit(f"{given.target} is not made: javac ended with {error.returncode}")
    print(f"{given.target}: {'made' if done else 'is of these sources'}")
