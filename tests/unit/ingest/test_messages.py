"""Messages to rows: each keeps its place, whatever its payload holds, by every decoder."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import pytest

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.feeds.kafka.messages import MessageDecoder
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.spec import (
    BadRowBudget,
    ColumnSpec,
    CsvOptions,
    InternalRule,
    PartitionSpec,
    StreamSpec,
    ValueRule,
)
from sparkhaven.store.errors import FeedError, SettingsError
from tests.support.ingest.ingest_cases import target
from tests.support.ingest.messages import PLACE, Fake, block_of, decode

PARTITION = PartitionSpec(InternalRule("meta", "partition"), ValueRule(fixed="2026-11-21"))
MANY = 400  # messages that make the fast passes run


def json_messages(count: int, start: int = 0) -> list[Fake]:
    return [Fake(start + n * 2, json.dumps({"a": n, "s": f"x\n{n}"}).encode()) for n in range(count)]


@pytest.mark.parametrize("count", [3, MANY])
def test_tombstones_empty_values_and_line_feeds_keep_their_rows(count: int) -> None:
    messages = json_messages(count)
    pretty = b'{\n  "a": 5,\n  "s": "p"\n}'
    messages += [
        Fake(2 * count, None, b"gone"),
        Fake(2 * count + 1, b""),
        Fake(2 * count + 2, pretty),
        Fake(2 * count + 3, b"\n"),
        Fake(2 * count + 4, b'{"a": 1}\n{"a": 2}'),
        Fake(2 * count + 9, b'{"a": 6}\r\n'),
    ]
    rows, rejects, found = decode(messages, {"a": "long", "s": "String"})
    good = [*range(0, 2 * count, 2), 2 * count, 2 * count + 2, 2 * count + 9]
    assert rows.numbers.tolist() == good
    assert found["a"] == [*range(count), None, 5, 6]
    assert found["s"] == [*(f"x\n{n}" for n in range(count)), None, "p", None]
    assert [(row.line, row.unit, row.file) for row in rejects.rows] == [
        (2 * count + n, "offset", PLACE) for n in (1, 3, 4)
    ]
    assert rejects.read == len(messages)


def test_a_bad_row_names_its_place_and_carries_message_and_key() -> None:
    messages = [*json_messages(MANY), Fake(9000, b'{"a": "x"}', b"k", 5)]
    _, rejects, found = decode(messages, {"a": "int", "s": "String"})
    (row,) = rejects.rows
    assert "ticks/3 offset 9000, column a" in str(row)
    assert (row.payload, row.key, row.time_ns) == (b'{"a": "x"}', b"k", 5_000_000)
    assert len(found["a"]) == MANY


def test_payloads_do_not_run_into_each_other() -> None:
    halves = [Fake(0, b'{"a": 1, "s": "\xc3'), Fake(1, b'\xa9"}'), Fake(2, b'{"a": 1'), Fake(3, b"}")]
    messages = [*halves, *json_messages(MANY, 10)]
    rows, rejects, _ = decode(messages, {"a": "long", "s": "String"})
    assert len(rows) == MANY
    assert [row.line for row in rejects.rows] == [0, 1, 2, 3]


def test_tombstones_may_be_passed_over() -> None:
    messages = [Fake(0, None), Fake(1, b'{"a": 1}'), Fake(2, None)]
    rows, rejects, _ = decode(messages, {"a": "int"}, tombstones="ignore")
    assert rows.numbers.tolist() == [1]
    assert rejects.counts() == {"tombstones": 2}


def test_position_columns() -> None:
    specs = [
        ColumnSpec(name, meta=name) for name in ("topic", "partition", "offset", "timestamp", "receive_time", "key")
    ]
    kinds = {"topic": "String", "partition": "int", "offset": "long", "timestamp": "Instant", "receive_time": "Instant"}
    messages = [Fake(4, b"{}", b"k"), Fake(7, b"{}", None, -1), Fake(8, b"{}", b"\xff")]
    rows, rejects, found = decode(messages, {**kinds, "key": "String"}, specs)
    assert rows.numbers.tolist() == [4, 7]
    assert (found["topic"], found["partition"], found["offset"]) == (["ticks"] * 2, [3, 3], [4, 7])
    assert found["key"] == ["k", None]
    assert [None if t is None else t.value for t in found["timestamp"]] == [1_000_000_000, None]
    assert [t.value for t in found["receive_time"]] == [77, 77]
    assert [(row.line, row.code) for row in rejects.rows] == [(8, "key-not-utf-8")]


def test_fields_of_the_key_beside_those_of_the_value() -> None:
    specs = [ColumnSpec("Sym", "sym", of="key")]
    messages = [replace(m, name=b'{"sym": "IBM"}') for m in json_messages(MANY)]
    messages[5].name = b'{"sym": 5}'
    messages[6].payload = b"no"
    messages[7].name, messages[7].payload = b"no", b"no"
    messages[8].name = None
    rows, rejects, found = decode(messages, {"Sym": "String", "a": "int"}, specs, key_format="json")
    assert len(rows) == MANY - 3
    assert found["Sym"][:6] == ["IBM"] * 5 + [None] and found["a"][:6] == [0, 1, 2, 3, 4, 8]
    assert sorted((row.line, row.column) for row in rejects.rows) == [(10, "Sym"), (12, None), (14, None)]


@pytest.mark.parametrize("count", [2, MANY])
def test_csv_messages_are_one_record_each(count: int) -> None:
    options = CsvOptions(header=False, names=("a", "s"))
    messages = [Fake(n, f"{n},x{n}".encode()) for n in range(count)]
    odd = [b'1,"two\nlines"', b"1,x\n", b"", b"1,x\n2,y", b'1,"open', b"3", None, b"4,\xff"]
    messages += [Fake(count + n, payload) for n, payload in enumerate(odd)]
    rows, rejects, found = decode(messages, {"a": "int", "s": "String"}, format="csv", csv=options)
    assert rows.numbers.tolist() == [*range(count), count, count + 1, count + 6]
    assert found["s"][count:] == ["two\nlines", "x", None]
    assert [row.line - count for row in rejects.rows] == [2, 3, 4, 5, 7]


def test_raw_payloads() -> None:
    messages = [Fake(0, b"a\nb"), Fake(1, b""), Fake(2, None), Fake(3, b"\xff"), Fake(4, b"\x00")]
    _, rejects, found = decode(messages, {"Text": "String"}, format="raw")
    assert found["Text"] == ["a\nb", "", None]
    assert [row.line for row in rejects.rows] == [3, 4]
    numbers = [struct.pack(">q", n) for n in (1, -2)] + [b"123", struct.pack(">q", -(2**63))]
    _, rejects, found = decode([Fake(n, p) for n, p in enumerate(numbers)], {"N": "long"}, format="raw")
    assert found["N"] == [1, -2]
    assert [row.code for row in rejects.rows] == ["other-length", "equals-the-null-value-of-the-type"]
    with pytest.raises(SettingsError, match="cannot take a whole payload"):
        decode([], {"B": "Boolean"}, format="raw")


def test_a_bad_key_is_distinguished_from_a_bad_value() -> None:
    messages = [Fake(1, b'{"v":1}', b"[]"), Fake(2, b"[]", b'{"k":1}'), Fake(3, b'{"v":1}', b'{"k":"x"}')]
    _, rejects, _ = decode(messages, {"v": "int", "k": "int"}, [ColumnSpec("k", of="key")], key_format="json")
    codes = ["key-not-json", "key-wrong-json-type", "not-json"]
    assert sorted(row.code for row in rejects.rows) == codes
    assert sorted(name.partition(".")[2] for name in rejects.counts() if "." in name) == codes
    assert {row.line: row.payload for row in rejects.rows} == {1: b'{"v":1}', 2: b"[]", 3: b'{"v":1}'}


def test_messages_with_other_fields_by_a_strict_contract() -> None:
    values = [b'{"a": 1}', b'{"a": 2, "b": 0}', b"{}", b'{"a": null}', b'{"a": 3, "known": [1]}', None]
    block = block_of([Fake(at, value) for at, value in enumerate(values)])
    spec = StreamSpec("s", "T.T", KafkaOptions("h", ("t",)), PARTITION, ignore=("known",))
    rejects = Rejects(BadRowBudget(max_rows=10))
    targets = (target("int", "a"),)
    rows = MessageDecoder(targets, spec, strict=True).decode(block, PLACE, 0, rejects)
    assert (rows.numbers.tolist(), rows.columns[0].to_pylist()) == ([0, 3, 4, 5], [1, None, 3, None])
    assert [(row.line, row.code, row.value) for row in rejects.rows] == [
        (1, "unknown-field", "b"),
        (2, "absent-field", ""),
    ]
    assert not rejects.ignored and not rejects.absent


def test_a_frozen_contract_names_the_message() -> None:
    block, targets = block_of([Fake(0, b'{"a": 1}'), Fake(7, b'{"b": 2}')]), (target("int", "a"),)
    decoder = MessageDecoder(targets, StreamSpec("s", "T.T", KafkaOptions("h", ("t",)), PARTITION), strict=True)
    with pytest.raises(FeedError, match="freeze") as caught:
        decoder.decode(block, PLACE, 0, Rejects(BadRowBudget(max_rows=10), frozen=True))
    assert caught.value.where == f"{PLACE} offset 7"
