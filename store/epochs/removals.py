"""Removals of a stream: which of its locations maintenance has emptied or deleted, and with what proof.

``<stream>.removals`` has the frames of ``store.epochs.framing``, magic ``SHVREM1``, number 0. One payload a removal:
``at`` [internal, value], ``since`` (epoch that made the location), ``rows`` (what it held), ``phase`` ("truncate" or
"delete"), ``epoch`` (of the stream at that time), ``proof`` (object), ``time`` (ms).

*Writer.* Appends under an exclusive lock of the file itself; a commit of the stream takes the same lock, so no rows can
arrive between the check and the record. *Reader.* A location with the same key and ``since`` has rows 0 (truncate) or
is gone (delete), at every epoch. The stream never writes here; its checkpoint says how many bytes it has folded in.
"""

from __future__ import annotations

from collections.abc import Mapping
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


def encode_removal(removal: Removal) -> bytes:
    """The payload of a removal."""
    return dump(
        {
            "at": [removal.key.internal, removal.key.value],
            "since": removal.since,
            "rows": removal.rows,
            "phase": removal.phase,
            "epoch": removal.epoch,
            "proof": dict(removal.proof),
            "time": removal.time_ms,
        }
    )


def decode_removal(payload: bytes, where: object) -> Removal:
    """The removal of a payload; CorruptFileError when parts are missing."""
    value = load(payload, where)
    try:
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
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(
            "removal record is incomplete", where=where, expected="all of its keys", found=repr(error)
        ) from error


def read_removals(fs: Fs, layout: Layout, table: TableName, stream: str, start: int = 0) -> Removals:
    """Removals from byte ``start`` on (0: all). A torn tail is left out; damage before it is a CorruptFileError."""
    path = layout.stream_removals(table, stream)
    frames = _scan(fs, path, start)
    if frames is None:
        return Removals((), 0, 0)
    entries = tuple((f.end, decode_removal(f.payload, f"{path} at byte {f.offset}")) for f in frames.frames)
    return Removals(entries, frames.end, frames.rest)


def _scan(fs: Fs, path: Path, start: int = 0) -> Scan | None:
    """The frames from byte ``start`` on, not decoded; None for no file or an empty one."""
    found = fs.stat(path)
    if found is None or found.size == 0:
        return None
    data = fs.read(path)
    read_header(data, REMOVALS_MAGIC, path)
    frames = scan(data, max(start, HEADER.size))
    refuse_damage(frames, path)
    return frames


def write_removals(fs: Fs, layout: Layout, table: TableName, stream: str, removals: list[Removal]) -> None:
    """Appends and syncs; the caller holds the lock of the file and has checked the state."""
    path = layout.stream_removals(table, stream)
    found = _scan(fs, path)
    frames = b"".join(frame(encode_removal(removal)) for removal in removals)
    with fs.during("removals-append"):
        if found is None:
            fs.write_at(path, 0, header(REMOVALS_MAGIC, 0) + frames)
        else:
            if found.rest:
                fs.truncate(path, found.end)
            fs.write_at(path, found.end, frames)
    with fs.during("removals-sync"):
        fs.sync([path])
        fs.sync_dirs([path.parent])
