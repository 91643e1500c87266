"""Texts that are stored as Arrow has them: bytes, arrays and errors as by the pass for every charset."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from sparkhaven.store.errors import CorruptFileError, SchemaMismatchError
from sparkhaven.store.format.column import charset, symbols
from sparkhaven.store.format.column.charset import BY_NAME, encode_values, row_position
from sparkhaven.store.format.column.prefix import BIG, LITTLE
from sparkhaven.store.format.column.symbols import decode_symbols, encode_symbols

TEXTS: list[list[str]] = [
    ["a"],
    ["a", "bc", "a"],
    ["plain", "\x7f", "x" * 300],
    ["", "a"],
    ["a", "", ""],
    ["a", "\0"],
    ["a\0", "\0\0"],
    ["a", "\xe9", "b"],
    ["\xff\xfe"],
    ["a", "\u20ac", "\U0001f600"],
    [],
]


def tried(call: object, *arguments: object) -> object:
    """What a call returns, as bytes and texts, or the text of its error."""
    try:
        result = call(*arguments)  # type: ignore[operator]
    except (CorruptFileError, SchemaMismatchError) as error:
        return str(error)
    if isinstance(result, pa.Array):
        result.validate(full=True)
        return str(result.type), result.to_pylist()
    ends, data = result
    return np.asarray(ends).tolist(), bytes(data)


@pytest.mark.parametrize("encoding", sorted(BY_NAME))
@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("before", [0, 2])
def test_what_is_stored_is_the_same(
    monkeypatch: pytest.MonkeyPatch, encoding: str, texts: list[str], kind: pa.DataType, before: int
) -> None:
    array = pa.array(["\xe9", "zz"][:before] + texts + ["\xe9"], kind).slice(before, len(texts))
    found = tried(encode_values, array, encoding, row_position), tried(encode_symbols, array, encoding, 7)
    monkeypatch.setattr(charset, "_is_stored_as_it_is", lambda *_: False)
    assert found == (tried(encode_values, array, encoding, row_position), tried(encode_symbols, array, encoding, 7))


def table(ends: Sequence[int], data: bytes, order: str) -> tuple[pa.Buffer, pa.Buffer]:
    return pa.py_buffer(np.array(ends, "<i8" if order == LITTLE else ">i8").tobytes()), pa.py_buffer(data)


@pytest.mark.parametrize("encoding", sorted(BY_NAME))
@pytest.mark.parametrize(
    ("ends", "data"),
    [
        ([], b""),
        ([1], b"a"),
        ([1, 3, 6], b"abcdef"),
        ([0, 2], b"ab"),  # one without bytes is null
        ([2, 2], b"ab"),
        ([1, 2], b"a\0"),  # a NUL alone is the empty text
        ([2, 4], b"a\0\0\0"),
        ([2], b"\xc3\xa9"),
        ([1, 2], b"\xc3\xa9"),  # an end within a character
        ([1, 2], b"a\xff"),
        ([2, 1], b"ab"),  # descending
        ([2, 1, 3], b"abc"),
        ([1, 3], b"ab"),  # behind the data
        ([-1, 2], b"ab"),
        ([1], b"ab"),  # bytes that are of no symbol
        ([1, 2**40], b"ab"),
    ],
)
@pytest.mark.parametrize("order", [LITTLE, BIG])
def test_what_is_read_is_the_same(
    monkeypatch: pytest.MonkeyPatch, encoding: str, ends: list[int], data: bytes, order: str
) -> None:
    stored = table(ends, data, order)
    found = tried(decode_symbols, *stored, encoding, order, "here")
    monkeypatch.setattr(symbols, "plain_texts", lambda *_: None)
    assert found == tried(decode_symbols, *stored, encoding, order, "here")


def test_plain_bytes_are_not_copied() -> None:
    ends, data = table([1, 3], b"abc", LITTLE)
    assert decode_symbols(ends, data, "ISO_8859_1", LITTLE, "here").buffers()[2].address == data.address
    array = pa.array(["\xe9", "a", "bc"]).slice(1)
    encoded = encode_values(array, "US_ASCII", row_position)
    assert np.frombuffer(encoded[1], np.uint8).ctypes.data == array.buffers()[2].address + 2


@pytest.mark.parametrize("size", [2, 10])
def test_a_table_whose_ends_are_cut_is_an_error(size: int) -> None:
    with pytest.raises(CorruptFileError, match="truncated"):
        decode_symbols(pa.py_buffer(bytes(size)), pa.py_buffer(b""), "UTF_8", LITTLE, "here")
