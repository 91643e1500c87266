"""Notes beside the log of a stream: of its last failure, and that it was removed.

A process that has failed tells nobody any more, so a note does, whoever looks later.
``<stream>.failure`` is one canonical JSON object: ``time`` (ms), ``error`` (its class), ``exit`` (code), ``what``,
``where``, ``expected``, ``found``, ``hint``, ``file`` (the stream file, or null), ``table``, ``stream``, ``version`` 1,
``crc`` (CRC-32 of the object without it). It is replaced by the next failure, and removed by the next success. Nothing
depends on it: what it says is shown and not believed. Its texts come from data and disks, so they are short, and have
no control characters.

A stream that was removed has left the epoch and the generation that its log had reached. ``<stream>.removed`` is one
JSON object: ``epoch``, ``generation``, ``time`` (ms), ``table``, ``stream``, ``version`` 1, ``crc`` (CRC-32 of the
object without it, keys sorted). It is written durably before the log is unlinked, and counts only while there is no
log. Merge records still name epochs of the removed stream; the note says that these are not lost. A new stream of that
name continues the numbers, so none means two things, and then removes the note.
"""

from __future__ import annotations

import json
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkhaven.store.errors import (
    EXIT_BAD_DATA,
    EXIT_USAGE,
    CorruptFileError,
    InvalidNameError,
    SparkhavenError,
    counted,
)
from sparkhaven.store.framing import BROKEN, dump
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName, stream_of
from sparkhaven.store.places import StreamPlace, TablePlace

VERSION = 1
FAILED = ".failure"
MOST = 64 << 10  # bytes
LONGEST = 1000  # characters of a text
REMOVED = ".removed"


@dataclass(frozen=True, slots=True)
class StreamFailure:
    """A failure that no success has followed. ``file``: the stream file, where it is known."""

    time_ms: int
    error: str
    exit_code: int
    what: str
    where: str | None = None
    expected: str | None = None
    found: str | None = None
    hint: str | None = None
    file: str | None = None

    @classmethod
    def of(cls, error: BaseException, time_ms: int, file: Path | None = None) -> StreamFailure:
        """The failure that an error is."""
        about = {"time_ms": time_ms, "error": type(error).__name__, "file": None if file is None else _plain(str(file))}
        if not isinstance(error, SparkhavenError):
            return cls(exit_code=EXIT_BAD_DATA, what=_plain(f"{type(error).__name__}: {error}"), **about)  # type: ignore[arg-type]
        parts = {name: getattr(error, name) for name in ("what", "where", "expected", "found", "hint")}
        texts = {name: None if text is None else _plain(text) for name, text in parts.items()}
        return cls(exit_code=error.exit_code, **about, **texts)  # type: ignore[arg-type]

    @property
    def headline(self) -> str:
        """What, where and found, in one line."""
        text = self.what + (f" ({self.where})" if self.where else "")
        return text + (f": found {self.found}" if self.found else "")


def note_failure(place: StreamPlace, error: BaseException, time_ms: int, file: Path | None = None) -> None:
    """Replaces the note, durably; where that fails too there is none, since the error itself is what counts.

    A wrong option or file makes no stream: of one without a log it is not noted, and neither is anything of a table
    that does not exist.
    """
    failure = StreamFailure.of(error, time_ms, file)
    with suppress(SparkhavenError, OSError):
        is_new = place.fs.stat(place.stream_log) is None
        if is_new and (failure.exit_code == EXIT_USAGE or place.fs.stat(place.schema) is None):
            return
        place.fs.mkdirs(place.streams)
        with place.fs.during("failure-note"):
            place.fs.replace(place.stream_failure, encode_failure(failure, str(place.table), place.stream))


def clear_failure(place: StreamPlace) -> None:
    """The stream does what it should. A note that cannot be removed is an old one, which its time shows."""
    with suppress(SparkhavenError, OSError):
        place.fs.unlink(place.stream_failure)


def read_failure(place: StreamPlace) -> StreamFailure | None:
    """The note of a stream, or None. CorruptFileError: it is damaged, or belongs to another stream."""
    path = place.stream_failure
    try:
        owner, failure = load_failure(place.fs, path)
    except FileNotFoundError:
        return None
    if owner != (str(place.table), place.stream):
        raise _damaged_failure(path, f"the note of {' '.join(owner)}")
    return failure


def load_failure(fs: Fs, path: Path) -> tuple[tuple[str, str], StreamFailure]:
    """Table and stream of a note, and the failure. FileNotFoundError; CorruptFileError: it is damaged."""
    stat = fs.stat(path)
    if stat is not None and stat.size > MOST:
        raise _damaged_failure(path, counted(stat.size, "byte"))
    return decode_failure(fs.read(path), path)


