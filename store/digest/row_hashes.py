"""A 64-bit hash of each value of a column: the low words of the hashes that its digest is the sum of.

Sums of them over the columns of a row tell rows apart, by chance all but one in 2^64 pairs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from sparkhaven.store.digest.column_digest import CODED, SET, TAGS, fixed_words, prefix_of, tag_of
from sparkhaven.store.digest.hashes import low_words
from sparkhaven.store.lazy_compute import pc
from sparkhaven.store.types.codings.coding import value_bytes
from sparkhaven.store.types.codings.string_set import set_values, words_of
from sparkhaven.store.types.model import Column, Storage

Hashes = npt.NDArray[np.uint64]
_LOW = (1 << 64) - 1


def value_hashes(column: Column, array: pa.Array) -> Hashes:
    """One hash a row. ``array`` is of the column's Arrow type, or a dictionary of it for text."""
    if column.storage is Storage.SET:
        parts = [_of_sets(column, words, pa.array(texts, pa.string())) for words, texts in words_of(array)]
        return np.concatenate(parts)
    coding = column.type.fixed or column.type.blob
    if coding is not None:
        return _of_bytes(column, CODED, value_bytes(array, coding).dictionary_encode())
    if column.storage is Storage.FIXED:
        return _of_fixed(column, array)
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    return _of_bytes(column, TAGS["String"], coded)


def _null(column: Column) -> int:
    return xxhash.xxh3_128_intdigest(prefix_of(column, 0)) & _LOW


def _of_sets(column: Column, words: npt.NDArray[np.uint64], texts: pa.Array) -> Hashes:
    prefix, (present, inverse) = prefix_of(column, SET), np.unique(words, return_inverse=True)
    values = [set_values(present[row : row + 1], texts)[0][0] for row in range(len(present))]
    hashes = [xxhash.xxh3_128_intdigest(prefix + value) & _LOW for value in values]
    return np.array(hashes, np.uint64)[inverse]


def _of_bytes(column: Column, tag: int, coded: pa.DictionaryArray) -> Hashes:
    """Only texts that the rows use are hashed; the last hash is that of null."""
    codes = pc.fill_null(coded.indices.cast(pa.int64()), len(coded.dictionary)).to_numpy(zero_copy_only=False)
    present, inverse = np.unique(codes, return_inverse=True)
    prefix, hashes = prefix_of(column, tag), np.full(len(present), _null(column), np.uint64)
    kept = present[present < len(coded.dictionary)]
    for row, value in enumerate(coded.dictionary.take(pa.array(kept)).to_pylist()):
        if value is not None:
            data = value.encode() if isinstance(value, str) else value
            hashes[row] = xxhash.xxh3_128_intdigest(prefix + data) & _LOW
    return hashes[inverse]


def _of_fixed(column: Column, array: pa.Array) -> Hashes:
    prefix = prefix_of(column, tag_of(column))
    words = fixed_words(pc.fill_null(array, pa.scalar(0).cast(array.type)) if array.null_count else array)
    hashes = low_words(prefix, words.view(np.uint64))
    if array.null_count:
        hashes[array.is_null().to_numpy(zero_copy_only=False)] = _null(column)
    return hashes
