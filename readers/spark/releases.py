"""The release of Spark that is installed, and those that this project knows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

from sparkhaven.store.errors import SettingsError

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
