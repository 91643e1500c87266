"""Symbol columns (dictionary encoding): a symbol id per row, and a symbol table per location.

``.dat`` holds an int32 per row, ``.sym`` the end offset of each symbol in ``.sym.bytes``. Ids are dense, from 0, in
order of first appearance; our tables have each text once, those of other writers may repeat it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.errors import CorruptFileError, SchemaMismatchError
from sparkhaven.store.format.column.charset import (
    WIDTH,
    StoredEnds,
    ValuePosition,
    decode_values,
    encode_ends,
    encode_values,
    plain_texts,
)
from sparkhaven.store.format.column.prefix import LITTLE, ByteOrder
from sparkhaven.store.native.checked_columns import check_ids, valid_bits
from sparkhaven.store.native.rows import gathered
from sparkhaven.store.types.datatypes import INT_NULL

ROWS_AN_ENTRY = 8  # of the rows that are looked at first: most dictionaries are all used by then


def used_entries(indices: pa.Array, count: int, share: int = ROWS_AN_ENTRY) -> npt.NDArray[np.int64]:
    """The entries, of ``count``, that rows have, in the order of their first rows. ``indices`` may be null.

    ``share`` rows an entry are looked at first.
    """
    first = share * count
    if first < len(indices) // 2:
        used = _distinct(indices.slice(0, first))
        if len(used) == count:
            return used
    return _distinct(indices)


def _distinct(indices: pa.Array) -> npt.NDArray[np.int64]:
    distinct = pc.unique(indices)
    known = pc.drop_null(distinct) if distinct.null_count else distinct
    entries: npt.NDArray[np.int64] = known.to_numpy().astype(np.int64)
    return entries


MAX_SYMBOLS = 2**31 - 1
FEW = 64  # values that plain Python handles sooner than a call of one of Arrow's functions takes
_NOTHING = memoryview(b"")


def assign_numbers(
    array: pa.Array, symbol_ids: Mapping[str, int], most: int = MAX_SYMBOLS
) -> tuple[memoryview, list[str]]:
    """The ``.dat`` entries of a chunk of texts, and the texts that are new, in the order of their numbers.

    ``array`` is string, large_string or a dictionary of them; ``symbol_ids`` has the numbers given so far, 0 to its
    length - 1, and is not changed. SchemaMismatchError: there would be more than ``most``.
    """
    if len(array) <= FEW:
        return _assign_few(array.to_pylist(), symbol_ids, most)
    coded = array if pa.types.is_dictionary(array.type) else pc.dictionary_encode(array)
    entries, count = coded.dictionary, len(symbol_ids)
    indices = coded.indices if coded.indices.type == pa.int32() else coded.indices.cast(pa.int32())
    # the dictionary may be in any order, have entries without rows, null among them, or one text twice
    used = used_entries(indices, len(entries))
    if entries.null_count:
        used = used[~np.asarray(entries.is_null())[used]]
    texts = pc.take(entries, pa.array(used)).to_numpy(zero_copy_only=False).tolist()
    fresh = [text for text in texts if text not in symbol_ids] if symbol_ids else texts
    new = dict(zip(fresh, range(count, count + len(fresh)), strict=True))
    if len(new) < len(fresh):
        new = dict(zip(new, range(count, count + len(new)), strict=True))
    _require_room(count + len(new), most)
    table = np.full(len(entries) + 1, INT_NULL, "<i4")
    if len(new) == len(texts):
        table[used] = np.arange(count, count + len(new))
    else:
        table[used] = [new[text] if text in new else symbol_ids[text] for text in texts]
    codes = pc.fill_null(indices, len(entries)) if indices.null_count else indices
    return gathered(table, codes.to_numpy().view(np.uint32)).view(np.uint8).data, list(new)


def _assign_few(texts: Sequence[str | None], symbol_ids: Mapping[str, int], most: int) -> tuple[memoryview, list[str]]:
    new: dict[str, int] = {}
    for text in texts:
        if text is not None and text not in symbol_ids:
            new.setdefault(text, len(symbol_ids) + len(new))
    _require_room(len(symbol_ids) + len(new), most)
    numbers = [INT_NULL if text is None else new[text] if text in new else symbol_ids[text] for text in texts]
    return np.array(numbers, "<i4").view(np.uint8).data, list(new)


def _require_room(count: int, most: int) -> None:
    if count > most:
        raise SchemaMismatchError("symbol table is full", expected=f"at most {most} symbols")


def symbol_position(index: int) -> str:
    """The default position of a symbol in errors: its index among those given."""
    return f"symbol {index}"


def encode_symbols(
    new: Sequence[str] | pa.Array, encoding: str, base_end: int, *, locate: ValuePosition = symbol_position
) -> tuple[memoryview, memoryview]:
    """What to append to ``.sym`` and ``.sym.bytes`` for new symbols.

    ``new``: texts, or a string array without null. ``base_end`` is the committed length of ``.sym.bytes``. A text
    that the charset cannot encode is a SchemaMismatchError at ``locate(index)``.
    """
    if not len(new):
        return _NOTHING, _NOTHING
    try:
        array = new if isinstance(new, pa.Array) else pa.array(new, pa.large_string())
    except UnicodeEncodeError as error:
        raise SchemaMismatchError(
            "text contains a lone surrogate",
            where=locate(new.index(error.object)),
            found=ascii(error.object)[:80],
            hint="reject the row",
        ) from None
    ends, data = encode_values(array, encoding, locate)
    return encode_ends(ends, base_end), data


def decode_symbols(sym: pa.Buffer, sym_bytes: pa.Buffer, encoding: str, order: ByteOrder, where: object) -> pa.Array:
    """The texts of a symbol table by number; one without bytes is null.

    ``sym`` and ``sym_bytes`` are the committed bytes. Ends that do not fit them, or bytes that are not text in the
    charset, are a CorruptFileError with the entry.
    """
    if sym.size % WIDTH:
        raise CorruptFileError(
            "symbol offsets are truncated",
            where=where,
            expected=f"a multiple of {WIDTH} bytes",
            found=sym.size,
        )
    texts = plain_texts(sym, sym_bytes, 0, encoding) if sym.size and order == LITTLE else None
    if texts is not None and texts.buffers()[2].size == sym_bytes.size:
        return texts
    ends = StoredEnds(sym, 0, order, where).decode(sym_bytes.size)
    if ends[-1] != sym_bytes.size:
        raise CorruptFileError(
            "last symbol does not end with the committed bytes",
            where=f"{where}, entry {len(ends) - 2}",
            expected=sym_bytes.size,
            found=int(ends[-1]),
        )
    return decode_values(sym_bytes, ends, encoding, lambda index: f"{where}, entry {index}")


def decode_rows(
    dat: pa.Buffer,
    texts: pa.Array,
    order: ByteOrder,
    where: object,
    *,
    first_row: int = 0,
) -> pa.DictionaryArray:
    """Rows as numbers into ``texts``; in native order and without nulls they are not copied.

    A number outside the table is a CorruptFileError with its row.
    """
    numbers: npt.NDArray[np.int32] = np.frombuffer(dat, "<i4" if order == LITTLE else ">i4") if dat.size else _NONE
    if not numbers.dtype.isnative:
        numbers = numbers.astype(np.int32)
        dat = pa.py_buffer(numbers)
    missing = check_ids(numbers, len(texts))
    if missing is None:
        # as unsigned numbers the negative ones are the largest
        row = int(np.argmax((numbers.view(np.uint32) >= len(texts)) & (numbers != INT_NULL)))
        raise CorruptFileError(
            "row has a symbol that is not in the table",
            where=f"{where}, row {first_row + row}",
            expected=f"0 to {len(texts) - 1}, or null",
            found=int(numbers[row]),
        )
    bitmap = pa.py_buffer(valid_bits(numbers, INT_NULL)) if missing else None
    if texts.null_count:
        empty = np.asarray(texts.is_null())
        nulls = (numbers == INT_NULL) | empty[np.maximum(numbers, 0)]
        texts, missing = pc.fill_null(texts, ""), int(np.count_nonzero(nulls))
        bitmap = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    if missing:  # Arrow looks up indices below nulls too when it joins dictionaries: the sentinel would lead it astray
        dat = pa.py_buffer(np.maximum(numbers, 0))
    indices = pa.Array.from_buffers(pa.int32(), len(numbers), [bitmap, dat], missing)
    return pa.DictionaryArray.from_arrays(indices, texts, safe=False)


_NONE = np.empty(0, np.int32)
