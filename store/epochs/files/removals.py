"""Removals of a stream: which of its locations were truncated or deleted, and with what proof.

``<stream>.removals`` has the frames of ``store.framing``, magic ``SHVREM2``. One payload a
removal: ``at`` [internal, value], ``since`` (epoch that made the location), ``made`` (ms, time of the commit that made
it, where that is known), ``rows`` (what it held), ``phase`` ("truncate" or "delete"), ``epoch`` and ``generation`` (of
the stream at that time), ``proof`` (object), ``time`` (ms). Several removals that are recorded together are one
payload, ``group`` [removal, ...], so that a power failure keeps all of them or none.

The number is by how many bytes the file was shortened, with a checksum: a record keeps its *place*, which is the number
and its byte in the file. The records before a place are then one record of *folded removals*, which ends at that place.

*Writer.* Appends under the commit lock, a lock on this file; a commit of the stream takes the same lock, so no rows can
arrive between the check and the record. The header is synced before the first frame is written; without a sound header
and frame nothing was ever recorded. A file with several hard links (a backup) is replaced, never appended to. The
stream's writer folds the records when they have outgrown the folded ones. To replace the file, the new one is locked
first (``store.epochs.files.lock``).

*Reader.* A location with the same key, ``since`` and ``made`` has rows 0 (truncate) or does not exist (delete), at
every epoch. Checkpoint and head name the place up to which they have folded in removals; earlier ones are not read. If
the file is folded beyond that place, all of them are read: applying a removal is idempotent.

*Folded removals* are the first record of a shortened file, in place of single records:
JSON {"folded": {``count``, ``epoch`` and ``generation`` (the newest that they name), ``internals``, ``values``,
``proofs`` (each once)}}, a line feed, and for each removal 61 bytes, little-endian: u4 place of its internal partition,
u4 place of its value, i8 since, i8 rows, i8 made, i8 time, i8 epoch, i8 generation, u4 place of its proof, u1 phase (0
truncate, 1 delete). A truncate is dropped when its location was deleted; a delete stays, because when a lost log is
rebuilt only it distinguishes a recreated location from the merged one.

*Late rows.* A truncated location may take rows again before a delete has come to it:

1. *check*: the truncate is on record, and the newest merge of the date holds and has these rows;
2. rename the directory to ``.doomed-<table>-<since>`` beside it, and sync: readers of older snapshots read it there;
3. append the delete to the removals, with the proof of the truncate, and sync: from here on the location is gone;
4. rows of the batch make a new location under its key, which the next merge of the date adds to history.

Nothing is unlinked: ``delete`` does that, after the grace period and with a proof of its own. What a kill has left
between 2 and 3 the next start of the stream finishes before it looks at directories. So a directory with new rows is
never taken for the truncated one.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkhaven.store.epochs.files.lock import replace_locked, take_commit_lock
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.packed_location import Numbering
from sparkhaven.store.epochs.state.removed_locations import (
    PHASES,
    Named,
    Removal,
    RemovalPhase,
    aside_name,
    from_json,
    named_in_json,
    to_json,
)
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.framing import (
    BEHIND,
    BROKEN,
    FRAME,
    HEADER,
    REMOVALS_MAGIC,
    ByteSource,
    Survey,
    dump,
    ending,
    frame,
    header,
    load,
    read_header,
    refuse_damage,
    survey,
    walk,
    written,
)
from sparkhaven.store.io.fs import Fs, Lock
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.places import StreamPlace, TablePlace

OPENING = b'{"folded":{'
_ENTRY = struct.Struct("<IIqqqqqqIB")


def encode_folded(removals: Sequence[Removal]) -> bytes:
    """The payload of these removals, without those that a later one supersedes."""
    deleted = {(r.key, r.since, r.made_ms) for r in removals if r.phase == RemovalPhase.DELETE}
    kept = [r for r in removals if r.phase == RemovalPhase.DELETE or (r.key, r.since, r.made_ms) not in deleted]
    internals, values, proofs = Numbering(), Numbering(), Numbering()
    entries = [
        _ENTRY.pack(
            internals[removal.key.internal],
            values[removal.key.value],
            removal.since,
            removal.rows,
            removal.made_ms,
            removal.time_ms,
            removal.epoch,
            removal.generation,
            proofs[json.dumps(removal.proof, sort_keys=True)],
            PHASES.index(removal.phase),
        )
        for removal in kept
    ]
    named = Named.by(removals)
    first = {
        "count": len(kept),
        "epoch": named.epoch,
        "generation": named.generation,
        "internals": list(internals),
        "values": list(values),
        "proofs": [json.loads(proof) for proof in proofs],
    }
    return dump({"folded": first}) + BEHIND + b"".join(entries)


def decode_folded(payload: bytes, where: object) -> tuple[Removal, ...]:
    """The removals of a payload; CorruptFileError where parts are missing."""
    text = written(payload)
    first = _first(text, where)
    try:
        internals, values = list(map(str, first["internals"])), list(map(str, first["values"]))
        proofs = [dict(proof) for proof in first["proofs"]]
        entries = _ENTRY.iter_unpack(payload[len(text) + len(BEHIND) :])
        removals = tuple(
            Removal(
                LocationKey(internals[internal], values[value]),
                since,
                rows,
                PHASES[phase],
                epoch,
                proofs[proof],
                time_ms,
                made_ms,
                generation,
            )
            for internal, value, since, rows, made_ms, time_ms, epoch, generation, proof, phase in entries
        )
        if len(removals) != int(first["count"]):
            raise ValueError(f"{len(removals)} removals of {first['count']}")
    except BROKEN as error:
        raise _damaged_fold(where, error) from error
    return removals


def named_in_folded(payload: bytes, where: object) -> Named:
    """The newest epoch and generation in the removals of a payload, without decoding them."""
    first = _first(written(payload), where)
    try:
        return Named(int(first["epoch"]), int(first["generation"]))
    except BROKEN as error:
        raise _damaged_fold(where, error) from error


def _first(text: bytes, where: object) -> Mapping[str, Any]:
    try:
        folded = load(text, where)["folded"]
        return dict(folded)
    except BROKEN as error:
        raise _damaged_fold(where, error) from error


def _damaged_fold(where: object, error: Exception) -> CorruptFileError:
    return CorruptFileError(
        "folded removals are incomplete", where=where, expected="all of their keys and entries", found=repr(error)
    )


_BASE = 40  # bits of the number in a header; above them is a checksum of them
FOLD_SHARE = 4


@dataclass(frozen=True, slots=True)
class Removals:
    """Removals, each with the place after it; ``end``: place of the next one (0: no file yet).

    ``last``: place of the last record, and its length and checksum (empty if none was read).
    """

    entries: tuple[tuple[int, Removal], ...]
    end: int
    torn: int
    last: tuple[int, bytes] = (HEADER.size, b"")

    @property
    def named(self) -> Named:
        return Named.by(removal for _, removal in self.entries)


def encode_removals(removals: Sequence[Removal]) -> bytes:
    values = [to_json(removal) for removal in removals]
    return dump(values[0] if len(values) == 1 else {"group": values})


def decode_removals(payload: bytes, where: object) -> tuple[Removal, ...]:
    """The removals of a payload; CorruptFileError when parts are missing."""
    if payload.startswith(OPENING):
        return decode_folded(payload, where)
    try:
        return tuple(from_json(entry) for entry in _values(payload, where))
    except BROKEN as error:
        raise CorruptFileError(
            "removal record is incomplete", where=where, expected="all of its keys", found=repr(error)
        ) from error


def _values(payload: bytes, where: object) -> list[dict[str, Any]]:
    value = load(payload, where)
    group: list[dict[str, Any]] = value.get("group", [value])
    return group


@dataclass(frozen=True, slots=True)
class _File:
    """An open file, the place of its first byte, and the end of its folded record (without one: of its header)."""

    source: ByteSource
    base: int
    folded: int

    def placed(self, records: Survey) -> tuple[int, bytes]:
        return records.last[0] + self.base, records.last[1]


def read_removals(place: StreamPlace, start: int = 0) -> Removals:
    """Removals from place ``start`` on (0: all); earlier ones are read only if they are folded with them.

    A torn tail is ignored. CorruptFileError: damage before the tail, or the file ends before ``start``.
    """
    path = place.stream_removals
    file = _opened(place.fs, path)
    size = file.base + file.source.size if file else 0
    if size < start:
        what = "removals that the stream has applied are missing"
        raise _damaged(path, what, f"{start} bytes or more", f"{size} bytes")
    if file is None:
        return Removals((), 0, 0)
    base, offset = file.base, max(start - file.base, HEADER.size)
    if offset < file.folded:
        offset = HEADER.size
    entries: list[tuple[int, Removal]] = []
    last, end = None, offset
    for part in walk(file.source, offset):
        last, end = part, part.end
        *others, final = decode_removals(part.payload, f"{path} at byte {part.offset}")
        entries += ((base + part.offset, removal) for removal in others)
        entries.append((base + part.end, final))
    records = ending(file.source, end, last)
    refuse_damage(records, path)
    return Removals(tuple(entries), base + records.end, records.rest, file.placed(records))


def read_named(place: StreamPlace, start: int = 0) -> Named:
    """The newest epoch and generation in removals, without decoding folded ones; raises as ``read_removals``.

    Of records that end before place ``start`` only the checksums are looked at.
    """
    path = place.stream_removals
    file = _opened(place.fs, path)
    if file is None:
        return Named()
    named, last, end = Named(), None, HEADER.size
    for part in walk(file.source):
        last, end = part, part.end
        if file.base + end <= start:
            continue
        named |= _named_by(part.payload, f"{path} at byte {part.offset}")
    refuse_damage(ending(file.source, end, last), path)
    return named


def _named_by(payload: bytes, where: object) -> Named:
    """What the removals of a payload name of the stream; raises what decoding them does."""
    if payload.startswith(OPENING):
        return named_in_folded(payload, where)
    try:
        return named_in_json(_values(payload, where))
    except BROKEN:
        return Named.by(decode_removals(payload, where))


def last_removal(fs: Fs, path: Path, record: tuple[int, bytes]) -> bool:
    """Whether the removals have that record, by its length and checksum, at that place; empty: any removals."""
    position, mark = record
    if not mark:
        return True
    file = _opened(fs, path)
    return file is not None and position >= file.base and file.source.read(position - file.base, len(mark)) == mark


def _opened(fs: Fs, path: Path) -> _File | None:
    stat = fs.stat(path)
    if stat is None or stat.size == 0:
        return None
    source = fs.open(path)
    try:
        first = source.read(0, HEADER.size)
        base = read_header(first, REMOVALS_MAGIC, path) & ((1 << _BASE) - 1)
        if first != _header(base):
            number = int.from_bytes(first[8:], "little")
            what = "the header of the removals is damaged"
            raise _damaged(path, what, "a number with its checksum", f"{number:#x}")
    except CorruptFileError:
        torn = survey(source)
        if torn.end > HEADER.size or torn.beyond:
            raise
        return None  # a power failure while the header was written
    opening = source.read(HEADER.size, FRAME.size + len(OPENING))
    folded = opening[FRAME.size :] == OPENING
    end = HEADER.size + (FRAME.size + FRAME.unpack_from(opening)[0] if folded else 0)
    return _File(source, base, end)


def _damaged(path: Path, what: str, expected: str, found: str) -> CorruptFileError:
    hint = "restore log, checkpoint and removals from one copy. Nothing was changed or deleted"
    return CorruptFileError(what, where=path, expected=expected, found=found, hint=hint)


def _header(base: int) -> bytes:
    return header(REMOVALS_MAGIC, base | zlib.crc32(base.to_bytes(8, "little")) >> 8 << _BASE)


# --- writing ---------------------------------------------------------------------------------------------------


def new_file(removals: Sequence[Removal]) -> bytes:
    """A whole file of these removals, for a copy of their stream; empty without one."""
    return _header(0) + frame(encode_removals(removals)) if removals else b""


def write_removals(place: StreamPlace, removals: Sequence[Removal], *, commit_lock: Lock | None = None) -> None:
    """Appends and syncs, all or none. ``commit_lock``: held by a caller who checked the state; None takes it here.

    The last existing record is written again with them: its writer may have died before its sync, or its sync failed,
    and a later sync does not write those pages. So an empty list makes the existing records durable.
    A file that another tree shares (hard links) is replaced, because that tree removes nothing.
    """
    path = place.stream_removals
    with _held(place.fs, path, commit_lock) as lock:
        file = _opened(place.fs, path)
        if file is None and not removals:
            return
        new = frame(encode_removals(removals)) if removals else b""
        records = None if file is None else _sound(file, path)
        stat = place.fs.stat(path)
        if removals and stat is not None and stat.links > 1:
            kept = file.source.read(HEADER.size, records.end - HEADER.size) if file and records else b""
            with place.fs.during("removals-replace"):
                replace_locked(place.fs, lock, _header(file.base if file else 0) + kept + new)
        else:
            _append(place.fs, path, file, records, new)


def _append(fs: Fs, path: Path, file: _File | None, records: Survey | None, new: bytes) -> None:
    if file is None or records is None or not records.last[1]:
        with fs.during("removals-header"):
            if file is None:
                fs.truncate(path, 0)
            fs.write_at(path, 0, _header(file.base if file else 0))
            fs.sync([path])
            fs.sync_dirs([path.parent])
    start = end = HEADER.size
    if file is not None and records is not None:
        end = records.end
        again = records.last[1] and records.last[0] >= file.folded  # what is folded was synced before it had its name
        start = records.last[0] if again else end
    data = fs.read_range(path, start, end - start) if end > start else b""
    with fs.during("removals-append"):
        if records is not None and records.rest and new:
            fs.truncate(path, end)
        fs.write_at(path, start, data + new)
    with fs.during("removals-sync"):
        fs.sync([path])
        fs.sync_dirs([path.parent])


def fold_removals(place: StreamPlace, *, least_bytes: int, commit_lock: Lock | None = None) -> tuple[int, bytes] | None:
    """Folds the records if they have ``least`` bytes and a quarter of the folded size; returns ``Removals.last``.

    None: nothing was changed.
    """
    path = place.stream_removals
    with _held(place.fs, path, commit_lock) as lock:
        file = _opened(place.fs, path)
        if file is None or file.source.size - file.folded < max(least_bytes, file.folded // FOLD_SHARE):
            return None
        records = _sound(file, path)
        data = frame(encode_folded([removal for _, removal in read_removals(place).entries]))
        base = file.base + records.end - HEADER.size - len(data)
        if base <= file.base:
            return None
        with place.fs.during("removals-fold"):
            replace_locked(place.fs, lock, _header(base) + data)
    return base + HEADER.size, data[: FRAME.size]


def empty_removals(place: StreamPlace, *, commit_lock: Lock | None = None) -> None:
    path = place.stream_removals
    with _held(place.fs, path, commit_lock) as lock:
        replace_locked(place.fs, lock, b"")


def _sound(file: _File, path: Path) -> Survey:
    records = survey(file.source)
    refuse_damage(records, path)
    return records


def _held(fs: Fs, path: Path, commit_lock: Lock | None) -> AbstractContextManager[Lock]:
    """The commit lock for a body: the caller's, which stays held, or one for this body alone."""
    return nullcontext(commit_lock) if commit_lock is not None else take_commit_lock(fs, path)


