"""Avro's logical types in columns of each type: exact, refused with a reason, or taken by an option."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import fastavro
import numpy as np
import pytest

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import framed_block
from sparkhaven.ingest.formats.avro.avro_records import AvroRecords
from sparkhaven.ingest.formats.binary_records import RecordDecoder
from sparkhaven.ingest.spec import AvroSource, TextForm
from tests.support.ingest.ingest_cases import PLENTY, target

NEW_YORK = "America/New_York"
LAST = 2**63 - 1
UUID_BYTES = bytes(range(16))
F4 = {"type": "fixed", "name": "F4", "size": 4}


def logical(kind: str, what: str, /, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": what, **more}


def decoded(kind: Any, value: Any, column: str, settings: dict[str, Any]) -> tuple[list[Any], list[str]]:
    """The value in a column, as sent: numbers and bytes of the type below the logical one; and what was refused."""
    plain = json.loads(json.dumps(kind))
    strip(plain)
    out = io.BytesIO()
    fields = [{"name": "v", "type": plain}]
    fastavro.schemaless_writer(
        out, fastavro.parse_schema({"type": "record", "name": "R", "fields": fields}), {"v": value}
    )
    given = dict(settings)
    bytes_too, far = given.pop("bytes_too", False), given.pop("far", None)
    form = TextForm(as_text=True) if given.pop("as_text", False) else None
    one = replace(target(column, **given), form=form, far=far)
    source = AvroSource(json.dumps({"type": "record", "name": "R", "fields": [{"name": "v", "type": kind}]}))
    rejects = Rejects(PLENTY)
    rows = RecordDecoder([one], [], AvroRecords([one], source, bytes_too=bytes_too)).decode(
        framed_block([out.getvalue()], np.zeros(1, np.int64)), "t/0", rejects
    )
    array = rows.columns[0].view("int64") if column == "Instant" else rows.columns[0]
    return array.to_pylist(), [row.explanation for row in rejects.rows]


def strip(schema: Any) -> None:
    """Takes the logical types out of a schema."""
    if isinstance(schema, list):
        for branch in schema:
            strip(branch)
    elif isinstance(schema, dict):
        schema.pop("logicalType", None)
        for key in ("type", "items", "values"):
            strip(schema.get(key))


MILLIS, LOCAL = 1_795_184_000_123, 1_795_166_600  # 2026-11-20T14:13:20.123Z; 09:23:20 on a clock, in s
TAKEN: list[tuple[Any, Any, str, dict[str, Any], Any]] = [
    (logical("long", "timestamp-millis"), MILLIS, "Instant", {}, MILLIS * 10**6),
    (logical("long", "timestamp-micros"), MILLIS * 1000 + 4, "Instant", {}, (MILLIS * 1000 + 4) * 1000),
    (logical("long", "timestamp-nanos"), MILLIS * 10**6 + 5, "Instant", {}, MILLIS * 10**6 + 5),
    (["null", logical("long", "timestamp-nanos")], 5, "Instant", {"unit": "ns"}, 5),
    (logical("long", "timestamp-millis"), 253402300800000, "Instant", {"far": "clamp"}, LAST),
    (logical("long", "timestamp-millis"), -(10**17), "Instant", {"far": "null"}, None),
    (logical("long", "timestamp-millis"), MILLIS, "String", {"as_text": True}, "2026-11-20T14:13:20.123Z"),
    *(
        (
            logical("long", f"local-timestamp-{name}"),
            LOCAL * scale,
            "Instant",
            {"zone": NEW_YORK},
            1_795_184_600 * 10**9,
        )
        for name, scale in (("millis", 10**3), ("micros", 10**6), ("nanos", 10**9))
    ),
    (logical("long", "local-timestamp-micros"), LOCAL * 10**6, "String", {"as_text": True}, "2026-11-20T09:23:20"),
    (logical("long", "local-timestamp-millis"), 253402300800000, "Instant", {"zone": "UTC", "far": "clamp"}, LAST),
    (logical("int", "date"), 20777, "Instant", {"zone": NEW_YORK}, 1_795_150_800 * 10**9),
    (logical("int", "date"), 20777, "int", {}, 20777),
    (logical("int", "date"), 20777, "String", {"as_text": True}, "2026-11-20"),
    (logical("int", "date"), 2**31 - 1, "Instant", {"zone": "UTC", "far": "clamp"}, LAST),
    (logical("int", "date"), 2**31 - 1, "String", {"as_text": True}, "5881580-07-11"),
    (logical("int", "time-millis"), 34_200_000, "int", {}, 34_200_000),
    (logical("long", "time-micros"), 34_200_000_000, "long", {}, 34_200_000_000),
    (logical("long", "time-micros"), 34_200_000_001, "String", {"as_text": True}, "09:30:00.000001"),
    (F4, b"AAPL", "String", {"bytes_too": True}, "AAPL"),
    ("int", 1, "Boolean", {}, True),
    ("int", 65, "char", {}, 65),
    (F4, b"AAPL", "String", {"as_text": True}, "QUFQTA=="),
    ("bytes", "é".encode(), "String", {"bytes_too": True}, "é"),
    ("bytes", b"2013-01-01T05:00:00Z", "Instant", {"bytes_too": True}, 1_357_016_400 * 10**9),
    ("bytes", b"x", "char", {"bytes_too": True}, 120),
    (["null", {"type": "array", "items": "bytes"}], [b"\xff", b"AB"], "String", {"as_text": True}, '["/w==","QUI="]'),
    (logical("bytes", "decimal", precision=10, scale=8), b"\x0a", "String", {"as_text": True}, "0.00000010"),
    (logical("bytes", "decimal", precision=10, scale=2), b"\x04\xe2", "double", {}, 12.5),
    (logical("bytes", "decimal", precision=10, scale=2), b"\x04\xb0", "int", {}, 12),
    (
        logical("string", "uuid"),
        "82f8d289-9742-4a10-be8d-606c15710a0a",
        "String",
        {},
        "82f8d289-9742-4a10-be8d-606c15710a0a",
    ),
    (logical("fixed", "uuid", name="U", size=16), UUID_BYTES, "String", {}, "00010203-0405-0607-0809-0a0b0c0d0e0f"),
    (
        logical("fixed", "duration", name="D", size=12),
        bytes([1, 0, 0, 0, 2, 0, 0, 0, 188, 11, 0, 0]),
        "String",
        {"as_text": True},
        "P1M2DT3.004S",
    ),
    (
        {"type": "map", "values": logical("int", "date")},
        {"a": 20777},
        "String",
        {"as_text": True},
        '{"a":"2026-11-20"}',
    ),
    (
        {"type": "array", "items": "double"},
        [float("nan"), float("inf"), 1.5],
        "String",
        {"as_text": True},
        '["NaN","Infinity",1.5]',
    ),
    (logical("long", "date"), 7, "long", {}, 7),  # a logical type of another type says nothing
    (logical("string", "date"), "x", "String", {}, "x"),
]


@pytest.mark.parametrize(
    ("kind", "value", "column", "settings", "stored"), TAKEN, ids=[str(n) for n in range(len(TAKEN))]
)
def test_what_is_taken(kind: Any, value: Any, column: str, settings: dict[str, Any], stored: Any) -> None:
    assert decoded(kind, value, column, settings) == ([stored], [])


REFUSED: list[tuple[Any, Any, str, dict[str, Any], str]] = [
    (logical("long", "local-timestamp-micros"), 0, "Instant", {}, "has no time zone"),
    (logical("int", "date"), 0, "Instant", {}, "has no time zone"),
    (logical("long", "timestamp-millis"), 253402300800000, "Instant", {}, "outside the range of an Instant"),
    (logical("int", "date"), 20777, "String", {}, "wrong type (date)"),
    (logical("int", "date"), 20777, "short", {}, "wrong type (date)"),
    (logical("long", "timestamp-millis"), 0, "long", {}, "wrong type (instant)"),
    (logical("int", "date"), 20777, "double", {}, "wrong type (date)"),
    (logical("long", "time-micros"), 1, "Instant", {"zone": "UTC"}, "wrong type (time of day)"),
    (logical("int", "time-millis"), -1, "String", {"as_text": True}, "no time of day (-1)"),
    (
        logical("long", "local-timestamp-millis"),
        1_362_882_600_000,
        "Instant",
        {"zone": NEW_YORK},
        "this local time does not exist",
    ),
    (F4, b"AAPL", "String", {}, "wrong type (bytes)"),
    ("bytes", b"\xff", "String", {"bytes_too": True}, "not UTF-8 (at byte 0)"),
    (logical("fixed", "duration", name="D", size=12), bytes(12), "String", {}, "wrong type (duration)"),
    ("double", float("nan"), "int", {}, "not a finite number (nan)"),
    ("double", float("-inf"), "Instant", {"unit": "ms", "far": "clamp"}, "not a finite number (-inf)"),
]


@pytest.mark.parametrize(
    ("kind", "value", "column", "settings", "reason"), REFUSED, ids=[c[4] + str(n) for n, c in enumerate(REFUSED)]
)
def test_what_is_refused(kind: Any, value: Any, column: str, settings: dict[str, Any], reason: str) -> None:
    assert decoded(kind, value, column, settings) == ([], [reason])
