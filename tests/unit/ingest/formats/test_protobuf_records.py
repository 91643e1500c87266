"""Protobuf payloads, made by protoc: values exact, unset fields null or default, every wrong one a row of its own."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import framed_block
from sparkhaven.ingest.feeds.kafka.messages import MessageDecoder
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.formats.binary_records import RecordDecoder
from sparkhaven.ingest.formats.protobuf.protobuf_records import ProtobufRecords
from sparkhaven.ingest.spec import (
    BadRowBudget,
    InternalRule,
    PartitionSpec,
    ProtobufSource,
    StreamSpec,
    Target,
    TextForm,
    Unit,
    ValueRule,
)
from sparkhaven.ingest.values.typed_rows import TypedRows
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage
from tests.support.ingest.messages import Fake, block_of
from tests.support.ingest.protoc import compiled, encoded, encoded_all

PROTO = """syntax = "proto3";
package p.q;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Side { NONE = 0; BUY = 1; SELL = -2; }
message Who { string desk = 1; message Deep { bool flag = 1; } Deep deep = 2; google.protobuf.BytesValue blob = 3; }
message Trade {
  int64 id = 1;
  optional double px = 2;
  google.protobuf.Timestamp at = 3;
  Side side = 4;
  Who who = 5;
  google.protobuf.Int32Value lots = 6;
  google.protobuf.StringValue note = 7;
  oneof either { string left = 8; uint64 right = 9; }
  repeated int32 many = 10;
  map<string, Side> tags = 11;
  int32 i32 = 12; uint32 u32 = 13; sint32 s32 = 14; fixed64 x64 = 15; float f32 = 16; double f64 = 17;
  bool yes = 18; string text = 19; bytes raw = 20; uint64 u64 = 21; sfixed32 x32 = 22;
}
"""
OTHER = """syntax = "proto3";
package p.q;
message Inner { string value = 1; }
message Trade {
  string id = 1; Inner lots = 6;
  int64 side = 4; int64 i32 = 12; uint64 u32 = 13; sint64 s32 = 14; int64 new = 99;
}
"""
OLD = """syntax = "proto2";
enum Side { BUY = 1; SELL = 2; }
message Trade {
  required int64 id = 1;
  optional int32 lots = 2 [default = 100];
  optional Side side = 3 [default = SELL];
  optional string text = 4;
  optional group Part = 5 { optional float px = 1; }
}
"""
OLD_RAW = OLD.replace("optional string text", "optional bytes text").replace("required", "optional")


@cache
def source(proto: str = PROTO, message: str = "p.q.Trade") -> ProtobufSource:
    return ProtobufSource(compiled(Path(mkdtemp()), proto), message, "/etc/trade.desc")


@cache
def payload(values: str, proto: str = PROTO, message: str = "p.q.Trade") -> bytes:
    """A message in protoc's text format as protoc writes it; those of the tables come from one call."""
    if proto in (PROTO, OTHER) and values in tables(proto):
        return tables(proto)[values]
    return encoded(Path(mkdtemp()), proto, message, values)


@cache
def tables(proto: str) -> dict[str, bytes]:
    known = {row[0] for row in (*RIGHT, *WRONG)} | set(GOOD.values()) | {*PLAIN}
    texts = sorted(known) if proto == PROTO else [*OTHERS]
    return dict(zip(texts, encoded_all(Path(mkdtemp()), proto, "p.q.Trade", texts), strict=True))


def target(name: str, kind: str, unit: Unit = "iso") -> Target:
    encoding = "US_ASCII" if kind == "String" else None
    column = Column(name.replace(".", "_"), data_type(kind), Kind.NORMAL, Storage.NONE, 0, encoding)
    return Target(column, name, unit, None, None, True)


