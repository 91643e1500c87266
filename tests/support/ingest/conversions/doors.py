"""The ways in that take typed values: each gives, value by value, what is stored or that it is refused."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sparkhaven.ingest.bad_rows import BadRow, Rejects
from sparkhaven.ingest.feeds.base import route
from sparkhaven.ingest.feeds.delta.feed import DeltaFeed
from sparkhaven.ingest.feeds.delta.planner import DeltaOptions
from sparkhaven.ingest.feeds.files.decode import requeue_file_rows
from sparkhaven.ingest.feeds.files.feed import FilesFeed
from sparkhaven.ingest.feeds.files.formats.decoding import Decoding
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.feeds.frames import FrameBatch, FramesFeed, FramesOptions, fit_frame
from sparkhaven.ingest.spec import ColumnSpec, StreamSpec
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.store.epochs.state.log_values import TABLE, OffsetRange, packed
from sparkhaven.store.errors import CorruptFileError, SchemaMismatchError
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.foreign_values import AllowedConversions
from sparkhaven.writers.transfer.leaf_readers import FoundLeaf, LeafReader
from tests.support.ingest.conversions.values import BAD
from tests.support.ingest.delta.tables import put_version
from tests.support.ingest.ingest_cases import PLENTY, file_id, schema, stream

FS = Fs()
Door = Callable[[Path, pa.Array, str, frozenset[str]], list[Any]]


def _column(kind: str, given: frozenset[str]) -> ColumnSpec:
    instant, lossy = kind == "Instant", "lossy" in given and kind in ("float", "double")
    zone = "UTC" if instant and "zone" in given else None
    return ColumnSpec("v", unit="ms" if instant and "unit" in given else "iso", zone=zone, lossy=lossy)


def _spec(kind: str, given: frozenset[str]) -> StreamSpec:
    return stream(_column(kind, given), form="parquet")


def _plain(array: pa.Array) -> list[Any]:
    return list((array.view("int64") if pa.types.is_timestamp(array.type) else array).to_pylist())


def _write(path: Path, array: pa.Array, **more: pa.Array) -> Path:
    """A file, unless it was written for another column type."""
    if path.exists():
        return path
    n = pa.array(range(len(array)), pa.int32())
    pq.write_table(pa.table({"n": n, "v": array, **more}), path)
    return path


def _by_number(routed: Any, count: int) -> list[Any]:
    found: list[Any] = [BAD] * count
    for part in routed:
        for number, value in zip(part.batch.column("n").to_pylist(), _plain(part.batch.column("v")), strict=True):
            found[number] = value
    return found


def _decoded(feed: Any, split: Any, count: int, kind: str) -> list[Any]:
    rejects = Rejects(PLENTY)
    try:
        return _by_number(
            list(route(feed.decode(FS, split, schema(n="int", v=kind), rejects, time.time), rejects)), count
        )
    except SchemaMismatchError:
        return [BAD] * count


def files(place: Path, array: pa.Array, kind: str, given: frozenset[str]) -> list[Any]:
    """A feed of files."""
    path = _write(place / "a.parquet", array)
    options = FilesOptions(str(place), "parquet", binary_as_text="binary_as_text" in given)
    return _decoded(FilesFeed(replace(_spec(kind, given), feed=options)), file_id(path), len(array), kind)


def delta(place: Path, array: pa.Array, kind: str, given: frozenset[str]) -> list[Any]:
    """A feed of a Delta table."""
    (place / "_delta_log").mkdir(parents=True, exist_ok=True)
    path = _write(place / "a.parquet", array)
    types = json.dumps({"type": "struct", "fields": [{"name": name, "type": "x"} for name in ("n", "v")]})
    add = {"path": path.name, "partitionValues": {}, "size": path.stat().st_size, "modificationTime": 0}
    metadata = {"id": "t", "schemaString": types, "configuration": {}}
    put_version(place, 0, {"protocol": {"minReaderVersion": 1}}, {"metaData": metadata}, {"add": add})
    options = DeltaOptions(str(place), binary_as_text="binary_as_text" in given)
    split = OffsetRange(TABLE, 0, packed(0), packed(1), "t")
    return _decoded(DeltaFeed(replace(_spec(kind, given), feed=options)), split, len(array), kind)


def requeue(place: Path, array: pa.Array, kind: str, given: frozenset[str]) -> list[Any]:
    """Rows that were rejected for another column, which somebody has repaired."""
    count = len(array)
    path = _write(place / "w.parquet", array, w=pa.array([2**40] * count))
    options = FilesOptions(str(place), "parquet", binary_as_text="binary_as_text" in given)
    spec, table = replace(_spec(kind, given), feed=options), schema(w="int", n="int", v=kind)
    found: list[BadRow] = []
    rejects = Rejects(PLENTY, sink=found.extend)
    try:
        assert not list(route(FilesFeed(spec).decode(FS, file_id(path), table, rejects, time.time), rejects))
    except SchemaMismatchError:
        return [BAD] * count
    rejects.flush()
    rows = []
    for row in found:
        payload = json.dumps({**json.loads(row.payload), "w": 1}).encode()
        rows.append({"Payload": payload, "Position": row.line, "SourcePartition": "a", "SourceTime": 0, "Header": None})
    targets, again = resolve_targets(spec, table), Rejects(PLENTY)
    back = requeue_file_rows("a", rows, Decoding(spec, options, tuple(targets), strict=spec.strict), 0, again)
    values: list[Any] = [BAD] * count
    for n, value in zip(back.rows.columns[1].to_pylist(), _plain(back.rows.columns[2]), strict=True):
        values[n] = value
    return values


def frames(place: Path, array: pa.Array, kind: str, given: frozenset[str], spark: str = "") -> list[Any]:
    """A batch of a data frame, of a Spark type."""
    options = FramesOptions(lossy=("v",) if "lossy" in given and kind in ("float", "double") else ())
    spec, table = replace(stream(), feed=options), schema(n="int", v=kind)
    batch = pa.RecordBatch.from_arrays([pa.array(range(len(array)), pa.int32()), array], ["n", "v"])
    try:
        spec = fit_frame(spec, table, {"n": "int", "v": spark})
    except SchemaMismatchError:
        return [BAD] * len(array)
    split = FrameBatch(batch, "t/0", np.arange(len(array), dtype=np.int64), "row")
    return _decoded(FramesFeed(spec), split, len(array), kind)


def imported(place: Path, array: pa.Array, kind: str, given: frozenset[str]) -> list[Any]:
    """An import, which refuses a whole file: one file for each value."""
    options = AllowedConversions(frozenset({"v"} if "lossy" in given else ()), "binary_as_text" in given)
    values: list[Any] = []
    for row in range(len(array)):
        path = place / f"{row}.parquet"
        if not path.exists():
            pq.write_table(pa.table({"v": array.slice(row, 1)}), path)
        try:
            reader = LeafReader(FS, FoundLeaf(path, path.name, "d"), schema(v=kind), options=options)
            values += [value for rows in reader.read("d") for value in _plain(rows.columns[0])]
        except (SchemaMismatchError, CorruptFileError):  # the latter for a text that is not UTF-8
            values.append(BAD)
    return values
