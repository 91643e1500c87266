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

A survey opens the leaves: what a tree has of each date, before anything is imported. Its rows are converted date by
date into one ``table.parquet``. The newest version of a Delta table is a tree, too: its data files, with the values of
partition columns from the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Literal
from zlib import crc32

import pyarrow as pa

from sparkhaven.store.delta.snapshot import NO_VERSION, delta_columns, read_snapshot
from sparkhaven.store.delta.vectors import kept_rows, vector_of
from sparkhaven.store.errors import (
    CorruptFileError,
    SchemaMismatchError,
    SettingsError,
    TableNotFoundError,
    ValidationFailedError,
    counted,
    counted_with,
    meant,
)
from sparkhaven.store.format.parquet.trees import (
    HIVE_NULL,
    LAYOUTS,
    LOCATIONS_TABLES,
    MANIFEST,
    METADATA,
    SUFFIX,
    TreeLayout,
    TreeManifest,
    decode_manifest,
)
from sparkhaven.store.framing import dump
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import PARQUET, check_partition
from sparkhaven.store.managed_trees import UNCOMMITTED, committed_files, refuse_managed_above
from sparkhaven.store.native.checked_columns import checksum
from sparkhaven.store.scan.selection import Selection
from sparkhaven.store.source_rows import SourceRows
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.foreign_values import STRICT, AllowedConversions
from sparkhaven.writers.transfer.date_import import CODEC, ConvertedRows, Part, Progress, parquet_rows, stored_batch
from sparkhaven.writers.transfer.leaf_readers import ExportedDigests, FoundLeaf, open_leaf
from sparkhaven.writers.transfer.tree_walk import TreeWalk, ValueTemplate, is_parquet, nested_leaves, visible
from sparkhaven.writers.transfer.tree_writer import write_parquet_leaf


@dataclass(frozen=True, slots=True)
class FoundTree:
    """A tree; ``manifest`` is that of an export. ``version``: of a Delta table.

    ``left_out``: files that the log of Spark's sink does not name.
    """

    root: Path
    layout: TreeLayout | Literal["delta"]
    leaves: tuple[FoundLeaf, ...]
    manifest: TreeManifest | None = None
    version: int | None = None
    left_out: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        return str(self.root) if self.version is None else f"{self.root}, version {self.version}"

    @property
    def remark(self) -> str | None:
        """What somebody has to know of files that are not taken."""
        count = len(self.left_out)
        return (
            f"{counted_with(count, 'file', 'are left out')} ({UNCOMMITTED}). First: {self.left_out[0]}"
            if count
            else None
        )


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
    refuse_managed_above(fs, root / PARQUET)
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


def _exported(root: Path, leaves: list[FoundLeaf], manifest: TreeManifest) -> list[FoundLeaf]:
    in_manifest = {leaf.path: leaf for leaf in manifest.leaves}
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
        "nested": f"<internal>/<value>/{schema.name}/{PARQUET}",
        "flat": f"*{SUFFIX}",
        "kv": f"{column}=<value>/*{SUFFIX}",
        "metadata": METADATA,
        "hive": LOCATIONS_TABLES[0],
    }[layout]


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