def failed_streams(place: TablePlace) -> list[str]:
    """The streams of a table that have a note, whether or not they have a log."""
    names = place.fs.names(place.streams)
    return [name.removesuffix(FAILED) for name in names if name.endswith(FAILED) and not name.startswith(".")]


def encode_failure(failure: StreamFailure, table: str, stream: str) -> bytes:
    value: dict[str, Any] = {
        "time": failure.time_ms,
        "error": failure.error,
        "exit": failure.exit_code,
        "what": failure.what,
        "where": failure.where,
        "expected": failure.expected,
        "found": failure.found,
        "hint": failure.hint,
        "file": failure.file,
        "table": table,
        "stream": stream,
        "version": VERSION,
    }
    return dump(value | {"crc": zlib.crc32(dump(value))}) + b"\n"


def decode_failure(data: bytes, path: Path) -> tuple[tuple[str, str], StreamFailure]:
    """Table and stream that a note is about, and the failure. CorruptFileError: it is damaged."""
    try:
        value = json.loads(data)
        texts = {name: value[name] for name in ("where", "expected", "found", "hint", "file")}
        if not all(text is None or isinstance(text, str) for text in texts.values()):
            raise TypeError("a text is none")
        texts = {name: None if text is None else _plain(text) for name, text in texts.items()}
        plain = _plain(str(value["error"])), int(value["exit"]), _plain(str(value["what"]))
        failure, owner = StreamFailure(int(value["time"]), *plain, **texts), (str(value["table"]), str(value["stream"]))
    except (*BROKEN, RecursionError) as error:
        raise _damaged_failure(path, f"{len(data)} bytes that are not a note") from error
    if data != encode_failure(failure, *owner):
        raise _damaged_failure(path, "bytes that do not have their checksum")
    return owner, failure


def _plain(text: str) -> str:
    """A text of one line, without control characters, that is not long."""
    line = " / ".join(part.strip() for part in text.splitlines() if part.strip())
    plain = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in line[: 2 * LONGEST])
    return plain if len(plain) <= LONGEST else plain[: LONGEST - 1] + "…"


def _damaged_failure(path: Path, content: str) -> CorruptFileError:
    return CorruptFileError(
        "the note of a stream's last failure is damaged",
        where=path,
        expected=f"a JSON object of stream {path.stem!r}, and its checksum",
        found=content,
        hint="remove it. Nothing depends on it",
    )


@dataclass(frozen=True, slots=True)
class RemovedStream:
    epoch: int
    generation: int
    time_ms: int


def noted_streams(place: TablePlace) -> list[str]:
    """The streams of a table that have a note, sorted."""
    names = place.fs.names(place.streams)
    return [name.removesuffix(REMOVED) for name in names if name.endswith(REMOVED)]


def read_removed(place: StreamPlace) -> RemovedStream | None:
    """The note of a stream, or None. CorruptFileError: it is damaged or belongs to another stream."""
    path = place.stream_removed
    try:
        data = place.fs.read(path)
    except FileNotFoundError:
        return None
    owner, note = decode_removed(data, path)
    if owner != (str(place.table), place.stream):
        raise _damaged_removal(path, f"the note of {' '.join(owner)}")
    return note


def decode_removed(data: bytes, path: Path) -> tuple[tuple[str, str], RemovedStream]:
    """Table and stream that a note is about, and the note. CorruptFileError: it is damaged."""
    try:
        value = json.loads(data)
        table, stream = TableName.parse(value["table"]), str(value["stream"])
        note = RemovedStream(int(value["epoch"]), int(value["generation"]), int(value["time"]))
    except (*BROKEN, InvalidNameError) as error:
        raise _damaged_removal(path, f"{len(data)} bytes that are not a note") from error
    if data != encode_removed(note, table, stream):
        raise _damaged_removal(path, "bytes that do not have their checksum")
    return (str(table), stream), note


def write_removed(place: StreamPlace, note: RemovedStream) -> None:
    with place.fs.during("removed-note"):
        place.fs.replace(place.stream_removed, encode_removed(note, place.table, place.stream))


def encode_removed(note: RemovedStream, table: TableName, stream: str) -> bytes:
    value: dict[str, Any] = {"epoch": note.epoch, "generation": note.generation, "time": note.time_ms}
    value |= {"table": str(table), "stream": stream, "version": VERSION}
    value["crc"] = zlib.crc32(json.dumps(value, sort_keys=True).encode())
    return json.dumps(value, sort_keys=True).encode() + b"\n"


def _damaged_removal(path: Path, content: str) -> CorruptFileError:
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
