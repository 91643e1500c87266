"""Bytes of each format, as the format reference prints them; these must never change."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven.store.format.column.charset import encode_blobs
from sparkhaven.store.format.column.codecs import encode_fixed
from sparkhaven.store.format.column.prefix import decode_prefix, encode_prefix
from sparkhaven.store.format.column.symbols import assign_numbers, encode_symbols
from sparkhaven.store.format.index.grouping import encode_ovr
from sparkhaven.store.format.index.tlmi import IndexEntry, decode_tlmi, encode_tlmi
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.tbl import column_sets, decode_tbl, encode_tbl
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.types.datatypes import BY_NAME
from sparkhaven.store.types.model import Column, Kind, Storage
from tests.support.tables.column_files import group_ranges, overflow_byte

HERE = Path(__file__).parent
INT = Column("Size", BY_NAME["int"], Kind.NORMAL, Storage.FIXED, 3)
SYMBOL = Column("Sym", BY_NAME["String"], Kind.GROUPING, Storage.SYMBOL, 2, "UTF_8")
GROUPS = group_ranges([None, "AAPL", "MSFT"], [1, 3, 2], SYMBOL.type)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_prefix_of_an_int_column() -> None:
    prefix = encode_prefix(INT)
    assert len(prefix) == 4096
    assert decode_prefix(prefix, "x").length == 436
    assert sha(prefix[:436]) == "b5eee1942738d504b6c6b6bb0b4cc6a4f94cff56d336453f80687432ecfb99ec"
    assert sha(prefix) == "a74da69bfe699ee10a76d95a50b617ee3d1244ed6e82374f08b4de70ffd973e8"
    assert (overflow_byte(INT), prefix[0x1A5]) == (0x1A5, 0)


def test_prefix_with_an_inline_grouping() -> None:
    prefix = encode_prefix(SYMBOL, grouping=GROUPS)
    length = decode_prefix(prefix, "x").length
    assert length == 599
    assert sha(prefix[:length]) == "5e19e4a879bd1aaef36b59b6c2a96f3a0b23bd46b02745d5b071757881c02a57"


def test_ovr() -> None:
    data = encode_ovr(GROUPS)
    assert len(data) == 241
    assert sha(data) == "080f4a0c9c41913eb61e22a025b0cfd62a4ed18607101b6fe875df41834593db"


def test_table_size() -> None:
    sizes = {"Note.bytes": 3, "Note.dat": 24, "Size.dat": 12, "Sym.dat": 12, "Sym.sym": 16, "Sym.sym.bytes": 8}
    record = table_size.TableSize(3, 1528385769565, sizes, {"trades-0": "41877"}, epoch=17, stream="trades")
    data = table_size.encode(record)
    assert len(data) == 654
    assert sha(data) == "e53d3279ede7cdb8a35a7c112e192333fddcfaaaa31a2fdc1d424602f607b781"
    assert table_size.decode(data, "x") == record


def test_column_sets_of_a_tbl() -> None:
    assert len(column_sets()) == 1750
    assert sha(column_sets()) == "f9f1e3e49f8db54644c878e405915b887c775ce6610c161637f83cb3f8abe9d7"


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("nested-partitioned", "b9a1632d47d876a58640fcf4d91792a23f6f2a7fbf312a886e1e3af01ed20ccd"),
        ("splayed", "e109fec0519c9eadd1c42f55175e76b7397c3bf2a33ffd045e4295dd782b36d0"),
        ("ten-columns", "1ebe384fd7a332bc832238a4c47d1eacc0e00506dbe2348ac524eb1b66ba7380"),
    ],
)
def test_tbl_read_and_written_again(name: str, digest: str) -> None:
    golden = (HERE / f"{name}.tbl").read_bytes()
    assert sha(golden) == digest
    definition = decode_tbl(golden, name)
    assert encode_tbl(definition) == golden
    assert encode_tbl(definition.schema(), storage_type=definition.storage_type) == golden


def test_int_entries() -> None:
    assert bytes(encode_fixed(pa.array([7, None, 9], pa.int32()), BY_NAME["int"])).hex() == "070000000000008009000000"


def test_instant_entry() -> None:
    array = pa.array([1_501_853_400_000_000_001], pa.timestamp("ns", "UTC"))
    assert bytes(encode_fixed(array, BY_NAME["Instant"])).hex() == "0170b6cbb5a7d714"


def test_symbol_files() -> None:
    numbers, new = assign_numbers(pa.array(["AAPL", None, "MSFT", ""]), {"AAPL": 0, "": 1, "MSFT": 2})
    assert (bytes(numbers).hex(), new) == ("00000000000000800200000001000000", [])
    ends, data = encode_symbols(["AAPL", "", "MSFT"], "UTF_8", 0)
    assert bytes(ends).hex() == "040000000000000005000000000000000900000000000000"
    assert bytes(data) == b"AAPL\0MSFT"


def test_blob_files() -> None:
    ends, data = encode_blobs(pa.array(["hi", None, "", "é"]), "UTF_8", 0)
    assert bytes(ends).hex() == "0200000000000000020000000000000003000000000000000500000000000000"
    assert bytes(data).hex() == "686900c3a9"


INDEX = [IndexEntry(LocationKey("0", "2017-08-04"), 11132, 0x163DAE4105D)]
V2 = (
    "DB2BB2DB 00000002 00000001 0001 30 000A 323031372D30382D3034 0009 44454550484156454E"
    " 0000000000002B7C 00000163DAE4105D"
)
V1 = "DB2BB2DB 00000001 00000001 0001 30 000A 323031372D30382D3034 0000000000002B7C 00000163DAE4105D"


def test_tlmi() -> None:
    assert encode_tlmi(INDEX) == bytes.fromhex(V2)
    assert decode_tlmi(bytes.fromhex(V2), "x") == INDEX
    assert decode_tlmi(bytes.fromhex(V1), "x") == INDEX


def test_tlmi_of_version_1_with_the_format_text() -> None:
    mixed = bytes.fromhex(V2.replace("DB2BB2DB 00000002", "DB2BB2DB 00000001"))
    assert decode_tlmi(mixed, "x") == INDEX
