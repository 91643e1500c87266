"""Rows are counted by their source: one that a decoder, a router or a writer loses is found, and nothing is committed.

Every format of every feed takes three rows, and every import and save: whole, and with one that is lost on purpose at
each place where one could be.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven import open_table, save_table
from sparkhaven.ingest.bad_rows import as_batch, bad_row
from sparkhaven.ingest.feeds.delta.planner import DeltaOptions
from sparkhaven.ingest.feeds.files.formats import json_files
from sparkhaven.ingest.feeds.files.formats.decoding import text_blocks
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.feeds.frames import FramesOptions
from sparkhaven.ingest.feeds.kafka import messages
from sparkhaven.ingest.feeds.kafka.blocks import FramedMessages
from sparkhaven.ingest.feeds.kafka.broker.reader_pool import ReaderPool
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.formats import binary_records
from sparkhaven.ingest.formats.csv import csv_rows
from sparkhaven.ingest.formats.json import json_rows
from sparkhaven.ingest.formats.parquet.parquet_rows import ParquetDecoder
from sparkhaven.ingest.router import Router
from sparkhaven.ingest.spec import (
    AvroSource,
    BadRowBudget,
    CsvOptions,
    FeedOptions,
    InternalRule,
    PartitionSpec,
    ProtobufSource,
    StreamSpec,
    TableRoute,
    TableRoutes,
    ValueRule,
)
from sparkhaven.ingest.values.typed_rows import Refusal
from sparkhaven.jobs.operations.quarantine import CommittedLocations, try_rows
from sparkhaven.jobs.streams.decoding import Decoder, FrameDecoder
from sparkhaven.store.epochs.state.log_values import TABLE as DELTA
from sparkhaven.store.epochs.state.log_values import OffsetRange, Split, packed
from sparkhaven.store.errors import FeedError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.quarantine.rejected_rows import Reason
from sparkhaven.testing.tables import commit_splits, open_log
from sparkhaven.writers.append.append import LocationAppender
from sparkhaven.writers.task import Decode, SplitNotes
from sparkhaven.writers.transfer import frames
from sparkhaven.writers.transfer.leaf_readers import LeafReader
from sparkhaven.writers.transfer.tree_writer import write_parquet_leaf
from sparkhaven.writers.users.location_writer import LocationWriter
from tests.support.ingest.delta.tables import TABLE_ID, put_version, unpack
from tests.support.ingest.ingest_cases import file_id, schema
from tests.support.ingest.messages import Fake
from tests.support.ingest.protoc import compiled, encoded
from tests.support.kafka.laid_out import framed
from tests.support.writers.frame_cases import take
from tests.support.writers.import_cases import bring, small

FS = Fs()
SCHEMA = schema(n="long", s="String")
ROWS = [{"n": number, "s": f"s{number}"} for number in range(3)]
PROTO = 'syntax = "proto3"; message Row { int64 n = 1; string s = 2; }'
AVRO = {"type": "record", "name": "Row", "fields": [{"name": "n", "type": "long"}, {"name": "s", "type": "string"}]}
NS_T = TableName("NS", "T")
LOST = "a source has another number of rows than were decoded"


# --- where a row is lost ---------------------------------------------------------------------------------------


def less(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without its last row."""
    return batch.slice(0, max(batch.num_rows - 1, 0))


def lost_by_decoder(patch: pytest.MonkeyPatch) -> None:
    for module in (json_rows, csv_rows, binary_records, messages):
        merged = module.merge_rows  # type: ignore[attr-defined]
        patch.setattr(module, "merge_rows", lambda *given, merged=merged: short(merged(*given)))
    typed = ParquetDecoder._typed
    patch.setattr(ParquetDecoder, "_typed", lambda *given: short(typed(*given)))


def short(rows: Any) -> Any:
    return rows.part(0, max(len(rows) - 1, 0))


def lost_by_router(patch: pytest.MonkeyPatch) -> None:
    route = Router.route
    patch.setattr(Router, "route", lambda router, rows, *more: route(router, short(rows), *more))


def lost_by_append(patch: pytest.MonkeyPatch) -> None:
    append = LocationAppender.append
    patch.setattr(LocationAppender, "append", lambda appender, rows: append(appender, [*map(less, rows)]))


PLANTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "decoder": lost_by_decoder,
    "router": lost_by_router,
    "append": lost_by_append,
}


# --- feeds and their formats -----------------------------------------------------------------------------------


def spec_of(options: FeedOptions, **more: Any) -> StreamSpec:
    partition = PartitionSpec(InternalRule("fixed", "0"), ValueRule(fixed="2026-11-20"))
    return StreamSpec("s", "Test.Rows", options, partition, bad_rows=BadRowBudget(9, 1.0), **more)


def files(base: Path, form: str) -> tuple[FeedOptions, Split]:
    path = base / f"rows.{form}"
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    elif form == "csv":
        path.write_text("n,s\n" + "".join(f'{row["n"]},"{row["s"]}"\n\n' for row in ROWS))
    else:
        path.write_text("".join(json.dumps(row) + "\n\n" for row in ROWS))
    return FilesOptions(str(path), form, CsvOptions()), file_id(path)  # type: ignore[arg-type]


