"""Dates and times as counts, times of day in other forms, instants in arrays: by every way in, one by one and whole."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import framed_block
from sparkhaven.ingest.feeds.files.decode import requeue_file_rows
from sparkhaven.ingest.feeds.files.formats.decoding import Decoding
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.formats.avro.avro_records import AvroRecords
from sparkhaven.ingest.formats.binary_records import RecordDecoder
from sparkhaven.ingest.formats.json.json_rows import JsonDecoder
from sparkhaven.ingest.formats.protobuf.protobuf_records import ProtobufRecords
from sparkhaven.ingest.spec import AvroSource, ColumnSpec, ProtobufSource, TextForm
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.store.errors import SchemaMismatchError, SettingsError
from tests.support.ingest.coded_doors import plain
from tests.support.ingest.ingest_cases import PLENTY, decode, file_id, schema, stream, target, write
from tests.support.ingest.protoc import compiled, encoded_all

OVER, FRACTION, LATE, WHOLE, INEXACT = (
    "overflow", "has-a-fraction", "no-time-of-day", "no-whole-day", "not-exactly-representable",
)  # fmt: skip
NO_VALUE = "not-a-value-of-the-type"
WRONG, ZONE, DAY, SECOND = "wrong-json-type", "has-no-time-zone", 86_400, 10**9
LAST_DAY, LAST_MS = 2_932_896, 253_402_214_400_000  # 9999-12-31
DATE = 17_382  # 2017-08-04, as Debezium sends it
# column type, settings, JSON texts, and what becomes of each: days, nanoseconds, or the code of a bad row
COUNTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("LocalDate", {"unit": "d"}, {"17382": DATE, "-719528": -719_528, "2932897": OVER, "null": None, "1.5": FRACTION}),
    ("LocalDate Compact", {"unit": "d"}, {"-719529": OVER, "0": 0, "1e2": 100, "9223372036854775807": OVER}),
    ("LocalDate", {"unit": "s"}, {f"{DATE * DAY}": DATE, f"{DATE * DAY + 1}": WHOLE, "-86400": -1}),
    ("LocalDate", {"unit": "ms"}, {f"{DATE * DAY * 1000}": DATE, f"{LAST_MS}": LAST_DAY, "253402300800000": OVER}),
    ("LocalDate", {"unit": "us"}, {f"{DATE * DAY * 10**6}": DATE}),
    ("LocalDate", {"unit": "ns"}, {f"{DATE * DAY * 10**9}": DATE, "1": WHOLE}),
    ("LocalTime", {"unit": "us"}, {"48600000000": 48_600 * SECOND, "86400000000": LATE, "-1": LATE, "null": None}),
    ("LocalTime", {"unit": "ms"}, {"48600123": 48_600_123_000_000, "0": 0}),
    ("LocalTime", {"unit": "s"}, {"48600": 48_600 * SECOND, "48600.5": 48_600_500_000_000}),
    ("LocalTime", {"unit": "ns"}, {f"{DAY * SECOND - 1}": DAY * SECOND - 1}),
    ("LocalTime 3", {"unit": "us"}, {"1000": 10**6, "1": INEXACT}),
    ("Instant[]", {"unit": "ms"}, {"[1700000000000, null, 0.5]": [1_700_000_000 * SECOND, None, 500_000], "[]": []}),
]  # fmt: skip


def _outcomes(routed: Sequence[Any], rejects: Rejects, count: int, first: int) -> list[Any]:
    found: list[Any] = [row.code for row in sorted(rejects.rows, key=lambda row: row.line)]
    outcomes: list[Any] = [None] * count
    for row, code in zip(sorted(rejects.rows, key=lambda row: row.line), found, strict=True):
        outcomes[row.line - first] = code
    for part in routed:
        for number, value in zip(part.batch.column("n").to_pylist(), _numbers(part.batch.column("v")), strict=True):
            outcomes[number] = value
    return outcomes


def _numbers(array: pa.Array) -> list[Any]:
    """Days and nanoseconds."""
    return list(array.view(pa.int32()).to_pylist()) if pa.types.is_date(array.type) else plain(array)


def by_json(place: Path, spec: ColumnSpec, kind: str, texts: Sequence[str]) -> list[Any]:
    """The scanner and whole columns, and the exact pass alone: they must agree."""
    lines = [f'{{"n":{number},"v":{text}}}' for number, text in enumerate(texts)]
    table = schema(n="int", v=kind)
    outcomes = _outcomes(*decode(write(place / "a.json", lines), stream(spec), table), len(texts), 1)
    again = Rejects(PLENTY)
    for line in lines:  # alone, each goes the exact way
        exact = JsonDecoder(resolve_targets(stream(spec), table), (), compiled=False)
        exact.decode(framed_block([line.encode()], np.arange(1)), "f", again)
    assert sorted(row.code for row in again.rows) == sorted(code for code in outcomes if isinstance(code, str))
    return outcomes


def by_csv(place: Path, spec: ColumnSpec, kind: str, texts: Sequence[str]) -> list[Any]:
    content = "n,v\n" + "".join(f"{n},{'' if text == 'null' else quoted(text)}\n" for n, text in enumerate(texts))
    return _outcomes(
        *decode(write(place / "a.csv", content), stream(spec, form="csv"), schema(n="int", v=kind)), len(texts), 2
    )


def quoted(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def by_parquet(place: Path, spec: ColumnSpec, kind: str, texts: Sequence[str]) -> list[Any]:
    array = pa.array([json.loads(text) for text in texts])
    path = place / "a.parquet"
    pq.write_table(pa.table({"n": pa.array(range(len(texts)), pa.int32()), "v": array}), path)
    return _outcomes(*decode(file_id(path), stream(spec, form="parquet"), schema(n="int", v=kind)), len(texts), 1)


def by_requeue(place: Path, spec: ColumnSpec, kind: str, texts: Sequence[str]) -> list[Any]:
    """Rows of Parquet that were rejected for another column, and repaired."""
    settings, table = stream(spec, form="parquet"), schema(n="int", v=kind)
    rows: list[Any] = [
        {"Payload": f'{{"n":{number},"v":{text}}}'.encode(), "Position": number, "SourcePartition": "a",
         "SourceTime": 0, "Header": None} for number, text in enumerate(texts)]  # fmt: skip
    again, options = Rejects(PLENTY), FilesOptions(str(place), "parquet")
    back = requeue_file_rows(
        "a",
        rows,
        Decoding(settings, options, tuple(resolve_targets(settings, table)), strict=settings.strict),
        0,
        again,
    )
    outcomes: list[Any] = [None] * len(texts)
    for row in again.rows:
        outcomes[row.line] = row.code
    for number, value in zip(back.rows.columns[0].to_pylist(), _numbers(back.rows.columns[1]), strict=True):
        outcomes[number] = value
    return outcomes


WAYS: dict[str, Callable[..., list[Any]]] = {
    "json": by_json, "csv": by_csv, "parquet": by_parquet, "requeue": by_requeue,
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", range(len(COUNTS)), ids=[f"{kind} {given['unit']}" for kind, given, _ in COUNTS])
def test_counts(tmp_path: Path, case: int, way: str) -> None:
    kind, given, cases = COUNTS[case]
    for text, value in cases.items():  # a column of floating numbers has no large whole ones
        found = WAYS[way](tmp_path, ColumnSpec("v", **given), kind, [text])
        assert found == [value], text
    whole = {text: value for text, value in cases.items() if "." not in text and "e" not in text}
    assert WAYS[way](tmp_path, ColumnSpec("v", **given), kind, list(whole)) == list(whole.values())


def test_quoted_counts(tmp_path: Path) -> None:
    spec = ColumnSpec("v", unit="d", form=TextForm(quoted=True, trim=True))
    texts = ['"17382"', '" 17382 "', "17382", '""', '"2017-08-04"']
    assert by_json(tmp_path, spec, "LocalDate", texts) == [DATE, DATE, DATE, None, "not-a-number"]
    assert by_json(tmp_path, ColumnSpec("v", unit="d"), "LocalDate", ['"17382"', '"2017-08-04"']) == [WRONG, WRONG]


TIMES: dict[str, dict[str, Any]] = {
    "%H%M%S": {"133000": 48_600, "000000": 0, "13300": None, "246000": None, "13:30:00": None},
    "%I:%M %p": {"1:30 PM": 48_600, "12:00 AM": 0, "13:30 PM": None, "1:30": None},
    "%H:%M:%SZ": {"13:30:00Z": 48_600, "13:30:00": None},
    "%H:%M:%S.%f": {"13:30:00.5": 48_600.5},
    "%H.%M": {"13.30": 48_600, "9.05": 32_700},
}  # fmt: skip


@pytest.mark.parametrize("way", ["json", "csv", "parquet", "requeue"])
@pytest.mark.parametrize("pattern", TIMES)
def test_times_of_day_by_a_pattern(tmp_path: Path, pattern: str, way: str) -> None:
    cases = TIMES[pattern]
    texts = [*cases] if way == "csv" else [json.dumps(text) for text in cases]
    found = WAYS[way](tmp_path, ColumnSpec("v", form=TextForm(pattern=pattern)), "LocalTime", texts)
    assert found == [NO_VALUE if value is None else int(value * SECOND) for value in cases.values()]


NEW_YORK = {"zone": "America/New_York"}
GERMAN = {"form": TextForm(pattern="%d.%m.%Y %H:%M")}
AT = 1_795_203_000 * SECOND  # 2026-11-20T14:30:00-05:00
ZONED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (NEW_YORK, {'["2026-11-20T14:30:00", null, "2026-11-20T19:30:00Z"]': [AT, None, AT], "null": None}),
    (NEW_YORK, {'["2026-03-08T02:30:00"]': "this-local-time-does-not-exist"}),
    ({}, {'["2026-11-20T14:30:00"]': ZONE, '["2026-11-20T19:30:00Z"]': [AT]}),
    (NEW_YORK | GERMAN, {'["20.11.2026 14:30"]': [AT], '["x"]': "not-an-instant"}),
    (NEW_YORK | {"far": "null"}, {'["9999-12-31T00:00:00", "0000-01-01T00:00:00"]': [None, None]}),
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", range(len(ZONED)))
def test_instants_in_arrays_follow_the_settings_of_their_column(tmp_path: Path, case: int, way: str) -> None:
    given, cases = ZONED[case]
    assert WAYS[way](tmp_path, ColumnSpec("v", **given), "Instant[]", list(cases)) == list(cases.values())


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("ns"), pa.date32()])
@pytest.mark.parametrize("lists", [pa.list_, pa.large_list])
def test_lists_of_local_times_and_dates_in_parquet(tmp_path: Path, kind: pa.DataType, lists: Any) -> None:
    array = pa.array([[0, None], None, []], lists(pa.int64())).cast(lists(pa.timestamp("s"))).cast(lists(kind))
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": pa.array([0, 1, 2], pa.int32()), "v": array}), path)
    table = schema(n="int", v="Instant[]")
    routed, rejects = decode(file_id(path), stream(ColumnSpec("v", zone="America/New_York"), form="parquet"), table)
    assert _outcomes(routed, rejects, 3, 1) == [[5 * 3600 * SECOND, None], None, []]
    with pytest.raises(SchemaMismatchError) as caught:
        decode(file_id(path), stream(form="parquet"), table)
    assert "set zone for the column" in str(caught.value.hint)


def test_a_parquet_type_that_a_unit_would_take_is_refused_with_it(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"v": [1], "a": [[1]]}), path)
    for kind, source in (("LocalDate", "v"), ("LocalTime", "v"), ("Instant[]", "a")):
        with pytest.raises(SchemaMismatchError) as caught:
            decode(file_id(path), stream(ColumnSpec("x", source=source), form="parquet"), schema(x=kind))
        assert "set unit for the column" in str(caught.value.hint)


def _binary(records: RecordDecoder, payloads: list[bytes]) -> list[Any]:
    rejects = Rejects(PLENTY)
    rows = records.decode(framed_block(payloads, np.arange(len(payloads))), "t/0", rejects)
    outcomes: list[Any] = [None] * len(payloads)
    for row in rejects.rows:
        outcomes[row.line] = row.code
    for number, value in zip(rows.numbers.tolist(), _numbers(rows.columns[0]), strict=True):
        outcomes[number] = value
    return outcomes


LOCAL_MS = {"type": "long", "logicalType": "local-timestamp-millis"}
AVRO: list[tuple[str, dict[str, Any], Any, list[Any], list[Any]]] = [
    ("LocalDate", {"unit": "d"}, "int", [DATE, -719_529], [DATE, OVER]),
    ("LocalDate", {"unit": "d"}, ["null", "long"], [None, DATE], [None, DATE]),
    ("LocalDate", {"unit": "d"}, {"type": "int", "logicalType": "date"}, [DATE], [DATE]),
    ("LocalTime", {"unit": "us"}, "long", [48_600 * 10**6, DAY * 10**6], [48_600 * SECOND, LATE]),
    ("LocalTime", {"unit": "us"}, {"type": "int", "logicalType": "time-millis"}, [1], [10**6]),
    ("LocalTime", {"form": TextForm(pattern="%H%M%S")}, "string", ["133000", "x"], [48_600 * SECOND, NO_VALUE]),
    ("Instant[]", {"unit": "s"}, {"type": "array", "items": "long"}, [[1, 2]], [[SECOND, 2 * SECOND]]),
    ("Instant[]", NEW_YORK, {"type": "array", "items": LOCAL_MS}, [[0]], [[5 * 3600 * SECOND]]),
    ("Instant[]", NEW_YORK, {"type": "array", "items": "string"}, [["2026-11-20T14:30:00"]], [[AT]]),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(AVRO)))
def test_avro(case: int) -> None:
    kind, given, avro, values, expected = AVRO[case]
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "v", "type": avro}]})
    parsed = fastavro.parse_schema({"type": "record", "name": "R", "fields": [{"name": "v", "type": _unnamed(avro)}]})
    payloads = []
    for value in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, {"v": value})
        payloads.append(out.getvalue())
    one = replace(target(kind), **given)
    assert _binary(RecordDecoder([one], [], AvroRecords([one], AvroSource(text))), payloads) == expected


def _unnamed(avro: Any) -> Any:
    """The type by which plain numbers are written."""
    if isinstance(avro, dict):
        return {"type": "array", "items": _unnamed(avro["items"])} if "items" in avro else avro["type"]
    return avro


PROTOBUF: list[tuple[str, dict[str, Any], str, list[str], list[Any]]] = [
    ("LocalDate", {"unit": "d"}, "int32 v", [f"v: {DATE}", "v: 9999999"], [DATE, OVER]),
    ("LocalTime", {"unit": "us"}, "int64 v", ["v: 48600000000"], [48_600 * SECOND]),
    ("LocalTime", {"form": TextForm(pattern="%H%M%S")}, "string v", ['v: "133000"'], [48_600 * SECOND]),
    ("Instant[]", {"unit": "s"}, "repeated int64 v", ["v: 1 v: 2", ""], [[SECOND, 2 * SECOND], []]),
    ("Instant[]", NEW_YORK, "repeated string v", ['v: "2026-11-20T14:30:00"'], [[AT]]),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(PROTOBUF)))
def test_protobuf(tmp_path: Path, case: int) -> None:
    kind, given, field, values, expected = PROTOBUF[case]
    text = f'syntax = "proto3";\nmessage R {{ {field} = 1; }}\n'
    source, one = ProtobufSource(compiled(tmp_path, text), "R", "made.desc"), replace(target(kind), **given)
    payloads = encoded_all(tmp_path, text, "R", values)
    assert _binary(RecordDecoder([one], [], ProtobufRecords([one], source)), payloads) == expected


def test_what_a_refused_value_needs_is_told(tmp_path: Path) -> None:
    for kind, text in (("LocalDate", "17382"), ("LocalTime", '"133000"'), ("LocalTime", "48600")):
        _, rejects = decode(write(tmp_path / "a.json", [f'{{"v":{text}}}']), stream(), schema(v=kind))
        assert "or unit or format for column v" in rejects.rows[0].refusal.expected
    with pytest.raises(SettingsError) as caught:
        one = target("LocalDate")
        text = 'syntax = "proto3";\nmessage R { int32 v = 1; }\n'
        ProtobufRecords([one], ProtobufSource(compiled(tmp_path, text), "R", "made.desc"))
    assert "unit" in str(caught.value.hint)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("LocalTime", {"unit": "d"}, "s, ms, us, ns"),
    ("Instant", {"unit": "d"}, "s, ms, us, ns"),
    ("int[]", {"unit": "s"}, "no unit"),
    ("long", {"unit": "s"}, "no unit"),
    ("LocalTime", {"zone": "UTC"}, "Instant or Instant[]"),
    ("LocalDate", {"unit": "d", "form": TextForm(pattern="%Y-%m-%d")}, "without unit"),
    ("LocalTime", {"form": TextForm(pattern="%Y-%m-%d %H:%M")}, "%H%M%S"),
    ("LocalTime", {"form": TextForm(pattern="%H:%M:%S%z")}, "%H%M%S"),
    ("LocalTime", {"form": TextForm(pattern="%M:%S")}, "%H%M%S"),
    ("LocalDate", {"form": TextForm(quoted=True)}, "with unit"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_a_setting_that_the_type_does_not_have_is_refused_with_those_it_has(case: int) -> None:
    kind, given, expected = REFUSED[case]
    with pytest.raises(SettingsError, match="column v") as caught:
        resolve_targets(stream(ColumnSpec("v", **given)), schema(v=kind))
    assert expected in str(caught.value.expected)
