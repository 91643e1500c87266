"""Decoders of the framed files of a stream: commit log, checkpoint, head, removals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sparkhaven.readers.checks.findings import CheckFinding, finding, from_error
from sparkhaven.store.epochs.files.checkpoint import decode_checkpoint
from sparkhaven.store.epochs.files.head import decode_head, open_head
from sparkhaven.store.epochs.files.removals import decode_removals
from sparkhaven.store.epochs.state.log_records import (
    CommitRecord,
    OpenRecord,
    Record,
    RollbackRecord,
    WithdrawRecord,
    decode,
)
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.epochs.state.resume_rules import PartitionRule
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.framing.log_frames import LOG_MAGIC, REMOVALS_MAGIC, Scan, read_header, scan, version
from sparkhaven.store.io.fs import Fs

RESTORE = "restore the file from a copy. Nothing was changed or deleted"


def commit_log(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    data = fs.read(path)
    facts["baseEpoch"] = read_header(data, LOG_MAGIC, path)
    frames = scan(data)
    records: list[dict[str, Any]] = []
    previous: int | None = None
    for log_frame in frames.frames:
        try:
            record = decode(log_frame.payload, path)
        except SparkhavenError as error:
            yield from_error(error, f"{path} at byte {log_frame.offset}")
            continue
        if previous is not None and record.n != previous + 1:
            yield finding(
                "error",
                path,
                "commit log has a gap",
                at=f"byte {log_frame.offset}",
                expected=f"record {previous + 1}",
                found=f"record {record.n}",
                hint=RESTORE,
            )
        previous = record.n
        records.append({"byte": log_frame.offset, **_summary(record)})
    epochs = [r["epoch"] for r in records if r["kind"] in ("commit", "rollback", "withdraw")]
    facts.update(
        firstEpoch=epochs[0] if epochs else None,
        lastEpoch=epochs[-1] if epochs else None,
        generation=max((r["generation"] for r in records), default=None),
        records=records,
    )
    yield from _end(path, frames)


def _summary(record: Record) -> dict[str, Any]:
    common = {"n": record.n, "epoch": record.epoch, "generation": record.generation}
    match record:
        case CommitRecord(batch=batch):
            counts = {"rows": batch.rows, "locations": len(batch.reports), "files": len(batch.files)}
            spans = {
                name: [[span.place, span.start, span.stop] for span in parts]
                for name, parts in (("ranges", batch.ranges), ("gaps", batch.gaps))
                if parts
            }
            return {"kind": "commit", **common, **counts, **spans, "batch": batch.batch_id, "time": batch.time_ms}
        case RollbackRecord():
            return {"kind": "rollback", **common, "to": record.to, "reason": record.reason, "time": record.time_ms}
        case WithdrawRecord():
            withdrawn = [
                {
                    "internal": part.key.internal,
                    "value": part.key.value,
                    "since": part.since,
                    "rows": part.rows.rows,
                    "ranges": len(part.rows),
                    "first": part.rows.start,
                    "last": part.rows.stop - 1,
                }
                for part in record.locations
                if part.rows
            ]
            what = {"undoes": list(record.undoes), "reason": record.reason, "rows": record.rows, "locations": withdrawn}
            return {"kind": "withdraw", **common, **what, "time": record.time_ms}
        case OpenRecord():
            owner = {"pid": record.pid, "host": record.host, "durability": record.durability}
            return {"kind": "open", **common, **owner, "rule": _rule(record.rule), "time": record.time_ms}
        case _:
            return {"kind": "sync", **common, "time": record.time_ms}


def checkpoint(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    decoded = decode_checkpoint(fs.read(path), path.name.removesuffix(".checkpoint"), path)
    facts.update(_state(decoded.state, decoded.removals))
    yield from ()


def head(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    """The state that a head holds; ``verify`` compares it with the log."""
    data = fs.read(path)
    saved = open_head(data, path)
    if version(data) == 1:
        saved.check()
        facts.update(version=1)
        yield finding("note", path, "written by an earlier release. A start reads the log instead")
        return
    decoded = decode_head(saved, path.name.removesuffix(".head"), len(data))
    facts.update(_state(decoded.state, decoded.removals), durable=decoded.state.durable, floor=decoded.floor)
    yield from ()


def _rule(rule: PartitionRule | None) -> dict[str, str] | None:
    return None if rule is None else rule.to_json()


def _state(state: StreamState, removals: int) -> dict[str, Any]:
    return {
        "epoch": state.epoch,
        "generation": state.generation,
        "record": state.n,
        "horizon": state.horizon,
        "rule": _rule(state.rule),
        "rememberedFiles": len(state.files),
        "positions": state.offsets.positions(),
        "removalsBytes": removals,
        "rows": sum(location.shown_rows for location in state.locations.values()),
        "locations": [
            {
                "internal": key.internal,
                "value": key.value,
                "rows": loc.rows,
                "since": loc.since,
                "epoch": loc.epoch,
                **({"withdrawn": loc.withdrawn.rows} if loc.withdrawn else {}),
            }
            for key, loc in sorted(state.locations.items())
        ],
    }


def removals(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    data = fs.read(path)
    if not data:
        facts["removals"] = []
        return
    read_header(data, REMOVALS_MAGIC, path)
    frames = scan(data)
    entries = []
    for log_frame in frames.frames:
        try:
            together = decode_removals(log_frame.payload, path)
        except SparkhavenError as error:
            yield from_error(error, f"{path} at byte {log_frame.offset}")
            continue
        entries += [
            {
                "byte": log_frame.offset,
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
    yield from _end(path, frames)


def _end(path: Path, frames: Scan) -> Iterator[CheckFinding]:
    if frames.beyond:
        yield finding(
            "error",
            path,
            "a record before the last one is damaged",
            at=f"byte {frames.end}",
            expected="a frame whose checksum holds",
            found=f"damage, then {len(frames.beyond)} sound records from byte {frames.beyond[0].offset}",
            hint=RESTORE,
        )
    elif frames.rest:
        yield finding(
            "warning",
            path,
            "last record is torn. It was never committed, recovery drops it",
            at=f"byte {frames.end}",
            found=f"{frames.rest} bytes",
        )