def decode(payloads: list[bytes], targets: list[Target], of: ProtobufSource | None = None) -> tuple[TypedRows, Rejects]:
    rejects = Rejects(BadRowBudget(max_rows=100))
    block = framed_block(payloads, np.arange(len(payloads), dtype=np.int64))
    records = ProtobufRecords(targets, of or source())
    return RecordDecoder(targets, ["f64"], records).decode(block, "t/0", rejects), rejects


def values(rows: TypedRows) -> list[list[object]]:
    plain = (c.cast("int64") if str(c.type).startswith("timestamp") else c for c in rows.columns)
    return [c.to_pylist() for c in plain]


PLAIN = ("id: 1 text: 'abc'", "id: 1", "text: 'abc'", "id: 5 i32: 6", "id: 2")
OTHERS = {
    "id: 'x'": (None, "not-protobuf"),
    "lots { value: 'x' }": (None, "not-protobuf"),
    # a parser of the declared type would cut these without a word
    "i32: 1099511627776": ("i32", "overflow"),
    "i32: 2147483648": ("i32", "overflow"),
    "u32: 4294967296": ("u32", "overflow"),
    "s32: -2147483649": ("s32", "overflow"),
    "side: 34359738369": ("side", "overflow"),
}
RIGHT: list[tuple[str, str, str, Unit, object]] = [
    ("id: 127", "id", "byte", "iso", 127),
    ("id: -9223372036854775807", "id", "long", "iso", -(2**63) + 1),
    ("i32: -2147483647", "i32", "int", "iso", -(2**31) + 1),
    ("i32: -2147483648", "i32", "long", "iso", -(2**31)),
    ("u32: 4294967295", "u32", "long", "iso", 2**32 - 1),
    ("s32: -5", "s32", "short", "iso", -5),
    ("x64: 9223372036854775807", "x64", "long", "iso", 2**63 - 1),
    ("x32: -7", "x32", "int", "iso", -7),
    ("u64: 18446744073709549568", "u64", "double", "iso", 2.0**64 - 2048),
    ("f64: 3", "f64", "int", "iso", 3),
    ("f64: 0.1", "f64", "double", "iso", 0.1),
    ("f64: 0.5", "f64", "float", "iso", 0.5),
    ("f64: -inf", "f64", "double", "iso", -math.inf),
    ("f32: 0.5", "f32", "double", "iso", 0.5),
    ("yes: true", "yes", "Boolean", "iso", True),
    ("text: 'x\\n'", "text", "String", "iso", "x\n"),
    ("text: 'x'", "text", "char", "iso", 120),
    ("text: '2013-01-01T05:00:00.000000001Z'", "text", "Instant", "iso", 1_357_016_400_000_000_001),
    ("id: 1357016400123", "id", "Instant", "ms", 1_357_016_400_123_000_000),
    ("f64: 1.5", "f64", "Instant", "s", 1_500_000_000),
    ("at { seconds: -1 nanos: 999999999 }", "at", "Instant", "iso", -1),
    ("side: BUY", "side", "String", "iso", "BUY"),
    ("side: SELL", "side", "short", "iso", -2),
    ("side: 7", "side", "int", "iso", 7),
    ("lots { value: -4 }", "lots", "int", "iso", -4),
    ("note {}", "note", "String", "iso", ""),
    ("who { deep { flag: true } }", "who.deep.flag", "Boolean", "iso", True),
]


@pytest.mark.parametrize(("text", "name", "kind", "unit", "stored"), RIGHT)
def test_a_value_comes_out_exactly(text: str, name: str, kind: str, unit: Unit, stored: object) -> None:
    rows, rejects = decode([payload(text)], [target(name, kind, unit)])
    assert values(rows) == [[stored]] and rejects.bad == 0 and not rejects.ignored


