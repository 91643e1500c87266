"""Protobuf values as texts: whole messages, lists, well-known types, and bytes that are texts."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import framed_block
from sparkhaven.ingest.formats.binary_records import RecordDecoder
from sparkhaven.ingest.formats.protobuf.protobuf_records import ProtobufRecords
from sparkhaven.ingest.spec import ProtobufSource, TextForm
from sparkhaven.store.errors import SettingsError
from tests.support.ingest.ingest_cases import PLENTY, target
from tests.support.ingest.protoc import compiled, encoded_all

PROTO = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto";
enum Side { NONE = 0; BUY = 1; }
message Leg { double px = 1; Side side = 2; bytes raw = 3; fixed64 big = 4; google.protobuf.Timestamp at = 5; }
message T {
  repeated Leg legs = 1;
  Leg leg = 2;
  map<int32, Side> sides = 3;
  google.protobuf.Struct any = 4;
  google.protobuf.Duration span = 5;
  google.protobuf.Timestamp at = 6;
  bytes raw = 7;
  google.protobuf.BytesValue blob = 8;
  repeated float many = 9;
  uint64 big = 10; sfixed64 small = 11; fixed32 middle = 12; bool yes = 13; Side side = 14; string text = 15;
  map<string, Leg> by = 16;
}
"""
LISTED = "values { number_value: 1.5 } values { null_value: NULL_VALUE }"
CASES: list[tuple[str, str, str]] = [  # field, in protoc's text, as stored
    ("legs", "legs { px: 0.1 side: BUY } legs { raw: '\\377' big: 18446744073709551615 }",
     '[{"px":0.1,"side":"BUY"},{"raw":"/w==","big":18446744073709551615}]'),
    ("leg", "leg { at { seconds: 1795184000 nanos: 5 } }", '{"at":"2026-11-20T14:13:20.000000005Z"}'),
    ("leg", "leg { px: nan side: 7 }", '{"px":"NaN","side":7}'),
    ("sides", "sides { key: -1 value: BUY }", '{"-1":"BUY"}'),
    ("any", f"any {{ fields {{ key: 'a' value {{ list_value {{ {LISTED} }} }} }} }}", '{"a":[1.5,null]}'),
    ("span", "span { seconds: -1 nanos: -500000000 }", "-1.500s"),
    ("at", "at { seconds: 253402300800 }", "10000-01-01T00:00:00Z"),
    ("raw", "raw: 'AB'", "QUI="),
    ("blob", "blob { value: '\\001' }", "AQ=="),
    ("many", "many: 1.5 many: inf", '[1.5,"Infinity"]'),
    ("many", "", "[]"),
    ("big", "big: 18446744073709551615", "18446744073709551615"),
    ("small", "small: -9223372036854775808", "-9223372036854775808"),
    ("middle", "middle: 4294967295", "4294967295"),
    ("yes", "yes: true", "true"),
    ("side", "side: BUY", "BUY"),
    ("text", "text: '1e5'", "1e5"),
]  # fmt: skip


@cache
def source() -> ProtobufSource:
    return ProtobufSource(compiled(Path(mkdtemp()), PROTO), "T")


@cache
def payloads() -> dict[str, bytes]:
    texts = sorted({text for _, text, _ in CASES} | {"raw: 'x'", "raw: '\\377'", "blob { value: 'y' }"})
    return dict(zip(texts, encoded_all(Path(mkdtemp()), PROTO, "T", texts), strict=True))


def value(field: str, payload: bytes, *, kind: str = "String", as_text: bool = True, **given: Any) -> Any:
    one = replace(target(kind, field), form=TextForm(as_text=True) if as_text else None)
    rejects = Rejects(PLENTY)
    decoder = RecordDecoder([one], [], ProtobufRecords([one], source(), **given))
    rows = decoder.decode(framed_block([payload], np.zeros(1, np.int64)), "t/0", rejects)
    return rows.columns[0].to_pylist() if not rejects.rows else rejects.rows[0].explanation


@pytest.mark.slow
@pytest.mark.parametrize(("field", "text", "stored"), CASES)
def test_values_as_text(field: str, text: str, stored: str) -> None:
    assert value(field, payloads()[text]) == [stored]
    if stored[0] in "[{":
        json.loads(stored, parse_constant=pytest.fail)


def test_what_is_unset_is_null() -> None:
    assert [value(field, b"") for field in ("leg", "any", "span")] == [[None], [None], [None]]


