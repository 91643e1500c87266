"""The JDK that Spark starts, checked beforehand: a missing one is one clear error."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from sparkhaven.readers.spark.releases import installed_spark
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs

LEAST_MAJOR = 17
WITHOUT_SUBJECTS = 24  # JDK that took away what Hadoop asks for the user by; Spark 4.2 brings a Hadoop that does not
FOR_ANY_JDK = (4, 2)
_HINT = "install a JDK 17 or later (Debian: openjdk-17-jdk-headless), or set JAVA_HOME to one"
_VERSION = re.compile(r"\"?(\d+)(?:\.(\d+))?")


def check_jdk(fs: Fs, environ: Mapping[str, str]) -> int:
    """The major version of the JDK that Spark starts; SettingsError if it is missing, too old, or too new for it."""
    java = find_java(fs, environ)
    text = _release(fs, java) or _ask(java)
    major = _major(text)
    if major is None or major < LEAST_MAJOR:
        raise SettingsError(
            "the JDK is too old for Spark", where=java, expected=f"{LEAST_MAJOR} or later", found=text, hint=_HINT
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
            raise SettingsError("JAVA_HOME has no bin/java", where="JAVA_HOME", found=home, hint=_HINT)
        return java
    path = shutil.which("java", path=environ.get("PATH", ""))
    if path is None:
        raise SettingsError("no java found", where="PATH", expected=f"a JDK {LEAST_MAJOR} or later", hint=_HINT)
    return Path(path)


def _release(fs: Fs, java: Path) -> str | None:
    """JAVA_VERSION of the JDK's ``release`` file, without starting a JVM."""
    path = fs.resolve(java).parent.parent / "release"
    if fs.stat(path) is None:
        return None
    lines = fs.read(path).decode("utf-8", "replace").splitlines()
    return next((line.partition("=")[2].strip().strip('"') for line in lines if line.startswith("JAVA_VERSION=")), None)


def _ask(java: Path) -> str:
    """The first line of ``java -version`` that names a version."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingsError("java cannot be started", where=java, found=str(error), hint=_HINT) from None
    lines = (answer.stderr + answer.stdout).splitlines()
    quoted = next((line for line in lines if '"' in line), "")
    return quoted.split('"')[1] if quoted else (lines[0] if lines else "no answer")


def _major(text: str) -> int | None:
    """17 of ``17.0.15``, 8 of ``1.8.0_402``."""
    match = _VERSION.match(text)
    if match is None:
        return None
    first = int(match[1])
    return int(match[2]) if first == 1 and match[2] else first
