"""The manifest of a snapshot, ``snapshot.json``: what the tree beside it holds. It is the last file that is written.

One JSON object: ``version`` 1, ``time_ms``, ``tables`` (name -> ``rows``, ``epochs`` by stream, ``digest``,
``partitions`` (writable storage partitions), ``files`` (path below the snapshot -> [bytes, CRC-32 or null])), ``crc``
(CRC-32 of the object without it, keys sorted). Bytes behind those of the manifest belong to a later snapshot. The
CRC-32 of a ``.dat`` file is of the bytes behind its prefix, as in the commit log. A file without one is of history,
whose checksums are in its merge record.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkhaven.store.errors import CorruptFileError, TableNotFoundError, UnsupportedVersionError
from sparkhaven.store.framing.canonical import BROKEN, dump
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.read_only_roots import SNAPSHOT_MANIFEST
from sparkhaven.store.layout import TableName
from sparkhaven.store.suggestions import near
from sparkhaven.writers.copies.file_copies import KnownFiles, quarantined

MANIFEST = SNAPSHOT_MANIFEST
VERSION = 1
AGAIN = "take another snapshot"


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """What a snapshot has of a table. ``digest`` is that of ``content_digest``, or of ``user_digest``."""

    rows: int
    epochs: Mapping[str, int]
    digest: str
    partitions: tuple[str, ...]
    files: KnownFiles

    @property
    def bytes(self) -> int:
        return sum(size for size, _ in self.files.values())


@dataclass(frozen=True, slots=True)
class SnapshotManifest:
    time_ms: int
    tables: Mapping[str, CopiedTable]

    @property
    def crc(self) -> int:
        return zlib.crc32(encode_manifest(self))

    def quarantines_of(self, table: CopiedTable) -> KnownFiles:
        """All files of the quarantines of a table, also those that other tables that share one have seen later."""
        names = {Path(path).parts[1] for path in quarantined(table.files)}
        files = {path: entry for other in self.tables.values() for path, entry in other.files.items()}
        return {path: files[path] for path in quarantined(files) if Path(path).parts[1] in names}

    def chosen(self, names: list[TableName] | None, where: Path) -> list[TableName]:
        """The named tables, None: all. TableNotFoundError: the snapshot does not have one."""
        for name in names or ():
            if str(name) not in self.tables:
                raise TableNotFoundError(
                    f"the snapshot has no table {name}",
                    where=where,
                    expected=near(str(name), sorted(self.tables)),
                    found=str(name),
                    hint="name tables of the snapshot, or none for all",
                )
        return sorted(set(names)) if names else sorted(map(TableName.parse, self.tables))


def encode_manifest(manifest: SnapshotManifest) -> bytes:
    tables = {
        name: {
            "rows": table.rows,
            "epochs": dict(table.epochs),
            "digest": table.digest,
            "partitions": list(table.partitions),
            "files": {path: list(entry) for path, entry in table.files.items()},
        }
        for name, table in manifest.tables.items()
    }
    return _signed({"version": VERSION, "time_ms": manifest.time_ms, "tables": tables})


def _signed(value: Mapping[str, Any]) -> bytes:
    return dump({**value, "crc": zlib.crc32(dump(value))}) + b"\n"


def load_manifest(fs: Fs, directory: Path) -> SnapshotManifest:
    """TableNotFoundError: there is no snapshot. CorruptFileError: its manifest is damaged."""
    path = directory / MANIFEST
    if fs.stat(path) is None:
        raise TableNotFoundError(
            "the directory has no snapshot", where=path, hint="name the --out of a snapshot that was finished"
        )
    data = fs.read(path)
    try:
        value = json.loads(data)
        version = value["version"]
        if version != VERSION:
            raise UnsupportedVersionError("manifest of another version", where=path, expected=VERSION, found=version)
        del value["crc"]
        if _signed(value) != data:
            raise ValueError("bytes that do not have their checksum")
        tables = {str(TableName.parse(name)): _table(table) for name, table in value["tables"].items()}
        return SnapshotManifest(int(value["time_ms"]), tables)
    except BROKEN as error:
        raise CorruptFileError(
            "manifest of a snapshot is damaged", where=path, expected="its content", found=repr(error), hint=AGAIN
        ) from error


def _table(value: Mapping[str, Any]) -> CopiedTable:
    files = {str(name): (int(size), crc) for name, (size, crc) in value["files"].items()}
    for name in files:
        if name.startswith("/") or ".." in Path(name).parts:
            raise ValueError(f"path {name!r}")
    epochs = {str(stream): int(epoch) for stream, epoch in value["epochs"].items()}
    return CopiedTable(int(value["rows"]), epochs, str(value["digest"]), tuple(value["partitions"]), files)
