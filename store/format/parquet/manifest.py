"""The manifest of an exported tree: what it was made from, and what is in each of its leaves.

Its parts are the leaves, by their path below the root, and ``""``: the files that name the leaves.

==============  ===============================================================================================
``about``       ``table``; ``layout``, ``leaf`` (``parquet``, ``deephaven``), ``codec``: how it was written;
                ``id`` of the snapshot's rows and the form of the tree: the same id, the same content;
                ``epochs``: stream -> epoch; ``columns``: lists of name, type, id, and the digests are over these
                ids; ``rows`` of all leaves; ``digests``: column -> order-free digest, 32 hex digits
... of a leaf   ``value`` of the partition, ``rows``, ``digests``, ``row_digest`` of the rows, all columns of the files
                together, ``history``: of a tree beside history the digest of the rows that the merge record of the
                date has, else empty
==============  ===============================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkhaven.store.format.manifest import TREE, Manifest, ManifestPart, decode, encode
from sparkhaven.store.types.committed_columns import FileState


@dataclass(frozen=True, slots=True)
class TreeLeaf:
    """A Parquet file, or a directory of column files; ``files``: size and CRC-32 by path below the root."""

    path: str
    value: str
    rows: int
    digests: Mapping[str, str]
    row_digest: str
    files: Mapping[str, FileState]
    history: str = ""

    @property
    def bytes(self) -> int:
        return sum(state.size for state in self.files.values())


@dataclass(frozen=True, slots=True)
class ExportedColumn:
    """A column of the files: its type as the schema names it, and its number."""

    name: str
    type: str
    id: int


@dataclass(frozen=True, slots=True)
class TreeManifest:
    """The content of the file; ``leaves`` by path, ``named`` the files that name them."""

    table: str
    layout: str
    leaf: str
    codec: str
    id: str
    epochs: Mapping[str, int]
    columns: tuple[ExportedColumn, ...]
    rows: int
    digests: Mapping[str, str]
    leaves: tuple[TreeLeaf, ...]
    named: Mapping[str, FileState] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(leaf.bytes for leaf in self.leaves)

    @property
    def files(self) -> dict[str, FileState]:
        """All files but the manifest."""
        files = dict(self.named)
        for leaf in self.leaves:
            files |= leaf.files
        return files


def encode_manifest(tree: TreeManifest) -> bytes:
    """The bytes of the file; the same export gives the same bytes."""
    about = {name: getattr(tree, name) for name in ("table", "layout", "leaf", "codec", "id", "rows")}
    about |= {"epochs": dict(tree.epochs), "digests": dict(tree.digests)}
    about["columns"] = [[column.name, column.type, column.id] for column in tree.columns]
    parts = {"": ManifestPart({}, tree.named)}
    for leaf in tree.leaves:
        said = {name: getattr(leaf, name) for name in ("value", "rows", "row_digest", "history")}
        parts[leaf.path] = ManifestPart({**said, "digests": dict(leaf.digests)}, leaf.files)
    return encode(Manifest(TREE, about, parts))


def decode_manifest(data: bytes, where: object) -> TreeManifest:
    """The content of a file. Raises as ``store.format.manifest.decode``."""
    return decode(data, TREE, where, _tree)


def _tree(manifest: Manifest) -> TreeManifest:
    about = manifest.about
    table, layout, leaf, codec, id_ = (_text(about[name]) for name in ("table", "layout", "leaf", "codec", "id"))
    columns = tuple(
        ExportedColumn(_text(name), _text(kind), _number(number)) for name, kind, number in about["columns"]
    )
    return TreeManifest(
        table,
        layout,
        leaf,
        codec,
        id_,
        {stream: _number(epoch) for stream, epoch in about["epochs"].items()},
        columns,
        _number(about["rows"]),
        _texts(about["digests"]),
        tuple(_leaf(path, part) for path, part in sorted(manifest.parts.items()) if path),
        manifest.parts[""].files,
    )


def _leaf(path: str, part: ManifestPart) -> TreeLeaf:
    about = part.about
    value, rows, digests = _text(about["value"]), _number(about["rows"]), _texts(about["digests"])
    return TreeLeaf(path, value, rows, digests, _text(about["row_digest"]), part.files, _text(about["history"]))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a number")
    return value


def _texts(value: Any) -> dict[str, str]:
    return {name: _text(text) for name, text in value.items()}
