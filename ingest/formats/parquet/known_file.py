"""What is known of a file beside its bytes: columns with one value in all its rows, and what its table says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.delta.columns import MappedField


@dataclass(frozen=True, slots=True)
class FileConstants:
    """Columns that are not in a file and have one value in all of its rows, by name, as text; None = null.

    ``typed``: those of them that have a type of numbers, or of bytes; a float or double takes such a number, and a
    column of bytes such bytes, as it takes the same type of a file. ``zone_of``: whose time zone a value has whose text
    has none.
    """

    texts: Mapping[str, str | None] = field(default_factory=dict)
    typed: Mapping[str, pa.Scalar] = field(default_factory=dict)
    zone_of: str = ""


NO_CONSTANTS = FileConstants()


@dataclass(frozen=True, slots=True)
class KnownFile:
    """What is known of a file beside its bytes.

    ``place`` names its rows instead of its path, ``time_ns`` is its time where that is not its modification time.
    ``utc96``: its timestamps of type INT96 are instants. ``declared``: names of columns that its table declares without
    the file. ``logical``: what its columns are in the table. ``rows``: how many its table says that it has. ``kept``:
    which of so many rows are still there.
    """

    place: str | None = None
    constants: FileConstants = NO_CONSTANTS
    time_ns: int | None = None
    utc96: bool = False
    declared: Collection[str] = frozenset()
    logical: Callable[[pa.Schema], Sequence[MappedField | None]] | None = None
    rows: int | None = None
    kept: Callable[[int], npt.NDArray[np.bool_]] | None = None


NOTHING = KnownFile()
