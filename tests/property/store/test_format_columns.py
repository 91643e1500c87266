"""Column files against a decoding that uses numpy alone: every type, every storage, both byte orders."""

from __future__ import annotations

import math
import struct
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.format.column.codecs import Base, encode_column
from sparkhaven.store.format.column.symbols import encode_symbols
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.column_file import open_column, read_column
from sparkhaven.store.types.datatypes import BY_NAME
from sparkhaven.store.types.model import CHARSETS, Column, Kind, Storage
from tests.support.tables.big_endian import big_endian
from tests.support.tables.column_files import create_column

FS = Fs()
QUICK = settings(max_examples=40, deadline=None)

# name: (numpy entry, null, values)
FIXED: dict[str, tuple[str, Any, st.SearchStrategy[Any]]] = {
    "Boolean": ("i1", -1, st.booleans()),
    "byte": ("i1", -128, st.integers(-127, 127)),
    "char": ("u2", 0xFFFF, st.integers(0, 0xFFFE)),
    "short": ("i2", -(2**15), st.integers(-(2**15) + 1, 2**15 - 1)),
    "int": ("i4", -(2**31), st.integers(-(2**31) + 1, 2**31 - 1)),
    "long": ("i8", -(2**63), st.integers(-(2**63) + 1, 2**63 - 1)),
    "float": (
        "f4",
        np.finfo(np.float32).min,
        st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, 3.4028234663852886e38]) | st.floats(width=32),
    ),
    "double": (
        "f8",
        np.finfo(np.float64).min,
        st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, 1.7976931348623157e308]) | st.floats(),
    ),
    "Instant": ("i8", -(2**63), st.integers(-(2**63) + 1, 2**63 - 1)),
}
CODECS = {
    "ISO_8859_1": "latin-1",
    "UTF_8": "utf-8",
    "US_ASCII": "ascii",
    "UTF_16": "utf-16",
    "UTF_16BE": "utf-16-be",
    "UTF_16LE": "utf-16-le",
}
LIMITS = {"ISO_8859_1": 0xFF, "US_ASCII": 0x7F}
NASTY = ["", "a", "AAPL", "\x7f", "é", "ÿþ", "日本", "\U0001f600", "x\U0001f600\U0010ffffy", "\ufeff", "\ufffez", "a\0"]


def texts(encoding: str) -> st.SearchStrategy[str]:
    limit = LIMITS.get(encoding, 0x10FFFF)
    nasty = [text for text in NASTY if all(ord(c) <= limit for c in text)]
    alphabet = st.characters(max_codepoint=limit, exclude_categories=["Cs"])
    return (st.sampled_from(nasty) | st.text(alphabet, max_size=12)).filter(lambda text: text != "\0")


def chunks(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[list[Any]]]:
    return st.lists(st.lists(st.none() | values, max_size=12), min_size=1, max_size=3)


def write(directory: Path, column: Column, parts: list[pa.Array]) -> tuple[dict[str, int], int]:
    """Appends the chunks one after the other; returns committed bytes and rows."""
    create_column(FS, directory, column)
    sizes = dict.fromkeys(column.files, 0)
    rows, symbols = 0, dict[str, int]()
    for part in parts:
        made = encode_column(column, part, Base(rows, sizes, symbols))
        for name, data in made.parts.items():
            FS.write_at(directory / name, sizes[name] + (4096 if name.endswith(".dat") else 0), data)
            sizes[name] += len(data)
        symbols |= {text: len(symbols) + index for index, text in enumerate(made.symbols)}
        rows += len(part)
    return sizes, rows


def naive_fixed(data: bytes, entry: str, null: Any) -> list[Any]:
    values = np.frombuffer(data, "<" + entry)
    return [None if value == values.dtype.type(null) else value for value in values]


def naive_texts(ends: bytes, data: bytes, encoding: str) -> list[str | None]:
    found: list[str | None] = []
    last = 0
    for end in np.frombuffer(ends, "<i8").tolist():
        raw, last = data[last:end], end
        found.append(None if not raw else "" if raw == b"\0" else raw.decode(CODECS[encoding]))
    return found


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and one is not None and other is not None:
        return struct.pack("<d", one) == struct.pack("<d", other) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


