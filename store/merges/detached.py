"""Manifests of detached dates: what lies in a directory outside of the database, and where it belongs.

A detached date is a directory ``<table>/<value>.g<generation>``. Below ``locations`` it has the files of history, byte
for byte, a directory for each internal partition. Beside it, written last, is the file ``manifest.detached``.

The file has the frames of ``store.framing.log_frames``: magic ``SHVDET1``, as number the generation of the merge, and
one frame, to the end of the file. Its payload has the keys ``files`` (path below ``locations`` -> [bytes, CRC-32 of the
whole file]), ``columns`` (lists [id, name, type] of the schema), ``record`` and ``validation`` (the bytes of the merge
record, and of its validation or null, in base64) and ``timeMs`` (since the epoch). The ``id`` of a manifest is made of
that payload; the database remembers it until the date is attached again.

*Writer.* The directory is staged beside its place, synced, and renamed with the manifest in it. *Reader.* A missing or
damaged manifest is an error, as is any file that differs from it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from sparkhaven.store.errors import CorruptFileError, TableNotFoundError
from sparkhaven.store.framing.canonical import BROKEN, dump, load
from sparkhaven.store.framing.log_frames import HEADER, frame, header, read_header, scan
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.merges.merge_records import MergeRecord, decode_record, encode_record
from sparkhaven.store.types.committed_columns import FileState

MAGIC = b"SHVDET1\n"
NAME = "manifest.detached"
LOCATIONS = "locations"


@dataclass(frozen=True, slots=True)
class DetachedManifest:
    """What a detached date has. ``files``: size and CRC-32 of whole files, by their path below ``locations``.

    ``columns``: id, name and type of the stored columns. ``validation``: the bytes of its file.
    """

    record: MergeRecord
    files: Mapping[str, FileState]
    columns: tuple[tuple[int, str, str], ...]
    validation: bytes | None = None
    time_ms: int = 0

    @property
    def id(self) -> str:
        return sha256(_payload(self)).hexdigest()[:24]

    @property
    def rows(self) -> int:
        return sum(output.rows for output in self.record.outputs)

    @property
    def size(self) -> int:
        return sum(state.size for state in self.files.values())

    def files_of(self, internal: str) -> dict[str, FileState]:
        """Those of one location, by their path below it."""
        start = f"{internal}/"
        return {path.removeprefix(start): state for path, state in self.files.items() if path.startswith(start)}


def _payload(manifest: DetachedManifest) -> bytes:
    validation = manifest.validation
    return dump(
        {
            "columns": [list(column) for column in manifest.columns],
            "files": {path: [state.size, state.crc] for path, state in manifest.files.items()},
            "record": b64encode(encode_record(manifest.record)).decode(),
            "validation": None if validation is None else b64encode(validation).decode(),
            "timeMs": manifest.time_ms,
        }
    )


def encode_detached(manifest: DetachedManifest) -> bytes:
    """The bytes of a manifest; the same one gives the same bytes."""
    return header(MAGIC, manifest.record.generation) + frame(_payload(manifest))


def decode_detached(data: bytes, where: object) -> DetachedManifest:
    """A manifest from the bytes of its file; CorruptFileError with the byte, or UnsupportedVersionError."""
    generation = read_header(data, MAGIC, where)
    scanned = scan(data)
    if len(scanned.frames) != 1 or scanned.rest:
        expected = "one frame whose checksum holds, to the end of the file"
        raise _corrupt(
            "is cut short or damaged", where, expected, f"{len(scanned.frames)} frames, {scanned.rest} bytes"
        )
    try:
        payload = load(scanned.frames[0].payload, where)
        validation = payload["validation"]
        manifest = DetachedManifest(
            decode_record(b64decode(payload["record"]), where),
            {path: FileState(*state) for path, state in payload["files"].items()},
            tuple((int(number), str(name), str(kind)) for number, name, kind in payload["columns"]),
            None if validation is None else b64decode(validation),
            payload["timeMs"],
        )
    except BROKEN as error:
        raise _corrupt("has other content", where, "its fields", repr(error)) from error
    if manifest.record.generation != generation:
        raise _corrupt("contradicts itself", where, generation, manifest.record.generation)
    return manifest


def load_detached(fs: Fs, directory: Path) -> DetachedManifest:
    """The manifest of a detached date. TableNotFoundError: the directory has none."""
    path = directory / NAME
    if fs.stat(path) is None:
        raise TableNotFoundError(
            "no detached date",
            where=directory,
            expected=NAME,
            found="nothing" if fs.stat(directory) is None else "a directory without it",
            hint="name a directory of a detached date, or one with several",
        )
    return decode_detached(fs.read(path), path)


def _corrupt(what: str, where: object, expected: object, found: object) -> CorruptFileError:
    return CorruptFileError(
        f"manifest of a detached date {what}",
        where=f"{where} at byte {HEADER.size}",
        expected=expected,
        found=found,
        hint=f"run `sparkhaven inspect {where}` and restore it from a copy. Nothing else names what was detached",
    )
