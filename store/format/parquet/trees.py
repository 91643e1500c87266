"""Trees of Parquet files for and by other programs: their layouts, and the names in them.

============  =========================================================  ==========================================
layout        files                                                      the partition value
============  =========================================================  ==========================================
``nested``    ``<internal>/<value>/<Table>/table.parquet``               in the path
``flat``      ``part-<id>-<n>.parquet``, order of rows by ``n``          in the column itself
``kv``        ``<Column>=<value>/part-<id>-<n>.parquet``                 in the path
``metadata``  as ``kv``, with ``_metadata`` and ``_common_metadata``     in the path
``hive``      as ``kv``, leaves also directories of column files, with   in the path, and in the Locations table
              a Locations table
============  =========================================================  ==========================================

Values are written as they are, and those on which readers would disagree are refused where they are a directory:

* Deephaven takes a name literally; Spark, DuckDB, polars and pyarrow undo ``%XX`` and read
  ``__HIVE_DEFAULT_PARTITION__`` as null;
* DuckDB and polars split ``<Column>=<value>`` at every ``=``, DuckDB ends a path at ``?``, polars expands ``*``;
* Deephaven drops blanks around a value behind ``=``;
* pyarrow and Spark pass over a directory that begins with ``_``; Deephaven takes one that ends in ``.parquet`` for a
  file, and a path with ``:`` in ``_metadata`` for a URL.

The manifest of a tree says what it was made from, and what is in each of its leaves. Its parts are the leaves, by their
path below the root, and ``""``: the files that name the leaves.

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

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from sparkhaven.store.errors import InvalidNameError
from sparkhaven.store.format.manifest import TREE, Manifest, ManifestPart, decode, encode
from sparkhaven.store.layout import PARQUET, check_partition
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Column, Kind, TableSchema

TreeLayout = Literal["nested", "flat", "kv", "metadata", "hive"]
LAYOUTS: tuple[TreeLayout, ...] = get_args(TreeLayout)
EXTENDED: dict[str, TreeLayout] = {  # types of ExtendedStorage
    "parquet:flat": "flat",
    "parquet:kv": "kv",
    "parquet:metadata": "metadata",
    "coreplus:hive": "hive",
}
METADATA, COMMON_METADATA = "_metadata", "_common_metadata"
MANIFEST = TREE.name
LOCATIONS_TABLE, LOCATIONS_TABLES = ".locations_table", (".locations_table", ".location_table")
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
SUFFIX = ".parquet"
INTERNAL = "0"  # the one internal partition of a nested tree: Deephaven needs every date in every one
_BEHIND_KEY = re.compile(r"[=?*]|\A\s|\s\Z|%[0-9A-Fa-f]{2}|\A__HIVE_DEFAULT_PARTITION__\Z|[.]parquet\Z")
_AMBIGUOUS: dict[TreeLayout, re.Pattern[str]] = {
    "nested": re.compile(r"%[0-9A-Fa-f]{2}|\A_|[.]parquet\Z"),
    "kv": _BEHIND_KEY,
    "metadata": re.compile(f"{_BEHIND_KEY.pattern}|:"),
    "hive": _BEHIND_KEY,
}
_PLAIN: dict[TreeLayout, str] = {
    "nested": "no %XX, no leading _, no .parquet at the end",
    "kv": f"no = ? * or %XX, no blank at an end, no .parquet at the end, and not {HIVE_NULL}",
    "metadata": f"no = ? * : or %XX, no blank at an end, no .parquet at the end, and not {HIVE_NULL}",
    "hive": f"no = ? * or %XX, no blank at an end, no .parquet at the end, and not {HIVE_NULL}",
}


def staged(root: Path) -> Path:
    """Where a tree is written before it is published; there only meanwhile, and after a kill."""
    return root.with_name(f".{root.name}.export")


def part_name(mark: str, number: int) -> str:
    """Name of a leaf without its suffix; names sort as their numbers."""
    return f"part-{mark}-{number:05d}"


def leaf_path(layout: TreeLayout, table: str, column: str, value: str, mark: str, number: int) -> PurePosixPath:
    """Where the Parquet file of one value lies; ``number`` counts the files of a flat tree, or those of the value.

    InvalidNameError: readers would not agree on the value.
    """
    if layout == "nested":
        return PurePosixPath(INTERNAL, check_value(layout, value), table, PARQUET)
    if layout == "flat":
        return PurePosixPath(part_name(mark, number) + SUFFIX)
    return PurePosixPath(value_directory(column, value), part_name(mark, number) + SUFFIX)


def value_directory(column: str, value: str) -> str:
    """The directory ``<Column>=<value>``. InvalidNameError: readers would not agree on the value."""
    return f"{column}={check_value('kv', value)}"


def check_value(layout: TreeLayout, value: str) -> str:
    """A value that every reader of a layout reads as it is; InvalidNameError for another one."""
    check_partition("partition value", value)
    if _agreed(layout, value):
        return value
    others = [other for other in LAYOUTS if other != "hive" and _agreed(other, value)]
    raise InvalidNameError(
        "partition value would be read as another one by Spark, DuckDB, polars, pyarrow or Deephaven",
        expected=_PLAIN[layout],
        found=repr(value),
        hint=f"export with --layout {' or '.join(others)}. For a tree beside history, set ExtendedStorage type"
        " parquet:flat",
    )


def _agreed(layout: TreeLayout, value: str) -> bool:
    return layout == "flat" or _AMBIGUOUS[layout].search(value) is None


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


def exported(columns: Iterable[Column]) -> tuple[ExportedColumn, ...]:
    """Columns of a table as a manifest has them."""
    return tuple(ExportedColumn(column.name, column.type.name, column.id) for column in columns)


def tree_columns(schema: TableSchema) -> frozenset[ExportedColumn]:
    """Those of the tree beside history that a schema asks for. The files of a flat one have the dates."""
    flat = EXTENDED.get(schema.extended or "") == "flat"
    return frozenset(exported(c for c in schema.columns if flat or c.kind is not Kind.PARTITIONING))


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

    def is_of(self, schema: TableSchema) -> bool:
        """Whether it is the tree that a schema asks for, with the columns of now."""
        wanted = schema.full_name, EXTENDED.get(schema.extended or ""), tree_columns(schema)
        return (self.table, self.layout, frozenset(self.columns)) == wanted

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
