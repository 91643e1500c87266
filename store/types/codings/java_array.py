"""Arrays of numbers, chars and Booleans, each value a Java stream of its own.

A stream is ``AC ED 00 05 75``, a description of the class (its name, ``serialVersionUID``, ``02 0000 78 70``), the
length in four bytes, then the elements. All of a class begin alike, so whole columns are read and written at once.
A null element is the null value of its type; Arrow has lists, and null in them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from sparkhaven.store.errors import SchemaMismatchError, counted
from sparkhaven.store.types.codings import byte_array
from sparkhaven.store.types.codings.byte_array import ByteArrays, FixedBytes, from_base64, is_bytes
from sparkhaven.store.types.codings.coding import (
    BlobCoding,
    Coding,
    Ends,
    Mask,
    Unfit,
    UnfitError,
    list_elements,
    lists_with,
)

_SERIAL = {  # serialVersionUID by the letter of the class
    "B": 0xACF317F8060854E0,
    "S": 0xEF832E06E55DB0FA,
    "I": 0x4DBA602676EAB2A5,
    "J": 0x782004B512B17593,
    "F": 0x0B9C818922E00C42,
    "D": 0x3EA68C14AB635A1E,
    "C": 0xB02666B0E25D84AC,
    "Z": 0x578F203914B85DE2,
}
_ELEMENTS: dict[str, tuple[pa.DataType, str, Any]] = {
    "B": (pa.int8(), ">i1", -(2**7)),
    "S": (pa.int16(), ">i2", -(2**15)),
    "I": (pa.int32(), ">i4", -(2**31)),
    "J": (pa.int64(), ">i8", -(2**63)),
    "F": (pa.float32(), ">f4", -3.4028234663852886e38),
    "D": (pa.float64(), ">f8", -1.7976931348623157e308),
    "C": (pa.uint16(), ">u2", 0xFFFF),
    "Z": (pa.bool_(), ">u1", None),
}
LENGTH = 4
MOST_ELEMENTS = 2**31 - 1


def _arrays_of(letter: str, name: str) -> Callable[[str, str, int | None], JavaArrays]:
    def coding(codec: str, arguments: str, width: int | None) -> JavaArrays:
        if codec or arguments or width is not None:
            raise ValueError(f"{name}[] without a codec")
        return JavaArrays(letter, name)

    return coding


@dataclass(frozen=True, slots=True)
class JavaArrays(BlobCoding):
    """Arrays of a primitive, by the letter of its class (``D``: double). ``name``: what a schema calls the element.

    ``other_null``: what is null in files where that is not the null value of the type.
    """

    letter: str
    name: str
    other_null: int | None = None

    json = "array"

    @property
    def sources(self) -> dict[str, str]:
        """Lists, or for byte[] bytes and texts."""
        return {"bytes": "exact", "text": "checked"} if self.letter == "B" else {"nested": "checked"}

    @property
    def elements(self) -> str | None:
        """The type of an element; byte[] is one value, which has no null in it."""
        return None if self.letter == "B" else "Boolean" if self.letter == "Z" else self.name

    @property
    def element(self) -> pa.DataType:
        """The Arrow type of an element."""
        return _ELEMENTS[self.letter][0]

    @property
    def null(self) -> int | float | None:
        """What a null element is stored as; None of Booleans."""
        null: int | float | None = _ELEMENTS[self.letter][2]
        return null if self.other_null is None else self.other_null

    @property
    def arrow(self) -> pa.DataType:
        """A list; byte[] has bytes."""
        return pa.binary() if self.letter == "B" else pa.list_(self.element)

    @property
    def domain(self) -> str:
        """What a value is."""
        none_null = ", none of them null" if self.letter == "Z" else ""
        return "bytes, which texts write in base64" if self.letter == "B" else f"an array of {self.name}{none_null}"

    @property
    def head(self) -> bytes:
        """The bytes that every value begins with, up to the length."""
        serial = struct.pack(">Q", _SERIAL[self.letter])
        return b"\xac\xed\x00\x05ur\x00\x02[" + self.letter.encode() + serial + b"\x02\x00\x00xp"

    def parse(self, text: str) -> Any:
        """Of byte[]: base64."""
        if self.letter == "B":
            return from_base64(text, self.domain)
        raise UnfitError(Unfit.NO_VALUE, self.domain)

    def encode_one(self, value: Any) -> bytes:
        """Of a list, or of bytes."""
        head = self.head + struct.pack(">i", len(value))
        if self.letter == "B":
            return head + bytes(value)
        null = 0 if self.null is None else self.null
        return head + np.array([null if element is None else element for element in value], self._stored).tobytes()

    def unstorable(self, array: pa.Array) -> Mask | None:
        """Lists with an element equal to the null value of its type."""
        if self.letter == "B":
            return None
        starts, values = list_elements(array)
        if self.letter == "Z":
            return lists_with(starts, np.asarray(values.is_null())) if values.null_count else None
        plain = np.asarray(values.fill_null(0)) if values.null_count else values.to_numpy(zero_copy_only=False)
        alias = plain == plain.dtype.type(self.null)
        return lists_with(starts, alias) if alias.any() else None

    @property
    def _stored(self) -> np.dtype[Any]:
        return np.dtype(_ELEMENTS[self.letter][1])

    def decode(self, ends: Ends, data: pa.Buffer) -> tuple[pa.Array, Mask | None]:
        """A list or binary; a value that does not begin as ``head``, or has another length than it says, is bad."""
        if data.size // self._stored.itemsize > MOST_ELEMENTS:
            raise SchemaMismatchError(
                "rows have more elements together than one Arrow list can hold",
                expected=f"at most {MOST_ELEMENTS:,}",
                found=f"{data.size:,} bytes in {counted(len(ends) - 1, 'row')}",
                hint="read fewer rows at once",
            )
        return BlobCoding.decode(self, ends, data)

    def decode_one(self, value: bytes) -> Any:
        """A list, or bytes."""
        front, stored = len(self.head) + LENGTH, self._stored
        (count,) = struct.unpack_from(">i", value, len(self.head))
        if not value.startswith(self.head) or len(value) != front + count * stored.itemsize:
            raise ValueError("another stream")
        if self.letter == "B":
            return value[front:]
        elements = np.frombuffer(value, stored, offset=front).tolist()
        if self.letter == "Z":
            return [element != 0 for element in elements]
        null = stored.type(self.null)
        return [None if element == null else element for element in elements]

    def from_json(self, value: Any) -> Any:
        """Of byte[]: a list of numbers, or base64. Elements of others follow the rules of their own type."""
        if self.letter != "B" or not isinstance(value, str | list):
            raise UnfitError(Unfit.NO_VALUE, self.domain)
        if isinstance(value, str):
            return self.parse(value)
        for element in value:
            if isinstance(element, bool) or not isinstance(element, int | Decimal):
                raise UnfitError(Unfit.NO_VALUE, self.domain)
            if not -(2**7) <= element < 2**7:
                raise UnfitError(Unfit.OVERFLOW, self.domain)
            if element != int(element):
                raise UnfitError(Unfit.NOT_EXACT, self.domain)
        return bytes(int(element) & 0xFF for element in value)

    def convert(self, array: pa.Array) -> tuple[pa.Array, Mask | None]:
        """Of byte[]: bytes of any kind. Lists are for ``store.conversions``."""
        return Coding.convert(self, array.cast(pa.binary()) if self.letter == "B" and is_bytes(array.type) else array)


boolean_arrays = _arrays_of("Z", "boolean")
char_arrays = _arrays_of("C", "char")
short_arrays = _arrays_of("S", "short")
int_arrays = _arrays_of("I", "int")
long_arrays = _arrays_of("J", "long")
float_arrays = _arrays_of("F", "float")
double_arrays = _arrays_of("D", "double")


def bytes_coding(codec: str, arguments: str, width: int | None) -> JavaArrays | ByteArrays | FixedBytes:
    """Of byte[]: a Java stream, or what one of its codecs makes."""
    return byte_array.coding(codec, arguments, width) if codec else _arrays_of("B", "byte")(codec, arguments, width)
