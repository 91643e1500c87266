"""Finds the leaves of a tree of Parquet files that others made, or that was exported: in order, with their dates.

Names that begin with ``.`` or ``_`` are not data. Everything else must fit the layout: a file that is no Parquet file
by its name or its first bytes (Hive names them ``000000_0``), a level without ``=``, a key that is neither one of the
template of values nor a column of the table, another depth than they have are refused. Those that differ from the
ones beside them are damage.

==================  ==========================================================================================
layout              recognised by
==================  ==========================================================================================
``hive``            ``.locations_table`` or ``.location_table``, which alone names the leaves
``metadata``        ``_metadata``, which alone names the files
``flat``            Parquet files in the directory itself
``kv``              directories with ``=`` in their names
``nested``          ``<internal>/<value>/<Table>/table.parquet``
==================  ==========================================================================================

A survey opens the leaves: what a tree has of each date, before anything is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from sparkhaven.store.errors import CorruptFileError, SettingsError, TableNotFoundError
from sparkhaven.store.format.parquet.location_files import NAME
from sparkhaven.store.format.parquet.manifest import Manifest, decode_manifest
from sparkhaven.store.format.parquet.trees import LAYOUTS, LOCATIONS_TABLES, MANIFEST, METADATA, SUFFIX, TreeLayout
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.managed_trees.directories import committed_files
from sparkhaven.store.managed_trees.sink_log import UNCOMMITTED
from sparkhaven.store.managed_trees.table_formats import refuse_managed_above
from sparkhaven.store.scan.selection import Selection
from sparkhaven.store.source_rows import SourceRows
from sparkhaven.store.suggestions import meant
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.imports.column_leaf import open_leaf
from sparkhaven.writers.imports.foreign_values import STRICT, AllowedConversions
from sparkhaven.writers.imports.tree_walk import FoundLeaf, TreeWalk, is_parquet, nested_leaves, visible
from sparkhaven.writers.imports.value_template import ValueTemplate


@dataclass(frozen=True, slots=True)
class FoundTree:
    """A tree; ``manifest`` is that of an export. ``version``: of a Delta table.

    ``left_out``: files that the log of Spark's sink does not name.
    """

    root: Path
    layout: TreeLayout | Literal["delta"]
    leaves: tuple[FoundLeaf, ...]
    manifest: Manifest | None = None
    version: int | None = None
    left_out: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        return str(self.root) if self.version is None else f"{self.root}, version {self.version}"

    @property
    def remark(self) -> str | None:
        """What somebody has to know of files that are not taken."""
        count = len(self.left_out)
        return f"{count:,} files are left out ({UNCOMMITTED}). First: {self.left_out[0]}" if count else None


def find_tree(
    fs: Fs,
    root: Path,
    schema: TableSchema,
    layout: str = "auto",
    *,
    raw_values: bool = False,
    value: ValueTemplate | None = None,
) -> FoundTree:
    """The leaves of a tree. ``raw_values``: ``%XX`` in directory names is not undone.

    ``value``: how directories give the value of a date; None: ``<Column>=<value>``.
    TableNotFoundError: no such directory, or nothing in it. SettingsError: it does not fit the layout, no layout is
    recognised, or it is in the directory of a table. CorruptFileError: the tree, or what describes it, contradicts
    itself.
    """
    if not fs.is_dir(root):
        raise TableNotFoundError(
            "no such directory", where=root, expected="a tree of Parquet files", hint="check --from"
        )
    refuse_managed_above(fs, root / NAME)
    chosen = _layout(fs, root, schema, layout)
    if value is not None and chosen not in ("kv", "metadata"):
        raise SettingsError(
            f"--value is given for layout {chosen}, which has no directories <key>=<value>",
            where=root,
            expected="layout kv or metadata",
            found=chosen,
            hint="leave --value out",
        )
    walk = TreeWalk(fs, root, schema, raw_values, value)
    leaves = {
        "nested": walk.nested,
        "flat": walk.flat,
        "kv": walk.kv,
        "metadata": walk.metadata,
        "hive": walk.hive,
    }[chosen]()
    walked = sorted(leaves, key=lambda leaf: (leaf.value or "", leaf.name))
    kept, left_out = committed_files(fs, root, [leaf.path for leaf in walked])
    listed = [leaf for leaf in walked if leaf.path in kept]
    if not listed:
        raise TableNotFoundError("the tree has no Parquet files", where=root, expected=f"files {_like(chosen, schema)}")
    manifest = None
    if fs.stat(root / MANIFEST) is not None:
        manifest = decode_manifest(fs.read(root / MANIFEST), root / MANIFEST)
        listed = _exported(root, listed, manifest)
    return FoundTree(root, chosen, tuple(listed), manifest, left_out=tuple(left_out))


def _exported(root: Path, leaves: list[FoundLeaf], manifest: Manifest) -> list[FoundLeaf]:
    in_manifest = {leaf.path: leaf for leaf in manifest.files}
    missing = sorted(in_manifest.keys() - {leaf.name for leaf in leaves})
    added = sorted({leaf.name for leaf in leaves} - in_manifest.keys())
    if missing or added:
        raise CorruptFileError(
            "files of an exported tree are not those of its manifest",
            where=root / (missing or added)[0],
            expected="the file" if missing else "no other file",
            found="nothing" if missing else "a file that is not in the manifest",
            hint=f"copy the tree again, or remove {MANIFEST} to take it as one of another program",
        )
    completed = []
    for leaf in leaves:
        exported = in_manifest[leaf.name]
        if leaf.value not in (None, exported.value):
            raise CorruptFileError(
                "file of an exported tree lies in another directory than its manifest says",
                where=leaf.path,
                expected=exported.value,
                found=leaf.value,
                hint="copy the tree again",
            )
        completed.append(replace(leaf, value=exported.value, rows=exported.rows, exported=exported))
    return completed


def _layout(fs: Fs, root: Path, schema: TableSchema, word: str) -> TreeLayout:
    for layout in LAYOUTS:
        if word == layout:
            return layout
    if word != "auto":
        expected = ", ".join(("auto", *LAYOUTS))
        raise SettingsError("unknown --layout", expected=expected, found=repr(word), hint=meant(word, LAYOUTS))
    names = fs.names(root)
    if any(name in names for name in LOCATIONS_TABLES):
        return "hive"
    if METADATA in names:
        return "metadata"
    shown = visible(names)
    flat = any(is_parquet(fs, root / name) for name in shown)
    kv = any("=" in name and fs.is_dir(root / name) for name in shown)
    nested = any(fs.stat(leaf) is not None for leaf in nested_leaves(fs, root, schema))
    layouts: dict[TreeLayout, bool] = {"flat": flat, "kv": kv, "nested": nested}
    recognised = [name for name, is_it in layouts.items() if is_it]
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


@dataclass(frozen=True, slots=True)
class Part:
    """What the tree has of one date: its leaves with rows of it."""

    value: str
    leaves: tuple[FoundLeaf, ...]
    rows: int
    bytes: int


def survey(
    fs: Fs,
    tree: FoundTree,
    schema: TableSchema,
    dates: Sequence[str] | None,
    options: AllowedConversions = STRICT,
    *,
    allow_missing: bool = False,
) -> list[Part]:
    """What there is to import, by date. SchemaMismatchError: a file has other columns or types.

    TableNotFoundError: the tree has no rows of a date that is asked for, unless ``allow_missing``.
    """
    single = dates[0] if dates and len(dates) == 1 and ".." not in dates[0] else None
    selection = Selection.of(dates, None)
    leaves_by_date: dict[str, list[tuple[FoundLeaf, int, int]]] = {}
    for leaf in tree.leaves:
        reader = open_leaf(fs, leaf, schema, single, options)
        counts = reader.counts()
        SourceRows(reader.rows).require(sum(counts.values()), 0, leaf.path)
        for value, rows in counts.items():
            leaves_by_date.setdefault(value, []).append((leaf, rows, reader.size))
    for date in () if allow_missing else dates or ():
        if not any(Selection.of(date, None).takes_value(value) for value in leaves_by_date):
            raise TableNotFoundError(
                "the tree has no rows of this date",
                where=tree.root,
                expected=", ".join(sorted(leaves_by_date)[:5]) or "rows",
                found=date,
                hint="--dates names dates of the tree",
            )
    parts = [
        Part(value, tuple(leaf for leaf, _, _ in leaves), sum(n for _, n, _ in leaves), sum(n for _, _, n in leaves))
        for value, leaves in sorted(leaves_by_date.items())
        if selection.takes_value(value)
    ]
    if not parts and not allow_missing:
        raise TableNotFoundError("the tree has no rows", where=tree.root, expected="rows", found="none")
    return parts