def test_what_is_not_set() -> None:
    names = {"px": "double", "at": "Instant", "who.desk": "String", "who.deep.flag": "Boolean", "lots": "int"}
    names |= {"note": "String", "left": "String", "right": "long"}
    unsettable = [target(name, kind) for name, kind in names.items()]
    plain = {"id": 0, "side": "NONE", "f32": 0.0, "yes": False, "text": ""}
    kinds = ("long", "String", "float", "Boolean", "String")
    targets = [*unsettable, *(target(name, kind) for name, kind in zip(plain, kinds, strict=True))]
    rows, rejects = decode([b"", payload("who {} left: ''")], targets)
    empty, partial = ([column[n] for column in values(rows)] for n in (0, 1))
    assert empty == [None] * len(unsettable) + list(plain.values())
    # of a message that is there, a field that cannot be unset has its default; the others are still null
    assert partial == [None, None, "", None, None, None, "", None, *plain.values()]
    assert rejects.bad == 0


WRONG: list[tuple[str, str, str, Unit, str]] = [
    ("id: 128", "id", "byte", "iso", "overflow"),
    ("id: -128", "id", "byte", "iso", "equals-the-null-value-of-the-type"),
    ("id: 40000", "id", "short", "iso", "overflow"),
    ("id: 2147483648", "id", "int", "iso", "overflow"),
    ("i32: -2147483648", "i32", "int", "iso", "equals-the-null-value-of-the-type"),
    ("id: -9223372036854775808", "id", "long", "iso", "equals-the-null-value-of-the-type"),
    ("u64: 9223372036854775808", "u64", "long", "iso", "overflow"),
    ("x64: 18446744073709551615", "x64", "long", "iso", "overflow"),
    ("f64: 3.5", "f64", "int", "iso", "has-a-fraction"),
    ("f64: nan", "f64", "int", "iso", "not-a-finite-number"),
    ("f64: inf", "f64", "long", "iso", "not-a-finite-number"),
    ("f64: 1e19", "f64", "long", "iso", "overflow"),
    ("f64: 3.5e38", "f64", "float", "iso", "overflow"),
    ("f32: -3.4028234663852886e38", "f32", "float", "iso", "equals-the-null-value-of-the-type"),
    ("f64: -1.7976931348623157e308", "f64", "double", "iso", "equals-the-null-value-of-the-type"),
    ("id: 9223372037", "id", "Instant", "s", "outside-the-range-of-an-instant"),
    ("f64: 0.00000000015", "f64", "Instant", "s", "finer-than-a-nanosecond"),
    ("text: 'xy'", "text", "char", "iso", "not-one-character"),
    ("", "text", "char", "iso", "not-one-character"),
    ("text: '\\357\\277\\277'", "text", "char", "iso", "equals-the-null-value-of-the-type"),
    ("text: '\\000'", "text", "String", "iso", "reads-back-as-the-empty-string"),
    ("text: '\\342\\202\\254'", "text", "String", "iso", "not-in-the-charset"),
    ("text: 'yesterday'", "text", "Instant", "iso", "not-an-instant"),
    ("at { seconds: 9223372037 }", "at", "Instant", "iso", "outside-the-range-of-an-instant"),
    ("at { nanos: 1000000000 }", "at", "Instant", "iso", "no-timestamp"),
    ("at { nanos: -1 }", "at", "Instant", "iso", "no-timestamp"),
    ("side: 7", "side", "String", "iso", "no-value-of-the-enum"),
    ("lots { value: 300 }", "lots", "byte", "iso", "overflow"),
    ("note { value: '\\000' }", "note", "String", "iso", "reads-back-as-the-empty-string"),
]
GOOD = {"lots": "lots { value: 5 }", "text": "text: 'x'", "side": "side: BUY", "note": "note {}", "id": "id: 1"}
AS_INSTANT = {"text": "text: '2013-01-01T00:00:00Z'"}


@pytest.mark.parametrize(("text", "name", "kind", "unit", "code"), WRONG)
def test_a_wrong_value_is_a_bad_row_and_its_neighbours_are_untouched(
    text: str, name: str, kind: str, unit: Unit, code: str
) -> None:
    sound = (AS_INSTANT if kind == "Instant" else GOOD).get(name, GOOD["id"])
    good, bad = payload(sound), payload(text)
    rows, rejects = decode([good, bad, good], [target(name, kind, unit)])
    assert rows.numbers.tolist() == [0, 2] and len(set(values(rows)[0])) == 1
    (row,) = rejects.rows
    assert (row.line, row.column, row.code, row.payload) == (1, name, code, bad)


