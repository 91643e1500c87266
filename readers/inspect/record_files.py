"""Decoders of records that are one value: ``table.size``, ``.tbl``, ``.tlmi``, schemas, merge records, JSON.

Also of a Parquet file: its footer, checksum and, in the index of a location, its row sets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, MutableMapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.parquet import ParquetFile

from sparkhaven.readers.checks.findings import CheckFinding, finding, from_error, shortened
from sparkhaven.readers.inspect.column_files import changed, extent, record_beside
from sparkhaven.store.epochs.files.failure_note import load_failure
from sparkhaven.store.epochs.files.removal_note import decode_removed
from sparkhaven.store.errors import CorruptFileError, SchemaParseError, SparkhavenError
from sparkhaven.store.format.index import tlmi
from sparkhaven.store.format.manifest import ManifestKind
from sparkhaven.store.format.manifest import decode as decode_manifest
from sparkhaven.store.format.parquet.footer import KEY, decode_footer
from sparkhaven.store.format.parquet.location_files import ROW_SET
from sparkhaven.store.format.table import table_size, tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.dropped_tables import DropPhase, decode_drop
from sparkhaven.store.merges.merge_records import decode_record
from sparkhaven.store.merges.validations import decode_validation
from sparkhaven.store.scan.column_file import column_header
from sparkhaven.store.scan.parquet_file import damage_at
from sparkhaven.store.schema.document.schema_file import load_schema
from sparkhaven.store.types.codings.row_ranges_codec import decode_rows
from sparkhaven.store.users.location_record import decode_locations

ENCODED = ("record", "validation")  # of a detached date: files in base64


def location_record(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    """A location's record, and the files that it names."""
    record = table_size.decode(fs.read(path), path)
    facts.update({name: value for name, value in asdict(record).items() if value not in (None, {}, False)})
    if set(path.parent.glob("*.dat")) or record.data_file_sizes:
        for name, committed in record.data_file_sizes.items():
            yield from _length(fs, path.parent / name, committed)


def _length(fs: Fs, path: Path, committed: int, *, whole: bool = False) -> Iterator[CheckFinding]:
    """``whole``: the length is that of the file, with its prefix."""
    stat = fs.stat(path)
    if stat is None:
        yield finding("error", path, "a committed file is missing", expected=f"{committed} bytes", found="nothing")
        return
    try:
        expected_size = committed + (column_header(fs, path).data_offset if path.suffix == ".dat" and not whole else 0)
    except (SparkhavenError, OSError) as error:
        yield finding("error", path, f"prefix cannot be read: {error}")
        return
    if stat.size < expected_size:
        yield shortened(path, stat.size, expected_size)


