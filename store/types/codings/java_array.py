"""Arrays of numbers, chars and Booleans, each value a Java stream of its own.

A stream is ``AC ED 00 05 75``, a description of the class (its name, ``serialVersionUID``, ``02 0000 78 70``), the
length in four bytes, then the elements. All of a class begin alike, so whole columns are read and written at once.
A null element is the null value of its type; Arrow has lists, and null in them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.lazy_compute import null_mask
from sparkhaven.store.types.codings import byte_array
from sparkhaven.store.types.codings.byte_array import ByteArrays, FixedBytes, binary_parts, from_base64, is_bytes
from sparkhaven.store.types.codings.coding import BlobCoding, Coding, Ends, Mask, Octets, Unfit, UnfitError, some
from sparkhaven.store.types.frozen import frozen

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
_LENGTH = 4


def _arrays_of(letter: str, name: str) -> Callable[[str, str, int | None], JavaArrays]:
    def coding(codec: str, arguments: str, width: int | None) -> JavaArrays:
        if codec or arguments or width is not None:
            raise ValueError(f"{name}[] without a codec")
        return JavaArrays(letter, name)

    return coding


@frozen
class JavaArrays(BlobCoding):
    """Arrays of a primitive, by the letter of its class (``D``: double). ``name``: what a schema calls the element."""

    letter: str
    name: str

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

    def encode(self, array: pa.Array) -> tuple[Ends, Octets, Mask | None]:
        """``array``: a list, or binary for byte[]. An element equal to the null value of its type is bad."""
        null = null_mask(array) if array.null_count else None
        starts, elements, bad = self._elements(array)
        lengths = np.diff(starts)
        if null is not None and lengths[null].any():
            rows = np.repeat(~null, lengths)
            elements, lengths = elements[rows], np.where(null, 0, lengths)
        head, size = np.frombuffer(self.head, np.uint8), elements.dtype.itemsize
        front = len(head) + _LENGTH
        taken = lengths * size + front
        if null is not None:
            taken = np.where(null, 0, taken)
        ends = np.cumsum(taken)
        data = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
        first = (ends - taken) if null is None else (ends - taken)[~null]
        fronts = first[:, None] + np.arange(front)
        is_element = np.ones(len(data), np.bool_)
        is_element[fronts] = False
        data[fronts[:, : len(head)]] = head
        counts = (lengths if null is None else lengths[~null]).astype(">i4").view(np.uint8).reshape(-1, _LENGTH)
        data[fronts[:, len(head) :]] = counts
        data[is_element] = elements.view(np.uint8)
        return ends, data, bad

    def _elements(self, array: pa.Array) -> tuple[Ends, npt.NDArray[Any], Mask | None]:
        """Where lists start in their elements, the elements as a stream has them, and lists with an alias of null."""
        _, stored, null_value = _ELEMENTS[self.letter]
        if self.letter == "B":
            starts, data = binary_parts(array)
            return starts - starts[0], data[starts[0] : starts[-1]], None
        offsets = np.asarray(array.offsets).astype(np.int64)
        values = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        starts = offsets - offsets[0]
        if self.letter == "Z":
            bad = _lists_with(starts, null_mask(values)) if values.null_count else None
            return starts, np.asarray(values.fill_null(False)).astype(stored), bad
        plain = np.asarray(values.fill_null(0)) if values.null_count else values.to_numpy(zero_copy_only=False)
        alias = plain == plain.dtype.type(null_value)
        numbers = plain.astype(stored)
        if values.null_count:
            numbers[null_mask(values)] = null_value
        return starts, numbers, _lists_with(starts, alias) if alias.any() else None

    def decode(self, ends: Ends, data: pa.Buffer) -> tuple[pa.Array, Mask | None]:
        """A list or binary; a value that does not begin as ``head``, or has another length than it says, is bad."""
        kind, stored, null_value = _ELEMENTS[self.letter]
        octets = np.frombuffer(data, np.uint8) if data.size else np.empty(0, np.uint8)
        sizes = np.diff(ends)
        null = sizes == 0
        head, dtype = np.frombuffer(self.head, np.uint8), np.dtype(stored)
        front = len(head) + _LENGTH
        sound = sizes >= front
        if not (sound | null).all():
            return pa.nulls(len(sizes), self.arrow), some(~(sound | null))
        fronts = ends[:-1][sound][:, None] + np.arange(front)
        starts_alike = octets[fronts]
        counts = np.ascontiguousarray(starts_alike[:, len(head) :]).view(">i4").reshape(-1).astype(np.int64)
        wrong = (starts_alike[:, : len(head)] != head).any(axis=1) | (counts < 0)
        wrong |= counts * dtype.itemsize + front != sizes[sound]
        if wrong.any():
            bad = np.zeros(len(sizes), np.bool_)
            bad[np.flatnonzero(sound)[wrong]] = True
            return pa.nulls(len(sizes), self.arrow), bad
        is_element = np.ones(len(octets), np.bool_)
        is_element[: ends[0]] = is_element[ends[-1] :] = False
        is_element[fronts] = False
        elements = octets[is_element].view(dtype).astype(dtype.newbyteorder("="))
        lengths = np.zeros(len(sizes), np.int64)
        lengths[sound] = counts
        offsets = np.zeros(len(sizes) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        bitmap = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
        missing = int(np.count_nonzero(null))
        if self.letter == "B":
            buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(elements)]
            return pa.Array.from_buffers(self.arrow, len(sizes), buffers, missing), None
        if self.letter == "Z":
            values = pa.array(elements != 0)
        else:
            none = elements == elements.dtype.type(null_value)
            values = pa.array(elements, kind, mask=none if none.any() else None, from_pandas=False)
        lists = pa.Array.from_buffers(
            self.arrow, len(sizes), [bitmap, pa.py_buffer(offsets)], missing, children=[values]
        )
        return lists, None

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


def _lists_with(starts: Ends, marked: Mask) -> Mask | None:
    """Which lists have a marked element."""
    counts = np.zeros(len(marked) + 1, np.int64)
    np.cumsum(marked, out=counts[1:])
    return some(counts[starts[1:]] > counts[starts[:-1]])


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