class TreeRows:
    """The rows of a tree.

    ``dates``: values and ranges that are taken (None: all), or the one date of rows that have none. ``allow_missing``:
    no error where there are none.
    """

    def __init__(
        self,
        fs: Fs,
        schema: TableSchema,
        tree: FoundTree,
        dates: Sequence[str] | None = None,
        conversions: AllowedConversions = STRICT,
        *,
        allow_missing: bool = False,
    ) -> None:
        self._fs, self._schema, self._tree = fs, schema, tree
        self._dates, self._conversions, self._allow_missing = dates, conversions, allow_missing
        self._sums: dict[Path, tuple[int, int]] = {}

    @property
    def name(self) -> str:
        return self._tree.name

    @property
    def layout(self) -> str:
        return self._tree.layout

    @cached_property
    def _parts(self) -> list[Part]:
        allowed = self._allow_missing
        return survey(self._fs, self._tree, self._schema, self._dates, self._conversions, allow_missing=allowed)

    def check(self) -> None:
        """Raises what ``survey`` raises."""
        _ = self._parts

    def look(self, on_progress: Progress) -> list[Part]:
        del on_progress
        return self._parts

    def take(self, on_progress: Progress) -> list[Part]:
        del on_progress
        return self._parts

    def id_of(self, part: Part, *, ordered: bool) -> str:
        """Of the content of the files, wherever they lie, and of what their table says of them."""
        del ordered
        for leaf in part.leaves:
            if leaf.path not in self._sums:
                stat = self._fs.stat(leaf.path)
                self._sums[leaf.path] = stat.size if stat else 0, self._sum(leaf.path)
        said = [[leaf.said] if leaf.said else [] for leaf in part.leaves]
        files = [[leaf.name, *self._sums[leaf.path], *more] for leaf, more in zip(part.leaves, said, strict=True)]
        return sha256(dump({"files": files})).hexdigest()[:24]

    def _sum(self, path: Path) -> int:
        stat = self._fs.stat(path)
        if stat is not None and stat.is_dir:
            return crc32(dump({name: self._sum(path / name) for name in self._fs.names(path)}))
        return checksum(self._fs, path, 0, stat.size if stat else 0)

    def convert(self, part: Part, directory: Path, on_progress: Progress) -> ConvertedRows:
        fs, stored = self._fs, self._schema.stored
        fs.mkdirs(directory)
        written = write_parquet_leaf(fs, directory / PARQUET, stored, self._batches(part), CODEC)
        if written.rows != part.rows:
            raise ValidationFailedError(
                "the tree has another number of rows than before",
                where=f"{self._tree.root}, {part.value}",
                expected=part.rows,
                found=written.rows,
                hint="import again when nobody writes the tree",
                phase="stage",
            )
        state = FileState(written.bytes, checksum(fs, directory / PARQUET, 0, written.bytes))
        on_progress(f"{part.value}: {counted(written.rows, 'row')} of {counted(len(part.leaves), 'file')} read")
        return ConvertedRows((parquet_rows(fs, directory, written.rows, state, stored),), written.digests)

    def release(self) -> None:
        """Nothing: what was converted lies in the staging directory of its merge."""

    def _batches(self, part: Part) -> Iterator[pa.RecordBatch]:
        stored = self._schema.stored
        for leaf in part.leaves:
            manifest = self._tree.manifest
            proven = ExportedDigests(leaf, manifest, stored) if manifest is not None else None
            opened = open_leaf(self._fs, leaf, self._schema, part.value, self._conversions)
            for rows in opened.read(part.value):
                if proven is not None:
                    proven.add(rows)
                yield stored_batch(stored, rows.columns)
            if proven is not None:
                proven.require()


def delta_tree(fs: Fs, root: Path, schema: TableSchema, ignored: frozenset[str] = frozenset()) -> FoundTree:
    """The leaves of a Delta table. ``ignored``: its columns that are not read.

    Columns have the names that the table has now, one that a file lacks is null, and deleted rows are left out.

    TableNotFoundError: there is none, or it has no rows. CorruptFileError, UnsupportedVersionError: it cannot be read.
    SchemaMismatchError: it is partitioned by a column that the table does not have, or a row has no date.
    """
    snapshot = read_snapshot(fs, root, plain=False)
    if snapshot.version == NO_VERSION or not snapshot.files:
        raise TableNotFoundError(
            "the Delta table has no rows" if snapshot.version != NO_VERSION else "no such Delta table",
            where=root,
            expected="at least one data file",
            found=f"version {snapshot.version}" if snapshot.version != NO_VERSION else "no version",
            hint="check --from",
        )
    columns = delta_columns(root, snapshot.metadata)
    wanted = frozenset(column.name for column in schema.columns)
    leaves = []
    for path in snapshot.paths():
        body = snapshot.files[path]
        values = columns.names_of(body.get("partitionValues") or {})
        given = {name: text for name, text in values.items() if name not in ignored}
        value = _partition_value(path, given, schema)
        vector = vector_of(root, body)
        leaves.append(
            FoundLeaf(
                path,
                path.relative_to(root).as_posix() if root in path.parents else str(path),
                value,
                columns=tuple((name, text or HIVE_NULL) for name, text in given.items()),  # empty is null in Delta
                absent=frozenset(columns.types.keys() - values.keys()),
                logical=partial(columns.logical, given=frozenset(values), wanted=wanted),
                kept=None if vector is None else partial(kept_rows, fs, vector=vector),
                said="" if vector is None and columns.mode == "none" else f"{body.get('deletionVector')}, {columns}",
            )
        )
    return FoundTree(root, "delta", tuple(leaves), version=snapshot.version)


def _partition_value(path: Path, given: dict[str, str | None], schema: TableSchema) -> str | None:
    """Takes the value of the partitioning column out of those of a file; None: it is among the rows."""
    partitioning = schema.partitioning
    assert partitioning is not None  # noqa: S101  the caller saw it
    names = [column.name for column in schema.columns]
    odd = sorted(given.keys() - set(names))
    if odd:
        raise SchemaMismatchError(
            "the Delta table is partitioned by a column that the table lacks",
            where=path,
            expected=", ".join(names),
            found=", ".join(odd),
            hint=meant(odd[0], names) or f"ignore it: --ignore {odd[0]}",
        )
    if partitioning.name not in given:
        return None
    value = given.pop(partitioning.name)
    if not value:
        raise SchemaMismatchError(
            "rows have no partition value",
            where=f"{path}, column {partitioning.name}",
            expected="a text",
            found="null",
            hint="have these rows written with a date",
        )
    check_partition("partition value", value)
    return value
