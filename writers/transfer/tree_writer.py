"""Writes the leaves of a tree, what names them, and its manifest, into a staging directory.

What names the leaves is ``_common_metadata`` and ``_metadata``, or the Locations table. Every leaf is read back: rows
and digests as written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pyarrow as pa

from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.store.digest.column_digest import add, digest_array, from_hex, to_hex
from sparkhaven.store.errors import CorruptFileError, counted
from sparkhaven.store.format.parquet.footer import KEY, Footer, encode_footer, field_of, file_schema
from sparkhaven.store.format.parquet.manifest import ExportedColumn, TreeLeaf, TreeManifest, encode_manifest
from sparkhaven.store.format.parquet.trees import COMMON_METADATA, LOCATIONS_TABLE, MANIFEST, METADATA, leaf_path
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
from sparkhaven.writers.merge.write.parquet_check import FileSink, parquet_writer
from sparkhaven.writers.transfer.export_plan import DatePart, ExportPlan, parts_of, require_all, rows_of
from sparkhaven.writers.transfer.leaves import WrittenLeaf, check_leaf, sums_of, write_column_leaf, write_parquet_leaf

STEP_ROWS, STEP_ROWS_OF_TEXTS = 1 << 17, 1 << 14
PER_FILE = b"deephaven_per_file_"


class TreeWriter:
    """Writes leaves, and what names them, into the staging directory ``root``; ``files``: all of them."""

    def __init__(
        self,
        fs: Fs,
        table: PinnedTable,
        stage: Path,
        plan: ExportPlan,
        now_ms: int,
        on_progress: Callable[[str], None],
    ) -> None:
        self.fs, self.table, self.root, self.plan = fs, table, stage, plan
        self.now_ms, self.on_progress = now_ms, on_progress
        self.files: list[Path] = []
        self._given: dict[str, tuple[tuple[str, pa.Scalar], ...]] = {}  # by leaf: what its directories give

    def write(self) -> TreeManifest:
        """Copies all dates of the plan, syncs them, reads them back."""
        fs = self.fs
        with fs.sync_guard(self.root) as guard:
            with fs.during("export-stage"):
                written = [leaf for number in range(len(self.plan.dates)) for leaf in self._date(number)]
                manifest = self.manifest([leaf for leaf, _ in written], self.root)
                fs.write_new(self.root / MANIFEST, encode_manifest(manifest))
            with fs.during("export-sync"):
                inside = {parent for path in self.files for parent in path.parents if self.root in parent.parents}
                directories = sorted(inside, key=lambda path: -len(path.parts))
                guard.sync([*self.files, self.root / MANIFEST], [*directories, self.root])
            with fs.during("export-check"):
                for leaf, content in written:
                    check_leaf(fs, self.root / leaf.path, self.plan.columns, content)
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
        self.on_progress(f"{value}: {counted(written.rows, 'row')} written, {number + 1} of {len(plan.dates)} dates")
        totals = dict(written.digests)
        for column, array in zip(plan.by, [] if part is None else part.arrays(written.rows), strict=True):
            totals[column.name] = digest_array(column, array)
            self._given[path] = (*self._given.get(path, ()), (column.name, array[0]))
        digests = {column: to_hex(digest) for column, digest in totals.items()}
        sums = sums_of(self.fs, self.root, written.files)
        return TreeLeaf(path, value, written.rows, digests, to_hex(written.row_digest), sums), written

    def _batches(self, slices: Sequence[Slice], where: str | None = None) -> Iterator[pa.RecordBatch]:
        columns = self.plan.columns
        rows = STEP_ROWS_OF_TEXTS if any(c.storage is Storage.BLOB for c in columns) else STEP_ROWS
        names, predicate = [column.name for column in columns], self.table.predicate(where)
        return self.table.read(slices, names, where=predicate, batch_rows=rows)

    def name_leaves(self, leaves: Sequence[TreeLeaf], where: Path) -> dict[str, FileState]:
        """Writes the files that name all leaves, which lie below ``where``; their sums."""
        plan, before = self.plan, len(self.files)
        if plan.options.layout == "metadata":
            self._metadata([leaf.path for leaf in leaves], where)
        elif plan.options.layout == "hive":
            self._locations(leaves, where)
        return sums_of(self.fs, self.root, self.files[before:])

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

    def manifest(self, leaves: Sequence[TreeLeaf], where: Path) -> TreeManifest:
        """The manifest of a tree of these leaves, which lie below ``where``; it names them first."""
        plan, options = self.plan, self.plan.options
        every = (*plan.columns, *plan.by)
        parts = {c.name: [from_hex(leaf.digests.get(c.name, "0")) for leaf in leaves] for c in every}
        digests = {name: to_hex(add(*values)) for name, values in parts.items()}
        columns = tuple(ExportedColumn(c.name, c.type.name, c.id) for c in every)
        rows, form = sum(leaf.rows for leaf in leaves), (options.layout, options.leaf, plan.codec, plan.id)
        named = self.name_leaves(leaves, where)
        return TreeManifest(self.table.name, *form, self.table.epochs, columns, rows, digests, tuple(leaves), named)

    def _metadata(self, paths: Sequence[str], where: Path) -> None:
        """``_metadata`` and ``_common_metadata``: footers without rows.

        ``_metadata`` has the row groups of all files, each with the path of its file. ``_common_metadata`` has none,
        and its schema has the columns of directories before those of the files: by this Deephaven knows them. Both are
        Parquet files of a magic and a footer. The footer entry ``deephaven`` is that of every file; ``_metadata`` has
        those of the single files as ``deephaven_per_file_<path>``, with ``_`` for each ``/``.
        """
        fs, plan = self.fs, self.plan
        schema = file_schema(plan.columns, Footer())
        common, whole = self.root / COMMON_METADATA, self.root / METADATA
        given = (plan.partitioning, *plan.by)
        first = [pa.field(column.name, column.type.arrow, metadata=field_of(column).metadata) for column in given]
        own = {PER_FILE + path.replace("/", "_").encode(): encode_footer(Footer()) for path in paths}
        schemas = {
            common: pa.schema([*first, *schema], schema.metadata),
            whole: schema.with_metadata({KEY: encode_footer(Footer()), **own}),
        }
        for path, footer in schemas.items():
            fs.write_new(path, b"")
            with FileSink(fs, path) as sink, parquet_writer(sink, footer, plan.codec):
                pass
        fs.write_new(whole, _with_row_groups(fs, fs.read(whole), where, paths))
        self.files += [common, whole]


def _with_row_groups(fs: Fs, data: bytes, root: Path, paths: Sequence[str]) -> bytes:
    """A Parquet file without rows, with the row groups of other files in its footer."""
    from pyarrow.parquet import read_metadata  # which other layouts do not need

    whole = read_metadata(BytesIO(data))
    for path in paths:
        size = fs.stat(root / path)
        try:
            footer = read_metadata(pa.BufferReader(fs.map(root / path, size.size if size else 0)))
        except (pa.ArrowException, OSError) as error:
            raise CorruptFileError(
                "leaf of a tree has a damaged footer",
                where=root / path,
                expected="a Parquet file",
                found=error,
                hint="remove the file, then run the same command again, which writes it again",
            ) from error
        footer.set_file_path(path)
        whole.append_row_groups(footer)
    buffer = BytesIO()
    whole.write_metadata_file(buffer)
    return buffer.getvalue()
