"""Exports a pinned snapshot of a table as a tree of files for other programs.

1. *plan*: row ranges of each date, and the id of what is to be written;
2. *stage*: a leaf a date, in a locked directory beside the target, then what describes the tree as a whole:
   ``_common_metadata`` and ``_metadata``, or the Locations table;
3. *check*: every leaf is read back, rows and digests as written;
4. *sync*: manifest, files, directories;
5. *publish*, *clean*: one step, then a replaced tree is removed, see ``writers.exports.export_target``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import pyarrow as pa

from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.store.digest.column_digest import add, digest_array, from_hex, to_hex
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.parquet.manifest import ExportedColumn, Manifest, TreeLeaf, encode_manifest
from sparkhaven.store.format.parquet.trees import LOCATIONS_TABLE, MANIFEST, leaf_path
from sparkhaven.store.format.table.definition import SPLAYED
from sparkhaven.store.format.table.locations import (
    DEEPHAVEN,
    PARQUET,
    LocationEntry,
    encode_locations,
    locations_schema,
)
from sparkhaven.store.format.table.table_size import COLUMN_VERSION
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Storage, TableSchema
from sparkhaven.writers.exports.directory_columns import DatePart, parts_of, require_all
from sparkhaven.writers.exports.export_check import check_leaf
from sparkhaven.writers.exports.export_plan import ExportOptions, ExportPlan, plan_export, rows_of
from sparkhaven.writers.exports.export_target import ExportTarget, exported_before, locked, publish
from sparkhaven.writers.exports.leaves import WrittenLeaf, write_column_leaf, write_parquet_leaf
from sparkhaven.writers.exports.metadata import write_metadata

STEP_ROWS, STEP_ROWS_OF_TEXTS = 1 << 17, 1 << 14


class ExportOutcome(StrEnum):
    """What an export does or did; unchanged: the same export was there."""

    EXPORTED = "exported"
    UNCHANGED = "unchanged"
    PLANNED = "planned"


@dataclass(frozen=True, slots=True)
class Exported:
    outcome: ExportOutcome
    plan: ExportPlan
    manifest: Manifest | None = None


def export_tree(
    fs: Fs,
    table: PinnedTable,
    target: ExportTarget,
    options: ExportOptions,
    *,
    now_ms: int,
    replace_other: bool = False,
    dry_run: bool = False,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Exported:
    """Exports a table. ``now_ms``: the time in column files; ``replace_other``: another export there is replaced.

    Raises what ``plan_export``, ``exported_before`` and ``check_leaf`` raise; nothing is published then.
    """
    plan = plan_export(table, options)
    if dry_run:
        before = exported_before(fs, target, table.name, plan.id, replace_other)
        return Exported(ExportOutcome.PLANNED if before is None else ExportOutcome.UNCHANGED, plan, before)
    with locked(fs, target):
        before = exported_before(fs, target, table.name, plan.id, replace_other)
        if before is not None:
            fs.remove_tree(target.stage)
            return Exported(ExportOutcome.UNCHANGED, plan, before)
        try:
            manifest = TreeWriter(fs, table, target, plan, now_ms, on_progress).write()
        except (SparkhavenError, OSError):
            fs.remove_tree(target.stage)
            raise
        publish(fs, target)
    return Exported(ExportOutcome.EXPORTED, plan, manifest)


class TreeWriter:
    """Writes leaves, and what describes a tree, into the staging directory of a target; ``files``: all of them."""

    def __init__(
        self,
        fs: Fs,
        table: PinnedTable,
        target: ExportTarget,
        plan: ExportPlan,
        now_ms: int,
        on_progress: Callable[[str], None],
    ) -> None:
        self.fs, self.table, self.root, self.plan = fs, table, target.stage, plan
        self.now_ms, self.on_progress = now_ms, on_progress
        self.files: list[Path] = []
        self._given: dict[str, tuple[tuple[str, pa.Scalar], ...]] = {}  # by leaf: what its directories give

    def write(self) -> Manifest:
        fs = self.fs
        with fs.sync_guard(self.root) as guard:
            with fs.during("export-stage"):
                written = [leaf for number in range(len(self.plan.dates)) for leaf in self._date(number)]
                leaves = [leaf for leaf, _ in written]
                self.describe(leaves, self.root)
            with fs.during("export-check"):
                for leaf, content in written:
                    check_leaf(fs, self.root / leaf.path, self.plan.columns, content)
            manifest = self.manifest(leaves, {})
            fs.write_new(self.root / MANIFEST, encode_manifest(manifest))
            with fs.during("export-sync"):
                inside = {parent for path in self.files for parent in path.parents if self.root in parent.parents}
                directories = sorted(inside, key=lambda path: -len(path.parts))
                guard.sync([*self.files, self.root / MANIFEST], [*directories, self.root])
        return manifest

    def _date(self, number: int) -> list[tuple[TreeLeaf, WrittenLeaf]]:
        """Writes the leaf of a date, or one for each of its parts."""
        plan, (value, slices) = self.plan, self.plan.dates[number]
        if not plan.by:
            return [self.leaf(number, self._path(number))]
        parts = parts_of(self.table, plan.by, value, slices, plan.options.layout, plan.options.tier)
        leaves = [self.leaf(number, self._path(number, part), part) for part in parts]
        require_all(value, rows_of(slices), sum(leaf.rows for leaf, _ in leaves))
        return leaves

    def _path(self, number: int, part: DatePart | None = None) -> str:
        plan, (value, _) = self.plan, self.plan.dates[number]
        name, layout = self.table.snapshot.table.table, plan.options.layout
        path = leaf_path(layout, name, plan.partitioning.name, value, plan.id, number if layout == "flat" else 0)
        path = path.with_suffix("") if plan.options.leaf == "deephaven" else path
        return str(path if part is None else path.parent / part.directories / path.name)

    def leaf(self, number: int, path: str, part: DatePart | None = None) -> tuple[TreeLeaf, WrittenLeaf]:
        """Writes the leaf of a date of the plan, or of a part of it; ``path`` is below the root."""
        plan, (value, slices) = self.plan, self.plan.dates[number]
        batches = self._batches(slices) if part is None else self._batches(part.slices, part.where)
        if plan.options.leaf == "deephaven":
            written = write_column_leaf(self.fs, self.root / path, self._schema(), batches, self.now_ms)
        else:
            self.fs.mkdirs((self.root / path).parent)
            rows = plan.options.group_rows
            written = write_parquet_leaf(self.fs, self.root / path, plan.columns, batches, plan.codec, rows)
        self.files += written.files
        self.on_progress(f"{value}: {written.rows:,} rows written, {number + 1} of {len(plan.dates)} dates")
        totals = dict(written.digests)
        for column, array in zip(plan.by, [] if part is None else part.arrays(written.rows), strict=True):
            totals[column.name] = digest_array(column, array)
            self._given[path] = (*self._given.get(path, ()), (column.name, array[0]))
        digests = {column: to_hex(digest) for column, digest in totals.items()}
        return TreeLeaf(path, value, written.rows, written.bytes, digests, to_hex(written.row_digest)), written

    def _batches(self, slices: Sequence[Slice], where: str | None = None) -> Iterator[pa.RecordBatch]:
        columns = self.plan.columns
        rows = STEP_ROWS_OF_TEXTS if any(c.storage is Storage.BLOB for c in columns) else STEP_ROWS
        names, predicate = [column.name for column in columns], self.table.predicate(where)
        return self.table.read(slices, names, where=predicate, batch_rows=rows)

    def describe(self, leaves: Sequence[TreeLeaf], where: Path) -> None:
        """Writes the files that name all leaves, which lie below ``where``."""
        plan = self.plan
        if plan.options.layout == "metadata":
            paths = [leaf.path for leaf in leaves]
            given = (plan.partitioning, *plan.by)
            self.files += write_metadata(self.fs, self.root, where, given, plan.columns, paths, plan.codec)
        elif plan.options.layout == "hive":
            self._locations(leaves, where)

    def _schema(self) -> TableSchema:
        whole = self.table.schema
        columns = (self.plan.partitioning, *self.plan.columns)
        return TableSchema(whole.namespace, whole.name, columns, version=whole.version)

    def _locations(self, leaves: Sequence[TreeLeaf], where: Path) -> None:
        fs, entries = self.fs, []
        for leaf in leaves:
            stat = fs.stat(where / leaf.path)
            assert stat is not None  # noqa: S101  it was written or looked at just now
            columns = stat.is_dir
            kind, version = (DEEPHAVEN, COLUMN_VERSION) if columns else (PARQUET, None)
            entry = LocationEntry(leaf.value, leaf.path, leaf.rows, kind, stat.mtime_ns, version)
            entries.append(replace(entry, columns=self._given.get(leaf.path, ())))
        schema = locations_schema(self.plan.partitioning.name, self.table.schema, self.plan.by)
        directory = self.root / LOCATIONS_TABLE
        written = write_column_leaf(fs, directory, schema, [encode_locations(entries, schema)], self.now_ms, SPLAYED)
        check_leaf(fs, directory, schema.columns, written)
        self.files += written.files

    def manifest(self, leaves: Sequence[TreeLeaf], sums: Mapping[str, FileState]) -> Manifest:
        """The manifest of a tree of these leaves; ``sums``: size and CRC-32 of its files, where it has them."""
        plan, options = self.plan, self.plan.options
        every = (*plan.columns, *plan.by)
        parts = {c.name: [from_hex(leaf.digests.get(c.name, "0")) for leaf in leaves] for c in every}
        digests = {name: to_hex(add(*values)) for name, values in parts.items()}
        columns = tuple(ExportedColumn(c.name, c.type.name, c.id) for c in every)
        name, rows = self.table.name, sum(leaf.rows for leaf in leaves)
        form = options.layout, options.leaf, plan.codec, plan.id
        return Manifest(name, *form, self.table.epochs, columns, rows, digests, tuple(leaves), dict(sums))