def delta(base: Path) -> tuple[FeedOptions, Split]:
    table = unpack(base, until=0)
    pq.write_table(pa.Table.from_pylist(ROWS), table / "rows.parquet")
    add = {"path": "rows.parquet", "partitionValues": {}, "size": (table / "rows.parquet").stat().st_size}
    put_version(table, 1, {"add": {**add, "modificationTime": 1, "dataChange": True}})
    return DeltaOptions(str(table)), OffsetRange(DELTA, 0, packed(1), packed(2), TABLE_ID)


def payloads(base: Path, form: str) -> list[bytes]:
    match form:
        case "csv":
            return [f"{row['n']},{row['s']}".encode() for row in ROWS]
        case "avro":
            made = []
            for row in ROWS:
                fastavro.schemaless_writer(out := io.BytesIO(), fastavro.parse_schema(AVRO), row)
                made.append(out.getvalue())
            return made
        case "protobuf":
            return [encoded(base, PROTO, "Row", f'n: {row["n"]} s: "{row["s"]}"') for row in ROWS]
    return [json.dumps(row).encode() for row in ROWS]


def kafka(base: Path, form: str) -> tuple[FeedOptions, Split]:
    more: dict[str, Any] = {}
    if form == "csv":
        more = {"csv": CsvOptions(header=False, names=("n", "s"))}
    elif form == "avro":
        more = {"avro": AvroSource(json.dumps(AVRO))}
    elif form == "protobuf":
        more = {"protobuf": ProtobufSource(compiled(base, PROTO), "Row")}
    elif form == "tombstones":
        form, more = "json", {"tombstones": "ignore"}
    return KafkaOptions("nowhere:1", ("t",), format=form, **more), OffsetRange("t", 0, 0, 3, "id")  # type: ignore[arg-type]


class Reader:
    """The messages of a range, in the place of what fetches them."""

    def __init__(self, values: list[bytes]) -> None:
        self._messages = [Fake(at, value) for at, value in enumerate(values)]

    def read(self, split: OffsetRange) -> Iterator[FramedMessages]:
        yield framed(self._messages)

    def last_of(self, split: OffsetRange) -> None:
        """Of messages that have no batch."""


FEEDS = ["files json", "files csv", "files parquet", "delta", "kafka json", "kafka csv", "kafka avro", "kafka protobuf"]
FEEDS += ["kafka tombstones", "several json", "several csv", "several parquet", "several delta", "several kafka"]


def decoder_of(name: str, base: Path, patch: pytest.MonkeyPatch) -> tuple[Decode, Split]:
    """The decoder of a stream, and a split with the three rows."""
    kind, _, form = name.partition(" ")
    more: dict[str, Any] = {}
    if kind == "several":  # another table has the row s1
        kind, form = (form, "json") if form in ("delta", "kafka") else ("files", form)
        routes = (TableRoute("Test.Rows", ("s0", "s2")), TableRoute("Test.Other", rest=True))
        more = {"routes": TableRoutes(routes, 0, "column", "s")}
    if kind == "delta":
        options, split = delta(base)
    elif kind == "files":
        options, split = files(base, form)
    else:
        options, split = kafka(base, form)
        values: list[Any] = payloads(base, form)
        values[1:2] = [None] if form == "tombstones" else values[1:2]
        patch.setattr(ReaderPool, "lease", lambda *given, **more: nullcontext(Reader(values)))
    return Decoder(FS, spec_of(options, **more), SCHEMA), split


@pytest.mark.parametrize("feed", FEEDS)
@pytest.mark.parametrize("plant", ["none", *PLANTS])
def test_a_row_that_is_lost_fails_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, feed: str, plant: str
) -> None:
    layout = Layout(tmp_path / "db")
    decode, split = decoder_of(feed, tmp_path, monkeypatch)
    with open_log(FS, layout, SCHEMA, "s") as log:
        if plant == "none":
            rows = 2 if "several" in feed or "tombstones" in feed else 3
            assert commit_splits(FS, layout, log, SCHEMA, [split], decode).rows == rows
            return
        PLANTS[plant](monkeypatch)
        with pytest.raises(FeedError, match=LOST) as lost:
            commit_splits(FS, layout, log, SCHEMA, [split], decode)
        assert "as the source counts them" in str(lost.value.expected) and lost.value.where
        assert log.state.epoch == 0


def test_a_line_that_is_lost_before_it_is_decoded_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options, split = files(tmp_path, "json")
    monkeypatch.setattr(json_files, "text_blocks", lambda *given: (block.rest(1) for block in text_blocks(*given)))
    layout = Layout(tmp_path / "db")
    with open_log(FS, layout, SCHEMA, "s") as log, pytest.raises(FeedError, match=LOST):
        commit_splits(FS, layout, log, SCHEMA, [split], Decoder(FS, spec_of(options), SCHEMA))


