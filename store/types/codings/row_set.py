"""RowSet: rows of an index, by ``RowSetCodec``, whose bytes ``codings.row_ranges_codec`` explains.

Arrow has no type for a set of rows. So values are their bytes, and bytes that are no row set are refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.types.codings.byte_array import ByteArrays
from sparkhaven.store.types.codings.coding import Ends, Mask, some
from sparkhaven.store.types.codings.row_ranges_codec import decode_rows


def coding(codec: str, arguments: str, width: int | None) -> RowSets:
    """By the codec's simple name; ValueError says what is expected instead."""
    if codec != "RowSetCodec" or arguments or width is not None:
        raise ValueError("RowSetCodec without arguments")
    return RowSets()


@dataclass(frozen=True, slots=True)
class RowSets(ByteArrays):
    """The bytes of row sets."""

    domain = "the bytes of a row set, which texts write in base64"

    def unstorable(self, array: pa.Array) -> Mask | None:
        """Bytes that are no row set."""
        return _no_row_sets(array)

    def decode(self, ends: Ends, data: pa.Buffer) -> tuple[pa.Array, Mask | None]:
        """binary; bytes that are no row set are bad."""
        array, _ = ByteArrays.decode(self, ends, data)
        return array, _no_row_sets(array)

    def convert(self, array: pa.Array) -> tuple[pa.Array, Mask | None]:
        """Of bytes of any kind."""
        values, _ = ByteArrays.convert(self, array)
        return values, _no_row_sets(values)


def _is_row_set(data: bytes) -> bool:
    try:
        decode_rows(data)
    except CorruptFileError:
        return False
    return True


def _no_row_sets(array: pa.Array) -> Mask | None:
    return some(np.array([data is not None and not _is_row_set(data) for data in array.to_pylist()], np.bool_))
