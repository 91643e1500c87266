"""``<NS>.<Table>.history.json``: every deployed version of a schema, with the ids that its columns were given.

One JSON object: ``versions``, a list of {``version`` (1, 2, ... without gaps), ``sha256`` (of the bytes of the schema
file), ``columns`` [[id, name, type, storage, charset or null, kind], ...]}, and ``crc32``, the CRC-32 of that list as
compact JSON. Files from before ``crc32`` lack it. An id belongs to one name, type, storage and charset for ever, which
is checked too: a reader finds the column of a file by its id.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

from store.errors import CorruptFileError
from store.types.frozen import frozen
from store.types.model import Column


@frozen
class ColumnRecord:
    """One column of one version, as the history keeps it."""

    id: int
    name: str
    type: str
    storage: str
    encoding: str | None
    kind: str

    @staticmethod
    def of(column: Column, number: int) -> ColumnRecord:
        """The record of a column under an id."""
        stored = (column.type.name, column.storage.value, column.encoding, column.kind.name)
        return ColumnRecord(number, column.name, *stored)

    @property
    def identity(self) -> tuple[str, str, str, str | None]:
        """What an id identifies."""
        return (self.name, self.type, self.storage, self.encoding)


@frozen
class Version:
    """One deployed version."""

    version: int
    sha256: str
    columns: tuple[ColumnRecord, ...]


def encode_history(history: Sequence[Version]) -> bytes:
    """The file's content."""
    versions = [
        {
            "version": v.version,
            "sha256": v.sha256,
            "columns": [[c.id, c.name, c.type, c.storage, c.encoding, c.kind] for c in v.columns],
        }
        for v in history
    ]
    content = {"versions": versions, "crc32": _crc(versions)}
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def decode_history(data: bytes, where: object) -> list[Version]:
    """The versions, oldest first; anything that no deployment leaves is a CorruptFileError."""
    try:
        content = json.loads(data)
        versions = [_version(item) for item in content["versions"]]
        if "crc32" in content and content["crc32"] != _crc(content["versions"]):
            raise ValueError(f"CRC-32 of the versions is {_crc(content['versions'])}, stored is {content['crc32']}")
        _require_order(versions)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptFileError(
            "schema history cannot be read",
            where=where,
            expected='JSON {"versions": [{"version", "sha256", "columns"}], "crc32"}, each id of one column',
            found=f"{type(error).__name__}: {error}",
            hint="restore the file from a backup: column ids must not be given twice",
        ) from error
    return versions


def _crc(versions: Any) -> int:
    return zlib.crc32(json.dumps(versions, sort_keys=True, separators=(",", ":")).encode())


def _version(item: Any) -> Version:
    columns = tuple(ColumnRecord(*column) for column in item["columns"])
    if type(item["version"]) is not int or any(type(c.id) is not int or c.id < 0 for c in columns):
        raise ValueError("version and ids are whole numbers")
    texts = [text for c in columns for text in (c.name, c.type, c.storage, c.kind)]
    if not all(isinstance(text, str) for text in texts) or not isinstance(item["sha256"], str):
        raise ValueError("names, types and checksums are texts")
    return Version(item["version"], item["sha256"], columns)


def _require_order(versions: Sequence[Version]) -> None:
    owners: dict[int, tuple[Any, ...]] = {}
    for number, version in enumerate(versions, 1):
        if version.version != number:
            raise ValueError(f"version {version.version} stands where {number} should")
        for part, found in (("id", [c.id for c in version.columns]), ("name", [c.name for c in version.columns])):
            if len(set(found)) != len(found):
                raise ValueError(f"version {number} has a column {part} twice")
        for column in version.columns:
            if owners.setdefault(column.id, column.identity) != column.identity:
                raise ValueError(f"id {column.id} stands for {owners[column.id]} and for {column.identity}")
