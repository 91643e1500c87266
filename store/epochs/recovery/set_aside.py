"""Locations that a log has and the disk has not: damaged ones that were set aside, with nothing deleted.

``<internal>/<value>/.set-aside-<Table>-<since>``       the directory, renamed in place
``.set-aside/<internal>/<value>/<Table>-<since>.json``  its note: stream, epochs, rows, reason, time, path

*Writer.* ``set_aside``, while no process runs the stream: the note is written, synced, the directory renamed, then
the location is recorded in the removals, as a delete whose proof names the place. If it is interrupted, the stream
still does not open, and the same call completes it. *Reader.* As long as the note exists, a read that needs those rows
is an error. To accept their loss, move the directory and its note out of the tree.

Others were merged and deleted after the log was copied. History has their rows, so nothing is lost; a log that was
restored from before the removal has to forget them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from sparkhaven.store.epochs.files.lock import take_commit_lock, take_lock
from sparkhaven.store.epochs.files.removals import write_removals
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.removed_locations import Removal, RemovalPhase
from sparkhaven.store.errors import CorruptFileError, TableNotFoundError
from sparkhaven.store.io.fs import Fs, Lock
from sparkhaven.store.layout import LocationKey, TableName, check_stream
from sparkhaven.store.merges.merge_records import MergeInput, lock_table, merged_rows, newest
from sparkhaven.store.next_steps import restore_log
from sparkhaven.store.places import StreamPlace, TablePlace

NOTE = ".json"
SET_ASIDE = ".set-aside-"


@dataclass(frozen=True, slots=True)
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
        return LocationKey(self.internal, self.value)


def aside_of(directory: Path, since: int) -> Path:
    return directory.with_name(f"{SET_ASIDE}{directory.name}-{since}")


def note_path(place: TablePlace, key: LocationKey, since: int) -> Path:
    return place.set_aside / key.internal / key.value / f"{place.table.table}-{since}{NOTE}"


def list_set_aside(place: TablePlace, takes: Callable[[str], bool] = lambda value: True) -> list[SetAside]:
    """Locations set aside, of dates that ``takes`` accepts; one listing if there are none."""
    root = place.set_aside
    notes = []
    for internal in place.fs.names(root):
        for value in place.fs.names(root / internal):
            if takes(value):
                names = (
                    name for name in place.fs.names(root / internal / value) if name.endswith(NOTE) and name[0] != "."
                )
                notes += [_read(place.fs, root / internal / value / name) for name in names]
    return notes


def missing_rows(place: TablePlace, note: SetAside) -> int:
    merged = merged_rows(newest(place, note.value))
    return note.rows - merged.get((note.stream, note.internal, note.since), 0)


def refuse_set_aside(place: TablePlace, takes: Callable[[str], bool], hint: str) -> None:
    """CorruptFileError: a requested date lacks rows that were set aside and are not in history."""
    for note in list_set_aside(place, takes):
        missing = missing_rows(place, note)
        if missing > 0:
            raise CorruptFileError(
                "rows are missing. Their location was set aside because its files are damaged",
                where=note.path,
                expected=f"{missing} rows of {note.internal}/{note.value}, stream {note.stream}",
                found=note.reason,
                hint=hint + ". To accept their loss, move that directory and its note in .set-aside out of the tree",
            )


def set_aside(place: StreamPlace, key: LocationKey, *, reason: str, time_ms: int) -> SetAside:
    """Removes a location from its stream, durably; idempotent after a crash.

    TableNotFoundError: the stream does not have it. LockLostError: a process runs the stream, or a merge or removal of
    the table is running.
    """
    check_stream(place.stream)
    load_stream(place)  # an unknown stream must not get files
    with (
        take_lock(place.fs, place.stream_lock),
        lock_table(place),
        take_commit_lock(place.fs, place.stream_removals) as commit_lock,
    ):
        return _set_aside(place, key, reason, time_ms, commit_lock)


def _set_aside(place: StreamPlace, key: LocationKey, reason: str, time_ms: int, commit_lock: Lock) -> SetAside:
    state = load_stream(place)
    location = state.locations.get(key)
    if location is None:
        raise TableNotFoundError(
            f"stream {place.stream!r} has no such location",
            where=place.intraday_location(key),
            expected="INTERNAL/DATE of a location that its log has",
            found=f"{key.internal}/{key.value}",
            hint=f"`sparkhaven epochs show {place.table} {place.stream}` lists them",
        )
    directory = place.intraday_location(key)
    moved = aside_of(directory, location.since)
    path = note_path(place, key, location.since)
    if place.fs.stat(moved) is None:
        span = location.since, location.epoch, location.rows
        note = SetAside(place.stream, key.internal, key.value, *span, reason, time_ms, str(moved))
        place.fs.keep_dirs(path.parent, place.layout.root)
        with place.fs.during("set-aside-note"):
            place.fs.replace(path, json.dumps(asdict(note), sort_keys=True).encode() + b"\n")
    else:  # an earlier run was stopped after its rename
        note = _read(place.fs, path)
    with place.fs.during("set-aside-rename"):
        if place.fs.stat(directory) is not None:
            place.fs.rename(directory, moved)
        if place.fs.stat(moved) is not None:
            place.fs.sync_dirs([moved.parent])
    proof = {"setAside": str(moved.relative_to(place.layout.root)), "reason": reason}
    removal = Removal(key, location.since, location.rows, RemovalPhase.DELETE, state.epoch, proof, time_ms)
    with place.fs.during("set-aside-record"):
        write_removals(place, [removal], commit_lock=commit_lock)
    return note


def _read(fs: Fs, path: Path) -> SetAside:
    try:
        note = SetAside(**json.loads(fs.read(path)))
        numbers = note.since, note.epoch, note.rows, note.time_ms
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
    return note


def gone_after_merge(place: TablePlace, location: LocationState | None, taken: MergeInput) -> bool:
    """Whether a merge has all rows of a location whose directory is not there, and that was not set aside."""
    if location is None or location.truncated or location.since != taken.since or taken.rows < location.rows:
        return False
    directory = place.intraday_location(location.key)
    return place.fs.stat(directory) is None and place.fs.stat(aside_of(directory, location.since)) is None


def words_of(table: TableName, key: LocationKey, taken: MergeInput, log: Path) -> tuple[str, str, str, str]:
    """What to say of a log that has such a location: the error, what was expected and found, and what to do."""
    return (
        f"the commit log of stream {taken.stream!r} is older than the removal of {key.internal}/{key.value}. History"
        " has its rows",
        f"a log and removals without {key.internal}/{key.value}, whose directory is gone since its merge",
        f"{taken.rows} rows of it in {log}",
        restore_log(table, taken.stream, log),
    )
