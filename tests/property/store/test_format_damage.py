"""Cut and flipped files of each kind: read as something, or refused with an error of the format. Nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparkhaven.store.errors import CorruptFileError, FormatError, SchemaMismatchError
from sparkhaven.store.format.column.codecs import Base, encode_column
from sparkhaven.store.format.column.prefix import decode_prefix, encode_prefix
from sparkhaven.store.format.index.grouping import decode_ovr, encode_ovr
from sparkhaven.store.format.index.tlmi import IndexEntry, decode_tlmi, encode_tlmi
from sparkhaven.store.format.java.object_reader import Reader
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.tbl import decode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.scan.column_file import read_column, read_grouping
from sparkhaven.store.types.datatypes import BY_NAME
from sparkhaven.store.types.model import Column, Kind, Storage
from tests.support.places import GOLDEN
from tests.support.tables.column_files import create_column, group_ranges

FS = Fs()
TEXT = BY_NAME["String"]
SYMBOL = Column("C", TEXT, Kind.GROUPING, Storage.SYMBOL, 2, "UTF_8")
GROUPS = group_ranges([None, "AAPL", "MSFT"], [1, 3, 2], TEXT)
SIZES = {"Note.bytes": 3, "Note.dat": 24, "Sym.dat": 12}
RECORD = table_size.TableSize(3, 5, SIZES, {"a": "b"}, epoch=17, stream="s", schema_version=2, checksums=SIZES)
INDEX = [IndexEntry(LocationKey(str(n), "2017-08-04"), 7, 5) for n in range(3)]

KINDS: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "prefix": (encode_prefix(SYMBOL)[:480], lambda data: decode_prefix(data, "C.dat")),
    "grouped prefix": (
        encode_prefix(SYMBOL, grouping=GROUPS)[:599],
        lambda data: decode_prefix(data, "C.dat").grouping(SYMBOL, "C.dat"),
    ),
    "ovr": (encode_ovr(GROUPS), lambda data: decode_ovr(data, TEXT, "C.ovr").check(6, "C.ovr")),
    "table.size": (table_size.encode(RECORD), lambda data: table_size.decode(data, "table.size")),
    "tbl": ((GOLDEN / "splayed.tbl").read_bytes(), lambda data: decode_tbl(data, "table.tbl")),
    "ten-column tbl": ((GOLDEN / "ten-columns.tbl").read_bytes(), lambda data: decode_tbl(data, "table.tbl").schema()),
    "tlmi": (encode_tlmi(INDEX), lambda data: decode_tlmi(data, "T.tlmi")),
}
NAMES = list(KINDS)
# two parts of one file that contradict each other are a mismatch, not damage
EXPECTED = (FormatError, SchemaMismatchError)


def survives(name: str, data: bytes) -> bool:
    """Whether damaged bytes are read; an error of another kind goes through."""
    try:
        KINDS[name][1](data)
    except EXPECTED as error:
        assert str(error)
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_shorter_file_is_refused(name: str) -> None:
    whole, _ = KINDS[name]
    needed = 436 if name == "prefix" else len(whole)
    lengths = range(needed) if needed < 1000 else [*range(64), *range(64, needed, 17)]
    read = [length for length in lengths if survives(name, whole[:length])]
    assert read == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_byte_flipped(name: str) -> None:
    whole, _ = KINDS[name]
    assert survives(name, whole)
    chance = random.Random(name)
    refused = 0
    for at in range(0, len(whole), 1 if len(whole) < 1000 else 5):
        bad = bytearray(whole)
        bad[at] ^= 1 << chance.randrange(8)
        refused += not survives(name, bytes(bad))
    assert refused, "no flip was noticed at all"


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.sampled_from(NAMES), st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), min_size=1, max_size=6))
def test_several_bytes_overwritten(name: str, writes: list[tuple[int, int]]) -> None:
    bad = bytearray(KINDS[name][0])
    for at, value in writes:
        bad[at % len(bad)] = value
    survives(name, bytes(bad))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(NAMES), st.integers(0, 4000), st.integers(0, 4000), st.integers(0, 4000))
def test_a_piece_moved_elsewhere(name: str, source: int, target: int, length: int) -> None:
    whole = KINDS[name][0]
    piece = whole[source % len(whole) :][: length % 64]
    at = target % len(whole)
    survives(name, whole[:at] + piece + whole[at:])
    survives(name, whole[:at] + piece + whole[at + len(piece) :])


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80))
@example(b"\x73\x71\x00\x7e\x00\x00")
@example(b"\x75\x72\x00\x02[J" + b"\x78\x20\x04\xb5\x12\xb1\x75\x93\x02\x00\x00\x78\x70\x7f\xff\xff\xff")
@example(b"\x7c\x7f\xff\xff\xff\xff\xff\xff\xff")
@example(b"\x7a\xff\xff\xff\xff")
def test_random_bytes_behind_the_header(data: bytes) -> None:
    for header in (b"\xac\xed\x00\x05", b"\x77\x01\xfe"):
        for name in NAMES:
            survives(name, header + data)


@pytest.mark.parametrize(
    "deep",
    [
        b"\x72\x00\x01A" + bytes(8) + b"\x02\x00\x00\x78",  # superclass of superclass
        b"\x75\x72\x00\x02[[" + bytes(8) + b"\x02\x00\x00\x78\x70\x00\x00\x00\x01",  # array in array
        b"\x72\x00\x01A" + bytes(8) + b"\x02\x00\x01L\x00\x01a\x76",  # class as a field's signature
    ],
)
def test_nesting_without_end_is_refused(deep: bytes) -> None:
    data = b"\x73" + deep * 100_000 if deep[0] == 0x72 else deep * 100_000
    with pytest.raises(FormatError):
        Reader(data, "x", accepts=lambda descriptor: True).value()


def test_a_long_chain_of_superclasses_by_reference_is_refused() -> None:
    one = b"\x72\x00\x01A" + bytes(8) + b"\x02\x00\x00\x78"
    chain = b"\x76" + one + b"\x70"
    for level in range(200):
        chain += b"\x76" + one + b"\x71" + (0x7E0000 + 2 * level).to_bytes(4, "big")
    with pytest.raises(CorruptFileError, match="too many superclasses"):
        Reader(chain, "x").items()


@pytest.mark.parametrize("storage", [Storage.SYMBOL, Storage.BLOB])
@pytest.mark.parametrize("encoding", ["UTF_8", "US_ASCII", "UTF_16", "UTF_16LE"])
def test_damaged_text_columns(storage: Storage, encoding: str, tmp_path: Path) -> None:
    column = Column("C", TEXT, Kind.GROUPING, storage, 2, encoding)
    values = ["AAPL", None, "", "MSFT", "x" if encoding == "US_ASCII" else "é\U0001f600", "AAPL"]
    create_column(FS, tmp_path, column)
    made = encode_column(column, pa.array(values), Base())
    sizes = {name: len(data) for name, data in made.parts.items()}
    whole = {name: bytes(data) for name, data in made.parts.items()}
    chance = random.Random(encoding)
    outcomes = set()
    for name, data in whole.items():
        offset = 4096 if name.endswith(".dat") else 0
        for other, content in whole.items():
            FS.write_at(tmp_path / other, 4096 if other.endswith(".dat") else 0, content)
        for at in range(len(data)):
            for bad in (data[at] ^ (1 << chance.randrange(8)), 0x80, 0xFF):
                FS.write_at(tmp_path / name, offset + at, bytes((bad,)))
                try:
                    found = read_column(FS, tmp_path, column, sizes, len(values))
                    found.validate(full=True)
                    assert len(found.to_pylist()) == len(values)
                    outcomes.add("read")
                except CorruptFileError as error:
                    assert str(tmp_path) in str(error)
                    outcomes.add(error.what)
            FS.write_at(tmp_path / name, offset + at, data[at : at + 1])
        FS.truncate(tmp_path / name, offset + len(data) - 1)
        with pytest.raises(CorruptFileError, match="shorter than its committed length"):
            read_column(FS, tmp_path, column, sizes, len(values))
    assert {"read", "end of a value is negative, before its predecessor or beyond the committed bytes"} <= outcomes
    assert encoding == "UTF_16LE" or "bytes are not text in the column's charset" in outcomes
    assert storage is Storage.BLOB or "row has a symbol that is not in the table" in outcomes


def test_damaged_overflow_file(tmp_path: Path) -> None:
    column = Column("C", BY_NAME["int"], Kind.GROUPING, Storage.FIXED, 2)
    ranges = group_ranges([None, 1, 5], [1, 1, 4], column.type)
    FS.write_new(tmp_path / "C.dat", encode_prefix(column, overflow=True))
    data = encode_ovr(ranges)
    for at in range(len(data)):
        FS.write_new(tmp_path / "C.ovr", data[:at] + bytes((data[at] ^ 0x10,)) + data[at + 1 :])
        try:
            assert np.all(read_grouping(FS, tmp_path, column, 6).stops == ranges.stops)  # type: ignore[union-attr]
        except FormatError as error:
            assert "C.ovr" in str(error)
