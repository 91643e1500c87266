"""Records of dropped tables: what a table had when a command dropped it, and whether its files are gone.

One file a drop, ``.dropped/<NS.T>/<n>.drop`` below the root, ``n`` from 1. It has the frames of
``store.framing``: magic ``SHVDRP1``, as number ``n``, and one frame, to the end of the file. Its payload has
the fields of ``TableDrop``. ``schema`` and ``history`` are the bytes of the two files in base64. ``streams`` are lists
[stream, epoch, generation, rows, place of the quarantine], ``dates`` [value, generation, rows, digests].

*Writer.* The record of phase ``doomed`` is stored durably before the schema is unlinked. From then on readers find no
such table, and nobody may deploy one of that name. After the grace period, and once all volumes are seen, it gets phase
``removing``, and phase ``removed`` when the files are gone. It stays as evidence. *Reader.* A damaged record is an
error: it may stand for a table whose files are still there.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from sparkhaven.store.errors import CorruptFileError, InvalidNameError, TableExistsError, UnsupportedVersionError
from sparkhaven.store.framing import RecordKind
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace

KIND = RecordKind(
    b"SHVDRP1\n",
    "record of a dropped table",
    "number",
    "restore it from a copy. It says whether files of the table are still to be removed",
)
_FILE = re.compile(r"([1-9][0-9]{0,17})\.drop\Z")


class DropPhase(StrEnum):
    DOOMED = "doomed"
    REMOVING = "removing"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class DroppedStream:
    """Numbers of a stream at the drop, its intraday rows, and where its quarantine is (empty: it has none)."""

    stream: str
    epoch: int
    generation: int
    rows: int = 0
    quarantine: str = ""


@dataclass(frozen=True, slots=True)
class DroppedHistory:
    """What the newest merge of a date had: ``digests`` by column, as 32 hex digits."""

    value: str
    generation: int
    rows: int
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableDrop:
    """One drop of a table. ``time_ms``: of the drop; ``removed_ms``: when its files were gone, None before.

    ``user``: number of the user. ``size``: bytes of all files. ``kept``: quarantines that other streams share.
    """

    table: str
    number: int
    phase: DropPhase
    time_ms: int
    reason: str
    user: int
    size: int
    schema: bytes
    history: bytes
    streams: tuple[DroppedStream, ...] = ()
    dates: tuple[DroppedHistory, ...] = ()
    kept: tuple[str, ...] = ()
    removed_ms: int | None = None

    @property
    def intraday_rows(self) -> int:
        return sum(stream.rows for stream in self.streams)

    @property
    def history_rows(self) -> int:
        return sum(date.rows for date in self.dates)


def encode_drop(drop: TableDrop) -> bytes:
    value = {
        "table": drop.table,
        "number": drop.number,
        "phase": drop.phase,
        "timeMs": drop.time_ms,
        "removedMs": drop.removed_ms,
        "reason": drop.reason,
        "user": drop.user,
        "size": drop.size,
        "schema": b64encode(drop.schema).decode(),
        "history": b64encode(drop.history).decode(),
        "streams": [[s.stream, s.epoch, s.generation, s.rows, s.quarantine] for s in drop.streams],
        "dates": [[d.value, d.generation, d.rows, dict(d.digests)] for d in drop.dates],
        "kept": list(drop.kept),
    }
    return KIND.encode(drop.number, value)


def decode_drop(data: bytes, where: object) -> TableDrop:
    """The inverse of ``encode_drop``. CorruptFileError: damaged; UnsupportedVersionError: of a later release."""
    return KIND.decode(data, where, _from_json)


def _from_json(value: Mapping[str, Any]) -> TableDrop:
    return TableDrop(
        table=str(TableName.parse(value["table"])),
        number=value["number"],
        phase=DropPhase(value["phase"]),
        time_ms=value["timeMs"],
        removed_ms=value["removedMs"],
        reason=value["reason"],
        user=value["user"],
        size=value["size"],
        schema=b64decode(value["schema"], validate=True),
        history=b64decode(value["history"], validate=True),
        streams=tuple(DroppedStream(*entry) for entry in value["streams"]),
        dates=tuple(DroppedHistory(*entry) for entry in value["dates"]),
        kept=tuple(value["kept"]),
    )


def drop_path(place: TablePlace, number: int) -> Path:
    return place.drops / f"{number}.drop"


def drop_numbers(place: TablePlace) -> list[int]:
    """Numbers of the drops of a table, ascending."""
    return sorted(int(match[1]) for name in place.fs.names(place.drops) if (match := _FILE.match(name)))


def load_drop(place: TablePlace, number: int) -> TableDrop:
    path = drop_path(place, number)
    drop = decode_drop(place.fs.read(path), path)
    if (drop.table, drop.number) != (str(place.table), number):
        raise KIND.damaged(
            "is in a wrong directory", path, f"drop {number} of {place.table}", f"drop {drop.number} of {drop.table}"
        )
    return drop


def doomed(place: TablePlace) -> TableDrop | None:
    """The drop of a table whose files are not removed yet; None: there is none."""
    numbers = drop_numbers(place)
    last = load_drop(place, numbers[-1]) if numbers else None
    return last if last is not None and last.phase is not DropPhase.REMOVED else None


def store_drop(place: TablePlace, drop: TableDrop) -> None:
    place.fs.keep_dirs(place.drops, place.layout.root)
    place.fs.replace(drop_path(place, drop.number), encode_drop(drop))


def refuse_doomed(place: TablePlace) -> None:
    """TableExistsError: files of a dropped table of this name are still there."""
    drop = doomed(place)
    if drop is not None:
        raise TableExistsError(
            f"table {place.table} is being dropped",
            where=drop_path(place, drop.number),
            expected="a table whose files are removed",
            found=f"drop {drop.number}, whose files wait for the end of their grace period",
            hint=f"`sparkhaven drop {place.table} --yes --grace 0` removes them now, if no reader needs them",
        )


def dropped_tables(fs: Fs, layout: Layout) -> list[TableName]:
    """Every table that was ever dropped, sorted. Other names are ignored."""
    tables = []
    for name in fs.names(layout.all_drops()):
        with suppress(InvalidNameError):
            tables.append(TableName.parse(name))
    return sorted(tables)


def is_doomed(place: TablePlace) -> bool:
    """Whether a table is dropped and files of it are still there; a damaged record says nothing."""
    with suppress(CorruptFileError, UnsupportedVersionError):
        return place.fs.stat(place.schema) is None and doomed(place) is not None
    return False
