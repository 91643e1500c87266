"""How many values a column has in a location: by the committed statistics, else by reading it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.format.parquet.location_files import in_parquet
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.column_file import open_column
from sparkhaven.store.types.committed_columns import FileState, RangeStats
from sparkhaven.store.types.model import Column, Storage

BLOCK = 1 << 18


def count_values(column: Column, values: pa.Array) -> int:
    """Rows that have a value. An empty set is none: it is what a null one is stored as."""
    if column.storage is Storage.SET:
        return int(pc.sum(pc.greater(pc.list_value_length(values), 0)).as_py() or 0)
    return int(len(values) - values.null_count)


def filled_by_stats(stats: Sequence[RangeStats], start: int, stop: int) -> int | None:
    """Rows of ``[start, stop)`` that are not null; None where the statistics do not tell."""
    reached, count = start, 0
    for part in sorted(stats, key=lambda part: part.start):
        if part.stop <= start or part.start >= stop:
            continue
        whole = start <= part.start and part.stop <= stop
        if part.start > reached or not (whole or part.nulls in (0, part.stop - part.start)):
            return None
        first, last = max(part.start, start), min(part.stop, stop)
        count += last - first if not part.nulls else 0 if not whole else part.stop - part.start - part.nulls
        reached = part.stop
    return count if reached >= stop else None


def filled(
    fs: Fs,
    directory: Path,
    column: Column,
    files: Mapping[str, FileState],
    stats: Sequence[RangeStats],
    rows: tuple[int, int, int],
) -> int:
    """Rows from ``rows[0]`` to ``rows[1]`` of a location of ``rows[2]`` rows in which the column has a value.

    ``column``: under the name that it has there (``Column.at``); ``stats``: of it. Raises what ``open_column`` raises.
    """
    start, stop, all_rows = rows
    stored = column.within(files)
    if not in_parquet(files) and stored.files[0] not in files:
        return 0
    known = None if column.storage is Storage.SET else filled_by_stats(stats, start, stop)
    if known is not None:
        return known
    sizes = {name: state.size for name, state in files.items()}
    opened = open_column(fs, directory, column, sizes, all_rows)
    count = 0
    for first in range(start, stop, BLOCK):
        count += count_values(column, opened.read(first, min(first + BLOCK, stop)))
    return count
