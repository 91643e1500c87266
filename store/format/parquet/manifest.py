"""``_manifest.json`` of an exported tree: what it was made from, and what is in each of its files.

A JSON object, members in alphabetical order; the same export gives the same bytes. Trees beside history have version 2:
the witness of every other file of the tree, which ``verify`` compares.

=============  ===============================================================================================
``format``     ``sparkhaven-export``; ``version`` is 1 or 2
``table``      ``NS.T``; ``layout``, ``leaf`` (``parquet``, ``deephaven``), ``codec``: how it was written
``id``         of the snapshot's rows and the form of the tree: the same id, the same content
``epochs``     stream -> epoch of the snapshot
``columns``    per column ``name``, ``type``, ``id``: the digests are over these ids
``rows``       of all files; ``digests`` column -> order-free digest, 32 hex digits
``files``      per leaf ``path`` below the root, ``value`` of the partition, ``rows``, ``bytes``, ``digests``,
               ``row_digest`` of the rows, all columns of the files together, ``history``: of a tree beside history
               the digest of the rows that the merge record of the date has, else empty
``sums``       version 2: path of each file of the tree, but this one -> ``[bytes, CRC-32]``
``checksum``   version 2: CRC-32 of this object as canonical JSON, without this member
=============  ===============================================================================================
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sparkhaven.store.errors import CorruptFileError, UnsupportedVersionError
from sparkhaven.store.framing.canonical import BROKEN, dump
from sparkhaven.store.types.committed_columns import FileState

FORMAT, VERSION, WITH_SUMS = "sparkhaven-export", 1, 2


@dataclass(frozen=True, slots=True)
class TreeLeaf:
    path: str
    value: str
    rows: int
    bytes: int
    digests: Mapping[str, str]
    row_digest: str
    history: str = ""


@dataclass(frozen=True, slots=True)
class ExportedColumn:
    """A column of the files: its type as the schema names it, and its number."""

    name: str
    type: str
    id: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of the file. ``sums``: size and CRC-32 of each file of a tree beside history; else empty."""

    table: str
    layout: str
    leaf: str
    codec: str
    id: str
    epochs: Mapping[str, int]
    columns: tuple[ExportedColumn, ...]
    rows: int
    digests: Mapping[str, str]
    files: tuple[TreeLeaf, ...]
    sums: Mapping[str, FileState] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(leaf.bytes for leaf in self.files)


def encode_manifest(manifest: Manifest) -> bytes:
    members = {"format": FORMAT, "version": VERSION, **asdict(manifest)}
    del members["sums"]
    if manifest.sums:
        members["version"] = WITH_SUMS
        members["sums"] = {path: [state.size, state.crc] for path, state in manifest.sums.items()}
        members["checksum"] = zlib.crc32(dump(members))
    return json.dumps(members, ensure_ascii=False, indent=1, sort_keys=True).encode() + b"\n"


def decode_manifest(data: bytes, where: object) -> Manifest:
    """The content of a file. CorruptFileError: it is damaged. UnsupportedVersionError: another version."""
    try:
        record = json.loads(data)
        if record["format"] != FORMAT:
            raise ValueError(f"format {record['format']!r}")
        version = record["version"]
        if version not in (VERSION, WITH_SUMS):
            raise UnsupportedVersionError(
                "manifest has a version that this release cannot read",
                where=where,
                expected=f"{VERSION} or {WITH_SUMS}",
                found=version,
                hint="use the release that wrote the tree, or a newer one",
            )
        sums: dict[str, FileState] = {}
        if version == WITH_SUMS:
            checksum = _number(record.pop("checksum"))
            if zlib.crc32(dump(record)) != checksum:
                raise ValueError(f"checksum {zlib.crc32(dump(record))}, not {checksum}")
            sums = {_text(path): FileState(_number(size), _number(crc)) for path, (size, crc) in record["sums"].items()}
        return Manifest(
            table=_text(record["table"]),
            layout=_text(record["layout"]),
            leaf=_text(record["leaf"]),
            codec=_text(record["codec"]),
            id=_text(record["id"]),
            epochs={_text(stream): _number(epoch) for stream, epoch in record["epochs"].items()},
            columns=tuple(
                ExportedColumn(_text(c["name"]), _text(c["type"]), _number(c["id"])) for c in record["columns"]
            ),
            rows=_number(record["rows"]),
            digests=_texts(record["digests"]),
            files=tuple(
                TreeLeaf(
                    _text(f["path"]),
                    _text(f["value"]),
                    _number(f["rows"]),
                    _number(f["bytes"]),
                    _texts(f["digests"]),
                    _text(f["row_digest"]),
                    _text(f["history"]),
                )
                for f in record["files"]
            ),
            sums=sums,
        )
    except BROKEN as error:
        raise CorruptFileError(
            "manifest of an exported tree is damaged",
            where=where,
            expected="the JSON object that an export writes",
            found=repr(error),
            hint="export again with --replace, or remove the file to take the tree as one of another program",
        ) from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a number")
    return value


def _texts(value: Any) -> dict[str, str]:
    return {_text(name): _text(text) for name, text in value.items()}