def definition(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    decoded = tbl.decode_tbl(fs.read(path), path)
    facts.update(namespace=decoded.namespace, name=decoded.name, storageType=decoded.storage_type)
    facts["columns"] = [
        {name: value for name, value in asdict(column).items() if value is not None} for column in decoded.columns
    ]
    yield from ()


def location_index(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
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


def schema(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
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
            "error" if fault.severity == "error" else "warning",
            path,
            f"{fault.code}: {fault.rule}",
            at=f"line {fault.line}, column {fault.column}, {fault.element}",
            expected=fault.expected,
            found=fault.found,
            hint=fault.hint,
        )


def merge_record(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    record = decode_record(fs.read(path), path)
    facts.update(
        {name: getattr(record, name) for name in ("table", "value", "generation", "phase", "complete", "source")}
    )
    facts.update(
        rowsIn=sum(source.rows for source in record.inputs),
        rowsOut=sum(output.rows for output in record.outputs),
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
    if record.complete and (record.proof is None or not record.proof.holds):
        yield finding("error", path, "merge has no valid proof", expected="equal rows and digests")
    if not record.complete:
        yield finding("note", path, f"the merge is not finished. Readers ignore it, last phase {record.phase}")


def manifest(kind: ManifestKind, fs: Fs, path: Path, facts: MutableMapping[str, object]) -> Iterator[CheckFinding]:
    """A manifest, and the lengths of the files that it names."""
    whole = decode_manifest(fs.read(path), kind, path, lambda manifest: manifest)
    facts.update({name: value for name, value in whole.about.items() if name not in ENCODED})
    facts.update(id=whole.id, bytes=sum(part.bytes for part in whole.parts.values()))
    facts["parts"] = [{"part": name, "files": len(part.files), **part.about} for name, part in whole.parts.items()]
    for name, state in whole.files.items():
        yield from _length(fs, path.parent / name, state.size, whole=True)


def validation(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    validated = decode_validation(fs.read(path), path)
    names = ("table", "value", "generation", "rows", "passed", "epochs", "binding", "tolerant")
    facts.update({name: getattr(validated, name) for name in (*names, *(["modes"] if validated.modes else []))})
    facts.update(timeMs=validated.time_ms, results=[asdict(rule_result) for rule_result in validated.results])
    name = f"{validated.generation}.validation"
    yield from _misplaced(path, "validation result", validated.table, validated.value, name)


def dropped_table(fs: Fs, path: Path, facts: MutableMapping[str, object]) -> Iterator[CheckFinding]:
    drop = decode_drop(fs.read(path), path)
    facts.update({name: getattr(drop, name) for name in ("table", "number", "phase", "reason", "user", "size")})
    facts.update(timeMs=drop.time_ms, removedMs=drop.removed_ms, kept=list(drop.kept))
    facts["streams"] = [asdict(stream) for stream in drop.streams]
    facts["dates"] = [{"value": d.value, "generation": d.generation, "rows": d.rows} for d in drop.dates]
    expected = (drop.table, f"{drop.number}.drop")
    if path.parts[-2:] != expected:
        yield finding("error", path, "record of a dropped table is in a wrong directory", expected="/".join(expected))
    if drop.phase is not DropPhase.REMOVED:
        yield finding("note", path, "files of the table are still to be removed")


def _misplaced(path: Path, noun: str, table: str, date: str, name: str) -> Iterator[CheckFinding]:
    expected = (f".{TableName.parse(table).table}.merges", date, name)
    if path.parts[-3:] != expected and ".tmp-" not in path.name:
        yield finding("error", path, f"{noun} is in a wrong directory", expected="/".join(expected))


def removed_note(fs: Fs, path: Path, facts: dict[str, object]) -> Iterator[CheckFinding]:
    (table, stream), note = decode_removed(fs.read(path), path)
    facts.update(table=table, stream=stream, **asdict(note))
    yield from _of_stream(path, table, f"{stream}.removed")


def _of_stream(path: Path, table: str, name: str) -> Iterator[CheckFinding]:
    expected = (*table.split("."), ".streams", name)
    if path.parent.name == ".streams" and path.parts[-4:] != expected:
        yield finding(
            "error", path, "note of another stream", expected="/".join(path.parts[-4:]), found="/".join(expected)
        )


def failure_note(fs: Fs, path: Path, facts: dict[str, object]) -> Iterator[CheckFinding]:
    (table, stream), failure = load_failure(fs, path)
    facts.update(table=table, stream=stream, **asdict(failure))
    yield from _of_stream(path, table, f"{stream}.failure")


def user_locations(fs: Fs, path: Path, facts: dict[str, object]) -> Iterator[CheckFinding]:
    """What is committed of a partitioned user table; its locations as ``internal/value`` with their rows."""
    record = decode_locations(fs.read(path), path)
    rows = {f"{key.internal}/{key.value}": held.rows for key, held in sorted(record.locations.items())}
    facts.update(table=record.table, save=record.save, rows=sum(rows.values()), locations=rows)
    facts["replaced"] = [f"{key.internal}/{key.value}" for key in sorted(record.replaced)]
    tbl.decode_tbl(record.definition, path)
    yield from ()


def empty_lock(fs: Fs, path: Path, facts: dict[str, object]) -> Iterator[CheckFinding]:
    """The lock file of a user table, which nobody writes to."""
    facts["held"] = (lock := fs.record_lock(path)) is None
    if lock is not None:
        lock.release()
    stat = fs.stat(path)
    if stat is not None and stat.size:
        yield finding("warning", path, "lock file has content", expected="0 bytes", found=f"{stat.size} bytes")


def json_file(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    """A file that is one JSON object; an empty lock file has no owner."""
    data = fs.read(path)
    if not data and path.suffix == ".lock":
        yield finding("note", path, "lock was never taken, or its owner could not write its name")
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


def parquet(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    size = (fs.stat(path) or _gone(path)).size
    record = record_beside(fs, path)
    committed = record.data_file_sizes.get(path.name) if record else None
    if committed is not None:
        yield from extent(path, committed, size)
        size = min(size, committed)
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
            yield finding("error", path, "footer entry deephaven is not JSON", found=error)
        except SparkhavenError as error:
            yield from_error(error, path)
    if ROW_SET in schema.names:
        yield from _row_sets(fs, path, parquet_file, facts)
    yield from changed(fs, path, record, 0)


def _row_sets(fs: Fs, path: Path, parquet_file: ParquetFile, facts: dict[str, Any]) -> Iterator[CheckFinding]:
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
        yield finding(
            "error",
            path,
            "row sets do not cover the location",
            expected=f"{location.size} rows",
            found=f"{covered} rows",
            hint="merge the date again with --rewrite. Rows are read without the index",
        )


def _gone(path: Path) -> Any:
    raise FileNotFoundError(path)
