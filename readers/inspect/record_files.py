"""Decoders of records that are one value, and of the framed files of a stream.

The former are ``table.size``, ``.tbl``, ``.tlmi``, schemas, merge records, JSON, and Parquet files: footer, checksum
and, in the index of a location, row sets. The latter are commit log, checkpoint, head and removals.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, MutableMapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.parquet import ParquetFile

from sparkhaven.readers.checks.committed import CommittedFile, check_file
from sparkhaven.readers.checks.findings import Finding, finding, from_error
from sparkhaven.readers.checks.history import check_proof
from sparkhaven.readers.checks.stream_files import torn
from sparkhaven.readers.inspect.column_files import check_committed, record_beside
from sparkhaven.store.epochs.files.checkpoint import decode_checkpoint
from sparkhaven.store.epochs.files.head import decode_head, open_head
from sparkhaven.store.epochs.files.removals import decode_removals
from sparkhaven.store.epochs.files.stream_notes import decode_removed, load_failure
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
from sparkhaven.store.errors import CorruptFileError, SchemaParseError, SparkhavenError
from sparkhaven.store.format.index import tlmi
from sparkhaven.store.format.manifest import SNAPSHOT, ManifestKind
from sparkhaven.store.format.manifest import decode as decode_manifest
from sparkhaven.store.format.parquet.footer import KEY, decode_footer
from sparkhaven.store.format.table import table_size, tbl
from sparkhaven.store.framing import LOG_MAGIC, REMOVALS_MAGIC, Scan, read_header, scan
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import ROW_SET, TableName
from sparkhaven.store.merges.dropped_tables import DropPhase, decode_drop
from sparkhaven.store.merges.merge_records import decode_record
from sparkhaven.store.merges.validations import decode_validation
from sparkhaven.store.native.checked_columns import checksum
from sparkhaven.store.scan.parquet_file import damage_at
from sparkhaven.store.schema.document.schema_file import load_schema
from sparkhaven.store.types.codings.row_set import decode_rows
from sparkhaven.store.types.committed_columns import UNKNOWN, FileState
from sparkhaven.store.user_tables import decode_locations

ENCODED = ("record", "validation")  # of a detached date: files in base64


def location_record(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[Finding]:
    """A location's record, and the files that it names."""
    record = table_size.decode(fs.read(path), path)
    facts.update({name: value for name, value in asdict(record).items() if value not in (None, {}, False)})
    if set(path.parent.glob("*.dat")) or record.data_file_sizes:
        for name, size in record.data_file_sizes.items():
            yield from check_file(fs, CommittedFile(path.parent / name, FileState(size, UNKNOWN)))


