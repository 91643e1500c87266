"""The hash of 13 bytes for whole arrays by numpy: a prefix of 5 bytes, and a value of 8. Sums of such hashes.

It is ``xxh3_128`` for inputs of that length, to which the tests hold it. The compiled core has the same function.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

CHUNK = 1 << 13  # values hashed at once: all steps stay in the processor's cache

_U = np.uint64
_LOW32 = _U(0xFFFFFFFF)
_PRIME64_1, _PRIME64_2 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F
_PRIME32_2_LESS_1 = _U(0x85EBCA77 - 1)
_AVALANCHE = _U(0x165667919E3779F9)
# the published constants of XXH3: words of its default secret, already combined for seed 0
_FLIP_LOW = _U(0x78E5C0CC4EE679CB ^ 0x2172FFCC7DD05A82)
_FLIP_HIGH = _U(0x8E2443F7744608B8 ^ 0x4C263A81E69035E0)
_LENGTH = _U((13 - 1) << 54)


def counted_sum(prefix: bytes, values: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> int:
    """Each value hashed once; the sum of its hash times its count, exact in Python's integers."""
    low, high = _hash13(prefix, values.view(_U), _scratch(len(values)))
    total = 0
    weights = counts.astype(_U)
    # 32-bit parts times counts below 2^32 cannot overflow; their sums are taken in halves again
    for word, shift in ((low, 0), (high, 64)):
        for part, offset in ((word & _LOW32, 0), (word >> _U(32), 32)):
            product = part * weights
            total += (int((product & _LOW32).sum()) + (int((product >> _U(32)).sum()) << 32)) << (shift + offset)
    return total


def hash_sum(prefix: bytes, values: npt.NDArray[np.uint64]) -> int:
    """The sum of the hashes of all values, not yet modulo 2^128."""
    scratch = _scratch(min(CHUNK, len(values)))
    total = 0
    for first in range(0, len(values), CHUNK):
        low, high = _hash13(prefix, values[first : first + CHUNK], scratch)
        total += int(high.sum()) << 64
        total += int(np.right_shift(low, _U(32), out=high).sum()) << 32
        low &= _LOW32
        total += int(low.sum())
    return total


def low_words(prefix: bytes, values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The low 64 bits of the hash of each value."""
    scratch, words = _scratch(min(CHUNK, len(values))), np.empty(len(values), _U)
    for first in range(0, len(values), CHUNK):
        words[first : first + CHUNK] = _hash13(prefix, values[first : first + CHUNK], scratch)[0]
    return words


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
