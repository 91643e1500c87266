"""Sort keys as unsigned words: what Deephaven orders, a plain integer comparison orders the same way.

Ascending puts null first, then numbers with -0.0 before 0.0 and every NaN last, strings by UTF-16 code unit.
Descending is the exact reverse, null last. Equal keys keep their order (input, row), so two runs agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.errors import SchemaMismatchError, SettingsError
from sparkhaven.store.native.rows import rank_tables, take_texts, texts_ordered
from sparkhaven.store.types.codings.coding import FixedCoding, null_entries
from sparkhaven.store.types.datatypes import BOOLEAN_NULL, DOUBLE_NULL, FLOAT_NULL, DataType
from sparkhaven.store.types.model import TableSchema

Words = npt.NDArray[Any]  # unsigned integers
INT_NULL = np.int32(-(2**31))
RANKED = 1 << 18  # texts in one hash table at most, which takes some 150 bytes for each


@dataclass(frozen=True, slots=True)
class SortKey:
    """One column to sort by inside groups."""

    column: str
    descending: bool = False
    word: int = 0  # of the eight bytes each that the values of a codec take in sorting order

    @staticmethod
    def parse(text: str, schema: TableSchema) -> SortKey:
        """``Column`` or ``Column:desc`` (or ``:asc``); another form or an unfit column is a SettingsError."""
        name, colon, direction = text.partition(":")
        column = schema.column(name)
        if direction not in ("", "asc", "desc") or (colon and not direction):
            raise SettingsError(
                "sort direction is not known", expected="asc or desc", found=repr(text), hint="write Column:desc"
            )
        if column is None or not column.ordered:
            names = ", ".join(c.name for c in schema.stored if c.ordered)
            raise SettingsError(
                "cannot sort by this column", where=schema.full_name, expected=f"one of {names}", found=repr(name)
            )
        return SortKey(name, direction == "desc")

    def words(self, type_: DataType) -> tuple[SortKey, ...]:
        """The keys that order a column together: one, but for values of a codec that have more than seven bytes."""
        return tuple(SortKey(self.column, self.descending, word) for word in range(word_count(type_)))

    def __str__(self) -> str:
        return f"{self.column}:desc" if self.descending else self.column


def parse_sort(text: str | None, schema: TableSchema) -> tuple[SortKey, ...] | None:
    """``COL[:desc],...``, or ``none`` for no order; None (not given) stays None. Raises SettingsError."""
    if text is None:
        return None
    return () if text.strip() == "none" else tuple(SortKey.parse(part.strip(), schema) for part in text.split(","))


def word_count(type_: DataType) -> int:
    """The words that order the entries of a type: one, but for values of a codec that have more than seven bytes."""
    return 1 if type_.fixed is None else -(-(type_.width + 1) // 8)


def ordinals(raw: npt.NDArray[Any], type_: DataType, *, descending: bool = False, word: int = 0) -> Words:
    """Entries of a fixed-width column as unsigned integers of the same width, in sorting order.

    ``raw`` holds the entries as they lie in the file (little endian, sentinels for null). Those of a codec give words
    of eight bytes, of which ``word`` is wanted.
    """
    if type_.fixed is not None:
        coded = _coded_ordinals(raw, type_.fixed, word)
        return ~coded if descending else coded
    if type_.name == "Boolean":
        words: Words = np.where(raw == BOOLEAN_NULL, 0, np.where(raw == 0, 1, 2)).astype(np.uint8)
    elif type_.name == "char":
        words = raw.astype(np.uint16) + np.uint16(1)  # the null 0xFFFF wraps to 0
    elif raw.dtype.kind == "f":
        words = _float_ordinals(raw)
    else:
        unsigned = np.dtype(f"u{raw.dtype.itemsize}")
        top = unsigned.type(1 << (8 * raw.dtype.itemsize - 1))
        words = np.ascontiguousarray(raw).view(unsigned) ^ top  # the null, the smallest value, becomes 0
    return ~words if descending else words


def _coded_ordinals(raw: npt.NDArray[Any], coding: FixedCoding, word: int) -> Words:
    octets = np.ascontiguousarray(raw).view(np.uint8).reshape(-1, coding.width)
    null = null_entries(octets, coding)
    first, last = max(8 * word - 1, 0), min(8 * word + 7, coding.width)
    lead = 1 if word == 0 else 0  # a byte that is 0 for null only
    words = np.zeros((len(octets), 8), np.uint8)
    words[:, lead : lead + last - first] = octets[:, first:last]
    words[:, :lead] = 1
    if null is not None:
        words[null] = 0
    return words.view(">u8").reshape(-1).astype(np.uint64)


def _float_ordinals(raw: npt.NDArray[Any]) -> Words:
    bits = np.ascontiguousarray(raw).view(f"u{raw.dtype.itemsize}")
    top = bits.dtype.type(1 << (8 * bits.dtype.itemsize - 1))
    words = np.where(bits & top, ~bits, bits | top)
    null = raw.dtype.type(FLOAT_NULL if raw.dtype.itemsize == 4 else DOUBLE_NULL)
    words[raw == null] = 0
    words[np.isnan(raw)] = np.iinfo(bits.dtype).max
    return words


def ranked_symbols(tables: Sequence[pa.Array]) -> tuple[pa.StringArray, list[npt.NDArray[np.int32]]]:
    """The distinct strings of all tables, as ``sorted_symbols``, and the lookup table of each, as ``rank_lut``.

    SchemaMismatchError: the distinct texts take 2 GiB and more.
    """
    ranked = rank_tables(
        [table if table.type == pa.string() else table.cast(pa.string()) for table in tables], INT_NULL
    )
    if ranked is None:
        raise SchemaMismatchError(
            "the distinct texts of a symbol column take 2 GiB and more",
            expected="less",
            hint='declare the column with symbolTable="None"',
        )
    return ranked


def sorted_symbols(values: Sequence[pa.Array]) -> pa.StringArray:
    """The distinct strings of all arrays, without null, by UTF-16 code unit."""
    return ranked_symbols(values)[0]


def is_sorted(texts: pa.Array) -> bool:
    """Whether texts are distinct, none of them null, and ordered by UTF-16 code unit."""
    return not texts.null_count and texts_ordered(texts)


def rank_lut(local: pa.Array, union: pa.StringArray, most: int = RANKED) -> npt.NDArray[np.int32]:
    """Index in ``union`` of each local symbol; the null sentinel for a null one and as one more, last entry.

    The last entry is what index -1 finds, so a lookup first raises the null sentinel to -1.
    """
    lut = np.full(len(local) + 1, INT_NULL, np.int32)
    texts = local.cast(pa.string())
    for first in range(0, len(union), most):
        indexes = pc.index_in(texts, value_set=union.slice(first, most))
        ranks = pc.fill_null(indexes, int(INT_NULL)).to_numpy(zero_copy_only=False)
        lut[:-1] = np.where(ranks == INT_NULL, lut[:-1], ranks + np.int32(first))
    return lut


def picked(texts: pa.Array, indices: npt.NDArray[Any]) -> pa.Array:
    if len(indices) == len(texts) and bool((indices == np.arange(len(texts))).all()):
        return texts
    taken = take_texts(texts, indices)
    return texts.take(pa.array(indices)) if taken is None else taken


def look_up(lut: npt.NDArray[np.int32], ids: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Maps local symbol ids (checked to be in range) through a lookup table of ``rank_lut``."""
    last = np.int32(len(lut) - 1)
    unsigned = np.minimum(ids.view(np.uint32), np.uint32(last))  # the null sentinel is beyond every id
    return np.take(lut, unsigned, mode="clip")


def rank_ordinals(ranks: npt.NDArray[np.int32], *, descending: bool = False) -> Words:
    """Ranks (sentinel = null) as unsigned words in sorting order."""
    words = ranks.view(np.uint32) ^ np.uint32(1 << 31)
    return ~words if descending else words


def distinct(words: Words) -> bool:
    """Whether no word comes twice."""
    ordered = np.sort(words)
    return not bool((ordered[1:] == ordered[:-1]).any())


def from_ordinals(words: Words, type_: DataType) -> npt.NDArray[Any]:
    """The entries behind ascending ordinals; NaNs come back as one form."""
    if type_.name == "Boolean":
        return words.astype(np.int8) - np.int8(1)
    if type_.name == "char":
        return words - np.uint16(1)
    top = words.dtype.type(1 << (8 * words.dtype.itemsize - 1))
    dtype = np.dtype(type_.numpy)
    if dtype.kind != "f":
        plain: npt.NDArray[Any] = (words ^ top).view(dtype)
        return plain
    raw: npt.NDArray[Any] = np.where(words & top, words ^ top, ~words).view(dtype)
    raw[words == np.iinfo(words.dtype).max] = np.nan
    raw[words == 0] = type_.null
    return raw
