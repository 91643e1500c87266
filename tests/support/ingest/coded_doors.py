"""One column of a type with a codec through every way in: what becomes of each value, or why it is refused."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import framed_block
from sparkhaven.ingest.feeds.base import route
from sparkhaven.ingest.feeds.delta.feed import DeltaFeed
from sparkhaven.ingest.feeds.delta.planner import DeltaOptions
from sparkhaven.ingest.feeds.files.decode import requeue_file_rows
from sparkhaven.ingest.feeds.files.formats.decoding import Decoding
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.feeds.frames import FrameBatch, FramesFeed, FramesOptions, fit_frame
from sparkhaven.ingest.formats.avro.avro_records import AvroRecords
from sparkhaven.ingest.formats.binary_records import RecordDecoder
from sparkhaven.ingest.formats.json.json_rows import JsonDecoder
from sparkhaven.ingest.formats.protobuf.protobuf_records import ProtobufRecords
from sparkhaven.ingest.spec import AvroSource, ProtobufSource
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.store.epochs.state.log_values import TABLE, OffsetRange, packed
from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.io.fs import Fs
from tests.support.ingest.conversions.values import BAD
from tests.support.ingest.delta.tables import put_version
from tests.support.ingest.ingest_cases import PLENTY, decode, file_id, schema, stream, target, write
from tests.support.ingest.protoc import compiled, encoded_all
from tests.support.writers.coded_rows import counted

FS = Fs()
FIRST_OF_PYTHON = -719_162  # 0001-01-01


def plain(array: pa.Array) -> list[Any]:
    """Values as Python has them; times, and instants of arrays, as nanoseconds; days of the year 0 as numbers."""
    if pa.types.is_date32(array.type):
        days = array.view(pa.int32()).to_pylist()
        return [day if day is None or day < FIRST_OF_PYTHON else date_of(day) for day in days]
    return list(counted(array).to_pylist())


def date_of(day: int) -> date:
    return date.fromordinal(day + date(1970, 1, 1).toordinal())


def _outcomes(routed: Sequence[Any], rejects: Rejects, count: int, first: int) -> list[Any]:
    """Value or code of each row, by its number in column n; bad rows by their line."""
    outcomes: list[Any] = [None] * count
    for row in rejects.rows:
        outcomes[row.line - first] = row.code
    for part in routed:
        for number, value in zip(part.batch.column("n").to_pylist(), plain(part.batch.column("v")), strict=True):
            outcomes[number] = value
    return outcomes


def json_files(place: Path, kind: str, texts: Sequence[str], alias: bool = False) -> list[Any]:
    """Lines of JSON with these texts, by the scanner; the exact pass alone must make the same of them."""
    lines = [f'{{"n":{number},"v":{text}}}' for number, text in enumerate(texts)]
    spec, table = stream(allow_null_alias=alias), schema(n="int", v=kind)
    routed, rejects = decode(write(place / "a.json", lines), spec, table)
    exact = JsonDecoder(resolve_targets(spec, table), (), alias=alias, compiled=False)
    again = Rejects(PLENTY)
    block = framed_block([line.encode() for line in lines], np.arange(len(lines)))
    rows = exact.decode(block, "f", again)
    outcomes = _outcomes(routed, rejects, len(texts), 1)
    assert {row.line: row.code for row in again.rows} == {row.line - 1: row.code for row in rejects.rows}
    kept = [value for number, value in enumerate(outcomes) if number in set(rows.columns[0].to_pylist())]
    assert repr(plain(rows.columns[1])) == repr(kept)
    return outcomes


def csv_files(place: Path, kind: str, texts: Sequence[str], alias: bool = False) -> list[Any]:
    """Records of CSV with these texts as their fields."""
    fields = ['"' + text.replace('"', '""') + '"' for text in texts]
    content = "n,v\n" + "".join(f"{number},{field}\n" for number, field in enumerate(fields))
    spec = stream(form="csv", allow_null_alias=alias)
    routed, rejects = decode(write(place / "a.csv", content), spec, schema(n="int", v=kind))
    return _outcomes(routed, rejects, len(texts), 2)


def parquet_files(place: Path, kind: str, array: pa.Array, alias: bool = False) -> list[Any]:
    """A file with a column of this Arrow type; ``BAD`` for each value if the file is refused."""
    path = place / "a.parquet"
    pq.write_table(pa.table({"n": pa.array(range(len(array)), pa.int32()), "v": array}), path)
    try:
        routed, rejects = decode(file_id(path), stream(form="parquet", allow_null_alias=alias), schema(n="int", v=kind))
    except SchemaMismatchError:
        return [BAD] * len(array)
    return _outcomes(routed, rejects, len(array), 1)


def delta_table(place: Path, kind: str, array: pa.Array, alias: bool = False) -> list[Any]:
    """A Delta table of one file."""
    (place / "_delta_log").mkdir()
    path = place / "a.parquet"
    pq.write_table(pa.table({"n": pa.array(range(len(array)), pa.int32()), "v": array}), path)
    types = json.dumps({"type": "struct", "fields": [{"name": name, "type": "x"} for name in ("n", "v")]})
    add = {"path": path.name, "partitionValues": {}, "size": path.stat().st_size, "modificationTime": 0}
    metadata = {"id": "t", "schemaString": types, "configuration": {}}
    put_version(place, 0, {"protocol": {"minReaderVersion": 1}}, {"metaData": metadata}, {"add": add})
    feed = DeltaFeed(replace(stream(allow_null_alias=alias), feed=DeltaOptions(str(place))))
    rejects = Rejects(PLENTY)
    split = OffsetRange(TABLE, 0, packed(0), packed(1), "t")
    try:
        blocks = feed.decode(FS, split, schema(n="int", v=kind), rejects, time.time)
        return _outcomes([*route(blocks, rejects)], rejects, len(array), 1)
    except SchemaMismatchError:
        return [BAD] * len(array)


def data_frame(place: Path, kind: str, array: pa.Array, spark: str, alias: bool = False) -> list[Any]:
    """A batch of a data frame of this Spark type."""
    spec = replace(stream(allow_null_alias=alias), feed=FramesOptions())
    table = schema(n="int", v=kind)
    batch = pa.RecordBatch.from_arrays([pa.array(range(len(array)), pa.int32()), array], ["n", "v"])
    try:
        spec = fit_frame(spec, table, {"n": "int", "v": spark})
    except SchemaMismatchError:
        return [BAD] * len(array)
    split, rejects = FrameBatch(batch, "t/0", np.arange(len(array), dtype=np.int64), "row"), Rejects(PLENTY)
    routed = [*route(FramesFeed(spec).decode(FS, split, table, rejects, time.time), rejects)]
    return _outcomes(routed, rejects, len(array), 0)


def requeued(place: Path, kind: str, array: pa.Array, alias: bool = False) -> list[Any]:
    """Rows of a file that were rejected for another column, which somebody has repaired."""
    count, path = len(array), place / "w.parquet"
    pq.write_table(pa.table({"n": pa.array(range(count), pa.int32()), "v": array, "w": [2**40] * count}), path)
    spec, table = stream(form="parquet", allow_null_alias=alias), schema(w="int", n="int", v=kind)
    rejects = Rejects(PLENTY)
    try:
        routed, rejects = decode(file_id(path), spec, table)
    except SchemaMismatchError:
        return [BAD] * count
    assert not routed
    rows = [
        {
            "Payload": json.dumps({**json.loads(row.payload or b""), "w": 1}).encode(),
            "Position": row.line,
            "SourcePartition": "a",
            "SourceTime": 0,
            "Header": None,
        }
        for row in rejects.rows
    ]
    again = Rejects(PLENTY)
    options = FilesOptions(str(place), "parquet")
    back = requeue_file_rows(
        "a", rows, Decoding(spec, options, tuple(resolve_targets(spec, table)), strict=spec.strict), 0, again
    )  # type: ignore[arg-type]
    outcomes: list[Any] = [None] * count
    for row in again.rows:
        outcomes[row.line - 1] = row.code
    for number, value in zip(back.rows.columns[1].to_pylist(), plain(back.rows.columns[2]), strict=True):
        outcomes[number] = value
    return outcomes


def _records(decoder: RecordDecoder, payloads: list[bytes]) -> list[Any]:
    rejects = Rejects(PLENTY)
    rows = decoder.decode(framed_block(payloads, np.arange(len(payloads))), "t/0", rejects)
    outcomes: list[Any] = [None] * len(payloads)
    for row in rejects.rows:
        outcomes[row.line] = row.code
    for number, value in zip(rows.numbers.tolist(), plain(rows.columns[0]), strict=True):
        outcomes[number] = value
    return outcomes


def avro_records(place: Path, kind: str, values: Sequence[Any], avro: Any, alias: bool = False) -> list[Any]:
    """Payloads of one field of this Avro type. Values are what fastavro writes."""
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "v", "type": avro}]})
    payloads = []
    for value in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(text)), {"v": value})
        payloads.append(out.getvalue())
    one = target(kind)
    return _records(RecordDecoder([one], [], AvroRecords([one], AvroSource(text), alias=alias)), payloads)


def protobuf_records(place: Path, kind: str, values: Sequence[str], field: str, alias: bool = False) -> list[Any]:
    """Payloads of a message with this field v; values are in the text format of protoc."""
    known = ("wrappers", "struct", "timestamp")
    imports = "".join(f'import "google/protobuf/{name}.proto";\n' for name in known)
    text = f'syntax = "proto3";\n{imports}enum Side {{ NONE = 0; BUY = 1; }}\nmessage R {{ {field} = 1; }}\n'
    source, one = ProtobufSource(compiled(place, text), "R", "made.desc"), target(kind)
    payloads = encoded_all(place, text, "R", values)
    return _records(RecordDecoder([one], [], ProtobufRecords([one], source, alias=alias)), payloads)


Typed = Callable[[Path, str, pa.Array, bool], list[Any]]
TYPED: dict[str, Typed] = {"parquet": parquet_files, "delta": delta_table, "requeue": requeued}
