"""Opening a column: its prefix, its lengths, and a grouping kept inline, in an overflow file, or nowhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sparkhaven.store.errors import (
    CorruptFileError,
    FormatError,
    SchemaMismatchError,
)
from sparkhaven.store.format.column.prefix import decode_prefix, encode_prefix, prefix_with_grouping
from sparkhaven.store.format.index.grouping import encode_ovr
from sparkhaven.store.format.java.java_values import JLong
from sparkhaven.store.format.java.object_writer import dumps
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.column_file import read_column, read_grouping
from sparkhaven.store.types.model import Column
from tests.support.tables.column_cases import FS, NOTE, SIZE, SYM, write
from tests.support.tables.column_files import add_grouping, create_column, group_ranges, overflow_byte
from tests.support.tables.rejected_columns import PREFIX, prefix_of


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


@pytest.mark.parametrize("column", [SIZE, SYM, NOTE])
def test_prefixes_that_differ_in_their_ids_alone_have_their_own(column: Column) -> None:
    for number in (column.id, 1, 0x7FFF_FFFF, 2, column.id):
        prefix = decode_prefix(encode_prefix(replace(column, id=number)), "here")
        assert (prefix.column_id, prefix.data_type, prefix.width) == (number, column.type.java, column.width)


class CountingFs(Fs):
    """Counts what is read."""

    reads = 0

    def read_range(self, path: Path, offset: int, length: int) -> bytes:
        self.reads += 1
        return super().read_range(path, offset, length)


def test_a_small_column_is_read_with_its_prefix(tmp_path: Path) -> None:
    fs, sizes = CountingFs(), write(tmp_path, SIZE, [1, 2])
    assert read_column(fs, tmp_path, SIZE, sizes, 2).to_pylist() == [1, 2]
    assert fs.reads == 1  # below `map`, which copies what is small


def test_prefix_without_id_is_matched_by_name(tmp_path: Path) -> None:
    read = prefix_of({key: value for key, value in PREFIX.items() if key != "columnId"})
    assert read(tmp_path).to_pylist() == [0, 1, 2]


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
    entries = PREFIX | {"dataOffset": JLong(8192), "comment": "x" * 5000}
    FS.write_new(tmp_path / "Size.dat", dumps(entries).ljust(8192, b"\0") + np.arange(3, dtype="<i4").tobytes())
    assert read_column(FS, tmp_path, SIZE, {"Size.dat": 12}, 3).to_pylist() == [0, 1, 2]
