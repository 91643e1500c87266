"""Whatever a record raises is a bad row of its own; whatever a file raises names the file. Neighbours are stored."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.ingest.bad_rows import (
    FAILED_BLOCKS,
    HELD_BYTES,
    Rejects,
    as_batch,
    bad_row,
    guarded_file,
    guarded_rows,
    tried,
)
from sparkhaven.ingest.content.lines import framed_block, line_blocks
from sparkhaven.ingest.content.raw_file import PlannedFile
from sparkhaven.ingest.feeds.base import route
from sparkhaven.ingest.feeds.files.decode import requeue_file_rows
from sparkhaven.ingest.feeds.files.formats.decoding import Decoding
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.feeds.kafka.messages import MessageDecoder, requeue_messages
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.formats.binary_records import RecordDecoder
from sparkhaven.ingest.formats.csv.csv_rows import CsvDecoder
from sparkhaven.ingest.formats.json.json_rows import JsonDecoder
from sparkhaven.ingest.formats.parquet.parquet_rows import ParquetDecoder
from sparkhaven.ingest.router import Router
from sparkhaven.ingest.spec import (
    ColumnSpec,
    CsvOptions,
    InternalRule,
    PartitionSpec,
    StreamSpec,
    ValueRule,
)
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.ingest.values.typed_rows import Refusal, TypedRows, unexpected
from sparkhaven.store.errors import FeedError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.quarantine.rejected_rows import Reason
from tests.support.ingest.ingest_cases import (
    PLENTY,
    decode,
    decode_split,
    file_id,
    schema,
    stream,
    target,
    values,
    write,
)
from tests.support.ingest.messages import Fake, block_of
from tests.support.ingest.messages import decode as decode_messages

LAST = 2**63 - 1
POISON = target("Instant", zone="No/Such_Zone")  # a text without an offset raises ZoneInfoNotFoundError, a KeyError
GOOD, ODD = "2026-11-20T12:00:00Z", "2026-11-20T12:00:00"
TEXTS = [GOOD, ODD, GOOD, GOOD, ODD, "x", GOOD]
EXPECTED = [(2, "v", "decoder-failed"), (5, "v", "decoder-failed"), (6, "v", "not-an-instant")]


def bad(rejects: Rejects) -> list[tuple[int, str | None, str]]:
    return [(row.line, row.column, row.code) for row in rejects.rows]


@pytest.mark.parametrize("compiled", [True, False])
def test_lines_of_json(compiled: bool) -> None:
    block = next(line_blocks(["".join(f'{{"v":"{text}"}}\n' for text in TEXTS).encode()]))
    rejects = Rejects(PLENTY)
    rows = JsonDecoder([POISON], [], compiled=compiled).decode(block, "f", rejects)
    assert (rows.numbers.tolist(), bad(rejects), rejects.read) == ([1, 3, 4, 7], EXPECTED, 7)
    assert (
        "ZoneInfoNotFoundError" in rejects.rows[0].explanation
        and rejects.rows[0].payload == f'{{"v":"{ODD}"}}'.encode()
    )
    assert rejects.others[FAILED_BLOCKS] == compiled


@pytest.mark.parametrize("compiled", [True, False])
def test_records_of_csv(compiled: bool) -> None:
    block = next(line_blocks(["".join(f"{text}\n" for text in TEXTS).encode()]))
    rejects = Rejects(PLENTY)
    options = CsvOptions(header=False, names=("v",))
    rows, _ = CsvDecoder([POISON], [], options, compiled=compiled).decode(block, "f", rejects)
    assert (rows.numbers.tolist(), bad(rejects), rejects.read) == ([1, 3, 4, 7], EXPECTED, 7)


def test_rows_of_parquet(tmp_path: Path) -> None:
    at = pa.array([1, 2, None], pa.timestamp("us"))
    pq.write_table(pa.table({"v": at, "w": pa.array([7, 8, 9])}), tmp_path / "a.parquet")
    rejects = Rejects(PLENTY)
    split = file_id(tmp_path / "a.parquet")
    (rows,) = ParquetDecoder([POISON, target("long", "w")], []).decode(PlannedFile(Fs(), split), rejects)
    assert (rows.columns[1].to_pylist(), bad(rejects)) == (
        [9],
        [(1, "v", "decoder-failed"), (2, "v", "decoder-failed")],
    )
    assert b'"w": 7' in (rejects.rows[0].payload or b"")


def test_messages() -> None:
    specs = [ColumnSpec("v", zone="UTC"), ColumnSpec("at", meta="offset")]
    messages = [Fake(n, f'{{"v":"{text}"}}'.encode(), b"k", 5) for n, text in enumerate(TEXTS)]
    spec = kafka(specs)
    targets = [
        replace(t, zone=POISON.zone) if t.source == "v" else t
        for t in resolve_targets(spec, schema(v="Instant", at="long"))
    ]
    rejects = Rejects(PLENTY)
    rows = MessageDecoder(targets, spec).decode(block_of(messages), "t/0", 0, rejects)
    assert rows.columns[1].to_pylist() == [0, 2, 3, 6]
    assert bad(rejects) == [(line - 1, column, code) for line, column, code in EXPECTED]
    assert {(row.file, row.unit, row.key, row.time_ns) for row in rejects.rows} == {("t/0", "offset", b"k", 5_000_000)}


def kafka(specs: list[ColumnSpec]) -> StreamSpec:
    part = PartitionSpec(InternalRule("fixed", "0"), ValueRule(fixed="2026-11-20"))
    return StreamSpec("s", "T.T", KafkaOptions("h", ("t",)), part, tuple(specs), bad_rows=PLENTY)


class Odd:
    """A format of which some payloads raise an error at each of its steps."""

    format = "Odd"

    def scanner(self, payload: bytes) -> None:
        """There is none."""

    def read(self, payload: bytes) -> bytes:
        if payload == b"read":
            raise RecursionError("deep")
        return payload

    def value(self, record: bytes, place: int) -> Any:
        if record == b"value":
            raise AssertionError
        return "wrong type" if record == b"type" else 7 if record != b"show" else unexpected(ValueError("x"))

    def shown(self, record: bytes, place: int) -> str:
        raise IndexError(record)

    def unknown(self, record: bytes) -> list[str]:
        return [1 // (record != b"unknown") * "more"]

    def absent(self, record: bytes) -> list[int]:
        return []


@pytest.mark.parametrize("poison", [b"read", b"value", b"type", b"show", b"unknown"])
def test_each_step_of_a_record(poison: bytes) -> None:
    payloads = [b"a", poison, b"b", b"c", poison]
    rejects = Rejects(PLENTY)
    block = framed_block(payloads, np.arange(5, dtype=np.int64))
    decoder = RecordDecoder([target("int")], [], Odd())
    rows = guarded_rows(
        5,
        lambda start, stop: decoder.decode(block.part(start, stop), "t/0", rejects),
        lambda index, why: bad_row("t/0", index, None, why, "", payloads[index]),
        rejects,
    )
    assert (rows.numbers.tolist(), rows.columns[0].to_pylist()) == ([0, 2, 3], [7, 7, 7])
    assert [(row.line, row.code, row.payload) for row in rejects.rows] == [
        (1, "decoder-failed", poison),
        (4, "decoder-failed", poison),
    ]
    assert (rejects.read, rejects.bad, rejects.ignored["more"], rejects.reasons) == (5, 2, 3, {"decoder-failed": 2})


@pytest.mark.parametrize("error", [MemoryError(), OSError(28, "no space"), FeedError("x"), ImportError("x")])
def test_what_is_no_fault_of_a_record_goes_through(error: Exception) -> None:
    def fail(part: object) -> TypedRows:
        raise error

    rejects = Rejects(PLENTY)
    with pytest.raises(type(error)):
        guarded_rows(2, lambda start, stop: fail(None), lambda index, why: pytest.fail(), rejects)
    with pytest.raises(type(error)):
        tried(lambda: fail(None), Rejects(PLENTY))
    with pytest.raises(type(error)), guarded_file("f"):
        fail(None)


def test_nothing_of_a_block_is_handed_on_before_it_is_known_to_hold() -> None:
    handed: list[int] = []
    rejects = Rejects(PLENTY, sink=lambda rows: handed.extend(row.line for row in rows))
    mark = rejects.mark()
    rejects.add(bad_row("f", 1, None, Refusal(Reason.OVERFLOW, "y"), "", bytes(1 << 20)))
    rejects._held_bytes = HELD_BYTES
    rejects.add(bad_row("f", 2, None, Refusal(Reason.OVERFLOW, "y"), "", b"z"))
    assert handed == []
    rejects.undo(mark)
    rejects.add(bad_row("f", 3, None, Refusal(Reason.OVERFLOW, "y"), "", b"z"))
    rejects.flush()
    assert (handed, rejects.bad) == ([3], 1)


def test_a_row_that_raises_on_its_way_to_a_location() -> None:
    part = PartitionSpec(InternalRule("column", "v"), ValueRule(fixed="2026-11-20"))

    class Names(list[Any]):
        """The targets of a router, of which the third row finds none."""

    rows = TypedRows((pa.array(["a", "b"]),), np.array([4, 5], np.int64))
    router = Router(Names(), part, "f", 0)
    rejects = Rejects(PLENTY)
    assert list(route(iter([(router, rows, lambda number: b"x")]), rejects)) == []
    assert [(row.line, row.code) for row in rejects.rows] == [(4, "decoder-failed"), (5, "decoder-failed")]


def test_what_a_file_raises_names_the_file(tmp_path: Path) -> None:
    def broken() -> Any:
        yield 1
        raise KeyError("pages")

    with pytest.raises(FeedError, match="cannot be decoded") as caught, guarded_file("/feed/a.json"):
        list(broken())
    assert (caught.value.where, "KeyError: 'pages'" in str(caught.value.found)) == ("/feed/a.json", True)


FAR_MS = [253402300799999, 1795184000123456, LAST // 10**6 + 1, LAST]


@pytest.mark.parametrize("far", [None, "null", "clamp"])
@pytest.mark.parametrize("ms", FAR_MS)
def test_a_message_of_a_far_time(ms: int, far: Any) -> None:
    specs = [ColumnSpec("at", meta="timestamp", far=far)]
    messages = [
        Fake(0, b'{"v":1}'),
        Fake(1, b'{"v":2}', b"k", ms),
        Fake(2, b'{"v":3}', None, 7),
        Fake(3, b'{"v":4}', None, 7, 0),
    ]
    _, rejects, found = decode_messages(messages, {"v": "int", "at": "Instant"}, specs)
    if far is None:
        assert found["v"] == [1, 3, 4]
        (row,) = rejects.rows
        assert (row.line, row.column, row.code, row.key) == (1, "at", "outside-the-range-of-an-instant", b"k")
        assert (row.payload, row.time_ns, str(ms) in row.value) == (b'{"v":2}', LAST, True)
        batch = as_batch(rejects.rows)
        spec = kafka(specs)
        targets = resolve_targets(spec, schema(v="int", at="Instant"))
        again = Rejects(PLENTY)
        assert len(requeue_messages("t/0", batch.to_pylist(), MessageDecoder(targets, spec), 0, again).rows) == 0
        assert [(row.line, row.column) for row in again.rows] == [(1, "at")]
    else:
        assert (found["v"], rejects.rows) == ([1, 2, 3, 4], [])


@pytest.mark.parametrize("far", [None, "null", "clamp"])
def test_a_file_of_a_far_time(tmp_path: Path, far: Any) -> None:
    path = tmp_path / "a.json"
    write(path, ['{"v":1}', '{"v":2}'])
    os.utime(path, ns=(0, 10_413_792_000 * 10**9))  # 2300-01-01
    found = Fs().stat(path)
    assert found is not None
    if path.stat().st_mtime_ns < LAST:
        pytest.fail("the file system of the tests has no such times")
    split = replace(file_id(path), mtime_ns=found.mtime_ns)
    spec = stream(ColumnSpec("at", meta="timestamp", far=far))
    routed, rejects = decode(split, spec, schema(v="int", at="Instant"))
    if far is not None:
        assert (values(routed, "v"), values(routed, "at")) == ([1, 2], [None if far == "null" else LAST] * 2)
        return
    assert routed == []
    assert [(row.line, row.column, row.code) for row in rejects.rows] == [
        (1, "at", "outside-the-range-of-an-instant"),
        (2, "at", "outside-the-range-of-an-instant"),
    ]
    sunk: list[Any] = []
    silent = Rejects(PLENTY, sink=lambda rows: sunk.extend(as_batch(rows).to_pylist()))
    assert list(decode_split(Fs(), split, spec, schema(v="int", at="Instant"), silent)) == []
    assert {row["SourceTime"] for row in sunk} == {LAST}
    targets = resolve_targets(spec, schema(v="int", at="Instant"))
    again = Rejects(PLENTY)
    assert (
        len(
            requeue_file_rows(
                "f", sunk, Decoding(spec, FilesOptions("/feed"), tuple(targets), strict=spec.strict), 0, again
            ).rows
        )
        == 0
    )
    assert [row.column for row in again.rows] == ["at", "at"]
    assert values(decode(split, stream(), schema(v="int"))[0], "v") == [1, 2]
