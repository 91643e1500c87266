"""The files of one table in a snapshot: those of pinned epochs, as a table of a root of its own.

Committed bytes of intraday are copied and compared with their checksums: a rollback truncates such files in place.
Files of history never change in place, so they are linked. Logs are written anew: each begins at the pinned epoch,
which is its floor. Where a merge, removal or rollback came between, ``copy_table`` raises what a reader gets.

A quarantine is its Delta table at one version, linked, and a ledger for the copied epoch. Rows are written to it before
their epoch is committed, so a copy made after the pin has those of all epochs. It may have rows of later ones, too: the
ledger says that these are dead, readers leave them out, and the next start of the stream removes them.

A user table is as one save has left it. To its intraday data other programs append: each location is copied up to the
lengths that its ``table.size`` says.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.readers.checks.history import entries_of
from sparkhaven.store.delta.log import is_table
from sparkhaven.store.delta.snapshot import read_snapshot
from sparkhaven.store.epochs.files.checkpoint import Checkpoint, encode_checkpoint
from sparkhaven.store.epochs.files.published_size import (
    TABLE_DEFINITION,
    TABLE_SIZE,
    data_start,
    physical_size,
    record_bytes,
)
from sparkhaven.store.epochs.files.removals import new_file, read_removals
from sparkhaven.store.epochs.files.stream_notes import noted_streams
from sparkhaven.store.epochs.pins import Pin
from sparkhaven.store.epochs.state.log_records import OpenRecord, encode, schema_columns
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.removed_locations import Removal, RemovalPhase
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import CorruptFileError, SnapshotMovedError
from sparkhaven.store.format.parquet.trees import MANIFEST, decode_manifest
from sparkhaven.store.format.table.table_size import decode
from sparkhaven.store.framing import LOG_MAGIC, frame, header
from sparkhaven.store.io.fs import Fs, files_below
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.merges.history import RowContent, row_content
from sparkhaven.store.merges.merge_records import MergeRecord, encode_record
from sparkhaven.store.merges.validations import validation_path
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.quarantine.ledger import Ledger, encode_ledger, read_ledger
from sparkhaven.store.scan.column_file import column_header
from sparkhaven.store.scan.seen_history import recorded_date, refuse_unproved
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.committed_columns import UNKNOWN, FileState
from sparkhaven.store.types.model import TableSchema
from sparkhaven.store.user_tables import (
    CommittedRows,
    UserTable,
    intraday_location,
    load_user_table,
    published,
    splayed_of,
)
from sparkhaven.writers.merge.publish.staged_locations import store_entries
from sparkhaven.writers.partitions import add_partition, writable_names
from sparkhaven.writers.quarantine.changes import leftovers, rebuilt_ledger
from sparkhaven.writers.transfer.content import CopiedTable, content_digest, user_digest
from sparkhaven.writers.transfer.copying import FileCopies, path_in

QUARANTINES = Layout(Path()).quarantine("").name


def is_quarantine(path: str) -> bool:
    """Whether a path below a snapshot is of a quarantine."""
    return path.startswith(f"{QUARANTINES}/")


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
    _extended(place, target, copies, pinned, plan.records)
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


def tree_in_step(place: TablePlace, schema: TableSchema, records: Sequence[MergeRecord]) -> bytes | None:
    """The manifest of the tree beside history; None: there is none, or the next merge has to write it."""
    try:
        data = place.fs.read(place.extended / MANIFEST)
        manifest = decode_manifest(data, place.extended / MANIFEST)
    except (FileNotFoundError, CorruptFileError):
        return None
    leaves = {leaf.value: RowContent(leaf.rows, leaf.history) for leaf in manifest.leaves}
    history = {record.value: content for record in records if (content := row_content(record)).rows}
    return data if leaves == history and manifest.is_of(schema) else None


def _extended(
    place: TablePlace, target: TablePlace, copies: FileCopies, pinned: PinnedTable, records: Sequence[MergeRecord]
) -> None:
    """Other programs read the tree, whose files never change in place."""
    data, path = tree_in_step(place, pinned.schema, records), target.extended / MANIFEST
    if data is None:
        return
    unchanged = copies.has(path, data)
    for name in decode_manifest(data, path).files:
        copies.link(place.extended / name, target.extended / name, unchanged=unchanged)
    copies.write(path, data)


def _removed_streams(place: TablePlace, target: TablePlace, copies: FileCopies, pinned: PinnedTable) -> None:
    """The notes of streams that were removed, since merge records name epochs of them, and their quarantines."""
    for stream in noted_streams(place):
        if stream in pinned.epochs:
            continue
        source, copy = place.of_stream(stream), target.of_stream(stream)
        copies.write(copy.stream_removed, place.fs.read(source.stream_removed))
        if (ledger := read_ledger(source)) is not None:
            _copy_quarantine(source, copy, copies, ledger, ledger)


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
            copies.commit(source / name, directory / name, FileState(physical_size(name, file.size), file.crc))
        copies.write(directory / TABLE_DEFINITION, place.fs.read(source / TABLE_DEFINITION))
    except (CorruptFileError, FileNotFoundError) as error:
        pin.require([(location.key, source)], error)
        raise
    copies.write(directory / TABLE_SIZE, record_bytes(place.stream, location))


# --- quarantines


def copy_quarantine(place: StreamPlace, target: StreamPlace, copies: FileCopies, state: StreamState) -> None:
    """Copies ledger and Delta table; streams of several tables that share one share it in the snapshot, too."""
    ledger = read_ledger(place)
    if ledger is None and not state.rejected:
        return
    _copy_quarantine(place, target, copies, ledger or Ledger(), rebuilt_ledger(state, ""))
    for requeue in leftovers(place, state)[0]:  # committed; the marks of their rows may come before the next read
        copies.link(requeue.path, target.requeues / requeue.path.name)


def _copy_quarantine(place: StreamPlace, target: StreamPlace, copies: FileCopies, ledger: Ledger, new: Ledger) -> None:
    """``new``: the ledger of the copy, but for what ``ledger`` says of places."""
    default = place.layout.quarantine(place.stream)
    source = Path(ledger.place) if ledger.place else default
    name = place.stream if source == default else f"{place.table}.{place.stream}"
    new = replace(new, place=str(Layout(copies.home).quarantine(name)), file=ledger.file)
    copies.write(target.stream_quarantine, encode_ledger(new, str(place.table), place.stream))
    if is_table(place.fs, source):
        snapshot = read_snapshot(place.fs, source)
        for path in (*snapshot.read, *snapshot.files):
            if path_in(path, source):
                copies.link(path, target.layout.quarantine(name) / path.relative_to(source))


def move_ledgers(places: Iterable[StreamPlace], layout: Layout) -> None:
    """Lets the ledgers of staged streams name the quarantines of the root that they are restored into."""
    for place in places:
        ledger = read_ledger(place)
        if ledger is not None:
            moved = replace(ledger, place=str(layout.quarantine(Path(ledger.place).name)))
            place.fs.replace(place.stream_quarantine, encode_ledger(moved, str(place.table), place.stream))


def same_quarantine(fs: Fs, one: Path, other: Path) -> bool:
    """Whether two directories have copies of one Delta table, by its id."""
    if not is_table(fs, one) or not is_table(fs, other):
        return False
    return read_snapshot(fs, one).metadata.get("id") == read_snapshot(fs, other).metadata.get("id")


# --- user tables


def copy_user_table(place: TablePlace, copies: FileCopies) -> CopiedTable:
    """Copies a user table below ``copies.top``. CorruptFileError: a file is damaged."""
    target = TablePlace(place.fs, Layout(copies.top), place.table)
    table = _loaded(place)
    try:
        copies.write(target.user_definition, place.fs.read(place.user_definition))
        if table.record is not None:
            copies.write(target.user_locations, place.fs.read(place.user_locations))
        intraday = {key: _user_intraday(place, target, copies, key) for key in table.intraday}
        for key, held in table.locations.items():
            if table.splayed:
                _user_location(place, splayed_of(place, table.since) or place.splayed, target.splayed, copies, held)
            else:
                _user_location(place, place.user_location(key), target.user_location(key), copies, held)
    except CorruptFileError:
        _require_unchanged(place, table)
        raise
    _require_unchanged(place, table)
    copied = replace(table, intraday=intraday)
    rows = sum(held.rows for held in (*copied.locations.values(), *copied.unsaved.values()))
    return CopiedTable(rows, {}, user_digest(target, copied), (), copies.files)


def _loaded(place: TablePlace) -> UserTable:
    table = load_user_table(place)
    if table is None:
        raise SnapshotMovedError("the table was removed meanwhile", where=place.user_definition, hint="run it again")
    return table


def _require_unchanged(place: TablePlace, table: UserTable) -> None:
    if replace(_loaded(place), intraday=table.intraday) != table:
        raise SnapshotMovedError("the table was saved meanwhile", where=place.user_definition, hint="run it again")


def _user_intraday(place: TablePlace, target: TablePlace, copies: FileCopies, key: LocationKey) -> CommittedRows:
    source, directory = intraday_location(place, key), intraday_location(target, key)
    data = place.fs.read(source / TABLE_SIZE)
    held = published(decode(data, source / TABLE_SIZE))
    _user_location(place, source, directory, copies, held)
    copies.write(directory / TABLE_SIZE, data)
    return held


def _user_location(place: TablePlace, source: Path, directory: Path, copies: FileCopies, held: CommittedRows) -> None:
    for name, stat in place.fs.entries(source):
        if stat.is_dir:
            continue
        if name not in held.files:
            copies.write(directory / name, place.fs.read(source / name))
            continue
        state = held.files[name]
        start = column_header(place.fs, source / name).data_offset if name.endswith(".dat") else 0
        known = state.crc if start == data_start(name) else UNKNOWN
        copies.commit(source / name, directory / name, FileState(start + state.size, known))
