"""Java streams: what the reader takes, what it refuses and with which words; modified UTF-8."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkhaven.store.format.java.java_values import (
    JByte,
    JChar,
    JDouble,
    JFloat,
    JInt,
    JLong,
    JMap,
    JNumbers,
    JShort,
    OpaqueBytes,
)
from sparkhaven.store.format.java.object_reader import Reader, loads
from sparkhaven.store.format.java.object_writer import Writer, blocks, dumps, map_buckets, utf
from sparkhaven.store.types.codings import modified_utf8
from tests.support.tables.rejected_records import LONGS, nested


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", ""),
        ("AAPL", "4141504c"),
        ("\0", "c080"),
        ("é", "c3a9"),
        ("日", "e697a5"),
        ("\U0001f600", "eda0bdedb880"),
        ("\ud800x", "eda08078"),
    ],
)
def test_modified_utf8(text: str, data: str) -> None:
    assert modified_utf8.encode(text).hex() == data
    assert modified_utf8.decode(bytes.fromhex(data)) == text


@given(st.text())
def test_modified_utf8_round_trip(text: str) -> None:
    data = modified_utf8.encode(text)
    assert b"\0" not in data
    assert modified_utf8.decode(data) == text


@pytest.mark.parametrize("data", [b"\xff", b"\xc3", b"\xf0\x9f\x98\x80", b"a\x80", b"\xe6\x97"])
def test_not_modified_utf8(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        modified_utf8.decode(data)


def test_every_value_comes_back_as_its_java_type() -> None:
    values: dict[str, Any] = {
        "null": None,
        "text": "a\0é\U0001f600",
        "long text": "é" * 40_000,
        "true": True,
        "byte": JByte(-128),
        "char": JChar(0xFFFF),
        "short": JShort(-(2**15)),
        "int": JInt(-(2**31)),
        "long": JLong(2**63 - 1),
        "float": JFloat(-0.5),
        "double": JDouble(-math.inf),
        "map": {"inner": JInt(1)},
        "empty": {},
    }
    found = loads(dumps(values), "x")
    assert type(found) is JMap
    back = found.named()
    assert back is not None
    assert list(back) == list(values)
    assert back["map"].named() == {"inner": 1}
    assert back["empty"].entries == []
    for name, value in values.items():
        if not isinstance(value, dict):
            assert (type(back[name]), back[name]) == (type(value), value)


def test_nan_has_one_form() -> None:
    strange = JDouble(struct.unpack(">d", bytes.fromhex("fff8000000000001"))[0])
    assert dumps({"nan": strange}) == dumps({"nan": JDouble(math.nan)})


def test_an_int_of_python_has_no_java_form() -> None:
    with pytest.raises(TypeError, match="no Java representation of int"):
        dumps({"n": 1})


@pytest.mark.parametrize(("count", "buckets"), [(0, 16), (8, 16), (12, 16), (13, 32), (24, 32), (25, 64), (1000, 2048)])
def test_buckets_of_a_map(count: int, buckets: int) -> None:
    assert map_buckets(count) == buckets


def test_blocks_are_cut_as_java_cuts_them() -> None:
    assert blocks(b"") == b""
    assert blocks(b"x" * 255) == b"\x77\xff" + b"x" * 255
    assert blocks(b"x" * 256) == b"\x7a\x00\x00\x01\x00" + b"x" * 256
    assert blocks(b"x" * 1025) == b"\x7a\x00\x00\x04\x00" + b"x" * 1024 + b"\x77\x01x"


def test_text_too_long_for_utf() -> None:
    assert len(utf("x" * 65_535)) == 65_537
    with pytest.raises(Exception, match="too long for a Java UTF field"):
        utf("x" * 65_536)


def test_a_value_referred_to_is_read_once_more() -> None:
    writer = Writer()
    writer.map_head(2)
    handle = writer.string("same")
    writer.value(JInt(1))
    writer.string("other")
    writer.reference(handle)
    writer.map_end()
    assert loads(bytes(writer.out), "x").named() == {"same": 1, "other": "same"}


def test_number_arrays_and_blocks() -> None:
    data = b"\x75" + LONGS + b"\x00\x00\x00\x02" + struct.pack(">qq", 1, -1) + b"\x77\x02ab\x7a\x00\x00\x00\x01c"
    found, short, long = Reader(data, "x").items()
    assert type(found) is JNumbers
    assert found.values.tolist() == [1, -1]
    assert (short, long) == (OpaqueBytes(b"ab", len(data) - 8), OpaqueBytes(b"c", len(data) - 1))


def test_deep_maps() -> None:
    assert type(loads(dumps(nested(20)), "x")) is JMap
