"""Removals of a stream: which of its locations maintenance has emptied or deleted, and with what proof.

``<stream>.removals`` has the frames of ``store.epochs.framing``, magic ``SHVREM1``, number 0. One payload a removal:
``at`` [internal, value], ``since`` (epoch that made the location), ``made`` (ms, time of the commit that made it, where
that is known), ``rows`` (what it held), ``phase`` ("truncate" or "delete"), ``epoch`` and ``generation`` (of the stream
at that time), ``proof`` (object), ``time`` (ms). Several removals that are recorded
together are one payload, ``group`` [removal, ...], so that a power cut leaves all of them or none.

*Writer.* Appends under an exclusive lock of the file itself; a commit of the stream takes the same lock, so no rows can
arrive between the check and the record. The file may not be replaced, because it is the lock; so its header is synced
before the first frame is written, and without a sound header and frame nothing was ever recorded.

*Reader.* A location with the same key, ``since`` and ``made`` has rows 0 (truncate) or is gone (delete), at every
epoch. The stream never writes here; checkpoint and head say how many bytes they have folded in, and those are not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from store.epochs.framing import (
    HEADER,
    REMOVALS_MAGIC,
    Source,
    ending,
    frame,
    header,
    read_header,
    refuse_damage,
    survey,
    walk,
)
from store.epochs.records import decode_key, dump, load
from store.epochs.state import LocationState
from store.errors import CorruptFileError
from store.fs import Fs
from store.layout import Layout, LocationKey, TableName

Phase = Literal["truncate", "delete"]


@dataclass(frozen=True, slots=True)
class Removal:
    """One location emptied or deleted; ``since`` and ``made_ms`` tell it from another location of the same key.

    ``epoch`` and ``generation`` are those of the stream at that time. 0 = unknown, of ``made_ms`` and ``generation``.
    """

    key: LocationKey
    since: int
    rows: int
    phase: Phase
    epoch: int
    proof: Mapping[str, Any] = field(default_factory=dict)
    time_ms: int = 0
    made_ms: int = 0
    generation: int = 0

    def means(self, location: LocationState) -> bool:
        """Whether it is this very location, and not one that was made anew under its key.

        A log that was restored from an older copy gives epochs again, but not at the same time.
        """
        made = {self.made_ms, location.made_ms} - {0}
        return (self.key, self.since) == (location.key, location.since) and len(made) < 2


@dataclass(frozen=True, slots=True)
class Named:
    """The newest epoch and generation of a stream that some of its removals name, 0 where none does.

    The log is written first: one that has less of either is older than the removals.
    """

    epoch: int = 0
    generation: int = 0

    @staticmethod
    def by(removals: Iterable[Removal]) -> Named:
        """Those of given removals."""
        epoch = generation = 0
        for removal in removals:
            epoch, generation = max(epoch, removal.epoch), max(generation, removal.generation)
        return Named(epoch, generation)


@dataclass(frozen=True, slots=True)
class Removals:
    """Removals with the offset after each; ``end`` is where the next one goes (0: there is no file yet).

    ``last``: where the last record begins, and its length and checksum (none was read: no bytes).
    """

    entries: tuple[tuple[int, Removal], ...]
    end: int
    torn: int
    last: tuple[int, bytes] = (HEADER.size, b"")

    @property
    def named(self) -> Named:
        """What they name of the stream."""
        return Named.by(removal for _, removal in self.entries)


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
    more = {"made": removal.made_ms, "generation": removal.generation}
    return {name: number for name, number in more.items() if number} | {
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
        int(value.get("made", 0)),
        int(value.get("generation", 0)),
    )


def read_removals(fs: Fs, layout: Layout, table: TableName, stream: str, start: int = 0) -> Removals:
    """Removals from byte ``start`` on (0: all); what lies before is not looked at.

    A torn tail is left out. CorruptFileError: damage before the tail, or a file that ends before ``start``.
    """
    path = layout.stream_removals(table, stream)
    source = _opened(fs, path)
    size = source.size if source else 0
    if size < start:
        raise CorruptFileError(
            "removals that the stream has taken over are missing",
            where=path,
            expected=f"{start} bytes or more",
            found=f"{size} bytes",
            hint="restore log, checkpoint and removals from one copy; nothing was changed or deleted",
        )
    if source is None:
        return Removals((), 0, 0)
    entries: list[tuple[int, Removal]] = []
    last, end = None, max(start, HEADER.size)
    for part in walk(source, end):
        last, end = part, part.end
        entries += ((part.end, each) for each in decode_removals(part.payload, f"{path} at byte {part.offset}"))
    found = ending(source, end, last)
    refuse_damage(found, path)
    return Removals(tuple(entries), found.end, found.rest, found.last)


def last_removal(fs: Fs, path: Path, at: tuple[int, bytes]) -> bool:
    """Whether the removals have that record, by its length and checksum, at that place; no bytes: any removals."""
    offset, mark = at
    return not mark or (fs.stat(path) is not None and fs.open(path).read(offset, len(mark)) == mark)


def _opened(fs: Fs, path: Path) -> Source | None:
    """The file; None where nothing was recorded yet."""
    found = fs.stat(path)
    if found is None or found.size == 0:
        return None
    source = fs.open(path)
    try:
        read_header(source.read(0, HEADER.size), REMOVALS_MAGIC, path)
    except CorruptFileError:
        torn = survey(source)
        if torn.end > HEADER.size or torn.beyond:
            raise
        return None  # the machine went down while the header was written
    return source


def write_removals(fs: Fs, layout: Layout, table: TableName, stream: str, removals: list[Removal]) -> None:
    """Appends and syncs, all or none; the caller holds the lock of the file and has checked the state.

    The last record that is there is written again with them: its writer may have died before its sync, or been told
    that it failed, and then no later sync brings those bytes to the disk. So an empty list makes durable what is there.
    """
    path = layout.stream_removals(table, stream)
    source = _opened(fs, path)
    if source is None and not removals:
        return
    found = None if source is None else survey(source)
    if found is not None:
        refuse_damage(found, path)
    if found is None or not found.last[1]:
        with fs.during("removals-header"):
            if found is None:
                fs.truncate(path, 0)
            fs.write_at(path, 0, header(REMOVALS_MAGIC, 0))
            fs.sync([path])
            fs.sync_dirs([path.parent])
    start = end = HEADER.size
    if found is not None:
        start, end = (found.last[0] if found.last[1] else found.end), found.end
    again = fs.read_range(path, start, end - start) if end > start else b""
    with fs.during("removals-append"):
        if found is not None and found.rest:
            fs.truncate(path, end)
        fs.write_at(path, start, again + (frame(encode_removals(removals)) if removals else b""))
    with fs.during("removals-sync"):
        fs.sync([path])
        fs.sync_dirs([path.parent])
