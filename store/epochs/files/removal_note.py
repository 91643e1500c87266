"""The note that a stream was removed: the epoch and the generation that its log had reached.

``<stream>.removed`` is one JSON object: ``epoch``, ``generation``, ``time`` (ms), ``table``, ``stream``, ``version`` 1,
``crc`` (CRC-32 of the object without it, keys sorted). It is written durably before the log is unlinked, and counts
only while there is no log. Merge records still name epochs of the removed stream; the note says that these are not
lost. A new stream of that name continues the numbers, so none means two things, and then removes the note.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkhaven.store.errors import CorruptFileError, InvalidNameError
from sparkhaven.store.framing.canonical import BROKEN
from sparkhaven.store.layout import TableName, stream_of
from sparkhaven.store.places import StreamPlace, TablePlace

VERSION = 1
SUFFIX = ".removed"


@dataclass(frozen=True, slots=True)
class RemovedStream:
    epoch: int
    generation: int
    time_ms: int


def noted_streams(place: TablePlace) -> list[str]:
    """The streams of a table that have a note, sorted."""
    names = place.fs.names(place.streams)
    return [name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)]


def read_removed(place: StreamPlace) -> RemovedStream | None:
    """The note of a stream, or None. CorruptFileError: it is damaged or belongs to another stream."""
    path = place.stream_removed
    try:
        data = place.fs.read(path)
    except FileNotFoundError:
        return None
    owner, note = decode_removed(data, path)
    if owner != (str(place.table), place.stream):
        raise _damaged(path, f"the note of {' '.join(owner)}")
    return note


def decode_removed(data: bytes, path: Path) -> tuple[tuple[str, str], RemovedStream]:
    """Table and stream that a note is about, and the note. CorruptFileError: it is damaged."""
    try:
        value = json.loads(data)
        table, stream = TableName.parse(value["table"]), str(value["stream"])
        note = RemovedStream(int(value["epoch"]), int(value["generation"]), int(value["time"]))
    except (*BROKEN, InvalidNameError) as error:
        raise _damaged(path, f"{len(data)} bytes that are not a note") from error
    if data != encode_removed(note, table, stream):
        raise _damaged(path, "bytes that do not have their checksum")
    return (str(table), stream), note


def write_removed(place: StreamPlace, note: RemovedStream) -> None:
    with place.fs.during("removed-note"):
        place.fs.replace(place.stream_removed, encode_removed(note, place.table, place.stream))


def encode_removed(note: RemovedStream, table: TableName, stream: str) -> bytes:
    value: dict[str, Any] = {"epoch": note.epoch, "generation": note.generation, "time": note.time_ms}
    value |= {"table": str(table), "stream": stream, "version": VERSION}
    value["crc"] = zlib.crc32(json.dumps(value, sort_keys=True).encode())
    return json.dumps(value, sort_keys=True).encode() + b"\n"


def _damaged(path: Path, content: str) -> CorruptFileError:
    """The error; a note beside logs names the commands that write it again."""
    hint = "restore it from a copy"
    if path.parent.name == ".streams":
        table, stream = stream_of(path)
        hint += (
            f" of {path.parent}. Without one, run `sparkhaven recover {table} {stream} --from-locations`, then"
            f" `sparkhaven streams remove {table} {stream}`"
        )
    return CorruptFileError(
        "the note of a removed stream is damaged",
        where=path,
        expected=f"a JSON object with the last epoch and generation of stream {path.stem!r}, and its checksum",
        found=content,
        hint=hint,
    )
