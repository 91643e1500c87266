"""Order-free digests of columns and of rows: equal for the same rows in any order, else different.

The digest of a column is the sum, modulo 2^128, over its rows of ``xxh3_128(column id, type tag, value)``:

=========  ============================================================================================
bytes      content
=========  ============================================================================================
0 .. 4     column id, ``i4`` little endian
4          type tag (``TAGS``), of a widened column that of its first type; 0 for null, which has no further bytes.
           A null set is hashed as the empty one
5 ..       8 bytes little endian for fixed types: integers sign-extended, char as code unit, Boolean 0 or 1,
           Instant as ns, float widened to double, every NaN as ``7FF8000000000000``; UTF-8 for text; of a type
           with a codec the bytes that the codec makes
=========  ============================================================================================

Functions that take ``hashes``, one word a row, add to each the low 64 bits of the hash of the row's value; null and the
empty set, which is how a null set is stored, add nothing. Digests of rows are made from them.

The compiled core hashes (``store.native.digests``).

*Digests of rows* take all columns together. They are equal for the same rows, whatever files, order or columns of nulls
they are stored with, and different where a value went to another row. The hash of a row is the sum, modulo 2^64, over
its columns of the low 64 bits of the hash of its value, as for digests of columns. Null adds nothing: a column
that is null in all rows, or not stored, makes no difference. The digest of rows is the sum, modulo 2^128, of
``xxh3_128(-1, 13, hash of the row)``. Sums of digests are digests of the rows of both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.native.codings import encode_entries
from sparkhaven.store.native.digests import (
    FixedEntries,
    Hashes,
    Sum,
    add_symbols,
    coded_sum,
    fixed_sum,
    text_sum,
    value_sum,
)
from sparkhaven.store.types.codings.coding import FixedCoding, Unfit, UnfitError, value_bytes
from sparkhaven.store.types.codings.string_set import set_values, words_of
from sparkhaven.store.types.datatypes import LONG_NULL
from sparkhaven.store.types.model import Column, Storage

MODULUS = 1 << 128
_LOW = (1 << 64) - 1
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


def prefix_of(column: Column, tag: int) -> bytes:
    return struct.pack("<iB", column.id, tag)


CODED, SET = 11, 12  # the tags of all types with a codec, and of sets


def tag_of(column: Column) -> int:
    """The tag of the type, or of the first one where the column was widened: digests hold beyond that."""
    if column.type.coding is not None:
        return SET if column.storage is Storage.SET else CODED
    try:
        return TAGS[column.forms[0].type.name if column.forms else column.type.name]
    except KeyError:
        raise SchemaMismatchError(
            f"no digest for columns of type {column.type.name}",
            where=f"column {column.name}",
            expected=f"one of {', '.join(TAGS)}",
            found=column.type.name,
        ) from None


def add(*digests: int) -> int:
    return sum(digests) % MODULUS


def to_hex(digest: int) -> str:
    return f"{digest:032x}"


def from_hex(text: str) -> int:
    return int(text, 16)


def digest_nulls(column: Column, count: int) -> int:
    """The digest of rows without a value, as in a location that lacks the column: a null set is an empty one."""
    if column.storage is Storage.SET:
        return digest_sets(column, np.zeros(1, np.uint64), pa.array([], pa.string())) * count % MODULUS
    return xxhash.xxh3_128_intdigest(prefix_of(column, 0)) * count % MODULUS


def digest_summed(column: Column, hashed: Sum) -> int:
    """The digest of a column from what the core says of its values."""
    total, nulls = hashed
    return (total + digest_nulls(column, nulls)) % MODULUS


def digest_bytes(column: Column, values: pa.Array, hashes: Hashes | None = None) -> int:
    """The digest of a column with a codec, from the bytes that it makes of values: large binary, null where null."""
    return digest_summed(column, text_sum(prefix_of(column, CODED), values, hashes=hashes))


def digest_sets(column: Column, words: npt.NDArray[np.uint64], texts: pa.Array, hashes: Hashes | None = None) -> int:
    """The digest of sets, from words and the symbol table of their bits: of its sorted texts with their lengths."""
    prefix = prefix_of(column, SET)
    if hashes is not None:
        present, inverse = np.unique(words, return_inverse=True)
        table = [0 if not word else _low(prefix + set_values(np.array([word]), texts)[0][0]) for word in present]
        hashes += np.array(table, np.uint64)[inverse]
    values, counts = set_values(words, texts)
    hashed = (xxhash.xxh3_128_intdigest(prefix + v) * n for v, n in zip(values, counts.tolist(), strict=True))
    return int(sum(hashed) % MODULUS)


def _low(data: bytes) -> int:
    return xxhash.xxh3_128_intdigest(data) & _LOW


def digest_entries(column: Column, entries: npt.NDArray[Any], hashes: Hashes | None = None) -> int:
    """The digest of a fixed-width column from its entries as they lie in the file, sentinels for null."""
    if column.type.fixed is not None:
        return _digest_coded(column, entries, column.type.fixed, hashes)
    fixed = fixed_entries(column)
    assert fixed is not None  # noqa: S101  it has no codec
    hashed = fixed_sum(fixed.prefix, entries, fixed.null, boolean=fixed.boolean, hashes=hashes)
    return digest_summed(column, hashed)


def fixed_entries(column: Column) -> FixedEntries | None:
    """What the core needs to know of the entries of a fixed-width column; None where they have a codec."""
    null = column.type.null
    if column.type.fixed is not None or null is None:
        return None
    boolean = column.type.name == "Boolean"
    return FixedEntries(prefix_of(column, tag_of(column)), null, np.dtype(column.type.numpy), boolean)


def _digest_coded(column: Column, entries: npt.NDArray[Any], coding: FixedCoding, hashes: Hashes | None = None) -> int:
    octets = np.ascontiguousarray(entries).view(np.uint8).reshape(-1, coding.width)
    return digest_summed(column, coded_sum(prefix_of(column, CODED), octets, coding.null, hashes))


def _one_nan(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """The bits of numbers, which are changed in place: every NaN is the same."""
    nan = np.isnan(numbers)
    bits = numbers.view(np.int64)
    bits[nan] = 0x7FF8000000000000
    return bits


def digest_counted_texts(column: Column, texts: pa.Array, counts: npt.NDArray[np.int64]) -> int:
    """The digest of a text column from its distinct texts and how many rows have each; null texts count as null."""
    return digest_summed(column, text_sum(prefix_of(column, tag_of(column)), texts, counts))


def digest_array(column: Column, array: pa.Array, hashes: Hashes | None = None) -> int:
    """The digest of a column's values as Arrow: of the column's Arrow type, or a dictionary of it for text."""
    if column.storage is Storage.SET:
        total = first = 0
        for words, texts in words_of(array):
            of_rows = None if hashes is None else hashes[first : first + len(words)]
            total += digest_sets(column, words, pa.array(texts, pa.string()), of_rows)
            first += len(words)
        return total % MODULUS
    coding = column.type.fixed or column.type.blob
    if isinstance(coding, FixedCoding):
        entries = encode_entries(array, coding)
        if entries is None:
            raise UnfitError(Unfit.NO_VALUE, coding.domain)
        return digest_entries(column, entries, hashes)
    if coding is not None:
        return digest_bytes(column, value_bytes(array, coding), hashes)
    if column.storage is Storage.FIXED:
        return _digest_arrow_fixed(column, array, hashes)
    if pa.types.is_dictionary(array.type):
        return _digest_dictionary(column, array, hashes)
    return digest_summed(column, text_sum(prefix_of(column, tag_of(column)), array, hashes=hashes))


def _digest_dictionary(column: Column, array: pa.DictionaryArray, hashes: Hashes | None) -> int:
    """Texts that no row has are not hashed."""
    size = len(array.dictionary)
    codes = pc.fill_null(array.indices.cast(pa.int64()), size).to_numpy(zero_copy_only=False)
    counts = np.bincount(codes, minlength=size + 1)
    digest = digest_counted_texts(column, array.dictionary, counts[:size])
    if hashes is not None:
        add_symbol_hashes(codes.astype(np.int32), symbol_hashes(column, array.dictionary, counts[:size]), hashes)
    return (digest_nulls(column, int(counts[size])) + digest) % MODULUS


def symbol_hashes(column: Column, texts: pa.Array, counts: npt.NDArray[np.int64] | None = None) -> Hashes:
    """What each text of a symbol table adds to the hash of a row that has it; 0 where ``counts`` is 0, and for null."""
    prefix, hashes = prefix_of(column, tag_of(column)), np.zeros(len(texts), np.uint64)
    text_sum(prefix, texts, counts, hashes)
    return hashes


def add_symbol_hashes(ids: npt.NDArray[np.int32], table: Hashes, hashes: Hashes) -> None:
    """Adds those of ``symbol_hashes`` to the rows that have the symbols, by id; any other id is null."""
    add_symbols(ids, table, hashes)


def digest_values(column: Column, values: pa.Array, hashes: Hashes | None = None) -> tuple[int, int] | None:
    """The digest of UTF-8 as it lies in files, in large binary, and the number of nulls.

    No bytes are null, a NUL alone is the empty text. None: a value is no text.
    """
    hashed = value_sum(prefix_of(column, tag_of(column)), values, hashes)
    return None if hashed is None else (digest_summed(column, hashed), hashed[1])


def fixed_words(valid: pa.Array) -> npt.NDArray[np.int64]:
    """The words of fixed-width values that are hashed; there is no null among them."""
    if pa.types.is_floating(valid.type):
        return _one_nan(valid.cast(pa.float64()).to_numpy(zero_copy_only=False).copy())
    if pa.types.is_timestamp(valid.type):
        valid = valid.cast(pa.timestamp("ns", "UTC"))
    return np.ascontiguousarray(valid.cast(pa.int64()).to_numpy(zero_copy_only=False))


def _digest_arrow_fixed(column: Column, array: pa.Array, hashes: Hashes | None = None) -> int:
    valid = array.drop_null() if array.null_count else array
    prefix, words = prefix_of(column, tag_of(column)), fixed_words(valid)
    if hashes is None:
        return (digest_words(prefix, words) + digest_nulls(column, array.null_count)) % MODULUS
    of_values = np.zeros(len(words), np.uint64) if array.null_count else hashes
    total = digest_words(prefix, words, of_values)
    if array.null_count:
        hashes[~np.asarray(array.is_null())] += of_values
    return (total + digest_nulls(column, array.null_count)) % MODULUS


def digest_words(prefix: bytes, words: npt.NDArray[np.int64], hashes: Hashes | None = None) -> int:
    """The sum of the hashes of words behind a prefix, none of which is null."""
    # the least word is a value here, which the core takes for the null
    total, least = fixed_sum(prefix, words, LONG_NULL, boolean=False, hashes=hashes)
    if least:
        one = xxhash.xxh3_128_intdigest(prefix + struct.pack("<q", LONG_NULL))
        total += least * one
        if hashes is not None:
            hashes[words == LONG_NULL] += np.uint64(one & _LOW)
    return total % MODULUS


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


class RowDigests:
    """Digests of rows as they pass, in any order: of each column by name, and of rows, all columns together."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self.rows = self.row_digest = 0
        self.digests = dict.fromkeys((column.name for column in columns), 0)

    def add(self, arrays: Sequence[pa.Array], rows: int) -> Hashes:
        """Adds rows; returns the hash of each."""
        hashes = np.zeros(rows, np.uint64)
        for column, array in zip(self._columns, arrays, strict=True):
            self.digests[column.name] = add(self.digests[column.name], digest_array(column, array, hashes))
        self.rows += rows
        self.row_digest = add(self.row_digest, digest_rows(hashes))
        return hashes
