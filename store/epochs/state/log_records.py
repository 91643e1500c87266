"""Records of a commit log: values to bytes and back. Canonical JSON; a commit's is followed by its packed locations.

Common keys: ``kind``, ``n`` (number of the record in the life of the stream, without gaps), ``epoch``, ``generation``,
``time`` (ms since the epoch). ``commit``, ``rollback`` and ``withdraw`` make an epoch; ``open`` and ``sync`` carry the
current one.

``open``      first record of a generation: ``boot``, ``pid``, ``host``, ``query``, ``durability``, ``keep`` (epochs),
              ``durable`` (all epochs up to it are on disk), ``schema`` = {``version``, ``columns``: [[id, name, type,
              storage, encoding or null, kind], ...]}; where it is known ``rule``: what decides where rows go, texts by
              name (``store.epochs.state.resume_rules``)
``commit``    ``query``, ``batch``, ``files`` [[path, size, mtime ns], ...], ``horizon`` (ns, after it), ``rows``,
              ``schema`` (version), ``counts``, ``reports`` (``store.epochs.state.packed_location``) and, after a line
              feed, the reports' data; where there are some: ``ranges`` and ``gaps`` [[topic, partition, start, stop,
              topic id, digest], ...]; of a range whose last message is known its offset, leader epoch (-1: unknown),
              timestamp in ms (-1: none) and CRC-32 of key and value follow
``rollback``  ``to`` (the state is again that of this epoch), ``reason``, ``changed`` [[internal, value], ...]
``withdraw``  rows that no reader shows from this epoch on, while older epochs still show them: ``reason``,
              ``locations`` [[internal, value, since, number of ranges], ...] and, after a line feed, the ranges of all
              of them, each i8 first row and i8 row after the last, little-endian; where it takes back epochs:
              ``undoes``, their numbers. The rows stay in their files, since later epochs lie behind them
``sync``      all epochs up to ``epoch`` are on disk (modes periodic and none)

Unknown keys are ignored, an unknown ``kind`` is an UnsupportedVersionError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from sparkhaven.store.epochs.state.commit_policy import Durability
from sparkhaven.store.epochs.state.log_values import Batch, FileId, OffsetRange
from sparkhaven.store.epochs.state.offsets import decode_last, encode_last
from sparkhaven.store.epochs.state.packed_location import Reports, encode_reports
from sparkhaven.store.epochs.state.resume_rules import PartitionRule, decode_rule
from sparkhaven.store.errors import CorruptFileError, UnsupportedVersionError
from sparkhaven.store.framing import BEHIND, BROKEN, dump, load, written
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.types.model import TableSchema
from sparkhaven.store.types.row_ranges import RowRanges


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """Rows of one location, which epoch ``since`` created."""

    key: LocationKey
    since: int
    rows: RowRanges


def encode_withdrawn(locations: Sequence[Withdrawn]) -> tuple[list[list[str | int]], bytes]:
    """What the text says of the locations, and the bytes behind it."""
    named: list[list[str | int]] = [
        [part.key.internal, part.key.value, part.since, len(part.rows)] for part in locations
    ]
    return named, b"".join(pack_ranges(part.rows) for part in locations)


def decode_withdrawn(value: Mapping[str, Any], packed: bytes) -> tuple[Withdrawn, ...]:
    """The inverse. KeyError, TypeError or ValueError: a part is missing, or ranges are not ascending."""
    locations, offset = [], 0
    for internal, date, since, count in value["locations"]:
        end = offset + RANGE_BYTES * int(count)
        rows = unpack_ranges(packed[offset:end], int(count))
        locations.append(Withdrawn(LocationKey(str(internal), str(date)), int(since), rows))
        offset = end
    if offset != len(packed):
        raise ValueError(f"row ranges end at byte {offset} of {len(packed)}")
    return tuple(locations)


def pack_ranges(rows: RowRanges) -> bytes:
    """``RANGE_BYTES`` for each range."""
    return np.stack((rows.starts, rows.stops), axis=1).astype("<i8").tobytes()


def unpack_ranges(data: bytes, count: int) -> RowRanges:
    """The inverse. ValueError: there are other bytes, or the ranges are empty, touch, or do not ascend."""
    if len(data) != RANGE_BYTES * count:
        raise ValueError(f"{len(data)} bytes of {count} row ranges")
    edges = np.frombuffer(data, "<i8").astype(np.int64)
    if len(edges) and (edges[0] < 0 or not bool((np.diff(edges) > 0).all())):
        raise ValueError("row ranges do not ascend")
    return RowRanges(edges[::2].copy(), edges[1::2].copy())


ColumnEntry = tuple[int, str, str, str, str | None, str]  # id, name, type, storage, encoding, kind


@dataclass(frozen=True, slots=True)
class OpenRecord:
    n: int
    epoch: int
    generation: int
    time_ms: int
    boot_id: str
    pid: int
    host: str
    query_id: str
    durability: Durability
    keep_epochs: int
    durable: int
    schema_version: int
    columns: tuple[ColumnEntry, ...]
    rule: PartitionRule | None = None


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """An epoch of new rows; ``horizon`` is that of the file window after it."""

    n: int
    epoch: int
    generation: int
    batch: Batch
    horizon: int


@dataclass(frozen=True, slots=True)
class RollbackRecord:
    """An epoch whose state is that of epoch ``to``, except that ``changed`` locations were touched by it."""

    n: int
    epoch: int
    generation: int
    time_ms: int
    to: int
    reason: str
    changed: tuple[LocationKey, ...]


@dataclass(frozen=True, slots=True)
class WithdrawRecord:
    """An epoch that takes rows out; ``undoes``: the epochs whose rows they are, where it takes back whole ones."""

    n: int
    epoch: int
    generation: int
    time_ms: int
    undoes: tuple[int, ...]
    reason: str
    locations: tuple[Withdrawn, ...]

    @property
    def rows(self) -> int:
        return sum(part.rows.rows for part in self.locations)


@dataclass(frozen=True, slots=True)
class SyncRecord:
    """Everything up to ``epoch`` is durable."""

    n: int
    epoch: int
    generation: int
    time_ms: int


"""What decoding raises if data is missing or of the wrong type."""


ROLLBACK = b'"kind":"rollback"'
"""Occurs in the payload of every rollback, and rarely in others."""

Record = OpenRecord | CommitRecord | RollbackRecord | WithdrawRecord | SyncRecord
EpochRecord = CommitRecord | RollbackRecord | WithdrawRecord
"""Records that make an epoch."""


RANGE_BYTES = 16


def encode(record: Record) -> bytes:
    time_ms = record.batch.time_ms if isinstance(record, CommitRecord) else record.time_ms
    common = {"n": record.n, "epoch": record.epoch, "generation": record.generation, "time": time_ms}
    value = common | _own(record)
    if isinstance(record, WithdrawRecord):
        value["locations"], ranges = encode_withdrawn(record.locations)
        return dump(value) + BEHIND + ranges
    if not isinstance(record, CommitRecord):
        return dump(value)
    value["reports"], packed = encode_reports(record.batch.reports)
    return dump(value) + BEHIND + packed


def decode(payload: bytes, where: object, *, reports: bool = True) -> Record:
    """The record of a payload; CorruptFileError when parts are missing or of the wrong type.

    Without ``reports`` a commit is decoded as if it had touched no location: a planner needs positions only.
    """
    text = written(payload)
    value = load(text, where)
    if value.get("kind") == "withdraw":
        value["packed"] = payload[len(text) + len(BEHIND) :]
    elif not reports:
        value["reports"] = None
    elif value.get("kind") == "commit":
        value["packed"] = payload, len(text) + len(BEHIND)
    kind = value.get("kind")
    decoder = _DECODERS.get(kind) if isinstance(kind, str) else None
    if decoder is None:
        raise UnsupportedVersionError(
            "record kind is not known to this version", where=where, expected=sorted(_DECODERS), found=kind
        )
    try:
        record: Record = decoder(value)
    except BROKEN as error:
        raise CorruptFileError(
            f"{kind} record is incomplete", where=where, expected="all of its keys", found=repr(error)
        ) from error
    return record


def _own(record: Record) -> dict[str, Any]:
    match record:
        case OpenRecord():
            return {
                "kind": "open",
                "boot": record.boot_id,
                "pid": record.pid,
                "host": record.host,
                "query": record.query_id,
                "durability": record.durability,
                "keep": record.keep_epochs,
                "durable": record.durable,
                "schema": {"version": record.schema_version, "columns": [list(c) for c in record.columns]},
                **({} if record.rule is None else {"rule": record.rule.to_json()}),
            }
        case CommitRecord(batch=batch):
            return {
                "kind": "commit",
                "query": batch.query_id,
                "batch": batch.batch_id,
                "files": [[f.path, f.size, f.mtime_ns] for f in batch.files],
                "horizon": record.horizon,
                "rows": batch.rows,
                "schema": batch.schema_version,
                "counts": batch.counts,
                **({"ranges": _ranges(batch.ranges)} if batch.ranges else {}),
                **({"gaps": _ranges(batch.gaps)} if batch.gaps else {}),
            }
        case RollbackRecord():
            changed = [[key.internal, key.value] for key in record.changed]
            return {"kind": "rollback", "to": record.to, "reason": record.reason, "changed": changed}
        case WithdrawRecord():
            undoes = {"undoes": list(record.undoes)} if record.undoes else {}
            return {"kind": "withdraw", "reason": record.reason, **undoes}
        case SyncRecord():
            return {"kind": "sync"}


def _decode_open(v: dict[str, Any]) -> OpenRecord:
    columns = tuple((int(c[0]), str(c[1]), str(c[2]), str(c[3]), c[4], str(c[5])) for c in v["schema"]["columns"])
    if v["durability"] not in get_args(Durability):
        raise ValueError(f"durability {v['durability']!r}")
    return OpenRecord(
        n=int(v["n"]),
        epoch=int(v["epoch"]),
        generation=int(v["generation"]),
        time_ms=int(v["time"]),
        boot_id=str(v["boot"]),
        pid=int(v["pid"]),
        host=str(v["host"]),
        query_id=str(v["query"]),
        durability=v["durability"],
        keep_epochs=int(v["keep"]),
        durable=int(v["durable"]),
        schema_version=int(v["schema"]["version"]),
        columns=columns,
        rule=decode_rule(v),
    )


def _decode_commit(v: dict[str, Any]) -> CommitRecord:
    batch = Batch(
        query_id=str(v["query"]),
        batch_id=int(v["batch"]),
        files=decode_files(v["files"]),
        reports=() if v["reports"] is None else Reports(v["reports"], *v["packed"]),
        schema_version=int(v["schema"]),
        rows=int(v["rows"]),
        counts={str(name): int(count) for name, count in v["counts"].items()},
        time_ms=int(v["time"]),
        ranges=_decode_ranges(v.get("ranges", ())),
        gaps=_decode_ranges(v.get("gaps", ())),
    )
    return CommitRecord(int(v["n"]), int(v["epoch"]), int(v["generation"]), batch, int(v["horizon"]))


def _decode_rollback(v: dict[str, Any]) -> RollbackRecord:
    changed = tuple(decode_key(key) for key in v["changed"])
    numbers = (int(v["n"]), int(v["epoch"]), int(v["generation"]), int(v["time"]), int(v["to"]))
    return RollbackRecord(*numbers, str(v["reason"]), changed)


def _decode_withdraw(v: dict[str, Any]) -> WithdrawRecord:
    numbers = int(v["n"]), int(v["epoch"]), int(v["generation"]), int(v["time"])
    undoes = tuple(int(epoch) for epoch in v.get("undoes", ()))
    return WithdrawRecord(*numbers, undoes, str(v["reason"]), decode_withdrawn(v, v["packed"]))


def _decode_sync(v: dict[str, Any]) -> SyncRecord:
    return SyncRecord(int(v["n"]), int(v["epoch"]), int(v["generation"]), int(v["time"]))


_DECODERS: dict[str, Any] = {
    "open": _decode_open,
    "commit": _decode_commit,
    "rollback": _decode_rollback,
    "withdraw": _decode_withdraw,
    "sync": _decode_sync,
}


def decode_key(value: Any) -> LocationKey:
    """[internal, value] as a key."""
    internal, partition = value
    return LocationKey(str(internal), str(partition))


def decode_files(value: Any) -> tuple[FileId, ...]:
    """[[path, size, mtime], ...] as positions."""
    return tuple(FileId(str(path), int(size), int(mtime)) for path, size, mtime in value)


def _ranges(ranges: tuple[OffsetRange, ...]) -> list[list[str | int]]:
    return [[r.topic, r.partition, r.start, r.stop, r.topic_id, r.digest, *encode_last(r.last)] for r in ranges]


def _decode_ranges(value: Any) -> tuple[OffsetRange, ...]:
    return tuple(
        OffsetRange(str(topic), int(partition), int(start), int(stop), str(topic_id), str(digest), decode_last(last))
        for topic, partition, start, stop, topic_id, digest, *last in value
    )


def schema_columns(schema: TableSchema) -> tuple[ColumnEntry, ...]:
    return tuple((c.id, c.name, c.type.name, c.storage.value, c.encoding, c.kind.name.lower()) for c in schema.columns)
