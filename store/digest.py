"""Order-free digests of columns: equal for the same rows in any order, different if one is lost, doubled or changed.

The digest of a column is the sum, modulo 2^128, over its rows of ``xxh3_128(column id, type tag, value)``:

=========  ============================================================================================
bytes      content
=========  ============================================================================================
0 .. 4     column id, ``i4`` little endian
4          type tag (``TAGS``); 0 for null, which has no further bytes
5 ..       8 bytes little endian for fixed types: integers sign-extended, char as code unit, Boolean 0 or 1,
           Instant as ns, float widened to double, every NaN as ``7FF8000000000000``; UTF-8 for text
=========  ============================================================================================

A fixed value thus hashes 13 bytes, and the hash of that length is computed here for whole arrays at once; it is the
same function as ``xxhash.xxh3_128``, to which the tests hold it.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from store.errors import SchemaMismatchError
from store.kernels import pc
from store.types.datatypes import BOOLEAN_NULL
from store.types.model import Column, Storage

MODULUS = 1 << 128
TAGS = {
    "Boolean": 1,
    "byte": 2,
    "char": 3,
    "short": 4,
    "int": 5,
    "long": 6,
    "float": 7,
    "double": 8,
    "Instant": 9,
    "String": 10,
}
CHUNK = 1 << 13  # values hashed at once: all steps stay in the processor's cache
FEW = 1 << 16  # integers in so narrow a range are counted first and hashed once each

_U = np.uint64
_LOW32 = _U(0xFFFFFFFF)
_PRIME64_1, _PRIME64_2 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F
_PRIME32_2_LESS_1 = _U(0x85EBCA77 - 1)
_AVALANCHE = _U(0x165667919E3779F9)
# the published constants of XXH3: words of its default secret, already combined for seed 0
_FLIP_LOW = _U(0x78E5C0CC4EE679CB ^ 0x2172FFCC7DD05A82)
_FLIP_HIGH = _U(0x8E2443F7744608B8 ^ 0x4C263A81E69035E0)
_LENGTH = _U((13 - 1) << 54)


def _prefix(column: Column, tag: int) -> bytes:
    return struct.pack("<iB", column.id, tag)


def _tag(column: Column) -> int:
    try:
        return TAGS[column.type.name]
    except KeyError:
        raise SchemaMismatchError(
            f"no digest for columns of type {column.type.name}",
            where=f"column {column.name}",
            expected=f"one of {', '.join(TAGS)}",
            found=column.type.name,
        ) from None


def add(*digests: int) -> int:
    """The digest of all rows together."""
    return sum(digests) % MODULUS


def to_hex(digest: int) -> str:
    """32 hex digits."""
    return f"{digest:032x}"


def from_hex(text: str) -> int:
    """The reverse of ``to_hex``."""
    return int(text, 16)


def digest_nulls(column: Column, count: int) -> int:
    """The digest of ``count`` nulls."""
    return xxhash.xxh3_128_intdigest(_prefix(column, 0)) * count % MODULUS


def digest_entries(column: Column, entries: npt.NDArray[Any]) -> int:
    """The digest of a fixed-width column from its entries as they lie in the file, sentinels for null."""
    tag = _tag(column)
    null = entries.dtype.type(column.type.null)
    if entries.dtype.itemsize <= 2:
        return _digest_small(column, tag, entries)
    total = 0
    for first in range(0, len(entries), FEW):
        total += _digest_block(column, tag, entries[first : first + FEW], null)
    return total % MODULUS


def _digest_small(column: Column, tag: int, entries: npt.NDArray[Any]) -> int:
    unsigned = entries.view(f"u{entries.dtype.itemsize}")
    counts = np.bincount(unsigned, minlength=1 << (8 * entries.dtype.itemsize))
    present = np.flatnonzero(counts)
    values = present.astype(unsigned.dtype).view(entries.dtype)
    counts = counts[present]
    null = values == values.dtype.type(column.type.null)
    if column.type.name == "Boolean":
        values = np.where(values == BOOLEAN_NULL, values, values != 0)
    kept = values[~null].astype(np.int64)
    return (digest_nulls(column, int(counts[null].sum())) + _counted(column, tag, kept, counts[~null])) % MODULUS


def _digest_block(column: Column, tag: int, entries: npt.NDArray[Any], null: Any) -> int:
    total = 0
    if entries.dtype.kind == "f":
        values = entries
        missing = entries == null
        count = int(np.count_nonzero(missing))
        if count:
            total, values = digest_nulls(column, count), entries[~missing]
        with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one, which is all the same here
            words = values.astype(np.float64)
        nan = np.isnan(words)
        if nan.any():
            words[nan] = np.nan
            bits = words.view(np.int64)
            bits[nan] = 0x7FF8000000000000
        return total + _sum(column, tag, words.view(_U))
    low, high = entries.min(), entries.max()
    if low == null:
        missing = entries == null
        count = int(np.count_nonzero(missing))
        total, entries = digest_nulls(column, count), entries[~missing]
        if not len(entries):
            return total
        low = entries.min()
    if int(high) - int(low) < min(FEW, len(entries)) // 2:
        counts = np.bincount((entries - low).astype(np.intp))
        present = np.flatnonzero(counts)
        return total + _counted(column, tag, present + np.int64(low), counts[present])
    return total + _sum(column, tag, entries.astype(np.int64).view(_U))


def _counted(column: Column, tag: int, values: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> int:
    """Each value hashed once; sums of its hash times its count, exact in Python's integers."""
    low, high = _hash13(_prefix(column, tag), values.view(_U), _scratch(len(values)))
    total = 0
    weights = counts.astype(_U)
    # 32-bit parts times counts below 2^32 cannot overflow; their sums are taken in halves again
    for word, shift in ((low, 0), (high, 64)):
        for part, place in ((word & _LOW32, 0), (word >> _U(32), 32)):
            product = part * weights
            total += (int((product & _LOW32).sum()) + (int((product >> _U(32)).sum()) << 32)) << (shift + place)
    return total