@pytest.mark.parametrize("kind", ["char", "LocalDate", "BigDecimal", "LocalTime", "Instant"])
def test_a_text_that_was_not_set_is_null_with_trim(kind: str) -> None:
    column = replace(target("text", kind), form=TextForm(trim=True))
    rows, rejects = decode([payload(""), payload("text: ' '")], [column])
    assert (values(rows)[0], rejects.bad) == ([None, None], 0)


@pytest.mark.parametrize(
    ("make", "column", "reason"),
    [
        (lambda: payload("id: 1 text: 'abc'")[:-1], None, "not-protobuf"),
        (lambda: b"\xff" * 40, None, "not-protobuf"),
        (lambda: b"\x00\x00\x00\x00\x07" + payload("id: 1"), None, "not-protobuf"),  # the head of a schema registry
        (lambda: payload("text: 'abc'").replace(b"abc", b"a\xffc"), None, "not-protobuf"),
        *((partial(payload, text, OTHER), column, code) for text, (column, code) in OTHERS.items()),
    ],
)
def test_what_is_no_such_message_is_a_bad_row_among_good_ones(
    make: Callable[[], bytes], column: str | None, reason: str
) -> None:
    bad = make()
    names = {"id": "long", "i32": "long", "u32": "long", "s32": "long", "side": "long", "lots": "long"}
    good = payload("id: 5 i32: 6")
    rows, rejects = decode([good, bad, good], [target(name, kind) for name, kind in names.items()])
    assert rows.numbers.tolist() == [0, 2]
    assert values(rows) == [[5, 5], [6, 6], [0, 0], [0, 0], [0, 0], [None, None]]
    assert [(row.line, row.column, row.code, row.payload) for row in rejects.rows] == [(1, column, reason, bad)]


@pytest.mark.slow
def test_proto2_has_unset_fields_whatever_their_default_is() -> None:
    of = source(OLD, "Trade")
    names = {"id": "long", "lots": "int", "side": "String", "text": "String", "part.px": "float"}
    targets = [target(name, kind) for name, kind in names.items()]
    whole = payload("id: 1 lots: 2 side: BUY text: 'x' Part { px: 0.5 }", OLD, "Trade")
    few = payload("id: 3", OLD, "Trade")
    odd = payload("id: 4 text: '\\377'", OLD_RAW, "Trade")  # parsers do not look whether it is text
    none = payload("lots: 5", OLD_RAW, "Trade")
    unknown = payload("id: 6", OLD, "Trade") + b"\x18\x09"  # parsers set an enum aside that they do not know
    rows, rejects = decode([whole, few, odd, none, unknown], targets, of)
    assert values(rows) == [[1, 3], [2, None], ["BUY", None], ["x", None], [0.5, None]]
    found = [(row.line, row.column, row.code) for row in rejects.rows]
    assert found == [(2, "text", "not-utf-8"), (3, None, "not-protobuf"), (4, "side", "no-value-of-the-enum")]
    assert "lacks id" in rejects.rows[1].explanation


def test_fields_that_no_column_takes_are_counted() -> None:
    reported = payload("id: 1 yes: true f64: 2 many: [1, 2] tags { key: 'a' value: BUY } who { desk: 'd' deep {} }")
    future = payload("new: 5", OTHER)
    _, rejects = decode(
        [reported + future, payload("id: 2"), b"\xff"], [target("id", "long"), target("who.desk", "String")]
    )
    assert rejects.ignored == {"yes": 1, "many": 1, "tags": 1, "who.deep": 1, "99": 1}
    counts = {name: count for name, count in rejects.counts().items() if not name.startswith("ignored.")}
    assert counts == {"rejected": 1, "ignored_fields": 5, "rejected.not-protobuf": 1}


