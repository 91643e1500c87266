"""StringSet: 64 bits per row in ``.dat``, bit b for symbol b of the column's table in this location.

There is no null: a null set is stored as the empty one. Readers give the texts of a set in the order of UTF-16 code
units, each once, whatever order the table has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.errors import CorruptFileError, SchemaMismatchError
from sparkhaven.store.types.codings.coding import Coding, Mask, Unfit, UnfitError, some

Words = npt.NDArray[np.uint64]
SETS = pa.list_(pa.string())
MOST_SYMBOLS = 64


def coding(codec: str, arguments: str, width: int | None) -> StringSets:
    """Without a codec; ValueError says so."""
    if codec or arguments or width is not None:
        raise ValueError("StringSet without a codec")
    return StringSets()


@dataclass(frozen=True, slots=True)
class StringSets(Coding):
    """What decoders take for a set. Bits depend on the location, so ``assign_bits`` makes them."""

    arrow = SETS
    domain = f"an array of at most {MOST_SYMBOLS} different texts, none of them null"
    form = "set"
    sources = {"nested": "checked"}
    json = "array"

    @property
    def width(self) -> int:
        """Bytes per row."""
        return 8

    def parse(self, text: str) -> Any:
        """No text writes a set."""
        raise UnfitError(Unfit.NO_VALUE, self.domain)

    def from_json(self, value: Any) -> Any:
        """Of a list of texts."""
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise UnfitError(Unfit.NO_VALUE, self.domain)
        if len(set(value)) > MOST_SYMBOLS:
            raise UnfitError(Unfit.OVERFLOW, self.domain)
        try:
            "".join(value).encode()
        except UnicodeEncodeError:
            raise UnfitError(Unfit.NO_VALUE, "an array of texts without lone surrogates") from None
        return value

    def unstorable(self, array: pa.Array) -> Mask | None:
        """Sets that cannot be stored, wherever they go."""
        bad = np.zeros(len(array), np.bool_)
        texts, rows = array.flatten(), _rows_of(array)
        if texts.null_count:
            bad[rows[np.asarray(texts.is_null())]] = True
        crowded = np.flatnonzero(np.bincount(rows, minlength=len(array)) > MOST_SYMBOLS)
        for row in crowded.tolist():
            bad[row] |= len(set(array[row].as_py())) > MOST_SYMBOLS
        return some(bad)


def _rows_of(array: pa.Array) -> npt.NDArray[np.int64]:
    """The row of each text of ``array.flatten()``."""
    offsets: npt.NDArray[np.int64] = np.asarray(array.offsets, np.int64)
    lengths = offsets[1:] - offsets[:-1]
    if array.null_count:
        lengths = np.where(np.asarray(array.is_null()), 0, lengths)
    return np.repeat(np.arange(len(array)), lengths)


def assign_bits(
    array: pa.Array, symbol_ids: Mapping[str, int], *, locate: Callable[[int], str] = lambda index: f"row {index}"
) -> tuple[Words, list[str]]:
    """The words of a chunk of sets, and the texts that are new, in the order of their bits.

    ``symbol_ids`` has the bits given so far. SchemaMismatchError at ``locate(index)``: a set has null among its texts,
    or a text that would be the 65th of the location.
    """
    texts, rows = array.flatten(), _rows_of(array)
    if texts.null_count:
        _refuse(locate(int(rows[np.argmax(np.asarray(texts.is_null()))])), "a set of texts, none of them null", "null")
    coded = texts.dictionary_encode()
    table = coded.dictionary.to_pylist()
    bits = dict(symbol_ids)
    for text in table:
        bits.setdefault(text, len(bits))
    codes = coded.indices.to_numpy()
    if len(bits) > MOST_SYMBOLS:
        late = np.array([bits[text] >= MOST_SYMBOLS for text in table], np.bool_)
        index = int(np.argmax(late[codes]))
        _refuse(locate(int(rows[index])), f"at most {MOST_SYMBOLS} texts in a location", repr(table[codes[index]])[:80])
    words = np.zeros(len(array), np.uint64)
    if len(codes):
        lut = np.array([1 << bits[text] for text in table], np.uint64)
        np.bitwise_or.at(words, rows, lut[codes])
    return words, list(bits)[len(symbol_ids) :]


def words_of(array: pa.Array) -> Iterator[tuple[Words, list[str]]]:
    """The words of sets and the texts of their bits, in as many parts as it takes: rows may go to many locations."""
    if len(array) > 1 and len(array.flatten().unique()) > MOST_SYMBOLS:
        for part in (array[: len(array) // 2], array[len(array) // 2 :]):
            yield from words_of(part)
    else:
        yield assign_bits(array, {})


def _refuse(where: str, expected: str, found: str) -> None:
    raise SchemaMismatchError(
        "value cannot be stored in the column",
        where=where,
        expected=expected,
        found=found,
        hint="reject the row, or declare the column as String[]",
    )


def decode_sets(words: Words, texts: pa.Array, where: object, *, first_row: int = 0) -> pa.ListArray:
    """The sets of words, by the symbol table of their location.

    CorruptFileError: a bit at or above the number of symbols.
    """
    count = len(texts)
    beyond = words >> np.uint64(count) if count < MOST_SYMBOLS else np.zeros(len(words), np.uint64)
    if beyond.any():
        index = int(np.argmax(beyond != 0))
        raise CorruptFileError(
            "set has a bit of no symbol",
            where=f"{where}, row {first_row + index}",
            expected=f"bits 0 to {count - 1}" if count else "0",
            found=f"{int(words[index]):#x}",
        )
    flags = np.unpackbits(words.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    order = np.array(sorted(range(count), key=lambda bit: _units(texts[bit].as_py())), np.int64)
    flags = flags[:, order]
    ends = np.zeros(len(words) + 1, np.int32)
    np.cumsum(flags.sum(axis=1), out=ends[1:])
    members = texts.cast(pa.string()).take(pa.array(order[np.nonzero(flags)[1]]))
    return pa.ListArray.from_arrays(pa.array(ends), members)


def _units(text: str | None) -> bytes:
    return b"" if text is None else text.encode("utf-16-be")


def moved_bits(words: Words, targets: npt.NDArray[np.int64]) -> Words:
    """Words with bit b moved to bit ``targets[b]``, for tables of another order. -1: no word has the bit."""
    if np.array_equal(targets, np.arange(len(targets))):
        return words
    moved = np.zeros(len(words), np.uint64)
    for bit, target in enumerate(targets.tolist()):
        if target >= 0:
            moved |= (words >> np.uint64(bit) & np.uint64(1)) << np.uint64(target)
    return moved


def bits_in_use(words: Words) -> int:
    """Those of any word."""
    return int(np.bitwise_or.reduce(words)) if len(words) else 0


def set_values(words: Words, texts: pa.Array) -> tuple[list[bytes], npt.NDArray[np.int64]]:
    """The distinct sets as bytes that do not depend on the table, and how many words have each: for digests."""
    distinct, counts = np.unique(words, return_counts=True)
    values = [
        b"".join(len(data).to_bytes(4, "little") + data for data in (text.encode() for text in members))
        for members in decode_sets(distinct, texts, "sets").to_pylist()
    ]
    return values, counts.astype(np.int64)


def plain_sets(array: pa.Array) -> pa.Array:
    """Sets as readers give them: no null, each text once, in order."""
    words, texts = assign_bits(array, {}) if len(array) else (np.empty(0, np.uint64), [])
    return decode_sets(words, pa.array(texts, pa.string()), "sets")


def sorted_texts(tables: Iterable[pa.Array]) -> list[str]:
    """The texts of several tables, each once, by UTF-16 code unit."""
    return sorted({text for table in tables for text in pc.drop_null(table).to_pylist()}, key=_units)