def _sum(column: Column, tag: int, values: npt.NDArray[np.uint64]) -> int:
    prefix = _prefix(column, tag)
    scratch = _scratch(min(CHUNK, len(values)))
    total = 0
    for first in range(0, len(values), CHUNK):
        low, high = _hash13(prefix, values[first : first + CHUNK], scratch)
        total += int(high.sum()) << 64
        total += int(np.right_shift(low, _U(32), out=high).sum()) << 32
        low &= _LOW32
        total += int(low.sum())
    return total


_Scratch = list[npt.NDArray[np.uint64]]


def _scratch(size: int) -> _Scratch:
    return [np.empty(size, _U) for _ in range(5)]


def _times(
    a: npt.NDArray[np.uint64], constant: int, out: npt.NDArray[np.uint64], one: npt.NDArray[np.uint64], two: Any
) -> None:
    """The 128-bit products of an array and a constant: the high words into ``out``, the low words into ``a``."""
    low, high = _U(constant & 0xFFFFFFFF), _U(constant >> 32)
    np.bitwise_and(a, _LOW32, out=one)
    np.right_shift(a, _U(32), out=out)
    a *= _U(constant)
    np.multiply(one, low, out=two)
    two >>= _U(32)
    one *= high
    two += one  # below 2^64: (2^32 - 1)^2 + 2^32 - 1
    np.multiply(out, low, out=one)
    out *= high
    # the two cross terms may pass 2^64 together, so their parts are added apart
    carry = np.right_shift(two, _U(32))
    out += carry
    two &= _LOW32
    two += one
    two >>= _U(32)
    out += two


def _avalanche(h: npt.NDArray[np.uint64], one: npt.NDArray[np.uint64]) -> None:
    h ^= np.right_shift(h, _U(37), out=one)
    h *= _AVALANCHE
    h ^= np.right_shift(h, _U(32), out=one)


def _hash13(
    prefix: bytes, values: npt.NDArray[np.uint64], scratch: _Scratch
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """xxh3_128 of ``prefix`` (5 bytes) and each 8-byte value: low and high words, in the scratch arrays."""
    low, high, one, two, three = (array[: len(values)] for array in scratch)
    np.left_shift(values, _U(40), out=low)
    low ^= values
    low ^= _U(int.from_bytes(prefix, "little")) ^ _FLIP_LOW  # the bits of the prefix are clear in the shifted value
    _times(low, _PRIME64_1, high, one, two)
    low += _LENGTH
    np.bitwise_xor(values, _FLIP_HIGH, out=three)
    high += three
    three &= _LOW32
    three *= _PRIME32_2_LESS_1
    high += three
    np.copyto(three, high)
    low ^= three.byteswap(inplace=True)
    _times(low, _PRIME64_2, three, one, two)
    high *= _U(_PRIME64_2)
    high += three
    _avalanche(low, one)
    _avalanche(high, one)
    return low, high


def digest_counted_texts(column: Column, texts: pa.Array, counts: npt.NDArray[np.int64]) -> int:
    """The digest of a text column from its distinct texts and how many rows have each; null texts count as null."""
    prefix = _prefix(column, _tag(column))
    total = 0
    present = np.flatnonzero(counts)
    for first in range(0, len(present), FEW):  # a Python text takes several times its bytes
        part = present[first : first + FEW]
        for text, count in zip(texts.take(pa.array(part)).to_pylist(), counts[part].tolist(), strict=True):
            if text is None:
                total += digest_nulls(column, count)
            else:
                total += xxhash.xxh3_128_intdigest(prefix + text.encode()) * count
    return total % MODULUS


def digest_array(column: Column, array: pa.Array) -> int:
    """The digest of a column's values as Arrow: of the column's Arrow type, or a dictionary of it for text."""
    if column.storage is Storage.FIXED:
        return _digest_arrow_fixed(column, array)
    if pa.types.is_dictionary(array.type):
        size = len(array.dictionary)
        codes = pc.fill_null(array.indices.cast(pa.int64()), size).to_numpy(zero_copy_only=False)
        counts = np.bincount(codes, minlength=size + 1)
        nulls = digest_nulls(column, int(counts[size]))
        return (nulls + digest_counted_texts(column, array.dictionary, counts[:size])) % MODULUS
    found = pc.value_counts(array)
    counts = found.field("counts").to_numpy(zero_copy_only=False)
    return digest_counted_texts(column, found.field("values"), counts)


def _digest_arrow_fixed(column: Column, array: pa.Array) -> int:
    valid = array.drop_null() if array.null_count else array
    nulls = digest_nulls(column, array.null_count)
    tag = _tag(column)
    if pa.types.is_floating(valid.type):
        words = valid.cast(pa.float64()).to_numpy(zero_copy_only=False).copy()
        words[np.isnan(words)] = np.nan
        bits = words.view(np.int64)
        bits[np.isnan(words)] = 0x7FF8000000000000
        return (nulls + _sum(column, tag, words.view(_U))) % MODULUS
    if pa.types.is_timestamp(valid.type):
        valid = valid.cast(pa.timestamp("ns", "UTC"))
    values = valid.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return (nulls + _sum(column, tag, np.ascontiguousarray(values).view(_U))) % MODULUS