def aside_of(place: TablePlace, location: LocationState) -> Path:
    """Where the directory of a location lies once it was moved away."""
    directory = place.intraday_location(location.key)
    return directory.with_name(aside_name(directory.name, location.since))


def move_away(place: TablePlace, locations: Sequence[LocationState]) -> None:
    """Step 2, with one sync for all; it syncs also what a killed run has renamed.

    Nothing is renamed where it was done already: then what is in its place are files that were never committed.
    """
    directories = [place.intraday_location(location.key) for location in locations]
    for location, directory in zip(locations, directories, strict=True):
        aside = aside_of(place, location)
        if place.fs.stat(directory) is not None and place.fs.stat(aside) is None:
            with place.fs.during("delete-rename"):
                place.fs.rename(directory, aside)
    place.fs.sync_dirs(path.parent for path in directories if place.fs.stat(path.parent) is not None)


def finish_removal(
    place: StreamPlace, state: StreamState, location: LocationState, *, now_ms: int, commit_lock: Lock
) -> bool:
    """Steps 1 to 3 for a truncated location; the caller holds the commit lock and has applied all removals.

    False, and nothing is changed: no record says that history has its rows.
    """
    truncate = _truncates(place, [location]).get(location.key)
    if truncate is None or not _in_history(place, state, truncate):
        return False
    move_away(place, [location])
    record_removals(place, [_deleted(state, truncate, now_ms)], commit_lock)
    return True


