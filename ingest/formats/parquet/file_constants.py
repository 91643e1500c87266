"""Columns that are not in a file and have one value in all of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import pyarrow as pa

from sparkhaven.store.types.frozen import frozen


@frozen
class FileConstants:
    """Their values as text, None = null.

    ``numbers``: those of them that have a type of numbers; a float or double takes such a one as it takes the same type
    of a file. ``zone_of``: whose time zone a value has whose text has none.
    """

    texts: Mapping[str, str | None] = field(default_factory=dict)
    numbers: Mapping[str, pa.Scalar] = field(default_factory=dict)
    zone_of: str = ""


NO_CONSTANTS = FileConstants()
