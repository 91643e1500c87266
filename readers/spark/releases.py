"""The release of Spark that is installed, and those that this project knows.

How an error of ours reaches the user of Spark: its message first, not the traceback of a Python process of Spark.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

from sparkhaven.store.errors import SettingsError, SparkhavenError

LEAST, BELOW = 4, 5  # first number of a version
EXPECTED = f"pyspark >= {LEAST}.0, < {BELOW}"


@dataclass(frozen=True, slots=True)
class Release:
    """``version`` as PySpark says it; ``numbers`` are its first two."""

    version: str
    numbers: tuple[int, int]

    @property
    def series(self) -> str:
        """Like ``4.2``."""
        return "{}.{}".format(*self.numbers)


def installed_spark() -> Release:
    """The release of the PySpark that Python imports. SettingsError: there is none, or one that is not supported."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SettingsError(
            "Spark is not installed",
            expected=EXPECTED,
            hint="run `pip install 'sparkhaven[spark]'`. Streams, merges and rewrites need none with --local",
        )
    version = _version(spec)
    match = re.match(r"(\d+)\.(\d+)", version)
    numbers = (int(match[1]), int(match[2])) if match else (0, 0)
    if not LEAST <= numbers[0] < BELOW:
        raise SettingsError(
            "this release of Spark is not supported",
            where=spec.origin,
            expected=EXPECTED,
            found=f"pyspark {version}",
            hint="run `pip install 'pyspark>=4.0,<5'`. Streams, merges and rewrites need none with --local",
        )
    return Release(version, numbers)


def _version(spec: ModuleSpec) -> str:
    """As its module ``version`` says, in a directory or a zip; importing PySpark would take a third of a second."""
    read = getattr(spec.loader, "get_data", None)
    if read is None or spec.origin is None:
        return "unknown"
    text: str = read(str(Path(spec.origin).with_name("version.py"))).decode()
    match = re.search(r"__version__[^=]*=\s*[\"']([^\"']+)", text)
    return match[1] if match else "unknown"


HIDE = "SPARK_HIDE_TRACEBACK"  # of PySpark, which `spark.sql.execution.pyspark.udf.hideTraceback.enabled` sets


@contextmanager
def message_first() -> Iterator[None]:
    """Around what Spark calls in its own processes, as ``with`` or decorator: errors of ours lose their traceback.

    Such a process ends with the error, so nothing else that runs in it is affected. Elsewhere it changes nothing.
    """
    try:
        yield
    except SparkhavenError:
        if _is_sparks():
            os.environ[HIDE] = "1"
        raise


def _is_sparks() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
