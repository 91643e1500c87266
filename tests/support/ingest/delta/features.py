"""Tables that ``tests.support.spark.delta_features`` has made with Spark's Delta, for tests without Spark."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

from tests.support.places import GOLDEN

PACKED = GOLDEN / "delta-features.tar.xz"


def unpack_features(place: Path) -> dict[str, list[list[Any]]]:
    """The golden tables below a directory, and the rows of each."""
    with tarfile.open(PACKED) as packed:
        packed.extractall(place, filter="data")
    rows: dict[str, list[list[Any]]] = json.loads((place / "rows.json").read_text())
    return rows
