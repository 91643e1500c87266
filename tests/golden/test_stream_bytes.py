"""Bytes of log, checkpoint, head and removals."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.store.epochs.files.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from sparkhaven.store.epochs.files.head import Head, decode_head, encode_head, open_head
from sparkhaven.store.epochs.files.removals import (
    decode_removals,
    encode_folded,
    encode_removals,
    read_named,
    read_removals,
)
from sparkhaven.store.epochs.state.file_positions import NO_HORIZON
from sparkhaven.store.epochs.state.log_records import (
    CommitRecord,
    OpenRecord,
    Record,
    RollbackRecord,
    SyncRecord,
    Withdrawn,
    WithdrawRecord,
    decode,
    encode,
)
from sparkhaven.store.epochs.state.log_values import Batch, FileId, LastMessage, LocationReport, OffsetRange
from sparkhaven.store.epochs.state.removed_locations import Named, Removal
from sparkhaven.store.epochs.state.replay import RolledBackEpochs, StreamState, chain
from sparkhaven.store.epochs.state.resume_rules import PartitionRule
from sparkhaven.store.errors import CorruptFileError, UnsupportedVersionError
from sparkhaven.store.framing import (
    LOG_MAGIC,
    REMOVALS_MAGIC,
    frame,
    header,
    read_header,
    scan,
)
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.types.committed_columns import FileState, RangeStats
from sparkhaven.store.types.row_ranges import RowRanges

HERE = Path(__file__).parent
JFK = LocationKey("JFK", "2013-01-01")
COLUMNS = ((0, "Date", "String", "none", None, "partitioning"), (1, "carrier", "String", "symbol", "UTF_8", "normal"))


def _batch(number: int, base: tuple[int, int], rows: int, low: str) -> Batch:
    stats = {
        "carrier": RangeStats(base[1], rows, 1, 0, low, "WN"),
        "delay": RangeStats(base[1], rows, 0, 1, -0.5, float("inf"), False),
    }
    files = {"carrier.dat": FileState(4 * rows, 0xFFFFFFFF), "carrier.sym": FileState(16, 7)}
    report = LocationReport(JFK, *base, rows, files, stats)
    taken = (FileId(f"/feed/\u00fc{number}.json", 100 + number, 1_357_000_000_000_000_000 + number),)
    return Batch("q-1", number, taken, (report,), 1, rows - base[1], {"ignored": 2}, 1_357_000_000_000 + number)


RECORDS: tuple[Record, ...] = (
    OpenRecord(1, 0, 1, 1_357_000_000_000, "boot-a", 7, "lab", "q-1", "periodic", 100, 0, 1, COLUMNS),
    CommitRecord(2, 1, 1, _batch(0, (0, 0), 3, "AA"), 1_356_000_000_000_000_000),
    SyncRecord(3, 1, 1, 1_357_000_000_500),
    CommitRecord(4, 2, 1, _batch(1, (1, 3), 5, "9E"), 1_356_000_000_000_000_001),
    RollbackRecord(5, 3, 1, 1_357_000_001_000, 1, "asked for", (JFK,)),
)
LOG = header(LOG_MAGIC, 0) + b"".join(frame(encode(record)) for record in RECORDS)
REMOVAL = Removal(JFK, 1, 3, "truncate", 3, {"digest": "00ff"}, 1_357_000_002_000)
REMOVALS = header(REMOVALS_MAGIC, 0x6522DF << 40) + frame(encode_removals([REMOVAL]))
MADE = replace(REMOVAL, made_ms=1_357_000_000_000, generation=1)
GONE = (MADE, replace(MADE, phase="delete", epoch=4), replace(REMOVAL, key=LocationKey("EWR", "2013-01-01")))
FOLDED = header(REMOVALS_MAGIC, 0x6D8CA3 << 40 | 300) + frame(encode_folded(GONE))

RANGES = (OffsetRange("tr\u00e4des", 0, 0, 40, "ti-1", "0a"), OffsetRange("tr\u00e4des", 1, 7, 7))
GAPS = (OffsetRange("tr\u00e4des", 0, 40, 90, "ti-1"),)
RANGE_RECORDS: tuple[Record, ...] = (
    OpenRecord(1, 0, 1, 1_357_000_000_000, "boot-a", 7, "lab", "q-1", "fsync", 100, 0, 1, COLUMNS),
    CommitRecord(2, 1, 1, replace(_batch(0, (0, 0), 3, "AA"), files=(), ranges=RANGES), NO_HORIZON),
    CommitRecord(
        3,
        2,
        1,
        Batch("q-1", 1, (), (), 1, 0, {}, 1_357_000_000_001, (OffsetRange("tr\u00e4des", 0, 90, 95, "ti-1"),), GAPS),
        NO_HORIZON,
    ),
)
RANGE_LOG = header(LOG_MAGIC, 0) + b"".join(frame(encode(record)) for record in RANGE_RECORDS)

LAST = LastMessage(93, 4, -1, 0xFFFFFFFF)
LAST_RECORDS: tuple[Record, ...] = (
    *RANGE_RECORDS,
    CommitRecord(
        4, 3, 1, Batch("q-1", 2, (), (), 1, 0, ranges=(OffsetRange("tr\u00e4des", 0, 95, 99, "ti-1", last=LAST),)), 0
    ),
)
LAST_LOG = header(LOG_MAGIC, 0) + b"".join(frame(encode(record)) for record in LAST_RECORDS)

BY_DAY = PartitionRule({"internal.column": "Sym", "value.column": "At", "value.zone": "America/New_York"})
ALL_IN_ONE = PartitionRule({"internal.fixed": "0", "value.fixed": "all"})
RULE_RECORDS: tuple[Record, ...] = (
    OpenRecord(1, 0, 1, 1_357_000_000_000, "boot-a", 7, "lab", "q-1", "fsync", 100, 0, 1, COLUMNS, BY_DAY),
    RECORDS[1],
    OpenRecord(3, 1, 2, 1_357_000_000_900, "boot-a", 8, "lab", "q-2", "fsync", 100, 1, 1, COLUMNS, ALL_IN_ONE),
)
RULE_LOG = header(LOG_MAGIC, 0) + b"".join(frame(encode(record)) for record in RULE_RECORDS)


def replay(state: StreamState, records: tuple[Record, ...]) -> None:
    """Advances a state along the chain of the records."""
    floor = state.epoch
    for record in records:
        state.note(record)
    for record in chain(records, floor, None, "log"):
        state.apply(record)
    state.floor = floor


def _state(records: tuple[Record, ...] = RECORDS) -> StreamState:
    state = StreamState("feed")
    replay(state, records)
    return state


def _head() -> Head:
    state = _state()
    state.floor = 0
    data = encode(RECORDS[-1])
    mark = len(LOG) - len(frame(data)), frame(data)[:8]
    return Head(state, 0, mark, 16, (16, b"\0\1" * 4), RolledBackEpochs(((1, 3),), frozenset([JFK])))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("stream.log", LOG),
        ("stream.checkpoint", encode_checkpoint(Checkpoint(_state(), 16))),
        ("stream.head", encode_head(_head())),
        ("stream.removals", REMOVALS),
        ("stream-made.removals", header(REMOVALS_MAGIC, 0x6522DF << 40) + frame(encode_removals([MADE]))),
        ("stream-folded.removals", FOLDED),
        ("stream-ranges.log", RANGE_LOG),
        ("stream-ranges.checkpoint", encode_checkpoint(Checkpoint(_state(RANGE_RECORDS), 0))),
        ("stream-last.log", LAST_LOG),
        ("stream-last.checkpoint", encode_checkpoint(Checkpoint(_state(LAST_RECORDS), 0))),
        ("stream-rule.log", RULE_LOG),
        ("stream-rule.checkpoint", encode_checkpoint(Checkpoint(_state(RULE_RECORDS[:2]), 0))),
    ],
)
def test_bytes(name: str, data: bytes) -> None:
    assert data == (HERE / name).read_bytes()


@pytest.mark.parametrize(("name", "records"), [("", RECORDS), ("-ranges", RANGE_RECORDS)])
def test_golden_log_reads_as_its_records(name: str, records: tuple[Record, ...]) -> None:
    data = (HERE / f"stream{name}.log").read_bytes()
    found = scan(data)
    assert (found.rest, found.beyond, read_header(data, LOG_MAGIC, "log")) == (0, (), 0)
    assert tuple(decode(part.payload, "log") for part in found.frames) == records


@pytest.mark.parametrize(("name", "records", "size"), [("", RECORDS, 16), ("-ranges", RANGE_RECORDS, 0)])
def test_golden_checkpoint_reads_as_its_state(name: str, records: tuple[Record, ...], size: int) -> None:
    found = decode_checkpoint((HERE / f"stream{name}.checkpoint").read_bytes(), "feed", "checkpoint")
    state = _state(records)
    state.floor = state.durable = state.epoch
    assert (found.state, found.removals) == (state, size)
    assert found.state.rolled_back == (((1, 3),) if records is RECORDS else ())


def test_the_golden_last_message_reads_as_it_was_written() -> None:
    """``last`` is not part of what makes two ranges equal."""
    *_, found = (decode(part.payload, "log") for part in scan((HERE / "stream-last.log").read_bytes()).frames)
    assert isinstance(found, CommitRecord) and [read.last for read in found.batch.ranges] == [LAST]
    saved = decode_checkpoint((HERE / "stream-last.checkpoint").read_bytes(), "feed", "checkpoint").state
    assert (saved.offsets["tr\u00e4des", 0].last, saved.offsets["tr\u00e4des", 1].last) == (LAST, None)


def test_golden_partition_rules_read_as_they_were_written() -> None:
    found = scan((HERE / "stream-rule.log").read_bytes()).frames
    assert tuple(decode(part.payload, "log") for part in found) == RULE_RECORDS
    saved = decode_checkpoint((HERE / "stream-rule.checkpoint").read_bytes(), "feed", "checkpoint").state
    assert (saved.rule, _state().rule, _state(RULE_RECORDS).rule) == (BY_DAY, None, ALL_IN_ONE)
    assert (saved.zone, _state().zone) == ("America/New_York", None)
    replay(saved, RULE_RECORDS[2:])
    assert (saved.rule, saved.zone) == (ALL_IN_ONE, "")


def test_golden_head_reads_as_it_was_written() -> None:
    data = (HERE / "stream.head").read_bytes()
    found = decode_head(open_head(data, "head"), "feed", len(data))
    found.state.floor = 0
    assert found == replace(_head(), size=len(data))


def test_golden_removals_read_as_they_were_written() -> None:
    data = (HERE / "stream.removals").read_bytes()
    assert [decode_removals(part.payload, "removals") for part in scan(data).frames] == [(REMOVAL,)]
    made = (HERE / "stream-made.removals").read_bytes()
    assert [decode_removals(part.payload, "removals") for part in scan(made).frames] == [(MADE,)]
    one = scan(data).frames[0].payload
    assert encode_removals([REMOVAL, REMOVAL]) == b'{"group":[' + one + b"," + one + b"]}"
    assert decode_removals(encode_removals([REMOVAL, REMOVAL]), "removals") == (REMOVAL, REMOVAL)


def test_golden_folded_removals_read_as_they_were_written(tmp_path: Path) -> None:
    layout, table = Layout(tmp_path), TableName("Golden", "Rows")
    layout.streams(table).mkdir(parents=True)
    data = (HERE / "stream-folded.removals").read_bytes()
    layout.stream_removals(table, "feed").write_bytes(data)
    found = read_removals(StreamPlace(Fs(), layout, table, "feed"))
    assert [removal for _, removal in found.entries] == list(GONE[1:])
    assert (found.end, read_named(StreamPlace(Fs(), layout, table, "feed"))) == (300 + len(data), Named(4, 1))


def test_other_versions_and_other_files_are_distinguished() -> None:
    for other in (b"SHVLOG1", b"SHVLOG3"):
        with pytest.raises(UnsupportedVersionError):
            read_header(LOG.replace(b"SHVLOG2", other), LOG_MAGIC, "log")
    with pytest.raises(CorruptFileError):
        read_header(REMOVALS, LOG_MAGIC, "log")
    with pytest.raises(CorruptFileError, match="inside its header"):
        read_header(LOG[:9], LOG_MAGIC, "log")
    with pytest.raises(UnsupportedVersionError, match="kind"):
        decode(b'{"kind":"split"}', "log")
    with pytest.raises(CorruptFileError, match="incomplete"):
        decode(b'{"kind":"commit"}', "log")


WITHDRAW = WithdrawRecord(
    6, 4, 1, 1_357_000_003_000, (2,), "undone", (Withdrawn(JFK, 1, RowRanges.of([(0, 1), (3, 5)])),)
)
WITHDRAW_TEXT = (
    b'{"epoch":4,"generation":1,"kind":"withdraw","locations":[["JFK","2013-01-01",1,2]],"n":6,"reason":"undone",'
    b'"time":1357000003000,"undoes":[2]}\n'
)
WITHDRAW_RANGES = struct.pack("<4q", 0, 1, 3, 5)


def test_withdrawn_rows_are_packed_behind_their_record() -> None:
    data = encode(WITHDRAW)
    assert data == WITHDRAW_TEXT + WITHDRAW_RANGES
    assert decode(data, "log") == decode(data, "log", reports=False) == WITHDRAW
    for ranges in (WITHDRAW_RANGES[:-1], WITHDRAW_RANGES + b"\0", struct.pack("<4q", 0, 3, 3, 5)):
        with pytest.raises(CorruptFileError, match="withdraw record is incomplete"):
            decode(WITHDRAW_TEXT + ranges, "log")


def test_a_checkpoint_has_withdrawn_rows() -> None:
    state = _state(RECORDS[:4])
    replay(state, (replace(WITHDRAW, n=5, epoch=3),))
    state.floor = state.durable = state.epoch
    data = encode_checkpoint(Checkpoint(state, 0))
    saved = decode_checkpoint(data, "feed", "checkpoint").state
    assert saved == state
    location = saved.locations[JFK]
    assert (location.rows, location.shown_rows, location.withdrawn.edges) == (5, 2, [0, 1, 3, 5])
