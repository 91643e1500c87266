"""The ledger of a stream's quarantine: where its rows are, and what it has not taken over from the commit log yet.

``<stream>.quarantine`` is one JSON object: ``place`` (of the quarantine), ``file`` (the stream's settings), ``newest``
(no row is quarantined or requeued under a later epoch), ``seen`` (the newest rollback that is applied), ``dead``
[[after, up to], ...] (epochs whose rows are still to be removed), ``version`` 2, its ``table`` and ``stream``, ``crc``
(CRC-32 of the object without it, keys sorted). It is replaced atomically and durably before the quarantine changes. A
stream without rejected rows has none.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.framing import BROKEN
from sparkhaven.store.places import StreamPlace

VERSION = 2
AGAIN = "restore it from a copy, or remove it. The next start of the stream rebuilds it from the commit log"


@dataclass(frozen=True, slots=True)
class Ledger:
    """The content of the file. A pair of ``dead`` is a range of epochs: after its first number, up to its second."""

    place: str = ""
    file: str = ""
    newest: int = 0
    seen: int = 0
    dead: tuple[tuple[int, int], ...] = ()


def read_ledger(place: StreamPlace) -> Ledger | None:
    """The ledger of a stream, or None. CorruptFileError: it is damaged or belongs to another stream.

    A quarantine in the default directory of a root that was moved or copied since is that of the root.
    """
    path = place.stream_quarantine
    try:
        data = place.fs.read(path)
    except FileNotFoundError:
        return None
    ledger, *named = decode_ledger(data, path)
    if named != [str(place.table), place.stream]:
        raise CorruptFileError(
            "the ledger of a quarantine belongs to another stream",
            where=path,
            expected=f"that of {place.table}, stream {place.stream}",
            found=f"that of {named[0]}, stream {named[1]}",
            hint=AGAIN,
        )
    return _moved_with(place, ledger)


def decode_ledger(data: bytes, path: Path) -> tuple[Ledger, str, str]:
    """The ledger in a file, and the table and stream that it names. CorruptFileError: it is damaged."""
    try:
        value = json.loads(data)
        dead = tuple((int(after), int(upto)) for after, upto in value["dead"])
        ledger = Ledger(str(value["place"]), str(value["file"]), int(value["newest"]), int(value["seen"]), dead)
        table, stream = str(value["table"]), str(value["stream"])
    except BROKEN as error:
        raise _damaged(path, repr(error)) from error
    if data != encode_ledger(ledger, table, stream):
        raise _damaged(path, "bytes that do not have their checksum")
    return ledger, table, stream


def _moved_with(place: StreamPlace, ledger: Ledger) -> Ledger:
    """The ledger with the place that a quarantine in a default directory has in this root."""
    named = Path(ledger.place)
    own = place.layout.quarantine(named.name)
    if named.parent.name != own.parent.name or place.fs.stat(own) is None:
        return ledger
    if place.fs.resolve(named) == place.fs.resolve(own):
        return ledger
    return replace(ledger, place=str(own))


def write_ledger(place: StreamPlace, ledger: Ledger) -> None:
    with place.fs.during("quarantine-ledger"):
        place.fs.replace(place.stream_quarantine, encode_ledger(ledger, str(place.table), place.stream))


def encode_ledger(ledger: Ledger, table: str, stream: str) -> bytes:
    value: dict[str, Any] = {"place": ledger.place, "file": ledger.file, "newest": ledger.newest, "seen": ledger.seen}
    value |= {"dead": ledger.dead, "version": VERSION, "table": table, "stream": stream}
    value["crc"] = zlib.crc32(json.dumps(value, sort_keys=True).encode())
    return json.dumps(value, sort_keys=True).encode() + b"\n"


def _damaged(path: Path, content: str) -> CorruptFileError:
    return CorruptFileError(
        "the ledger of a quarantine is damaged",
        where=path,
        expected="a JSON object with place, file, newest, seen, dead, its owner and its checksum",
        found=content,
        hint=AGAIN,
    )
