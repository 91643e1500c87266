"""The jar of the Spark reader, which ``java/build.py`` makes: where it is, and of which sources."""

from __future__ import annotations

import io
import pkgutil
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.user_cache import cached_copy

NAME = "sparkhaven-spark.jar"
PACKAGE = "sparkhaven.readers.spark"
BESIDE = Path(__file__).parent.with_name(NAME)
DIGEST = "io/sparkhaven/spark/sources"  # an entry of the jar: SHA-256 of its sources, in hexadecimal


def jar_file(fs: Fs, environ: Mapping[str, str]) -> Path:
    """The jar as a file that a JVM can load: in this package, or copied from the zip that it is in to the user's cache.

    SettingsError: this installation has none, or the cache cannot be written.
    """
    if fs.stat(BESIDE) is not None:
        return BESIDE
    data = _data()
    if data is None:
        raise _no_jar()
    try:
        return cached_copy(fs, environ, "spark", data, ".jar")
    except OSError as error:
        raise SettingsError(
            "the jar of the Spark reader cannot be copied out of the zip", where=error.filename, found=error.strerror
        ) from error


@cache
def jar_digest() -> str | None:
    """The sources that the jar of this installation is made of. SettingsError: it has none."""
    data = _data()
    if data is None:
        raise _no_jar()
    return digest_of(data)


def digest_of(jar: bytes) -> str | None:
    """The sources that a jar is made of; None: it is no jar of ours, or is damaged."""
    try:
        with zipfile.ZipFile(io.BytesIO(jar)) as entries:
            return entries.read(DIGEST).decode()
    except (KeyError, zipfile.BadZipFile):
        return None


def _data() -> bytes | None:
    try:
        return pkgutil.get_data(PACKAGE, NAME)
    except OSError:
        return None


def _no_jar() -> SettingsError:
    return SettingsError(
        "this installation has no jar of the Spark reader",
        where=PACKAGE,
        expected=NAME,
        hint="build the package where a JDK 17 and pyspark are installed",
    )
