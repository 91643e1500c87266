"""Digests of rows, all columns together, free of order: equal for the same rows, whatever files, order or columns of
nulls they are stored with; different where a value went to another row.

The hash of a row is the sum, modulo 2^64, over its columns of the low 64 bits of the hash of its value, as
``column_digest`` hashes them. Null adds nothing: a column that is null in all rows, or not stored, makes no difference.
The digest of rows is the sum, modulo 2^128, of ``xxh3_128(-1, 13, hash of the row)``. Sums of digests are digests of
the rows of both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from sparkhaven.store.digest.column_digest import digest_array, digest_words
from sparkhaven.store.native.digests import Hashes
from sparkhaven.store.types.model import Column

CACHED_ROWS = 1 << 16
"""Rows whose columns are hashed one after the other while their hashes stay in the processor's cache."""

ROW = struct.pack("<iB", -1, 13)
"""Stands before the hash of a row, in the place of column id and type tag."""


def value_hashes(column: Column, array: pa.Array) -> Hashes:
    """One hash a row. ``array`` is of the column's Arrow type, or a dictionary of it for text."""
    hashes = np.zeros(len(array), np.uint64)
    digest_array(column, array, hashes)
    return hashes


def row_hashes(columns: Iterable[Column], arrays: Sequence[pa.Array], rows: int) -> Hashes:
    """The hash of each row of these columns."""
    hashes = np.zeros(rows, np.uint64)
    for column, array in zip(columns, arrays, strict=True):
        digest_array(column, array, hashes)
    return hashes


def digest_rows(hashes: Hashes) -> int:
    """The digest of rows that have these hashes."""
    return digest_words(ROW, hashes.view(np.int64))