def check(column: Column, values: list[list[Any]], arrow: Callable[[list[Any]], pa.Array], naive: Any) -> None:
    expected = [value for part in values for value in part]
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        sizes, rows = write(directory, column, [arrow(part) for part in values])
        found = naive(directory)
        assert len(found) == len(expected)
        assert all(same(one, other) for one, other in zip(found, expected, strict=True)), (found, expected)
        for _ in range(2):
            back = read_column(FS, directory, column, sizes, rows)
            assert (
                back.equals(arrow(expected)) or back.cast(column.type.arrow).to_pylist() == arrow(expected).to_pylist()
            )
            back.validate(full=True)
            middle = open_column(FS, directory, column, sizes, rows).read(rows // 3, rows - rows // 4)
            assert middle.to_pylist() == back.slice(rows // 3, rows - rows // 4 - rows // 3).to_pylist()
            big_endian(directory, column, laterKey="is ignored")


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FIXED))
def test_entries_of_fixed_width(name: str) -> None:
    entry, null, values = FIXED[name]
    column = Column("C", BY_NAME[name], Kind.NORMAL, Storage.FIXED, 5)

    def naive(directory: Path) -> list[Any]:
        found = naive_fixed((directory / "C.dat").read_bytes()[4096:], entry, null)
        return [None if value is None else value.item() for value in found]

    def arrow(part: list[Any]) -> pa.Array:
        return (
            pa.array(part, pa.int64()).cast(column.type.arrow)
            if name == "Instant"
            else pa.array(part, column.type.arrow)
        )

    @QUICK
    @given(chunks(values.filter(lambda value: value != null or name == "Boolean")))
    def run(parts: list[list[Any]]) -> None:
        check_fixed(column, parts, arrow, naive)

    run()


def check_fixed(column: Column, parts: list[list[Any]], arrow: Callable[[list[Any]], pa.Array], naive: Any) -> None:
    expected = arrow([value for part in parts for value in part])
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        sizes, rows = write(directory, column, [arrow(part) for part in parts])
        found = naive(directory)
        plain = expected.cast(pa.int64()).to_pylist() if column.type.name == "Instant" else expected.to_pylist()
        assert len(found) == len(plain)
        assert all(same(one, other) for one, other in zip(found, plain, strict=True)), (found, plain)
        for _ in range(2):
            assert bits(read_column(FS, directory, column, sizes, rows)) == bits(expected)
            start, stop = rows // 3, rows - rows // 4
            part = open_column(FS, directory, column, sizes, rows).read(start, stop)
            part.validate(full=True)
            assert bits(part) == bits(expected.slice(start, stop - start))
            big_endian(directory, column, laterKey="is ignored")


def bits(array: pa.Array) -> list[Any]:
    """Values with floats as their bits, so that NaN is equal to itself and -0.0 is not 0.0."""
    kinds = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}
    kind = kinds.get(array.type, pa.int64() if pa.types.is_timestamp(array.type) else array.type)
    return list(array.view(kind).to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("encoding", CHARSETS)
@pytest.mark.parametrize("storage", [Storage.SYMBOL, Storage.BLOB])
def test_texts(encoding: str, storage: Storage) -> None:
    column = Column("S", BY_NAME["String"], Kind.NORMAL, storage, 1, encoding)

    def naive(directory: Path) -> list[str | None]:
        dat = (directory / "S.dat").read_bytes()[4096:]
        if storage is Storage.BLOB:
            return naive_texts(dat, (directory / "S.bytes").read_bytes(), encoding)
        ends, data = (directory / "S.sym").read_bytes(), (directory / "S.sym.bytes").read_bytes()
        table = naive_texts(ends, data, encoding)
        assert len(set(table)) == len(table), "one number per text"
        return [None if number == -(2**31) else table[number] for number in np.frombuffer(dat, "<i4")]

    @QUICK
    @given(chunks(texts(encoding)))
    def run(parts: list[list[str | None]]) -> None:
        check(column, parts, lambda part: pa.array(part, pa.string()), naive)

    run()


@pytest.mark.parametrize("name", [name for name in FIXED if name != "Boolean"])
def test_null_sentinels_are_refused(name: str) -> None:
    type_, (_, null, values) = BY_NAME[name], FIXED[name]
    column = Column("C", type_, Kind.NORMAL, Storage.FIXED, 5)

    @settings(max_examples=15, deadline=None)
    @given(st.lists(st.none() | values.filter(lambda value: value != null), max_size=5))
    def run(before: list[Any]) -> None:
        plain = [*before, null, None]
        array = pa.array(plain, pa.int64()).cast(type_.arrow) if name == "Instant" else pa.array(plain, type_.arrow)
        with pytest.raises(SchemaMismatchError, match="equals the null value") as caught:
            encode_column(column, array, Base(rows=100))
        assert caught.value.where == f"column C, row {100 + len(before)}"
        made = encode_column(column, array, Base(), allow_null_alias=True)
        stored = encode_column(column, array.slice(len(before) + 1), Base())
        tail = bytes(made.parts["C.dat"])[len(before) * type_.width :]
        assert tail == bytes(stored.parts["C.dat"]) * 2

    run()


@pytest.mark.parametrize("storage", [Storage.SYMBOL, Storage.BLOB])
@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("US_ASCII", "é"),
        ("US_ASCII", "\0"),
        ("ISO_8859_1", "Ā"),
        ("ISO_8859_1", "a\U0001f600"),
        ("ISO_8859_1", "\0"),
        ("UTF_8", "\0"),
    ],
)
def test_text_that_a_charset_cannot_hold_is_refused(encoding: str, text: str, storage: Storage) -> None:
    column = Column("S", BY_NAME["String"], Kind.NORMAL, storage, 1, encoding)
    array = pa.array(["ok", None, text, "", text], pa.string()).slice(1)
    for form in (array, array.dictionary_encode()):
        with pytest.raises(SchemaMismatchError, match="cannot be stored in the column's charset") as caught:
            encode_column(column, form, Base(rows=7))
        assert caught.value.where == ("column S, row 8" if storage is Storage.BLOB else "column S, symbol 0")


