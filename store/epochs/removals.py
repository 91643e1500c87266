"""Removals of a stream: which of its locations maintenance has emptied or deleted, and with what proof.

``<stream>.removals`` has the frames of ``store.epochs.framing``, magic ``SHVREM1``, number 0. One payload a removal:
``at`` [internal, value], ``since`` (epoch that made the location), ``rows`` (what it held), ``phase`` ("truncate" or
"delete"), ``epoch`` (of the stream at that time), ``proof`` (object), ``time`` (ms). Several removals that are recorded
together are one payload, ``group`` [removal, ...], so that a power cut leaves all of them or none.

*Writer.* Appends under an exclusive lock of the file itself; a commit of the stream takes the same lock, so no rows can
arrive between the check and the record. The file may not be replaced, because it is the lock; so its header is synced
before the first frame is written, and without a sound header and frame nothing was ever recorded.

*Reader.* A location with the same key and ``since`` has rows 0 (truncate) or is gone (delete), at every epoch. The
stream never writes here; its checkpoint says how many bytes it has folded in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from store.epochs.framing import HEADER, REMOVALS_MAGIC, Scan, frame, header, read_header, refuse_damage, scan
from store.epochs.records import decode_key, dump, load
from store.errors import CorruptFileError
from store.fs import Fs
from store.layout import Layout, LocationKey, TableName

Phase = Literal["truncate", "delete"]


@dataclass(frozen=True, slots=True)
class Removal:
    """One location emptied or deleted; ``since`` tells it from a later location of the same key."""

    key: LocationKey
    since: int
    rows: int
    phase: Phase
    epoch: int
    proof: Mapping[str, Any] = field(default_factory=dict)
    time_ms: int = 0


@dataclass(frozen=True, slots=True)
class Removals:
    """Removals with the offset after each; ``end`` is where the next one goes (0: there is no file yet)."""

    entries: tuple[tuple[int, Removal], ...]
    end: int
    torn: int


def encode_removals(removals: Sequence[Removal]) -> bytes:
    """The payload of removals that are recorded together."""
    values = [_value(removal) for removal in removals]
    return dump(values[0] if len(values) == 1 else {"group": values})


def decode_removals(payload: bytes, where: object) -> tuple[Removal, ...]:
    """The removals of a payload; CorruptFileError when parts are missing."""
    value = load(payload, where)
    try:
        return tuple(_removal(each) for each in value.get("group", [value]))
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(
            "removal record is incomplete", where=where, expected="all of its keys", found=repr(error)
        ) from error


def _value(removal: Removal) -> dict[str, Any]:
    return {
        "at": [removal.key.internal, removal.key.value],
        "since": removal.since,
        "rows": removal.rows,
        "phase": removal.phase,
        "epoch": removal.epoch,
        "proof": dict(removal.proof),
        "time": removal.time_ms,
    }


def _removal(value: Mapping[str, Any]) -> Removal:
    if value["phase"] not in ("truncate", "delete"):
        raise ValueError(f"phase {value['phase']!r}")
    return Removal(
        decode_key(value["at"]),
        int(value["since"]),
        int(value["rows"]),
        value["phase"],
        int(value["epoch"]),
        dict(value["proof"]),
        int(value["time"]),
    )


def read_removals(fs: Fs, layout: Layout, table: TableName, stream: str, start: int = 0) -> Removals:
    """Removals from byte ``start`` on (0: all). A torn tail is left out; damage before it is a CorruptFileError."""
    path = layout.stream_removals(table, stream)
    frames = _scan(fs, path, start)
    if frames is None:
        return Removals((), 0, 0)
    entries = tuple(
        (part.end, removal)
        for part in frames.frames
        for removal in decode_removals(part.payload, f"{path} at byte {part.offset}")
    )
    return Removals(entries, frames.end, frames.rest)


def _scan(fs: Fs, path: Path, start: int = 0) -> Scan | None:
    """The frames from byte ``start`` on, not decoded; None where nothing was recorded yet."""
    found = fs.stat(path)
    if found is None or found.size == 0:
        return None
    data = fs.read(path)
    try:
        read_header(data, REMOVALS_MAGIC, path)
    except CorruptFileError:
        torn = scan(data)
        if torn.frames or torn.beyond:
            raise
        return None  # the machine went down while the header was written
    frames = scan(data, max(start, HEADER.size))
    refuse_damage(frames, path)
    return frames


def write_removals(fs: Fs, layout: Layout, table: TableName, stream: str, removals: list[Removal]) -> None:
    """Appends and syncs, all or none; the caller holds the lock of the file and has checked the state.

    The last record that is there is written again with them: its writer may have died before its sync, or been told
    that it failed, and then no later sync brings those bytes to the disk. So an empty list makes durable what is there.
    """
    path = layout.stream_removals(table, stream)
    found = _scan(fs, path)
    if found is None and not removals:
        return
    if found is None or not found.frames:
        with fs.during("removals-header"):
            if found is None:
                fs.truncate(path, 0)
            fs.write_at(path, 0, header(REMOVALS_MAGIC, 0))
            fs.sync([path])
            fs.sync_dirs([path.parent])
    start = end = HEADER.size
    if found is not None:
        start, end = (found.frames[-1].offset if found.frames else found.end), found.end
    again = fs.read_range(path, start, end - start) if end > start else b""
    with fs.during("removals-append"):
        if found is not None and found.rest:
            fs.truncate(path, end)
        fs.write_at(path, start, again + (frame(encode_removals(removals)) if removals else b""))
    with fs.during("removals-sync"):
        fs.sync([path])
        fs.sync_dirs([path.parent])
