"""Finds the leaves of a tree of Parquet files that others made, or that was exported: in order, with their dates.

Names that begin with ``.`` or ``_`` are not data. Everything else must fit the layout: a file that is no ``*.parquet``,
a level without ``=``, another key than its siblings, a depth that is not that of the table are refused.

==================  ==========================================================================================
layout              recognised by
==================  ==========================================================================================
``hive``            ``.locations_table`` or ``.location_table``, which alone names the leaves
``metadata``        ``_metadata``, which alone names the files
``flat``            Parquet files in the directory itself
``kv``              directories with ``=`` in their names
``nested``          ``<internal>/<value>/<Table>/table.parquet``
==================  ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from store.errors import CorruptFileError, SettingsError, SparkhavenError, TableNotFoundError
from store.format.parquet.manifest import Leaf, Manifest, decode_manifest
from store.format.parquet.names import NAME
from store.format.parquet.trees import HIVE_NULL, LAYOUTS, LOCATIONS_TABLES, MANIFEST, METADATA, SUFFIX, TreeLayout
from store.format.table import tablesize
from store.format.table.locations import DEEPHAVEN, LocationEntry, decode_locations, locations_schema
from store.io.fs import Fs
from store.layout import check_partition, without_generation
from store.nearest import meant
from store.scan.columnfile import read_column
from store.types.frozen import frozen
from store.types.model import TableSchema
from writers.imports.foreign import open_foreign


@frozen
class FoundLeaf:
    """One file, or directory of column files. ``value`` None: dates are in the rows. ``rows``: as the tree says."""

    path: Path
    name: str
    value: str | None
    rows: int | None = None
    exported: Leaf | None = None


@frozen
class FoundTree:
    """A tree; ``manifest`` is that of an export."""

    root: Path
    layout: TreeLayout
    leaves: tuple[FoundLeaf, ...]
    manifest: Manifest | None


def find_tree(fs: Fs, root: Path, schema: TableSchema, layout: str = "auto", *, raw_values: bool = False) -> FoundTree:
    """The leaves of a tree. ``raw_values``: ``%XX`` in directory names is not undone.

    TableNotFoundError: no such directory, or nothing in it. SettingsError: it does not fit the layout, or no layout
    is recognised. CorruptFileError: what describes the tree contradicts it.
    """
    found = fs.stat(root)
    if found is None or not found.is_dir:
        raise TableNotFoundError(
            "no such directory", where=root, expected="a tree of Parquet files", hint="check --from"
        )
    chosen = _layout(fs, root, schema, layout)
    walk = _Walk(fs, root, schema, raw_values)
    leaves = {
        "nested": walk.nested,
        "flat": walk.flat,
        "kv": walk.kv,
        "metadata": walk.metadata,
        "hive": walk.hive,
    }[chosen]()
    listed = sorted(leaves, key=lambda leaf: (leaf.value or "", leaf.name))
    if not listed:
        raise TableNotFoundError("the tree has no Parquet files", where=root, expected=f"files {_like(chosen, schema)}")
    manifest = None
    if fs.stat(root / MANIFEST) is not None:
        manifest = decode_manifest(fs.read(root / MANIFEST), root / MANIFEST)
        listed = _exported(root, listed, manifest)
    return FoundTree(root, chosen, tuple(listed), manifest)


def _exported(root: Path, leaves: list[FoundLeaf], manifest: Manifest) -> list[FoundLeaf]:
    """The leaves with what the manifest says of them."""
    known = {leaf.path: leaf for leaf in manifest.files}
    missing = sorted(known.keys() - {leaf.name for leaf in leaves})
    added = sorted({leaf.name for leaf in leaves} - known.keys())
    if missing or added:
        raise CorruptFileError(
            "files of an exported tree are not those of its manifest",
            where=root / (missing or added)[0],
            expected="the file" if missing else "no other file",
            found="nothing" if missing else "a file that is not in the manifest",
            hint=f"copy the tree again, or remove {MANIFEST} to take it as one of another program",
        )
    found = []
    for leaf in leaves:
        exported = known[leaf.name]
        if leaf.value not in (None, exported.value):
            raise CorruptFileError(
                "file of an exported tree lies in another directory than its manifest says",
                where=leaf.path,
                expected=exported.value,
                found=leaf.value,
                hint="copy the tree again",
            )
        found.append(FoundLeaf(leaf.path, leaf.name, exported.value, exported.rows, exported))
    return found


def _layout(fs: Fs, root: Path, schema: TableSchema, asked: str) -> TreeLayout:
    for known in LAYOUTS:
        if asked == known:
            return known
    if asked != "auto":
        expected = ", ".join(("auto", *LAYOUTS))
        raise SettingsError("unknown --layout", expected=expected, found=repr(asked), hint=meant(asked, LAYOUTS))
    names = fs.names(root)
    if any(name in names for name in LOCATIONS_TABLES):
        return "hive"
    if METADATA in names:
        return "metadata"
    shown = _visible(names)
    flat = any(name.endswith(SUFFIX) for name in shown)
    kv = any("=" in name and not name.endswith(SUFFIX) for name in shown)
    nested = any(fs.stat(leaf) is not None for leaf in _nested_leaves(fs, root, schema))
    seen: dict[TreeLayout, bool] = {"flat": flat, "kv": kv, "nested": nested}
    recognised = [name for name, is_it in seen.items() if is_it]
    if len(recognised) == 1:
        return recognised[0]
    raise SettingsError(
        "the layout of the tree is not recognised" if not recognised else "the tree has files of several layouts",
        where=root,
        expected="one of " + "; ".join(f"{name}: {_like(name, schema)}" for name in LAYOUTS),
        found=", ".join(recognised) or ", ".join(shown[:3]) or "an empty directory",
        hint="name the directory of one table with --from, or the layout with --layout",
    )


def _like(layout: TreeLayout, schema: TableSchema) -> str:
    column = schema.partitioning.name if schema.partitioning else "Column"
    return {
        "nested": f"<internal>/<value>/{schema.name}/{NAME}",
        "flat": f"*{SUFFIX}",
        "kv": f"{column}=<value>/*{SUFFIX}",
        "metadata": METADATA,
        "hive": LOCATIONS_TABLES[0],
    }[layout]


def _visible(names: list[str]) -> list[str]:
    return [name for name in names if name[0] not in "._"]


def _nested_leaves(fs: Fs, root: Path, schema: TableSchema) -> Iterator[Path]:
    for internal in _visible(fs.names(root)):
        for value in _visible(fs.names(root / internal)):
            directory = root / internal / value / schema.name
            if fs.stat(directory) is not None:
                yield directory / NAME


class _Walk:
    def __init__(self, fs: Fs, root: Path, schema: TableSchema, raw_values: bool) -> None:
        self.fs, self.root, self.schema, self.raw_values = fs, root, schema, raw_values
        assert schema.partitioning is not None  # noqa: S101  the caller saw it
        self.column = schema.partitioning.name

    def leaf(self, path: Path, value: str | None, rows: int | None = None) -> FoundLeaf:
        return FoundLeaf(path, path.relative_to(self.root).as_posix(), value, rows)

    def nested(self) -> Iterator[FoundLeaf]:
        for path in _nested_leaves(self.fs, self.root, self.schema):
            internal, value = path.parts[-4], path.parts[-3]
            if without_generation(internal) != internal and ".g" in internal:
                raise SettingsError(
                    "the tree is history in which dates were merged again: replaced rows may still be there",
                    where=self.root / internal,
                    expected="each row once",
                    found=f"a later generation, {internal}",
                    hint="export the table there, and import that tree",
                )
            if self.fs.stat(path) is None:
                raise SettingsError(
                    "a location has no Parquet file",
                    where=path.parent,
                    expected=NAME,
                    found=", ".join(self.fs.names(path.parent)[:3]) or "an empty directory",
                    hint="export the table where its column files are",
                )
            yield self.leaf(path, check_partition("partition value", value))

    def flat(self) -> Iterator[FoundLeaf]:
        for name in _visible(self.fs.names(self.root)):
            if self._is_file(self.root / name):
                yield self.leaf(self.root / name, None)

    def kv(self) -> Iterator[FoundLeaf]:
        for name in _visible(self.fs.names(self.root)):
            path = self.root / name
            value = self.value_of(name, path)
            if self._is_dir(path):
                for inner in _visible(self.fs.names(path)):
                    if not self._is_file(path / inner):
                        raise self._misfit(path / inner, f"files *{SUFFIX}", "a directory: a second level")
                    yield self.leaf(path / inner, value)

    def metadata(self) -> Iterator[FoundLeaf]:
        """The files that ``_metadata`` names, with their rows."""
        path = self.root / METADATA
        found, rows = open_foreign(self.fs, path).metadata, dict[str, int]()
        for index in range(found.num_row_groups):
            group = found.row_group(index)
            name = group.column(0).file_path if group.num_columns else ""
            rows[name] = rows.get(name, 0) + group.num_rows
        for name, count in rows.items():
            parts = name.split("/")
            inside = self.fs.resolve(self.root) in self.fs.resolve(self.root / name).parents
            if not name or name.startswith("/") or ".." in parts or "" in parts or not inside:
                raise CorruptFileError(
                    "row group of _metadata names a file outside of the tree",
                    where=path,
                    expected="a path below the directory",
                    found=repr(name),
                    hint="have the tree written again; do not import it",
                )
            if len(parts) != 2:
                raise self._misfit(self.root / name, f"one level, that of {self.column}", f"{len(parts) - 1} levels")
            value = parts[0] if "=" not in parts[0] else self.value_of(parts[0], self.root / parts[0])
            yield self.leaf(self.root / name, check_partition("partition value", self._decoded(value)), count)

    def hive(self) -> Iterator[FoundLeaf]:
        """The leaves that the Locations table names, with their rows."""
        there = [name for name in LOCATIONS_TABLES if self.fs.stat(self.root / name) is not None]
        if len(there) != 1:
            raise CorruptFileError(
                "the tree has two Locations tables" if there else "the tree has no Locations table",
                where=self.root,
                expected=" or ".join(LOCATIONS_TABLES),
                found=" and ".join(there) or "neither",
                hint="remove the one that is out of date" if there else "import it with --layout kv",
            )
        for entry in self._entries(self.root / there[0]):
            path = self.root / entry.filename
            found = self.fs.stat(path)
            if found is None or found.is_dir != (entry.format == DEEPHAVEN):
                raise CorruptFileError(
                    "leaf of the Locations table is not there",
                    where=path,
                    expected=f"{entry.rows} rows in {entry.format}",
                    found="nothing" if found is None else "a directory" if found.is_dir else "a file",
                    hint="have the Locations table written anew from the tree",
                )
            parts = entry.filename.split("/")
            if len(parts) != 2 or self.value_of(parts[0], path) != entry.value:
                raise self._misfit(path, f"{self.column}={entry.value}/<leaf>", entry.filename)
            yield self.leaf(path, entry.value, entry.rows)

    def _entries(self, place: Path) -> list[LocationEntry]:
        record = tablesize.load(self.fs, place)
        if record is None:
            raise CorruptFileError(
                "the Locations table has no table.size", where=place, expected="a record of its rows"
            )
        schema = locations_schema(self.column, self.schema)
        sizes, rows = record.data_file_sizes, record.size
        columns = {c.name: read_column(self.fs, place, c, sizes, rows).to_pylist() for c in schema.columns}
        return decode_locations(columns, self.column, place)

    def value_of(self, name: str, where: Path) -> str:
        """The value of a directory ``<Column>=<value>``."""
        key, equals, value = name.partition("=")
        if not equals or key != self.column:
            raise self._misfit(where, f"{self.column}=<value>", name)
        value = self._decoded(value)
        if value == HIVE_NULL and not self.raw_values:
            raise self._misfit(where, "a value", f"{HIVE_NULL}, which is null")
        return check_partition("partition value", value)

    def _decoded(self, value: str) -> str:
        return value if self.raw_values else unquote(value, errors="strict")

    def _is_file(self, path: Path) -> bool:
        found = self.fs.stat(path)
        if found is not None and found.is_dir:
            return False
        if found is None or not found.is_file or not path.name.endswith(SUFFIX):
            raise self._misfit(path, f"files *{SUFFIX}", "nothing" if found is None else path.name)
        return True

    def _is_dir(self, path: Path) -> bool:
        found = self.fs.stat(path)
        if found is None or not found.is_dir:
            raise self._misfit(path, f"directories {self.column}=<value>", path.name)
        return True

    def _misfit(self, where: Path, expected: str, found: str) -> SparkhavenError:
        return SettingsError(
            "the tree does not fit the table",
            where=where,
            expected=expected,
            found=found,
            hint="move it out of the tree, or name another directory or --layout",
        )
