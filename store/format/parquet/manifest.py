"""``_manifest.json`` of an exported tree: what it was made from, and what is in each of its files.

A JSON object, members in alphabetical order; the same export gives the same bytes.

=============  ===============================================================================================
``format``     ``sparkhaven-export``; ``version`` is 1
``table``      ``NS.T``; ``layout``, ``leaf`` (``parquet``, ``deephaven``), ``codec``: how it was written
``id``         of the snapshot's rows and the form of the tree: the same id, the same content
``epochs``     stream -> epoch of the snapshot
``columns``    per column ``name``, ``type``, ``id``: the digests are over these ids
``rows``       of all files; ``digests`` column -> order-free digest, 32 hex digits
``files``      per leaf ``path`` below the root, ``value`` of the partition, ``rows``, ``bytes``, ``digests``
=============  ===============================================================================================
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from store.errors import CorruptFileError, UnsupportedVersionError

FORMAT, VERSION = "sparkhaven-export", 1


@dataclass(frozen=True, slots=True)
class Leaf:
    """One file, or directory of column files; ``bytes``: of all its files."""

    path: str
    value: str
    rows: int
    bytes: int
    digests: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ExportedColumn:
    """A column of the files: its type as the schema names it, and its number."""

    name: str
    type: str
    id: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of the file."""

    table: str
    layout: str
    leaf: str
    codec: str
    id: str
    epochs: Mapping[str, int]
    columns: tuple[ExportedColumn, ...]
    rows: int
    digests: Mapping[str, str]
    files: tuple[Leaf, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all leaves."""
        return sum(leaf.bytes for leaf in self.files)


def encode_manifest(manifest: Manifest) -> bytes:
    """The bytes of the file."""
    found = {"format": FORMAT, "version": VERSION, **asdict(manifest)}
    return json.dumps(found, ensure_ascii=False, indent=1, sort_keys=True).encode() + b"\n"


def decode_manifest(data: bytes, where: object) -> Manifest:
    """The content of a file. CorruptFileError: it is damaged. UnsupportedVersionError: another version."""
    try:
        found = json.loads(data)
        if found["format"] != FORMAT:
            raise ValueError(f"format {found['format']!r}")
        version = found["version"]
        if version != VERSION:
            raise UnsupportedVersionError(
                "manifest has a version that this release cannot read",
                where=where,
                expected=VERSION,
                found=version,
                hint="use the release that wrote the tree, or a newer one",
            )
        return Manifest(
            table=_text(found["table"]),
            layout=_text(found["layout"]),
            leaf=_text(found["leaf"]),
            codec=_text(found["codec"]),
            id=_text(found["id"]),
            epochs={_text(stream): _number(epoch) for stream, epoch in found["epochs"].items()},
            columns=tuple(
                ExportedColumn(_text(c["name"]), _text(c["type"]), _number(c["id"])) for c in found["columns"]
            ),
            rows=_number(found["rows"]),
            digests=_texts(found["digests"]),
            files=tuple(
                Leaf(_text(f["path"]), _text(f["value"]), _number(f["rows"]), _number(f["bytes"]), _texts(f["digests"]))
                for f in found["files"]
            ),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFileError(
            "manifest of an exported tree is damaged",
            where=where,
            expected="the JSON object that an export writes",
            found=repr(error),
            hint="export again with --replace, or remove the file to take the tree as one of another program",
        ) from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no number")
    return value


def _texts(value: Any) -> dict[str, str]:
    return {_text(name): _text(text) for name, text in value.items()}
