"""A column of each storage, written and read by the codecs alone."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.column_file import read_column
from sparkhaven.store.types.datatypes import BY_NAME
from sparkhaven.store.types.model import Column, Kind, Storage
from tests.support.tables.column_files import append_column

FS = Fs()
SIZE = Column("Size", BY_NAME["int"], Kind.NORMAL, Storage.FIXED, 3)
SYM = Column("Sym", BY_NAME["String"], Kind.GROUPING, Storage.SYMBOL, 2, "UTF_8")
NOTE = Column("Note", BY_NAME["String"], Kind.NORMAL, Storage.BLOB, 4, "UTF_8")


def write(directory: Path, column: Column, values: list[Any]) -> dict[str, int]:
    """Writes the files of a column; returns their committed lengths."""
    kind = pa.string() if column.type.name == "String" else column.type.arrow
    sizes, _ = append_column(FS, directory, column, [pa.array(values, kind)])
    return sizes


def refused(error: type[SparkhavenError], directory: Path, column: Column, sizes: dict[str, int], rows: int) -> Any:
    """The error that reading the column raises; it can be pickled."""
    with pytest.raises(error) as caught:
        read_column(FS, directory, column, sizes, rows)
    assert pickle.loads(pickle.dumps(caught.value)).where == caught.value.where
    return caught.value