def test_a_null_that_covers_bytes_stores_none() -> None:
    data, offsets = pa.py_buffer(b"abcXYZd"), pa.py_buffer(np.array([0, 3, 6, 7], np.int32))
    array = pa.StringArray.from_buffers(3, offsets, data, pa.py_buffer(bytes([0b101])), 1)
    column = Column("S", BY_NAME["String"], Kind.NORMAL, Storage.BLOB, 1, "UTF_8")
    made = encode_column(column, array, Base())
    assert bytes(made.parts["S.bytes"]) == b"abcd"
    assert np.frombuffer(made.parts["S.dat"], "<i8").tolist() == [3, 3, 4]


def test_symbols_given_as_a_dictionary_are_numbered_by_first_appearance() -> None:
    column = Column("S", BY_NAME["String"], Kind.NORMAL, Storage.SYMBOL, 1, "UTF_8")
    indices = pa.array([2, None, 0, 2, 3], pa.int32())
    array = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "unused", "c", None]))
    made = encode_column(column, array, Base(symbols={"a": 0}))
    assert made.symbols == ["c"]
    assert np.frombuffer(made.parts["S.dat"], "<i4").tolist() == [1, -(2**31), 0, 1, -(2**31)]


def test_other_writers_symbols_may_repeat_and_be_null() -> None:
    column = Column("S", BY_NAME["String"], Kind.NORMAL, Storage.SYMBOL, 1, "UTF_8")
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        create_column(FS, directory, column)
        FS.write_at(directory / "S.dat", 4096, np.array([0, 1, 2, -(2**31), 2], "<i4").tobytes())
        FS.write_at(directory / "S.sym", 0, np.array([1, 1, 2], "<i8").tobytes())
        FS.write_at(directory / "S.sym.bytes", 0, b"aa")
        sizes = {"S.dat": 20, "S.sym": 24, "S.sym.bytes": 2}
        assert read_column(FS, directory, column, sizes, 5).to_pylist() == ["a", None, "a", None, "a"]


def test_old_null_char() -> None:
    column = Column("C", BY_NAME["char"], Kind.NORMAL, Storage.FIXED, 0)
    with tempfile.TemporaryDirectory() as made:
        sizes, rows = write(Path(made), column, [pa.array([1, None, 0xFFFE], pa.uint16())])
        assert read_column(FS, Path(made), column, sizes, rows).to_pylist() == [1, None, 0xFFFE]
        old = open_column(FS, Path(made), column, sizes, rows, null_char=0xFFFE).read(0, rows)
        assert old.to_pylist() == [1, 0xFFFF, None]


def test_values_are_not_copied_from_the_mapping() -> None:
    column = Column("C", BY_NAME["long"], Kind.NORMAL, Storage.FIXED, 0)
    with tempfile.TemporaryDirectory() as made:
        sizes, rows = write(Path(made), column, [pa.array(range(1 << 16), pa.int64())])
        opened = open_column(FS, Path(made), column, sizes, rows)
        before = pa.total_allocated_bytes()
        first, second = opened.read(has_nulls=False), opened.read(10, has_nulls=False)
        assert pa.total_allocated_bytes() <= before
        assert second.buffers()[1].address == first.buffers()[1].address + 80
        assert first.buffers()[1].address % 4096 == 0


def test_a_boolean_other_than_the_three_is_true() -> None:
    column = Column("B", BY_NAME["Boolean"], Kind.NORMAL, Storage.FIXED, 0)
    with tempfile.TemporaryDirectory() as made:
        sizes, rows = write(Path(made), replace(column), [pa.array([True] * 4)])
        FS.write_at(Path(made) / "B.dat", 4096, b"\x00\x02\xff\x80")
        assert read_column(FS, Path(made), column, sizes, rows).to_pylist() == [False, True, None, True]


def test_a_lone_surrogate_is_no_symbol() -> None:
    with pytest.raises(SchemaMismatchError, match="lone surrogate") as caught:
        encode_symbols(["ok", "bad\ud800"], "UTF_8", 0)
    assert caught.value.where == "symbol 1"
