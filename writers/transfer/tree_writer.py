"""Writes the leaves of a tree, what names them, and its manifest, into a staging directory.

What names the leaves is ``_common_metadata`` and ``_metadata``, or the Locations table. Every leaf is read back: rows
and digests as written.

A leaf is a Parquet file, or a directory of column files. Both hold one row group, or one batch, in memory, and of
column files also the symbols. Digests are those of the rows as they came. A leaf is read back: a Parquet file by
DuckDB, which did not write it, column files by our reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.store.digest import RowDigests, add, digest_array, from_hex, to_hex
from sparkhaven.store.errors import CorruptFileError, ValidationFailedError, counted
from sparkhaven.store.format.parquet.footer import KEY, Footer, compacted, encode_footer, field_of, file_schema
from sparkhaven.store.format.parquet.trees import (
    COMMON_METADATA,
    LOCATIONS_TABLE,
    MANIFEST,
    METADATA,
    TreeLeaf,
    TreeManifest,
    encode_manifest,
    exported,
    leaf_path,
)
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.definition import SPLAYED
from sparkhaven.store.format.table.locations import (
    DEEPHAVEN,
    PARQUET,
    LocationEntry,
    encode_locations,
    locations_schema,
)
from sparkhaven.store.format.table.table_size import COLUMN_VERSION
from sparkhaven.store.format.table.tbl import encode_tbl
from sparkhaven.store.io.fs import Fs, size_below
from sparkhaven.store.scan.checksums import file_state
from sparkhaven.store.scan.column_file import open_column
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Column, Storage, TableSchema
from sparkhaven.writers.append.column_files import ColumnFiles
from sparkhaven.writers.merge.sources.merge_source import SIZES
from sparkhaven.writers.merge.write.parquet_check import (
    GROUP_BYTES,
    FileSink,
    column_batches,
    duckdb_reader,
    parquet_writer,
)
from sparkhaven.writers.transfer.export_plan import DatePart, ExportPlan, parts_of, require_all, rows_of


class WrittenLeaf(RowDigests):
    """What a leaf holds: its rows, and bytes of all its ``files``, which are paths."""

    def __init__(self, columns: Sequence[Column]) -> None:
        super().__init__(columns)
        self.bytes = 0
        self.files: list[Path] = []


def write_parquet_leaf(
    fs: Fs,
    path: Path,
    columns: Sequence[Column],
    batches: Iterable[pa.RecordBatch],
    codec: str,
    group_rows: int = SIZES.group_rows,
) -> WrittenLeaf:
    """Writes a Parquet file. Row groups depend on the rows alone, see ``row_groups``."""
    written = WrittenLeaf(columns)
    written.files = [path]
    schema = file_schema(columns, Footer())
    coded = tuple(field.name for field in schema if pa.types.is_dictionary(field.type))
    fs.write_new(path, b"")
    with FileSink(fs, path) as sink, parquet_writer(sink, schema, codec, coded) as writer:
        for part in row_groups(_counted(batches, schema, written), schema, group_rows):
            writer.write_table(part, row_group_size=part.num_rows)
    written.bytes = sink.size
    return written


def _counted(batches: Iterable[pa.RecordBatch], schema: pa.Schema, written: WrittenLeaf) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        arrays = [compacted(a) if pa.types.is_dictionary(a.type) else a for a in batch.columns]
        written.add(arrays, batch.num_rows)
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def row_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema, least: int) -> Iterator[pa.Table]:
    """Joins batches to tables of at least ``least`` rows or ``GROUP_BYTES`` bytes, the last one less."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= least or size >= GROUP_BYTES:
            yield _joined(held, schema)
            held, rows, size = [], 0, 0
    if rows:
        yield _joined(held, schema)


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches, schema).unify_dictionaries().combine_chunks()


