"""Opening a column: its prefix, its lengths, and a grouping kept inline, in an overflow file, or nowhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparkhaven.store.errors import (
    CorruptFileError,
    FormatError,
    SchemaMismatchError,
    SparkhavenError,
    UnsupportedVersionError,
)
from sparkhaven.store.format.column.prefix import decode_prefix, encode_prefix, prefix_with_grouping
from sparkhaven.store.format.index.grouping import encode_ovr
from sparkhaven.store.format.java.java_values import JInt, JLong
from sparkhaven.store.format.java.object_writer import dumps
from sparkhaven.store.scan.column_file import read_column, read_grouping
from sparkhaven.store.types.model import Column, Storage
from tests.support.tables.column_cases import FS, NOTE, SIZE, SYM, refused, write
from tests.support.tables.column_files import add_grouping, create_column, group_ranges, overflow_byte

HEAD = {
    "version": JInt(1),
    "byteOrder": "LITTLE_ENDIAN",
    "dataOffset": JLong(4096),
    "dataType": "int",
    "width": JInt(4),
    "columnId": JInt(3),
    "overflow": False,
    "metadata": None,
}


def put_prefix(directory: Path, entries: dict[str, Any]) -> dict[str, int]:
    FS.write_new(directory / "Size.dat", dumps(entries).ljust(4096, b"\0") + np.arange(3, dtype="<i4").tobytes())
    return {"Size.dat": 12}


@pytest.mark.slow
@pytest.mark.parametrize("column", [SIZE, SYM, NOTE])
def test_no_bit_of_a_prefix_can_flip_unseen(tmp_path: Path, column: Column) -> None:
    sizes = write(tmp_path, column, [1, 2] if column is SIZE else ["a", "b"])
    path = tmp_path / f"{column.name}.dat"
    whole = path.read_bytes()
    length = decode_prefix(whole[:4096], path).length
    flag = overflow_byte(column)  # whether there is an .ovr file: says nothing about the rows
    for at in [*range(length), *range(length, 4096, 97), 4095]:
        for bit in range(8) if at % 16 == 0 else [1 + at % 7]:
            if (at, bit) == (flag, 0):
                continue
            bad = bytearray(whole)
            bad[at] ^= 1 << bit
            path.write_bytes(bad)
            with pytest.raises((FormatError, SchemaMismatchError)) as caught:
                read_column(FS, tmp_path, column, sizes, 2)
                pytest.fail(f"byte {at}, bit {bit} was not noticed")
            assert str(path) in str(caught.value)


def test_prefix_without_id_is_matched_by_name(tmp_path: Path) -> None:
    sizes = put_prefix(tmp_path, {key: value for key, value in HEAD.items() if key != "columnId"})
    assert read_column(FS, tmp_path, SIZE, sizes, 3).to_pylist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"version": JInt(2)}, UnsupportedVersionError, "prefix has an unknown version"),
        ({"version": None}, CorruptFileError, "prefix key 'version' is missing or of another type"),
        ({"version": JLong(1)}, CorruptFileError, "prefix key 'version' is missing or of another type"),
        ({"byteOrder": "MIDDLE"}, CorruptFileError, "unknown byte order"),
        ({"dataOffset": JLong(4097)}, CorruptFileError, "invalid data offset"),
        ({"dataOffset": JLong(0)}, CorruptFileError, "invalid data offset"),
        ({"dataOffset": JLong((64 << 20) + 4096)}, CorruptFileError, "invalid data offset"),
        ({"dataOffset": JLong(8192)}, CorruptFileError, "file is shorter than its committed length"),
        ({"dataType": JInt(4)}, CorruptFileError, "prefix key 'dataType' is missing or of another type"),
        ({"width": JInt(8)}, SchemaMismatchError, "type, width and charset of the prefix contradict each other"),
        ({"encoding": "UTF_8"}, SchemaMismatchError, "type, width and charset of the prefix contradict each other"),
        ({"dataType": "float"}, SchemaMismatchError, "column Size is declared one way and stored another"),
        ({"overflow": None}, CorruptFileError, "prefix key 'overflow' is missing or of another type"),
        ({"metadata": "x"}, CorruptFileError, "prefix key 'metadata' is missing or of another type"),
    ],
)
def test_prefix_that_is_wrong(tmp_path: Path, change: dict[str, Any], error: type[SparkhavenError], words: str) -> None:
    sizes = put_prefix(tmp_path, HEAD | change)
    found = refused(error, tmp_path, SIZE, sizes, 3)
    assert found.what == words
    assert str(tmp_path / "Size.dat") in found.where


def test_prefix_of_another_writer(tmp_path: Path) -> None:
    sizes = put_prefix(tmp_path, {"magic": "other"})
    error = refused(UnsupportedVersionError, tmp_path, SIZE, sizes, 3)
    assert (error.what, error.found) == ("prefix was written by another program", "java.util.LinkedHashMap")
    foreign = b"\xac\xed\x00\x05\x73\x72\x00\x09com.Other" + bytes(8) + b"\x02\x00\x00\x78\x70"
    FS.write_at(tmp_path / "Size.dat", 0, foreign)
    error = refused(UnsupportedVersionError, tmp_path, SIZE, sizes, 3)
    assert (error.what, error.found) == ("prefix was written by another program", "com.Other")


def test_no_stream_at_all(tmp_path: Path) -> None:
    FS.write_new(tmp_path / "Size.dat", bytes(5000))
    error = refused(CorruptFileError, tmp_path, SIZE, {"Size.dat": 12}, 3)
    assert error.what == "file does not start with a Java stream header"
    assert (error.where, error.expected, error.found) == (f"{tmp_path}/Size.dat, byte 0", "ac ed 00 05", "00 00 00 00")


def test_declared_width_charset_or_storage_differs(tmp_path: Path) -> None:
    sizes = write(tmp_path, NOTE, ["a"])
    error = refused(SchemaMismatchError, tmp_path, replace(NOTE, encoding="US_ASCII"), sizes, 1)
    assert error.found == "type java.lang.String, width 8, encoding UTF_8"
    sizes |= {"Note.sym": 0, "Note.sym.bytes": 0}
    error = refused(SchemaMismatchError, tmp_path, replace(NOTE, storage=Storage.SYMBOL), sizes, 1)
    assert error.expected == "type java.lang.String, width 4, encoding UTF_8"


# --- grouping ----------------------------------------------------------------------------------------------


def test_a_grouping_in_an_overflow_file(tmp_path: Path) -> None:
    write(tmp_path, SYM, ["a", "b", "b"])
    ranges = group_ranges(["a", "b"], [1, 2], SYM.type)
    assert read_grouping(FS, tmp_path, SYM, 3) is None
    add_grouping(FS, tmp_path, SYM, ranges)
    found = read_grouping(FS, tmp_path, SYM, 3)
    assert found is not None
    assert (found.keys, found.starts.tolist(), found.stops.tolist()) == (("a", "b"), [0, 1], [1, 3])
    FS.write_at(tmp_path / "Sym.dat", 0, encode_prefix(SYM))
    assert read_grouping(FS, tmp_path, SYM, 3) is None  # an .ovr without the flag is ignored


def test_large_grouping_goes_to_an_overflow_file(tmp_path: Path) -> None:
    small = group_ranges(range(10), [1] * 10, SIZE.type)
    large = group_ranges(range(500), [3] * 500, SIZE.type)
    prefix, ovr = prefix_with_grouping(SIZE, small)
    assert (len(prefix), ovr) == (4096, None)
    prefix, ovr = prefix_with_grouping(SIZE, large)
    assert ovr == encode_ovr(large)
    FS.write_new(tmp_path / "Size.dat", prefix)
    with pytest.raises(CorruptFileError, match="a committed file is missing"):
        read_grouping(FS, tmp_path, SIZE, 1500)
    FS.write_new(tmp_path / "Size.ovr", ovr)
    found = read_grouping(FS, tmp_path, SIZE, 1500)
    assert found is not None
    assert found.keys == tuple(range(500))
    with pytest.raises(CorruptFileError, match="do not cover the location"):
        read_grouping(FS, tmp_path, SIZE, 1501)
    FS.write_new(tmp_path / "Size.ovr", ovr + b"\0")
    with pytest.raises(CorruptFileError, match="bytes after the end of the Java stream"):
        read_grouping(FS, tmp_path, SIZE, 1500)
    with pytest.raises(SchemaMismatchError, match="does not fit the prefix"):
        encode_prefix(SIZE, grouping=large)


def test_bad_inline_grouping_does_not_stop_plain_reads(tmp_path: Path) -> None:
    create_column(FS, tmp_path, SIZE, grouping=group_ranges([5, 6], [1, 1], SIZE.type))
    FS.write_at(tmp_path / "Size.dat", 4096, np.array([5, 6, 6], "<i4").tobytes())
    assert read_column(FS, tmp_path, SIZE, {"Size.dat": 12}, 3).to_pylist() == [5, 6, 6]
    with pytest.raises(FormatError, match="do not cover the location"):
        read_grouping(FS, tmp_path, SIZE, 3)


def test_a_long_foreign_prefix_is_read_whole(tmp_path: Path) -> None:
    entries = HEAD | {"dataOffset": JLong(8192), "comment": "x" * 5000}
    FS.write_new(tmp_path / "Size.dat", dumps(entries).ljust(8192, b"\0") + np.arange(3, dtype="<i4").tobytes())
    assert read_column(FS, tmp_path, SIZE, {"Size.dat": 12}, 3).to_pylist() == [0, 1, 2]
