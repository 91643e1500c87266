"""Damaged locations that were set aside: excluded from reads, with nothing deleted.

``<internal>/<value>/.set-aside-<Table>-<since>``       the directory, renamed in place
``.set-aside/<internal>/<value>/<Table>-<since>.json``  its note: stream, epochs, rows, reason, time, path

*Writer.* ``set_aside``, while no process runs the stream: the note is written, synced, the directory renamed, then
the location is recorded in the removals, as a delete whose proof names the place. If it is interrupted, the stream
still does not open, and the same call completes it. *Reader.* As long as the note exists, a read that needs those rows
is an error. To accept their loss, move the directory and its note out of the tree.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from sparkhaven.store.epochs.files.lock import take_commit_lock, take_lock
from sparkhaven.store.epochs.files.removals import write_removals
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.tombstone import Removal, RemovalPhase
from sparkhaven.store.errors import CorruptFileError, TableNotFoundError
from sparkhaven.store.io.fs import Fs, Lock
from sparkhaven.store.layout import Layout, LocationKey, TableName, check_stream
from sparkhaven.store.merges.merge_records import lock_table, merged_rows, newest
from sparkhaven.store.types.frozen import frozen

NOTE = ".json"
SET_ASIDE = ".set-aside-"


@frozen
class SetAside:
    """One location that was set aside: its committed ``rows``, from epoch ``since`` to ``epoch``."""

    stream: str
    internal: str
    value: str
    since: int
    epoch: int
    rows: int
    reason: str
    time_ms: int
    path: str

    @property
    def key(self) -> LocationKey:
        """Where it was."""
        return LocationKey(self.internal, self.value)


def aside_of(directory: Path, since: int) -> Path:
    """Where the directory of a location lies once it is set aside."""
    return directory.with_name(f"{SET_ASIDE}{directory.name}-{since}")


def list_set_aside(
    fs: Fs, layout: Layout, table: TableName, takes: Callable[[str], bool] = lambda value: True
) -> list[SetAside]:
    """Locations set aside, of dates that ``takes`` accepts; one listing if there are none."""
    root = layout.set_aside(table)
    found = []
    for internal in fs.names(root):
        for value in fs.names(root / internal):
            if takes(value):
                names = (name for name in fs.names(root / internal / value) if name.endswith(NOTE) and name[0] != ".")
                found += [_read(fs, root / internal / value / name) for name in names]
    return found


def refuse_set_aside(fs: Fs, layout: Layout, table: TableName, takes: Callable[[str], bool], hint: str) -> None:
    """CorruptFileError: a requested date lacks rows that were set aside and are not in history."""
    for each in list_set_aside(fs, layout, table, takes):
        record = newest(fs, layout, table, each.value)
        merged = merged_rows(record)
        missing = each.rows - merged.get((each.stream, each.internal, each.since), 0)
        if missing > 0:
            raise CorruptFileError(
                "rows are missing. Their location was set aside because its files are damaged",
                where=each.path,
                expected=f"{missing} rows of {each.internal}/{each.value}, stream {each.stream}",
                found=each.reason,
                hint=hint + ". To accept their loss, move that directory and its note in .set-aside out of the tree",
            )


def set_aside(
    fs: Fs, layout: Layout, table: TableName, stream: str, key: LocationKey, *, reason: str, time_ms: int
) -> SetAside:
    """Removes a location from its stream, durably; idempotent after a crash.

    TableNotFoundError: the stream does not have it. LockLostError: a process runs the stream, or a merge or removal of
    the table is running.
    """
    load_stream(fs, layout, table, check_stream(stream))  # an unknown stream must not get files
    with (
        take_lock(fs, layout.stream_lock(table, stream)),
        lock_table(fs, layout, table),
        take_commit_lock(fs, layout.stream_removals(table, stream)) as commit_lock,
    ):
        return _set_aside(fs, layout, table, stream, key, reason, time_ms, commit_lock)


def _set_aside(
    fs: Fs,
    layout: Layout,
    table: TableName,
    stream: str,
    key: LocationKey,
    reason: str,
    time_ms: int,
    commit_lock: Lock,
) -> SetAside:
    state = load_stream(fs, layout, table, stream)
    location = state.locations.get(key)
    if location is None:
        raise TableNotFoundError(
            f"stream {stream!r} has no such location",
            where=layout.intraday_location(table, key),
            expected="INTERNAL/DATE of a location that its log has",
            found=f"{key.internal}/{key.value}",
            hint=f"`sparkhaven epochs show {table} {stream}` lists them",
        )
    directory = layout.intraday_location(table, key)
    place = aside_of(directory, location.since)
    note = layout.set_aside(table) / key.internal / key.value / f"{table.table}-{location.since}{NOTE}"
    if fs.stat(place) is None:
        made = _note(stream, location, reason, time_ms, place)
        fs.keep_dirs(note.parent, layout.root)
        with fs.during("set-aside-note"):
            fs.replace(note, json.dumps(asdict(made), sort_keys=True).encode() + b"\n")
    else:  # an earlier run was stopped after its rename
        made = _read(fs, note)
    with fs.during("set-aside-rename"):
        if fs.stat(directory) is not None:
            fs.rename(directory, place)
        if fs.stat(place) is not None:
            fs.sync_dirs([place.parent])
    proof = {"setAside": str(place.relative_to(layout.root)), "reason": reason}
    removal = Removal(key, location.since, location.rows, RemovalPhase.DELETE, state.epoch, proof, time_ms)
    with fs.during("set-aside-record"):
        write_removals(fs, layout, table, stream, [removal], commit_lock=commit_lock)
    return made


def _note(stream: str, at: LocationState, reason: str, time_ms: int, place: Path) -> SetAside:
    key = at.key
    return SetAside(stream, key.internal, key.value, at.since, at.epoch, at.rows, reason, time_ms, str(place))


def _read(fs: Fs, path: Path) -> SetAside:
    try:
        found = SetAside(**json.loads(fs.read(path)))
        numbers = found.since, found.epoch, found.rows, found.time_ms
        if not all(isinstance(number, int) for number in numbers):
            raise ValueError("since, epoch, rows and time_ms are whole numbers")
    except (ValueError, TypeError) as error:
        raise CorruptFileError(
            "the note of a location that was set aside is damaged",
            where=path,
            expected="a JSON object with stream, internal, value, since, epoch, rows, reason, time_ms, path",
            found=repr(error),
            hint="restore it from a copy, or move it out of the tree with what it names to accept the loss",
        ) from error
    return found