def test_values_that_their_type_lacks() -> None:
    assert value("at", b"\x32\x02\x10\x7f"[:2] + b"\x10\x01") == ["1970-01-01T00:00:00.000000001Z"]
    assert value("at", b"\x32\x0b\x10" + b"\xff" * 9 + b"\x01") == "no timestamp (nanos -1)"
    assert value("span", b"\x2a\x0d\x08\x01\x10" + b"\xff" * 9 + b"\x01") == "no duration (nanos -1)"


def test_bytes_as_text_by_the_feed() -> None:
    assert value("raw", payloads()["raw: 'x'"], as_text=False, bytes_too=True) == ["x"]
    assert value("blob", payloads()["blob { value: 'y' }"], as_text=False, bytes_too=True) == ["y"]
    assert value("raw", payloads()["raw: '\\377'"], as_text=False, bytes_too=True) == "not UTF-8 (at byte 0)"
    with pytest.raises(SettingsError, match="cannot take the field") as caught:
        value("raw", b"", as_text=False)
    assert "binary_as_text" in str(caught.value.hint)


def test_fixed_and_unsigned_numbers_in_whole_number_columns() -> None:
    assert value("middle", payloads()["middle: 4294967295"], kind="long", as_text=False) == [4294967295]
    assert value("big", payloads()["big: 18446744073709551615"], kind="long", as_text=False) == "overflow"
    assert value("small", payloads()["small: -9223372036854775808"], kind="long", as_text=False).startswith("equals")


@pytest.mark.parametrize(("field", "head"), [("leg", b"\x12"), ("legs", b"\x0a"), ("by", b"\x82\x01")])
def test_what_a_text_leaves_out_is_counted_and_what_it_cannot_have_is_a_bad_row(field: str, head: bytes) -> None:
    def message(leg: bytes) -> bytes:
        inner = b"\x0a\x01k\x12" + bytes([len(leg)]) + leg if field == "by" else leg
        return head + bytes([len(inner)]) + inner

    newer, other = message(b"\x10\x01\x48\x01"), message(b"\x08\x01")  # a field 9, and px as a varint
    deeper = message(b"\x2a\x04\x10\x01\x48\x01")  # a field 9 of the Timestamp in it
    one = replace(target("String", field), form=TextForm(as_text=True))
    for strict in (False, True):
        rejects = Rejects(PLENTY)
        decoder = RecordDecoder([one], [], ProtobufRecords([one], source()), strict=strict)
        rows = decoder.decode(framed_block([newer, other, deeper], np.arange(3)), "t/0", rejects)
        found = [(row.line, row.code) for row in rejects.rows]
        if strict:
            assert (len(rows), found) == (0, [(0, "unknown-field"), (1, "not-protobuf"), (2, "unknown-field")])
        else:
            assert (rows.numbers.tolist(), found) == ([0, 2], [(1, "not-protobuf")])
            assert rejects.ignored == {f"{field}.9": 1, f"{field}.at.9": 1}
            assert f"field {field}.px is of another type on the wire" in rejects.rows[0].explanation


EXTENDED = """syntax = "proto2";
enum Side { NONE = 0; BUY = 1; }
message Leg { optional double px = 1; extensions 100 to 200; }
extend Leg { optional Side side = 100; optional Leg next = 101; repeated int32 sizes = 102; }
message T { optional Leg leg = 1; }
"""


@pytest.mark.slow
def test_extensions_stand_under_their_full_names() -> None:
    extended = ProtobufSource(compiled(Path(mkdtemp()), EXTENDED), "T")
    text = "leg { px: 1.5 [side]: BUY [sizes]: [1, 2] [next] { px: 2 } }"
    (payload,) = encoded_all(Path(mkdtemp()), EXTENDED, "T", [text])
    newer = b"\x0a\x06\xaa\x06\x03\xb8\x3e\x01"  # a field 999 in an extension
    one, rejects = replace(target("String", "leg"), form=TextForm(as_text=True)), Rejects(PLENTY)
    decoder = RecordDecoder([one], [], ProtobufRecords([one], extended))
    rows = decoder.decode(framed_block([payload, newer], np.arange(2)), "t/0", rejects)
    whole = {"px": 1.5, "[side]": "BUY", "[next]": {"px": 2.0}, "[sizes]": [1, 2]}
    assert [json.loads(text) for text in rows.columns[0].to_pylist()] == [whole, {"[next]": {}}]
    assert (rejects.rows, dict(rejects.ignored)) == ([], {"leg.next.999": 1})
