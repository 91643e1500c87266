"""One table in a snapshot: its files at pinned epochs, as a table of a root of its own.

Committed bytes of intraday are copied and compared with their checksums: a rollback truncates such files in place.
Files of history never change in place, so they are linked. Logs are written anew: each begins at the pinned epoch,
which is its floor. Where a merge, removal or rollback came between, ``copy_table`` raises what a reader gets.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import replace

from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.store.epochs.files.checkpoint import encode_checkpoint
from sparkhaven.store.epochs.files.published_size import (
    TABLE_DEFINITION,
    TABLE_SIZE,
    physical_size,
    record_bytes,
)
from sparkhaven.store.epochs.files.removal_note import noted_streams
from sparkhaven.store.epochs.files.removals import new_file, read_removals
from sparkhaven.store.epochs.files.saved_state import Checkpoint
from sparkhaven.store.epochs.pins import Pin
from sparkhaven.store.epochs.state.log_records import OpenRecord, encode, schema_columns
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.epochs.state.tombstone import Removal, RemovalPhase
from sparkhaven.store.errors import CorruptFileError, SnapshotMovedError
from sparkhaven.store.format.parquet.manifest import decode_manifest
from sparkhaven.store.format.parquet.trees import MANIFEST
from sparkhaven.store.framing.log_frames import LOG_MAGIC, frame, header
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.merges.history import RowContent, row_content
from sparkhaven.store.merges.merge_records import MergeRecord, encode_record
from sparkhaven.store.merges.validations import validation_path
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.scan.seen_history import recorded_date, refuse_unproved
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.writers.copies.content import content_digest
from sparkhaven.writers.copies.file_copies import FileCopies, files_below
from sparkhaven.writers.copies.manifest import CopiedTable
from sparkhaven.writers.copies.quarantine_copy import copy_quarantine
from sparkhaven.writers.merge.location_index import entries_of, store_entries
from sparkhaven.writers.partitions import add_partition, writable_names


def copy_table(place: TablePlace, pinned: PinnedTable, copies: FileCopies, time_ms: int) -> CopiedTable:
    """Copies a pinned table below ``copies.top``.

    SnapshotMovedError: rows were removed, or the schema was changed, meanwhile. CorruptFileError: a file is damaged.
    """
    target = TablePlace(place.fs, Layout(copies.top), place.table)
    plan = pinned.plan()
    refuse_unproved(place, plan.differing)
    partitions = tuple(writable_names(place.fs, place.layout, place.table.namespace))
    _definition(place, target, copies, pinned)
    for name in partitions:
        add_partition(place.fs, target.layout, place.table.namespace, name)
    for record in plan.records:
        _history(place, target, copies, record)
    if plan.records:
        of_dates = (entries_of(target, recorded_date(record)) for record in plan.records)
        store_entries(target, dict(ChainMap(*of_dates)))  # also one without entries, where all dates were dropped
        copies.write(target.metadata_index, place.fs.read(target.metadata_index))
    for stream in pinned.epochs:
        _stream(place.of_stream(stream), target.of_stream(stream), copies, pinned, time_ms)
    _removed_streams(place, target, copies, pinned)
    _extended(place, target, copies, plan.records)
    digest = content_digest(target, pinned, plan.records)
    return CopiedTable(plan.rows, pinned.epochs, digest, partitions, copies.files)


def _definition(place: TablePlace, target: TablePlace, copies: FileCopies, pinned: PinnedTable) -> None:
    """The schema is read before its history, which is written first: so the history knows it."""
    schema, history = place.fs.read(place.schema), place.fs.read(place.schema_history)
    copies.write(target.schema_history, history)
    copies.write(target.schema, schema)
    if load_deployed(target).version != pinned.schema.version:
        raise SnapshotMovedError("the schema was changed meanwhile", where=place.schema, hint="run it again")


def _history(place: TablePlace, target: TablePlace, copies: FileCopies, record: MergeRecord) -> None:
    path, data = target.merges / record.value / f"{record.generation}.json", encode_record(record)
    unchanged = copies.has(path, data)
    copies.write(path, data)
    for output in record.outputs:
        key = LocationKey(output.internal, record.value)
        source, directory = place.history_location(key), target.history_location(key)
        if output.rows and place.fs.stat(source) is None:
            raise SnapshotMovedError("a merge has replaced the location", where=source, hint="run it again")
        for file in files_below(place.fs, source):
            copies.link(file, directory / file.relative_to(source), unchanged=unchanged)
    validation = validation_path(place, record.value, record.generation)
    if place.fs.stat(validation) is not None:
        copies.write(path.with_name(validation.name), place.fs.read(validation))


def tree_in_step(place: TablePlace, records: Sequence[MergeRecord]) -> bytes | None:
    """The manifest of the tree beside history; None: there is none, or the next merge has to write it."""
    try:
        data = place.fs.read(place.extended / MANIFEST)
        manifest = decode_manifest(data, place.extended / MANIFEST)
    except (FileNotFoundError, CorruptFileError):
        return None
    leaves = {leaf.value: RowContent(leaf.rows, leaf.history) for leaf in manifest.files}
    history = {record.value: content for record in records if (content := row_content(record)).rows}
    return data if leaves == history else None


def _extended(place: TablePlace, target: TablePlace, copies: FileCopies, records: Sequence[MergeRecord]) -> None:
    """Other programs read the tree, whose files never change in place."""
    data, path = tree_in_step(place, records), target.extended / MANIFEST
    if data is None:
        return
    unchanged = copies.has(path, data)
    for name in decode_manifest(data, path).sums:
        copies.link(place.extended / name, target.extended / name, unchanged=unchanged)
    copies.write(path, data)


def _removed_streams(place: TablePlace, target: TablePlace, copies: FileCopies, pinned: PinnedTable) -> None:
    """The notes of streams that were removed: merge records name epochs of them."""
    for stream in noted_streams(place):
        if stream not in pinned.epochs:
            copies.write(target.of_stream(stream).stream_removed, place.fs.read(place.of_stream(stream).stream_removed))


def _stream(place: StreamPlace, target: StreamPlace, copies: FileCopies, pinned: PinnedTable, time_ms: int) -> None:
    pin = pinned.pin(place.stream)
    state = pin.state
    for location in state.locations.values():
        _location(place, target, copies, location, pin)
    copy_quarantine(place, target, copies, state)
    pin.require((key, place.intraday_location(key)) for key in state.locations)
    saved = replace(
        state,
        floor=state.epoch,
        generation=state.generation + 1,
        n=state.n + 1,
        durable=state.epoch,
        durability="fsync",
    )
    opened = _opened(saved, pinned, place.fs.boot_id(), time_ms)
    removals = new_file(_truncated(place, state))
    if removals:
        copies.write(target.stream_removals, removals)
    copies.write(target.stream_checkpoint, encode_checkpoint(Checkpoint(saved, len(removals))))
    copies.write(target.stream_log, header(LOG_MAGIC, saved.epoch) + frame(encode(opened)))


def _truncated(place: StreamPlace, state: StreamState) -> list[Removal]:
    """The truncates of its locations that are not deleted yet: a delete asks for them."""
    truncated = {location.key: location for location in state.locations.values() if location.truncated}
    return [
        removal
        for _, removal in (read_removals(place).entries if truncated else ())
        if removal.phase == RemovalPhase.TRUNCATE
        and (location := truncated.get(removal.key)) is not None
        and removal.means(location)
    ]


def _opened(state: StreamState, pinned: PinnedTable, boot_id: str, time_ms: int) -> OpenRecord:
    return OpenRecord(
        n=state.n + 1,
        epoch=state.epoch,
        generation=state.generation,
        time_ms=time_ms,
        boot_id=boot_id,
        pid=0,
        host="",
        query_id="snapshot",
        durability="fsync",
        keep_epochs=0,
        durable=state.epoch,
        schema_version=state.schema_version,
        columns=schema_columns(pinned.schema),
        rule=state.rule,
    )


def _location(place: StreamPlace, target: StreamPlace, copies: FileCopies, location: LocationState, pin: Pin) -> None:
    source, directory = place.intraday_location(location.key), target.intraday_location(location.key)
    try:
        for name, file in ({} if location.truncated else location.files).items():
            copies.commit(source / name, directory / name, physical_size(name, file.size), file.crc)
        copies.write(directory / TABLE_DEFINITION, place.fs.read(source / TABLE_DEFINITION))
    except (CorruptFileError, FileNotFoundError) as error:
        pin.require([(location.key, source)], error)
        raise
    copies.write(directory / TABLE_SIZE, record_bytes(place.stream, location))