def test_a_decoder_that_does_not_count_commits_nothing(tmp_path: Path) -> None:
    options, split = files(tmp_path, "json")
    whole = Decoder(FS, spec_of(options), SCHEMA)

    def silent(split: Split, notes: SplitNotes) -> Iterator[Any]:
        yield from whole(split, SplitNotes())

    layout = Layout(tmp_path / "db")
    with open_log(FS, layout, SCHEMA, "s") as log, pytest.raises(FeedError, match=LOST) as lost:
        commit_splits(FS, layout, log, SCHEMA, [split], silent)
    assert lost.value.expected == "no number of rows, as the source counts them"


@pytest.mark.parametrize("plant", ["none", "decoder", "router"])
def test_rows_of_a_data_frame(monkeypatch: pytest.MonkeyPatch, plant: str) -> None:
    decode, batch = FrameDecoder(spec_of(FramesOptions()), SCHEMA), pa.RecordBatch.from_pylist(ROWS)
    if plant != "none":
        PLANTS[plant](monkeypatch)
    notes = SplitNotes()
    taken = sum(len(rows) for _, rows in decode(batch, "t/0", np.arange(3, dtype=np.int64), "row", notes))
    if plant == "none":
        notes.require_all(taken, 0, "frame")
        return
    with pytest.raises(FeedError, match=LOST):
        notes.require_all(taken, 0, "frame")


@pytest.mark.parametrize("plant", ["none", "router"])
def test_rows_that_are_requeued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: str) -> None:
    options, _ = files(tmp_path, "json")
    why = Refusal(Reason.OVERFLOW, "less")
    rows = [bad_row("f", number, "n", why, "", json.dumps(row).encode()) for number, row in enumerate(ROWS)]
    table, place = pa.Table.from_batches([as_batch(rows)]), TablePlace(FS, Layout(tmp_path), TableName("Test", "Rows"))
    with open_log(FS, Layout(tmp_path), SCHEMA, "s") as log:
        locations = CommittedLocations(place, log.state)
        if plant == "none":
            assert try_rows(table, spec_of(options), SCHEMA, locations)[0].num_rows == 3
            return
        PLANTS[plant](monkeypatch)
        with pytest.raises(FeedError, match=LOST):
            try_rows(table, spec_of(options), SCHEMA, locations)


# --- what becomes history, and user tables ---------------------------------------------------------------------


def history(*dates: str) -> pa.Table:
    return pa.table({"Date": dates, "Sym": ["a"] * len(dates), "X": pa.array(range(len(dates)), pa.int32())})


def test_a_tree_whose_files_lose_rows_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout, tree = small(tmp_path / "db"), tmp_path / "tree"
    tree.mkdir()
    pq.write_table(history("2026-01-01", "2026-01-02", "2026-01-02"), tree / "rows.parquet")
    counts = LeafReader.counts
    monkeypatch.setattr(LeafReader, "counts", lambda reader: dict([*counts(reader).items()][1:]))
    with pytest.raises(FeedError, match=LOST) as lost:
        bring(layout, tree)
    assert lost.value.where == str(tree / "rows.parquet")
    assert open_table(layout.root, "NS.T").count() == 0


@pytest.mark.parametrize("lost", ["in a date", "in a file"])
def test_a_frame_whose_rows_are_lost_is_not_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    layout, rows = small(tmp_path), history("2026-01-01", "2026-01-02", "2026-01-02")
    assert [date.rows_out for date in take(layout, rows, "2026-01-02", table=NS_T)] == [2]  # the other date is left out
    if lost == "in a date":
        by_date = frames._Stager._by_date
        monkeypatch.setattr(frames._Stager, "_by_date", lambda *given: [*by_date(*given)][:-1])
    else:
        write = write_parquet_leaf
        monkeypatch.setattr(
            frames,
            "write_parquet_leaf",
            lambda fs, path, stored, batches, codec: write(fs, path, stored, [*map(less, batches)], codec),
        )
    with pytest.raises(FeedError, match=LOST):
        take(layout, rows, rewrite=True, table=NS_T)
    assert open_table(layout.root, "NS.T").count() == 2


@pytest.mark.parametrize("by", [None, "Date"])
@pytest.mark.parametrize("mode", ["replace", "append"])
def test_a_table_whose_rows_are_lost_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str | None, mode: Any
) -> None:
    rows = history("2026-01-01", "2026-01-02", "2026-01-02")
    assert save_table(tmp_path, "Test.Saved", rows, partition_by=by).rows == 3
    add = LocationWriter.add
    monkeypatch.setattr(LocationWriter, "add", lambda writer, batch: add(writer, less(batch)))
    with pytest.raises(FeedError, match=LOST):
        save_table(tmp_path, "Test.Saved", rows, partition_by=by, mode=mode)
    monkeypatch.undo()
    assert open_table(tmp_path, "Test.Saved").count() == 3
