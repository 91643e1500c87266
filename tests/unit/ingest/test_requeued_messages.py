"""Messages that were rejected, decoded again from what the quarantine keeps of them: value, key, time and place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.ingest.bad_rows import BadRow, Rejects, as_batch
from sparkhaven.ingest.feeds.kafka.messages import MessageDecoder
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.requeued_rows import decode_requeued
from sparkhaven.ingest.spec import (
    BadRowBudget,
    ColumnSpec,
    InternalRule,
    PartitionSpec,
    StreamSpec,
    ValueRule,
)
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.jobs.operations.quarantine import Requeued, portions, read_repairs
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.quarantine.rejected_rows import REJECTED
from tests.support.ingest.ingest_cases import schema
from tests.support.ingest.messages import PLACE, Fake, block_of

TABLE = schema(v="int", k="long", at="long", t="Instant", p="int")
SPECS = (
    ColumnSpec("k", of="key", source="id"),
    ColumnSpec("at", meta="offset"),
    ColumnSpec("t", meta="timestamp"),
    ColumnSpec("p", meta="partition"),
)
SPEC = StreamSpec(
    "s",
    "Test.Rows",
    KafkaOptions("h", ("ticks",), key_format="json"),
    PartitionSpec(InternalRule("meta", "partition"), ValueRule(fixed="2026-11-21")),
    SPECS,
    bad_rows=BadRowBudget(1000, 1.0),
)
KEY = b'{"id":7}'


def rejected(messages: Sequence[Fake]) -> pa.Table:
    """What the quarantine gets of messages."""
    handed: list[BadRow] = []
    rejects = Rejects(SPEC.bad_rows, sink=handed.extend)
    MessageDecoder(resolve_targets(SPEC, TABLE), SPEC).decode(block_of(messages), PLACE, 77, rejects)
    rejects.flush()
    return pa.Table.from_batches([as_batch(handed)])


def again(table: pa.Table, spec: StreamSpec = SPEC, **options: Any) -> tuple[list[dict[str, Any]], Rejects]:
    rejects = Rejects(spec.bad_rows)
    routed = list(decode_requeued(table, spec, TABLE, rejects, clock=lambda: 1.0, **options))
    assert {part.key for part in routed} <= {LocationKey("3", "2026-11-21")}
    rows = [row for part in routed for row in part.batch.to_pylist()]
    return [row | {"t": row["t"].value} for row in rows], rejects


def with_payloads(table: pa.Table, *payloads: bytes | None) -> pa.Table:
    at = table.schema.get_field_index("Payload")
    return table.set_column(at, table.schema.field(at), pa.array(payloads, pa.binary()))


def test_a_mended_message_keeps_its_key_its_time_and_its_place() -> None:
    table = rejected([Fake(5, b'{"v":"x"}', KEY, 1234), Fake(6, b'{"v":1}', KEY), Fake(9, b"", KEY, 5678)])
    assert table["Position"].to_pylist() == [5, 9]
    assert (table["Key"].to_pylist(), table["SourceTime"].to_pylist()) == ([KEY] * 2, [1_234_000_000, 5_678_000_000])
    rows, rejects = again(table)
    assert (rows, rejects.bad) == ([], 2)
    assert [str(row).partition(",")[0] for row in rejects.rows] == ["ticks/3 offset 5", "ticks/3 offset 9"]
    rows, rejects = again(with_payloads(table, b'{"v":\n10}', b'{"v":11}'))
    assert rejects.bad == 0
    assert rows == [
        {"v": 10, "k": 7, "at": 5, "t": 1_234_000_000, "p": 3},
        {"v": 11, "k": 7, "at": 9, "t": 5_678_000_000, "p": 3},
    ]


def test_a_message_without_a_value_stays_one_without() -> None:
    table = rejected([Fake(5, None, b'{"id":"x"}'), Fake(6, b"", b'{"id":"x"}')])
    assert table["Payload"].to_pylist() == [None, b""]
    lenient = replace(SPEC, columns=SPECS[1:], feed=KafkaOptions("h", ("ticks",)))
    rows, rejects = again(table, lenient)
    assert [(row["v"], row["k"], row["at"]) for row in rows] == [(None, None, 5)]
    assert [(row.line, row.code, row.unit) for row in rejects.rows] == [(6, "not-json", "offset")]


def test_late_rows_of_several_partitions_are_reported_with_their_own_payloads() -> None:
    table = rejected([Fake(5, b'{"v":"x"}', KEY)])
    at = table.schema.get_field_index("SourcePartition")
    other = table.set_column(at, table.schema.field(at), pa.array(["ticks/4"]))
    both = with_payloads(pa.concat_tables([table, other]), b'{"v":1}', b'{"v":2}')
    rejects = Rejects(SPEC.bad_rows)
    keys = frozenset(LocationKey(name, "2026-11-21") for name in "34")
    list(decode_requeued(both, SPEC, TABLE, rejects, late=keys))
    assert [(row.file, row.payload, row.code) for row in rejects.rows] == [
        ("ticks/3", b'{"v":1}', "late"),
        ("ticks/4", b'{"v":2}', "late"),
    ]


def test_rows_of_one_place_are_sent_in_portions_of_their_own() -> None:
    rows = [{**dict.fromkeys(REJECTED.names), "SourcePartition": "t/0", "PayloadBytes": 1, "Payload": b"x"}] * 4
    given = [{**row, "Position": at} for row, at in zip(rows, (4, 5, 5, 6), strict=True)]
    found = [portion["Position"].to_pylist() for portion in portions(given, None, Requeued())]
    assert found == [[4, 5], [5, 6]]


def test_repairs_mend_payloads_and_keys(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"payload": "a"},
        {"payload_base64": "/w==", "key": "k"},
        {"key": None},
        {"key_base64": "/w=="},
        {"key": 5},
    ]
    path = tmp_path / "rows.jsonl"
    place = StreamPlace(Fs(), Layout(tmp_path), TableName("Ns", "Tab"), "s")
    given = [json.dumps({"source": "t/0", "position": n, **line}) for n, line in enumerate(lines)]
    path.write_text("\n".join(given[:4]))
    row = {"Payload": b"old", "PayloadBytes": 3, "Key": b"was"}
    mended = [repair.of(dict(row)) for repair in read_repairs(path, place).values()]
    assert [(each["Payload"], each["PayloadBytes"], each["Key"]) for each in mended] == [
        (b"a", 1, b"was"),
        (b"\xff", 1, b"k"),
        (b"old", 3, None),
        (b"old", 3, b"\xff"),
    ]
    path.write_text(given[4])
    with pytest.raises(SettingsError, match="names no row"):
        read_repairs(path, place)