def interrupted_removals(place: StreamPlace, state: StreamState, *, now_ms: int) -> list[Removal]:
    """The deletes that a kill between steps 2 and 3 has left unrecorded."""
    truncated = state.locations.truncated()
    moved = [location for location in truncated if place.fs.stat(aside_of(place, location)) is not None]
    return [_deleted(state, truncate, now_ms) for truncate in _truncates(place, moved).values()] if moved else []


def record_removals(place: StreamPlace, removals: list[Removal], commit_lock: Lock) -> None:
    """Step 3."""
    with place.fs.during("delete-record"):
        write_removals(place, removals, commit_lock=commit_lock)


def _truncates(place: StreamPlace, locations: list[LocationState]) -> dict[LocationKey, Removal]:
    by_key = {location.key: location for location in locations}
    return {
        removal.key: removal
        for _, removal in read_removals(place).entries
        if removal.phase == RemovalPhase.TRUNCATE
        and (location := by_key.get(removal.key)) is not None
        and removal.means(location)
    }


def _in_history(place: StreamPlace, state: StreamState, truncate: Removal) -> bool:
    """Whether the newest merge of the date has the rows that were truncated, as ``delete`` demands it."""
    record = newest(place, truncate.key.value)
    if record is None or record.proof is None or not record.proof.holds:
        return False
    key = state.stream, truncate.key.internal, truncate.since
    return truncate.rows == 0 or any(taken.key == key and taken.rows == truncate.rows for taken in record.inputs)


def _deleted(state: StreamState, truncate: Removal, now_ms: int) -> Removal:
    numbers = truncate.rows, RemovalPhase.DELETE, state.epoch, truncate.proof, now_ms, truncate.made_ms
    return Removal(truncate.key, truncate.since, *numbers, state.generation)
