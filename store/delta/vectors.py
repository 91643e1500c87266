"""Deletion vectors: which rows of a data file are deleted, as the bytes of Delta's protocol say it.

A vector is a roaring bitmap of row numbers, from 0. It stands in the log itself (``i``, in Z85), or in a file: ``u`` is
a file of the table, named by a UUID in Z85 behind its directory; ``p`` a path or URI. Such a file has a byte of version
and vectors, each with its length before and its CRC-32 behind it. A row that a damaged vector loses would come back, so
length, checksum and number of rows are compared. ``deltalake`` decodes them too, but only all of a table at once, each
as long as its file has rows.

======================  ===============================================================================================
magic, ``<I``           1681511377
count, ``<Q``           bitmaps of 32 bits that follow, in ascending order
of each                 ``<I``: the upper 32 bits of its row numbers; the bitmap in roaring's portable form
======================  ===============================================================================================
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt

from sparkhaven.store.delta.log import Body, damaged, data_path
from sparkhaven.store.errors import CorruptFileError, SparkhavenError
from sparkhaven.store.io.fs import Fs

MAGIC = 1681511377
VERSION = 1
ARRAY_MOST = 4096  # numbers of a container that are listed; more are a bitmap
CONTAINER_BYTES = 8192
_WITH_RUNS, _WITHOUT_RUNS, _OFFSETS_FROM = 12347, 12346, 4
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGIT = {sign: digit for digit, sign in enumerate(_Z85)}
_UUID_SIGNS = 20

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Vector:
    """Where the vector of a data file is; ``rows``: how many it deletes. It pickles."""

    storage: str
    place: str
    offset: int
    size: int
    rows: int


def vector_of(table: Path, body: Body) -> Vector | None:
    """The vector of an action. CorruptFileError: it is described otherwise than Delta does."""
    said = body.get("deletionVector")
    if not said:
        return None
    try:
        storage, text = said["storageType"], said["pathOrInlineDv"]
        offset, size, rows = int(said.get("offset") or 0), int(said["sizeInBytes"]), int(said["cardinality"])
        match storage:
            case "u":
                directory, name = text[:-_UUID_SIGNS], uuid.UUID(bytes=z85(text[-_UUID_SIGNS:]))
                text = str(table / directory / f"deletion_vector_{name}.bin")
            case "p":
                text = data_path(table, text)
            case "i":
                z85(text)
            case _:
                raise ValueError(f"storageType {storage}")
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(Path(data_path(table, body["path"])), f"deletion vector {dict(said)}: {error!r}") from error
    return Vector(storage, text, offset, size, rows)


def deleted_rows(fs: Fs, vector: Vector) -> Rows:
    """Numbers of the deleted rows of a file, ascending. CorruptFileError: the vector is damaged or missing."""
    try:
        rows = decode_rows(z85(vector.place) if vector.storage == "i" else _content(fs, vector))
    except (ValueError, IndexError, struct.error) as error:
        raise _no_vector(vector, error) from error
    if len(rows) != vector.rows:
        raise _no_vector(vector, f"{len(rows)} rows where the log says {vector.rows}")
    return rows


def kept_rows(fs: Fs, rows: int, vector: Vector | None, before: Vector | None = None) -> npt.NDArray[np.bool_]:
    """Which of the rows of a data file are there: those that its vector does not delete.

    With a vector of ``before`` the rows that come back: deleted then, and no longer. CorruptFileError: a vector is
    damaged, or deletes rows that the file does not have.
    """
    kept = np.full(rows, before is None)
    for given in (before, vector):
        if given is not None:
            deleted = deleted_rows(fs, given)
            if len(deleted) and deleted[-1] >= rows:
                raise _no_vector(given, f"row {deleted[-1]} of a file of {rows} rows")
            kept[deleted] = given is before
    return kept


def _content(fs: Fs, vector: Vector) -> bytes:
    try:
        version = fs.read_range(Path(vector.place), 0, 1)
        data = fs.read_range(Path(vector.place), vector.offset, vector.size + 8)
    except FileNotFoundError:
        raise _no_vector(vector, "no such file") from None
    if version != bytes([VERSION]):
        raise ValueError(f"a file of version {version.hex()}")
    (size,), (checksum,) = struct.unpack(">I", data[:4]), struct.unpack(">I", data[-4:])
    if size != vector.size or crc32(data[4:-4]) != checksum:
        raise ValueError(
            f"{size} bytes with CRC-32 {crc32(data[4:-4]):08x} where {vector.size}, {checksum:08x} are said"
        )
    return data[4:-4]


def decode_rows(data: bytes) -> Rows:
    """Row numbers of a vector. ValueError, IndexError or struct.error: it is damaged."""
    magic, count = struct.unpack_from("<IQ", data)
    if magic != MAGIC:
        raise ValueError(f"magic {magic}")
    offset, parts, last = 12, [np.empty(0, np.int64)], -1
    for _ in range(count):
        (high,) = struct.unpack_from("<I", data, offset)
        if high <= last:
            raise ValueError("bitmaps out of order")
        numbers, offset = _bitmap(data, offset + 4)
        parts.append(numbers + (high << 32))
        last = high
    if offset != len(data):
        raise ValueError(f"{len(data) - offset} bytes behind the last bitmap")
    rows = np.concatenate(parts)
    if len(rows) and (np.diff(rows) <= 0).any():
        raise ValueError("row numbers out of order")
    return rows


def _bitmap(data: bytes, offset: int) -> tuple[Rows, int]:
    """The numbers of a bitmap of 32 bits at an offset of the bytes, and where it ends."""
    (cookie,) = struct.unpack_from("<I", data, offset)
    runs = np.zeros(0, np.bool_)
    if cookie & 0xFFFF == _WITH_RUNS:
        count, offset = (cookie >> 16) + 1, offset + 4
        runs = _bits(data, offset, (count + 7) // 8)
        offset += (count + 7) // 8
    elif cookie == _WITHOUT_RUNS:
        (count,) = struct.unpack_from("<I", data, offset + 4)
        offset += 8
        if count > 1 << 16:
            raise ValueError(f"{count} containers")
    else:
        raise ValueError(f"cookie {cookie}")
    heads = _numbers(data, offset, 2 * count).reshape(count, 2)
    offset += 4 * count
    if not len(runs) or count >= _OFFSETS_FROM:
        offset += 4 * count  # where each container begins: they follow each other
    parts = [np.empty(0, np.int64)]
    for number, (key, fewer) in enumerate(heads.tolist()):
        if len(runs) and runs[number]:
            (many,) = struct.unpack_from("<H", data, offset)
            pairs = _numbers(data, offset + 2, 2 * many).reshape(many, 2)
            numbers = np.concatenate(
                [np.arange(start, start + more + 1) for start, more in pairs.tolist()] or parts[:1]
            )
            offset += 2 + 4 * many
        elif fewer < ARRAY_MOST:
            numbers = _numbers(data, offset, fewer + 1)
            offset += 2 * (fewer + 1)
        else:
            numbers = np.flatnonzero(_bits(data, offset, CONTAINER_BYTES))
            offset += CONTAINER_BYTES
        if len(numbers) != fewer + 1:
            raise ValueError(f"{len(numbers)} numbers in a container of {fewer + 1}")
        parts.append(numbers + (key << 16))
    return np.concatenate(parts), offset


def _numbers(data: bytes, offset: int, count: int) -> Rows:
    return np.frombuffer(data, "<u2", count, offset).astype(np.int64)


def _bits(data: bytes, offset: int, size: int) -> npt.NDArray[np.bool_]:
    return np.unpackbits(np.frombuffer(data, np.uint8, size, offset), bitorder="little").astype(np.bool_)


def z85(text: str) -> bytes:
    """The bytes of a text in Z85, four of each five signs. ValueError: it is none."""
    if len(text) % 5:
        raise ValueError(f"{len(text)} signs of Z85")
    data = bytearray()
    for start in range(0, len(text), 5):
        value = 0
        for sign in text[start : start + 5]:
            if sign not in _DIGIT:
                raise ValueError(f"{sign!r} is no sign of Z85")
            value = value * 85 + _DIGIT[sign]
        if value >> 32:
            raise ValueError(f"{text[start : start + 5]!r} is above 32 bits")
        data += value.to_bytes(4, "big")
    return bytes(data)


def _no_vector(vector: Vector, content: object) -> SparkhavenError:
    return CorruptFileError(
        "a deletion vector of the Delta table is missing or damaged",
        where="the log of the table" if vector.storage == "i" else f"{vector.place}, byte {vector.offset}",
        expected=f"{vector.size} bytes with {vector.rows} row numbers, as the log says",
        found=content,
        hint="restore it from a copy. Without it rows that were deleted would be ingested. Nothing was committed",
    )
