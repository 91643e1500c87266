"""Decoders of the framed files of a stream: commit log, checkpoint, head, removals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sparkhaven.readers.checks.findings import CheckFinding, finding, from_error
from sparkhaven.store.epochs.files.checkpoint import decode_checkpoint
from sparkhaven.store.epochs.files.head import decode_head, open_head
from sparkhaven.store.epochs.files.removals import decode_removals
from sparkhaven.store.epochs.state.log_records import CommitRecord, OpenRecord, Record, RollbackRecord, decode
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.framing.log_frames import LOG_MAGIC, REMOVALS_MAGIC, Scan, read_header, scan
from sparkhaven.store.io.fs import Fs

RESTORE = "restore the file from a copy. Nothing was changed or deleted"


def commit_log(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    """Every record of a commit log with its byte offset."""
    data = fs.read(path)
    facts["baseEpoch"] = read_header(data, LOG_MAGIC, path)
    found = scan(data)
    records: list[dict[str, Any]] = []
    previous: int | None = None
    for part in found.frames:
        try:
            record = decode(part.payload, path)
        except SparkhavenError as error:
            yield from_error(error, f"{path} at byte {part.offset}")
            continue
        if previous is not None and record.n != previous + 1:
            yield finding(
                "error",
                path,
                "commit log has a gap",
                at=f"byte {part.offset}",
                expected=f"record {previous + 1}",
                found=f"record {record.n}",
                hint=RESTORE,
            )
        previous = record.n
        records.append({"byte": part.offset, **_summary(record)})
    epochs = [r["epoch"] for r in records if r["kind"] in ("commit", "rollback")]
    facts.update(
        firstEpoch=epochs[0] if epochs else None,
        lastEpoch=epochs[-1] if epochs else None,
        generation=max((r["generation"] for r in records), default=None),
        records=records,
    )
    yield from _end(path, found)


def _summary(record: Record) -> dict[str, Any]:
    common = {"n": record.n, "epoch": record.epoch, "generation": record.generation}
    match record:
        case CommitRecord(batch=batch):
            counts = {"rows": batch.rows, "locations": len(batch.reports), "files": len(batch.files)}
            read = {
                name: [[part.place, part.start, part.stop] for part in parts]
                for name, parts in (("ranges", batch.ranges), ("gaps", batch.gaps))
                if parts
            }
            return {"kind": "commit", **common, **counts, **read, "batch": batch.batch_id, "time": batch.time_ms}
        case RollbackRecord():
            return {"kind": "rollback", **common, "to": record.to, "reason": record.reason, "time": record.time_ms}
        case OpenRecord():
            owner = {"pid": record.pid, "host": record.host, "durability": record.durability, "zone": record.zone}
            return {"kind": "open", **common, **owner, "time": record.time_ms}
        case _:
            return {"kind": "sync", **common, "time": record.time_ms}


def checkpoint(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    """The state that a checkpoint holds."""
    found = decode_checkpoint(fs.read(path), path.name.removesuffix(".checkpoint"), path)
    facts.update(_state(found.state, found.removals))
    yield from ()


def head(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    """The state that a head holds; ``verify`` compares it with the log."""
    data = fs.read(path)
    found = decode_head(open_head(data, path), path.name.removesuffix(".head"), len(data))
    facts.update(_state(found.state, found.removals), durable=found.state.durable, floor=found.floor)
    yield from ()


def _state(state: StreamState, removals: int) -> dict[str, Any]:
    return {
        "epoch": state.epoch,
        "generation": state.generation,
        "record": state.n,
        "horizon": state.horizon,
        "zone": state.zone,
        "rememberedFiles": len(state.files),
        "positions": state.offsets.positions(),
        "removalsBytes": removals,
        "rows": sum(at.rows for at in state.locations.values()),
        "locations": [
            {"internal": key.internal, "value": key.value, "rows": at.rows, "since": at.since, "epoch": at.epoch}
            for key, at in sorted(state.locations.items())
        ],
    }


def removals(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    """Locations that maintenance has emptied or deleted."""
    data = fs.read(path)
    if not data:
        facts["removals"] = []
        return
    read_header(data, REMOVALS_MAGIC, path)
    found = scan(data)
    entries = []
    for part in found.frames:
        try:
            together = decode_removals(part.payload, path)
        except SparkhavenError as error:
            yield from_error(error, f"{path} at byte {part.offset}")
            continue
        entries += [
            {
                "byte": part.offset,
                "phase": removal.phase,
                "internal": removal.key.internal,
                "value": removal.key.value,
                "since": removal.since,
                "rows": removal.rows,
                "epoch": removal.epoch,
            }
            for removal in together
        ]
    facts["removals"] = entries
    yield from _end(path, found)


def _end(path: Path, found: Scan) -> Iterator[CheckFinding]:
    """Damage after the last sound frame."""
    if found.beyond:
        yield finding(
            "error",
            path,
            "a record before the last one is damaged",
            at=f"byte {found.end}",
            expected="a frame whose checksum holds",
            found=f"damage, then {len(found.beyond)} sound records from byte {found.beyond[0].offset}",
            hint=RESTORE,
        )
    elif found.rest:
        yield finding(
            "warning",
            path,
            "last record is torn. It was never committed, recovery drops it",
            at=f"byte {found.end}",
            found=f"{found.rest} bytes",
        )
