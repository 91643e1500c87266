"""A Parquet file of a feed: what is known of it beside its bytes, and the errors for one that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.ingest.content.raw_file import PlannedFile
from sparkhaven.store.delta.snapshot import MappedField
from sparkhaven.store.epochs.state.log_values import FilePart
from sparkhaven.store.errors import FeedError
from sparkhaven.store.foreign_parquet import BATCH_BYTES, ForeignParquet


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


def planned_parquet(planned: PlannedFile, *, utc96: bool, batch_bytes: int = BATCH_BYTES) -> ForeignParquet:
    """A planned file, or the part of it that is planned. Raises as ``ForeignParquet``."""
    split = planned.split
    part = (split.start, split.stop) if isinstance(split, FilePart) else None
    return ForeignParquet(planned.stream, split.size, utc96=utc96, part=part, batch_bytes=batch_bytes)


def no_parquet(path: str, error: Exception, hint: str) -> FeedError:
    """The error for a file that PyArrow cannot read."""
    return FeedError(
        "feed file is damaged, or not a Parquet file",
        where=path,
        expected="a complete Parquet file",
        found=next(iter(str(error).splitlines()), type(error).__name__),
        hint=hint,
    )


def column_twice(path: str, name: str) -> FeedError:
    """The error for a file with more than one column of a name that a column of the table takes."""
    return FeedError(
        "feed file has a column twice",
        where=path,
        expected=f"one column {name}",
        found=name,
        hint="deliver the file again under a new name, with another name for one of them",
        column=name,
    )
