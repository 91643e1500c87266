"""Where the values of arrays lie in memory, as functions of the compiled core take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.native import abi

ENTRY_KINDS = {  # by kind and width of a dtype
    "i1": abi.ENTRY_BYTE,
    "i2": abi.ENTRY_SHORT,
    "i4": abi.ENTRY_INT,
    "i8": abi.ENTRY_LONG,
    "u2": abi.ENTRY_CHAR,
    "f4": abi.ENTRY_FLOAT,
    "f8": abi.ENTRY_DOUBLE,
}
_NOTHING = np.zeros(1, np.int64)  # where an array without a buffer points to


def address(array: npt.NDArray[Any]) -> int:
    """Where a contiguous array begins; whoever calls keeps the array."""
    begin: int = array.__array_interface__["data"][0]
    return begin


def valid_address(array: pa.Array) -> int | None:
    """Where the bits begin that say which values are not null, ``array.offset`` bits before those of ``array``."""
    bits = array.buffers()[0]
    return bits.address if bits is not None and array.null_count else None


def bitmap(valid: npt.NDArray[np.uint8]) -> tuple[pa.Buffer | None, int]:
    """The bits of an array whose values are null where a byte is 0, None if none is; and how many are."""
    missing = len(valid) - int(np.count_nonzero(valid))
    return (pa.py_buffer(np.packbits(valid, bitorder="little")) if missing else None), missing


@dataclass(frozen=True, slots=True)
class TextBuffers:
    """Texts or bytes of an Arrow array: addresses, and ``size``, the bytes of ``data``.

    Text i of ``count`` is between ends ``first`` + i and ``first`` + i + 1, of 8 bytes each if ``wide``, else of 4.
    ``valid`` is None where no text is null. ``array`` keeps the memory.
    """

    ends: int
    wide: bool
    valid: int | None
    first: int
    count: int
    data: int
    size: int
    array: pa.Array

    @property
    def arguments(self) -> tuple[int, bool, int | None, int, int, int, int]:
        """As functions of the core take them that know of nulls."""
        return self.ends, self.wide, self.valid, self.first, self.count, self.data, self.size

    @property
    def valid_arguments(self) -> tuple[int, bool, int, int, int, int]:
        """As functions of the core take them whose texts are never null."""
        return self.ends, self.wide, self.first, self.count, self.data, self.size

    @staticmethod
    def of(array: pa.Array) -> TextBuffers:
        """Those of a string, binary, large_string or large_binary array."""
        kind = array.type
        wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
        _, ends, data = array.buffers()
        return TextBuffers(
            ends.address if ends is not None else address(_NOTHING),
            wide,
            valid_address(array),
            array.offset,
            len(array),
            data.address if data is not None else address(_NOTHING),
            data.size if data is not None else 0,
            array,
        )