def write_column_leaf(
    fs: Fs,
    directory: Path,
    schema: TableSchema,
    batches: Iterable[pa.RecordBatch],
    now_ms: int,
    storage_type: int | None = None,
) -> WrittenLeaf:
    """Writes a directory of column files with definition and ``table.size``; ``batches`` have the stored columns.

    ``storage_type``: that of the definition, default: that of the schema.
    """
    written = WrittenLeaf(schema.stored)
    files = ColumnFiles(fs, directory, schema.stored)
    files.create()
    for batch in batches:
        files.append(batch.columns)
        written.add(batch.columns, batch.num_rows)
    definition = encode_tbl(schema) if storage_type is None else encode_tbl(schema, storage_type=storage_type)
    fs.write_new(directory / "table.tbl", definition)
    record = table_size.of_files(written.rows, now_ms, files.files, schema_version=schema.version)
    fs.write_new(directory / table_size.NAME, table_size.encode(record))
    written.files = [directory / name for name in (*files.files, "table.tbl", table_size.NAME)]
    written.bytes = size_below(fs, directory)
    return written


def sums_of(fs: Fs, root: Path, files: Iterable[Path]) -> dict[str, FileState]:
    """Size and CRC-32 of files that were written below ``root``, read back, by their path below it."""
    return {path.relative_to(root).as_posix(): file_state(fs, path) for path in files}


def check_leaf(fs: Fs, path: Path, columns: Sequence[Column], written: WrittenLeaf) -> None:
    """ValidationFailedError: a leaf does not hold the rows and values that were written."""
    if fs.is_dir(path):
        _compare(path, columns, written, _of_files(fs, path, columns))
        return
    with duckdb_reader(partial(_wrong, path)) as connection:
        _compare(path, columns, written, _of_parquet(connection, path, columns))


def _of_parquet(connection: Any, path: Path, columns: Sequence[Column]) -> Iterator[list[pa.Array]]:
    rows = SIZES.texts if any(column.storage is Storage.BLOB for column in columns) else SIZES.rows
    for batch in column_batches(connection, path, columns, rows):
        yield [array.cast(column.type.arrow) for column, array in zip(columns, batch.columns, strict=True)]


def _of_files(fs: Fs, directory: Path, columns: Sequence[Column]) -> Iterator[list[pa.Array]]:
    record = table_size.load(fs, directory)
    if record is None:
        raise _wrong(directory, "it has no table.size", "a record of its rows", "nothing")
    opened = [open_column(fs, directory, column, record.data_file_sizes, record.size) for column in columns]
    for first in range(0, record.size, SIZES.rows):
        yield [column.read(first, min(first + SIZES.rows, record.size)) for column in opened]


def _compare(path: Path, columns: Sequence[Column], written: WrittenLeaf, parts: Iterator[list[pa.Array]]) -> None:
    read = RowDigests(columns)
    for arrays in parts:
        read.add(arrays, len(arrays[0]))
    if read.rows != written.rows:
        raise _wrong(path, "it has another number of rows", written.rows, read.rows)
    if read.row_digest == written.row_digest:
        return
    names = [name for name, digest in written.digests.items() if read.digests.get(name) != digest]
    what = f"other values in {', '.join(names)}" if names else "rows whose values were exchanged"
    raise _wrong(path, f"it has {what}", to_hex(written.row_digest), to_hex(read.row_digest))


def _wrong(path: Path, what: str, expected: object, found: object) -> ValidationFailedError:
    return ValidationFailedError(
        f"exported file: {what}",
        where=path,
        expected=expected,
        found=found,
        hint="nothing was published. Export again. If the error comes back, the disk or memory is faulty",
        phase="check",
    )


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
        rows, form = sum(leaf.rows for leaf in leaves), (options.layout, options.leaf, plan.codec, plan.id)
        named = self.name_leaves(leaves, where)
        return TreeManifest(
            self.table.name, *form, self.table.epochs, exported(every), rows, digests, tuple(leaves), named
        )

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
