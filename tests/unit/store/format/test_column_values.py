"""Values of a column that reading refuses, types that are not stored, and what other writers store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sparkhaven.store.errors import CorruptFileError, SchemaMismatchError
from sparkhaven.store.format.column.codecs import Base, encode_column
from sparkhaven.store.format.column.symbols import encode_symbols
from sparkhaven.store.scan.column_file import column_header, open_column, read_column
from sparkhaven.store.types.datatypes import BY_NAME
from sparkhaven.store.types.model import Column, Kind, Storage
from sparkhaven.store.types.null_char import column_with_null
from tests.support.tables.column_cases import FS, NOTE, write
from tests.support.tables.column_files import append_column, create_column


def test_unset_charset_is_latin_1(tmp_path: Path) -> None:
    column = replace(NOTE, encoding=None)
    sizes = write(tmp_path, column, ["é"])
    assert (tmp_path / "Note.bytes").read_bytes() == b"\xe9"
    assert column_header(FS, tmp_path / "Note.dat").encoding == "ISO_8859_1"
    assert read_column(FS, tmp_path, column, sizes, 1).to_pylist() == ["é"]


def test_damage_is_named_by_its_row_in_the_location(tmp_path: Path) -> None:
    sizes = write(tmp_path, NOTE, ["hi", None, "é", "z"])
    FS.write_at(tmp_path / "Note.bytes", 2, b"x")
    opened = open_column(FS, tmp_path, NOTE, sizes, 4)
    assert opened.read(0, 2).to_pylist() == ["hi", None]
    with pytest.raises(CorruptFileError) as caught:
        opened.read(1)
    assert caught.value.where == f"{tmp_path}/Note.dat, row 2"


def test_an_end_beyond_the_committed_bytes_is_found_in_a_part(tmp_path: Path) -> None:
    sizes = write(tmp_path, NOTE, ["hi", "x", "é", "z"])
    FS.write_at(tmp_path / "Note.bytes", 6, b"never committed")
    FS.write_at(tmp_path / "Note.dat", 4096 + 8, b"\7")
    with pytest.raises(CorruptFileError) as caught:
        open_column(FS, tmp_path, NOTE, sizes, 4).read(0, 2)
    assert (caught.value.expected, caught.value.found) == ("2 to 6", "7")


def blobs(directory: Path, encoding: str, *values: bytes) -> list[str | None]:
    """Reads values whose bytes are given."""
    column = replace(NOTE, encoding=encoding)
    create_column(FS, directory, column)
    ends = np.cumsum([len(value) for value in values]).astype("<i8")
    FS.write_at(directory / "Note.dat", 4096, ends.tobytes())
    FS.write_at(directory / "Note.bytes", 0, b"".join(values))
    sizes = {"Note.dat": ends.nbytes, "Note.bytes": int(ends[-1])}
    return list(read_column(FS, directory, column, sizes, len(values)).to_pylist())


def test_utf_16_follows_its_mark_and_is_big_endian_without(tmp_path: Path) -> None:
    little = b"\xff\xfe" + "aé\U0001f600".encode("utf-16-le")
    big = b"\xfe\xff" + "aé\U0001f600".encode("utf-16-be")
    values = (little, b"\0", big, b"", "z日".encode("utf-16-be"), b"\xfe\xff")
    expected = ["aé\U0001f600", "", "aé\U0001f600", None, "z日", ""]
    assert blobs(tmp_path, "UTF_16", *values) == expected


@pytest.mark.parametrize("encoding", ["UTF_16", "UTF_16BE", "UTF_16LE"])
@pytest.mark.parametrize(
    ("units", "row", "found"),
    [
        (["\ud83d", "\ude00"], 0, "stray surrogate d83d"),  # a pair, but in two values
        (["ok", "a\ude00"], 1, "stray surrogate de00"),
        (["ok", "\ud83da"], 1, "stray surrogate"),
        (["ok", "\ud83d\ud83d\ude00"], 1, "stray surrogate"),
    ],
)
def test_stray_surrogates(tmp_path: Path, encoding: str, units: list[str], row: int, found: str) -> None:
    codec = "utf-16-le" if encoding.endswith("LE") else "utf-16-be"
    with pytest.raises(CorruptFileError, match="not text in the column's charset") as caught:
        blobs(tmp_path, encoding, *(text.encode(codec, "surrogatepass") for text in units))
    assert caught.value.where == f"{tmp_path}/Note.dat, row {row}"
    assert caught.value.found is not None
    assert caught.value.found.startswith(found)


def test_utf_16_of_an_odd_length(tmp_path: Path) -> None:
    with pytest.raises(CorruptFileError) as caught:
        blobs(tmp_path, "UTF_16BE", b"\0a", b"\0ab")
    assert (caught.value.where, caught.value.found) == (f"{tmp_path}/Note.dat, row 1", "an odd number of bytes")


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


def test_other_writers_symbols_may_repeat_and_be_null(tmp_path: Path) -> None:
    column = Column("S", BY_NAME["String"], Kind.NORMAL, Storage.SYMBOL, 1, "UTF_8")
    create_column(FS, tmp_path, column)
    FS.write_at(tmp_path / "S.dat", 4096, np.array([0, 1, 2, -(2**31), 2], "<i4").tobytes())
    FS.write_at(tmp_path / "S.sym", 0, np.array([1, 1, 2], "<i8").tobytes())
    FS.write_at(tmp_path / "S.sym.bytes", 0, b"aa")
    sizes = {"S.dat": 20, "S.sym": 24, "S.sym.bytes": 2}
    assert read_column(FS, tmp_path, column, sizes, 5).to_pylist() == ["a", None, "a", None, "a"]


def test_old_null_char(tmp_path: Path) -> None:
    column = Column("C", BY_NAME["char"], Kind.NORMAL, Storage.FIXED, 0)
    sizes, rows = append_column(FS, tmp_path, column, [pa.array([1, None, 0xFFFE], pa.uint16())])
    assert read_column(FS, tmp_path, column, sizes, rows).to_pylist() == [1, None, 0xFFFE]
    old = open_column(FS, tmp_path, column_with_null(column, 0xFFFE), sizes, rows).read(0, rows)
    assert old.to_pylist() == [1, 0xFFFF, None]


def test_values_are_not_copied_from_the_mapping(tmp_path: Path) -> None:
    column = Column("C", BY_NAME["long"], Kind.NORMAL, Storage.FIXED, 0)
    sizes, rows = append_column(FS, tmp_path, column, [pa.array(range(1 << 16), pa.int64())])
    opened = open_column(FS, tmp_path, column, sizes, rows)
    before = pa.total_allocated_bytes()
    first, second = opened.read(has_nulls=False), opened.read(10, has_nulls=False)
    assert pa.total_allocated_bytes() <= before
    assert second.buffers()[1].address == first.buffers()[1].address + 80
    assert first.buffers()[1].address % 4096 == 0


def test_a_boolean_other_than_the_three_is_true(tmp_path: Path) -> None:
    column = Column("B", BY_NAME["Boolean"], Kind.NORMAL, Storage.FIXED, 0)
    sizes, rows = append_column(FS, tmp_path, column, [pa.array([True] * 4)])
    FS.write_at(tmp_path / "B.dat", 4096, b"\x00\x02\xff\x80")
    assert read_column(FS, tmp_path, column, sizes, rows).to_pylist() == [False, True, None, True]


def test_a_lone_surrogate_is_no_symbol() -> None:
    with pytest.raises(SchemaMismatchError, match="lone surrogate") as caught:
        encode_symbols(["ok", "bad\ud800"], "UTF_8", 0)
    assert caught.value.where == "symbol 1"