@pytest.mark.parametrize(
    ("name", "kind", "unit", "what"),
    [
        ("idd", "long", "iso", "column idd has no field in the message"),
        ("who.dask", "String", "iso", "has no field in the message"),
        ("id.x", "String", "iso", "has a path through no message"),
        ("many", "int", "iso", "comes from a repeated field"),
        ("tags", "String", "iso", "comes from a repeated field"),
        ("who", "String", "iso", "of type String cannot take the field"),
        ("raw", "String", "iso", "of type String cannot take the field"),
        ("raw", "long", "iso", "of type long cannot take the field"),
        ("who.blob", "String", "iso", "cannot take the field"),
        ("text", "int", "iso", "cannot take the field"),
        ("id", "String", "iso", "cannot take the field"),
        ("f64", "Boolean", "iso", "cannot take the field"),
        ("yes", "int", "iso", "cannot take the field"),
        ("at", "long", "iso", "cannot take the field"),
        ("side", "double", "iso", "cannot take the field"),
        ("id", "Instant", "iso", "cannot take the field"),
        ("text", "Instant", "ms", "of type Instant in ms cannot take the field"),
    ],
)
def test_a_column_that_the_message_cannot_fill_is_refused_at_the_start(
    name: str, kind: str, unit: Unit, what: str
) -> None:
    with pytest.raises(SettingsError, match=what) as caught:
        ProtobufRecords([target(name, kind, unit)], source())
    assert caught.value.where == "/etc/trade.desc: p.q.Trade" and caught.value.hint


def test_what_is_no_schema_is_refused_at_the_start(tmp_path: Path) -> None:
    sound = source().definition
    alone = compiled(tmp_path, PROTO, whole=False)
    for definition, message, where, what in (
        (PROTO.encode(), "p.q.Trade", "x.proto", "not compiled"),
        (PROTO.encode(), "p.q.Trade", "x.desc", "no descriptor set"),
        (b"", "p.q.Trade", "x.desc", "no descriptor set"),
        (sound[:-3], "p.q.Trade", "x.desc", "no descriptor set"),
        (alone, "p.q.Trade", "x.desc", "not complete"),
        (sound, "Trade", "x.desc", "no such message"),
        (sound, "p.q.Side", "x.desc", "no such message"),
    ):
        with pytest.raises(SettingsError, match=what) as caught:
            ProtobufRecords([], ProtobufSource(definition, message, where))
        assert str(caught.value.where).startswith(where)
        assert ("p.q.Trade" if what == "no such message" else "protoc --include_imports") in str(caught.value)


def test_keys_and_values_of_messages_by_a_feed_that_went_to_a_worker() -> None:
    feed = pickle.loads(
        pickle.dumps(
            KafkaOptions(
                "h",
                ("t",),
                format="protobuf",
                key_format="protobuf",
                protobuf=source(),
                key_protobuf=source(PROTO, "p.q.Who"),
            )
        )
    )
    of_key = target("desk", "String")
    targets = [target("id", "long"), Target(of_key.column, "desk", "iso", None, None, True, "key")]
    spec = StreamSpec("s", "T.T", feed, PartitionSpec(InternalRule("meta", "partition"), ValueRule(fixed="x")))
    key = payload("desk: 'd'", PROTO, "p.q.Who")
    messages = [Fake(0, payload("id: 1"), key), Fake(1, None, key), Fake(2, b"", None), Fake(3, b"\xff", key)]
    rejects = Rejects(BadRowBudget(max_rows=9), sink=lambda rows: None)
    rows = MessageDecoder(targets, spec).decode(block_of(messages), "t/0", 0, rejects)
    # a tombstone has nulls; an empty payload is a message with nothing set
    assert values(rows) == [[1, None, 0], ["d", "d", None]]
    assert rejects.bad == 1 and "protobuf" not in repr(feed.protobuf).replace("ProtobufSource", "")