def definition(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[Finding]:
    decoded = tbl.decode_tbl(fs.read(path), path)
    facts.update(namespace=decoded.namespace, name=decoded.name, storageType=decoded.storage_type)
    facts["columns"] = [
        {name: value for name, value in asdict(column).items() if value is not None} for column in decoded.columns
    ]
    yield from ()


def location_index(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[Finding]:
    entries = tlmi.decode_tlmi(fs.read(path), path, keep_empty=True)
    facts["rows"] = sum(max(entry.rows, 0) for entry in entries)
    facts["locations"] = [
        {
            "internal": entry.key.internal,
            "value": entry.key.value,
            "format": entry.format,
            "rows": entry.rows,
            "modifiedMs": entry.modified_ms,
        }
        for entry in entries
    ]
    yield from ()


def schema(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[Finding]:
    try:
        loaded = load_schema(fs, path, deployed=True)
        findings = list(loaded.findings)
        facts.update(table=loaded.schema.full_name, columns=[c.name for c in loaded.schema.columns])
    except SchemaParseError as error:
        findings = list(error.extra.get("findings") or ())
        if not findings:
            raise
    for fault in findings:
        yield finding(
            fault.code,
            path,
            f"{fault.code}: {fault.rule}",
            at=f"line {fault.line}, column {fault.column}, {fault.element}",
            expected=fault.expected,
            found=fault.found,
            hint=fault.hint,
        )


def merge_record(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[Finding]:
    record = decode_record(fs.read(path), path)
    facts.update(
        {name: getattr(record, name) for name in ("table", "value", "generation", "phase", "complete", "source")}
    )
    facts.update(
        rowsIn=sum(source.rows for source in record.inputs),
        rowsOut=record.rows,
        proofHolds=record.proof.holds if record.proof else None,
        inputs=[asdict(source) for source in record.inputs],
        outputs=[{"internal": o.internal, "rows": o.rows, "files": len(o.files)} for o in record.outputs],
        replaces=list(record.replaces),
    )
    run = record.run
    where = {"staysIn": run.stays_in, "relocated": run.relocated and asdict(run.relocated)}
    facts.update({name: value for name, value in where.items() if value is not None})
    if run.detached:
        facts["detached"] = [asdict(part) for part in run.detached]
    if record.corrections:
        facts["corrections"] = [asdict(correction) for correction in record.corrections]
    if record.deletions:
        facts["deletions"] = [asdict(deletion) for deletion in record.deletions]
    yield from _misplaced(path, "merge record", record.table, record.value, f"{record.generation}.json")
    yield from check_proof(record, path)
    if not record.complete:
        yield finding("N273", path, phase=record.phase)


def manifest(kind: ManifestKind, fs: Fs, path: Path, facts: MutableMapping[str, object]) -> Iterator[Finding]:
    """A manifest, and the lengths of the files that it names."""
    whole = decode_manifest(fs.read(path), kind, path, lambda manifest: manifest)
    facts.update({name: value for name, value in whole.about.items() if name not in ENCODED})
    facts.update(id=whole.id, bytes=sum(part.bytes for part in whole.parts.values()))
    facts["parts"] = [{"part": name, "files": len(part.files), **part.about} for name, part in whole.parts.items()]
    for name, state in whole.files.items():
        continued = kind is SNAPSHOT and state.crc != UNKNOWN  # what is linked from history never grows
        yield from check_file(fs, CommittedFile(path.parent / name, state, whole=True, continued=continued))


def validation(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[Finding]:
    validated = decode_validation(fs.read(path), path)
    names = ("table", "value", "generation", "rows", "passed", "epochs", "binding", "tolerant")
    facts.update({name: getattr(validated, name) for name in (*names, *(["modes"] if validated.modes else []))})
    facts.update(timeMs=validated.time_ms, results=[asdict(rule_result) for rule_result in validated.results])
    name = f"{validated.generation}.validation"
    yield from _misplaced(path, "validation result", validated.table, validated.value, name)


def dropped_table(fs: Fs, path: Path, facts: MutableMapping[str, object]) -> Iterator[Finding]:
    drop = decode_drop(fs.read(path), path)
    facts.update({name: getattr(drop, name) for name in ("table", "number", "phase", "reason", "user", "size")})
    facts.update(timeMs=drop.time_ms, removedMs=drop.removed_ms, kept=list(drop.kept))
    facts["streams"] = [asdict(stream) for stream in drop.streams]
    facts["dates"] = [{"value": d.value, "generation": d.generation, "rows": d.rows} for d in drop.dates]
    expected = (drop.table, f"{drop.number}.drop")
    if path.parts[-2:] != expected:
        yield finding("E201", path, "record of a dropped table is in a wrong directory", expected="/".join(expected))
    if drop.phase is not DropPhase.REMOVED:
        yield finding("N281", path, "files of the table are still to be removed")


def _misplaced(path: Path, noun: str, table: str, date: str, name: str) -> Iterator[Finding]:
    expected = (f".{TableName.parse(table).table}.merges", date, name)
    if path.parts[-3:] != expected and ".tmp-" not in path.name:
        yield finding("E201", path, f"{noun} is in a wrong directory", expected="/".join(expected))


def removed_note(fs: Fs, path: Path, facts: dict[str, object]) -> Iterator[Finding]:
    (table, stream), note = decode_removed(fs.read(path), path)
    facts.update(table=table, stream=stream, **asdict(note))
    yield from _of_stream(path, table, f"{stream}.removed")


def _of_stream(path: Path, table: str, name: str) -> Iterator[Finding]:
    expected = (*table.split("."), ".streams", name)
    if path.parent.name == ".streams" and path.parts[-4:] != expected:
        there, wanted = "/".join(expected), "/".join(path.parts[-4:])
        yield finding("E201", path, "note of another stream", expected=wanted, found=there)


def failure_note(fs: Fs, path: Path, facts: dict[str, object]) -> Iterator[Finding]:
    (table, stream), failure = load_failure(fs, path)
    facts.update(table=table, stream=stream, **asdict(failure))
    yield from _of_stream(path, table, f"{stream}.failure")


def user_locations(fs: Fs, path: Path, facts: dict[str, object]) -> Iterator[Finding]:
    """What is committed of a partitioned user table; its locations as ``internal/value`` with their rows."""
    record = decode_locations(fs.read(path), path)
    rows = {f"{key.internal}/{key.value}": held.rows for key, held in sorted(record.locations.items())}
    facts.update(table=record.table, save=record.save, rows=sum(rows.values()), locations=rows)
    facts["replaced"] = [f"{key.internal}/{key.value}" for key in sorted(record.replaced)]
    tbl.decode_tbl(record.definition, path)
    yield from ()


def empty_lock(fs: Fs, path: Path, facts: dict[str, object]) -> Iterator[Finding]:
    """The lock file of a user table, which nobody writes to."""
    facts["held"] = (lock := fs.record_lock(path)) is None
    if lock is not None:
        lock.release()
    stat = fs.stat(path)
    if stat is not None and stat.size:
        yield finding("W218", path, expected="0 bytes", found=f"{stat.size} bytes")


def json_file(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[Finding]:
    """A file that is one JSON object; an empty lock file has no owner."""
    data = fs.read(path)
    if not data and path.suffix == ".lock":
        yield finding("N219", path)
        return
    try:
        record = json.loads(data)
    except ValueError as error:
        offset = getattr(error, "start", getattr(error, "pos", 0))
        raise CorruptFileError(
            "file is not JSON", where=path, byte=offset, expected="a JSON object", found=error
        ) from error
    if not isinstance(record, dict):
        raise CorruptFileError("file is not a JSON object", where=path, expected="{...}", found=type(record).__name__)
    facts.update(record)


ABOVE = 3  # directories between an index and the location that it belongs to


def parquet(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[Finding]:
    size = (fs.stat(path) or _gone(path)).size
    record = record_beside(fs, path)
    committed = record.data_file_sizes.get(path.name) if record else None
    if committed is not None:
        size = min(size, committed)
    yield from check_committed(fs, path, record)
    with damage_at(path):
        parquet_file = ParquetFile(pa.BufferReader(fs.map(path, size)))
        metadata, schema = parquet_file.metadata, parquet_file.schema_arrow
    facts.update(
        rows=metadata.num_rows,
        rowGroups=metadata.num_row_groups,
        createdBy=metadata.created_by,
        columns=[f"{field.name}: {field.type}" for field in schema],
    )
    own = (metadata.metadata or {}).get(KEY)
    if own is not None:
        try:
            facts["deephaven"] = json.loads(own)
            decode_footer(own, path)
        except ValueError as error:
            yield finding("E201", path, "footer entry deephaven is not JSON", found=error)
        except SparkhavenError as error:
            yield from_error(error, path)
    if ROW_SET in schema.names:
        yield from _row_sets(fs, path, parquet_file, facts)
    yield from check_committed(fs, path, record, checksum)


def _row_sets(fs: Fs, path: Path, parquet_file: ParquetFile, facts: dict[str, Any]) -> Iterator[Finding]:
    location = table_size.load(fs, path.parents[ABOVE]) if len(path.parents) > ABOVE else None
    with damage_at(path, f"column {ROW_SET}"):
        sets = parquet_file.read([ROW_SET]).column(0).to_pylist()
    covered = 0
    for row, row_set in enumerate(sets):
        try:
            starts, stops = decode_rows(row_set or b"", f"{path}, row {row}", location.size if location else None)
            covered += int((stops - starts).sum())
        except SparkhavenError as error:
            yield from_error(error, path)
    facts.update(keys=len(sets), indexedRows=covered)
    if location is not None and covered != location.size:
        what = "row sets do not cover the location"
        yield finding("E251", path, what, expected=f"{location.size} rows", found=f"{covered} rows")


def _gone(path: Path) -> Any:
    raise FileNotFoundError(path)


RESTORE = "restore the file from a copy. Nothing was changed or deleted"


def commit_log(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[Finding]:
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
                "E201",
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


def checkpoint(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[Finding]:
    decoded = decode_checkpoint(fs.read(path), path.name.removesuffix(".checkpoint"), path)
    facts.update(_state(decoded.state, decoded.removals))
    yield from ()


def head(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[Finding]:
    """The state that a head holds; ``verify`` compares it with the log."""
    data = fs.read(path)
    saved = open_head(data, path)
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


def removals(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[Finding]:
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


def _end(path: Path, frames: Scan) -> Iterator[Finding]:
    if not frames.beyond:
        yield from torn(path, frames.end, frames.rest)
        return
    there = f"damage, then {len(frames.beyond)} sound records from byte {frames.beyond[0].offset}"
    what, wanted = "a record before the last one is damaged", "a frame whose checksum holds"
    yield finding("E201", path, what, at=f"byte {frames.end}", expected=wanted, found=there, hint=RESTORE)
