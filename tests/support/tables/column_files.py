"""Column files and groupings by the codecs alone, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sparkhaven.store.format.column.codecs import Base, encode_column
from sparkhaven.store.format.column.prefix import encode_prefix
from sparkhaven.store.format.index.grouping import GroupRanges, encode_ovr
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.datatypes import DataType
from sparkhaven.store.types.model import Column


def create_column(fs: Fs, directory: Path, column: Column, *, grouping: GroupRanges | None = None) -> None:
    """A column's files without rows: ``.dat`` with its complete prefix, companions empty."""
    for path in (directory / name for name in column.files):
        fs.write_new(path, encode_prefix(column, grouping=grouping) if path.suffix == ".dat" else b"")


def append_column(fs: Fs, directory: Path, column: Column, chunks: Iterable[pa.Array]) -> tuple[dict[str, int], int]:
    """Makes a column's files and appends the chunks one after the other; committed bytes and rows."""
    create_column(fs, directory, column)
    sizes = dict.fromkeys(column.files, 0)
    rows, symbols = 0, dict[str, int]()
    for chunk in chunks:
        made = encode_column(column, chunk, Base(rows, sizes, symbols))
        for name, data in made.parts.items():
            fs.write_at(directory / name, sizes[name] + (4096 if name.endswith(".dat") else 0), data)
            sizes[name] += len(data)
        symbols |= {text: len(symbols) + index for index, text in enumerate(made.symbols)}
        rows += len(chunk)
    return sizes, rows


def add_grouping(fs: Fs, directory: Path, column: Column, ranges: GroupRanges) -> None:
    """Gives a column file a grouping in an ``.ovr``."""
    fs.write_new(directory / f"{column.name}.ovr", encode_ovr(ranges))
    fs.write_at(directory / f"{column.name}.dat", 0, encode_prefix(column, overflow=True))


def overflow_byte(column: Column) -> int:
    """Where the flag of an ``.ovr`` stands in the prefix of a column; it is one byte."""
    pair = zip(encode_prefix(column), encode_prefix(column, overflow=True), strict=True)
    (place,) = (at for at, (one, other) in enumerate(pair) if one != other)
    return place


def group_ranges(keys: Sequence[Any], lengths: Sequence[int], data_type: DataType) -> GroupRanges:
    """Ranges of keys that follow each other from row 0, each ``lengths[i]`` rows long."""
    stops = np.cumsum(np.asarray(lengths, np.int64))
    return GroupRanges(tuple(keys), np.concatenate((np.zeros(1, np.int64), stops[:-1])), stops, data_type)
