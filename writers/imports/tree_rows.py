"""Rows of a tree of Parquet files, converted date by date into one ``table.parquet``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from zlib import crc32

import pyarrow as pa

from sparkhaven.store.errors import ValidationFailedError
from sparkhaven.store.format.parquet.fields import field_of
from sparkhaven.store.format.parquet.location_files import NAME
from sparkhaven.store.framing.canonical import dump
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.merges.merge_records import IMPORTED
from sparkhaven.store.scan.checksums import checksum
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Column, Storage, TableSchema
from sparkhaven.writers.exports.leaves import write_parquet_leaf
from sparkhaven.writers.imports.column_leaf import open_leaf
from sparkhaven.writers.imports.foreign_values import STRICT, AllowedConversions
from sparkhaven.writers.imports.given_rows import CODEC, ConvertedRows, Progress
from sparkhaven.writers.imports.parquet_leaf import ExportedDigests
from sparkhaven.writers.imports.tree_leaves import FoundTree, Part, survey
from sparkhaven.writers.merge.sources.merge_source import MergeSource
from sparkhaven.writers.merge.sources.parquet_source import text_bytes


class TreeRows:
    """The rows of a tree, as ``GivenRows``. ``dates``: values and ranges that are taken (None: all), or the one date of
    rows that have none. ``allow_missing``: no error where there are none.
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
        """Of the content of the files, wherever they lie."""
        del ordered
        for leaf in part.leaves:
            if leaf.path not in self._sums:
                stat = self._fs.stat(leaf.path)
                self._sums[leaf.path] = stat.size if stat else 0, self._sum(leaf.path)
        return sha256(dump({"files": [[leaf.name, *self._sums[leaf.path]] for leaf in part.leaves]})).hexdigest()[:24]

    def _sum(self, path: Path) -> int:
        stat = self._fs.stat(path)
        if stat is not None and stat.is_dir:
            return crc32(dump({name: self._sum(path / name) for name in self._fs.names(path)}))
        return checksum(self._fs, path, 0, stat.size if stat else 0)

    def convert(self, part: Part, directory: Path, on_progress: Progress) -> ConvertedRows:
        fs, stored = self._fs, self._schema.stored
        fs.mkdirs(directory)
        written = write_parquet_leaf(fs, directory / NAME, stored, self._batches(part), CODEC)
        if written.rows != part.rows:
            raise ValidationFailedError(
                "the tree has another number of rows than before",
                where=f"{self._tree.root}, {part.value}",
                expected=part.rows,
                found=written.rows,
                hint="import again when nobody writes the tree",
                phase="stage",
            )
        state = FileState(written.bytes, checksum(fs, directory / NAME, 0, written.bytes))
        on_progress(f"{part.value}: {written.rows:,} rows of {len(part.leaves)} files read")
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


def stored_batch(stored: Sequence[Column], arrays: Sequence[pa.Array]) -> pa.RecordBatch:
    """A batch as ``table.parquet`` has it, of arrays in the types of the columns."""
    coded = [
        array.dictionary_encode() if column.storage is Storage.SYMBOL else array
        for column, array in zip(stored, arrays, strict=True)
    ]
    return pa.RecordBatch.from_arrays(coded, schema=pa.schema([field_of(column) for column in stored]))


def parquet_rows(fs: Fs, directory: Path, rows: int, state: FileState, stored: tuple[Column, ...]) -> MergeSource:
    """A ``table.parquet`` that an import has written, as a source of its merge."""
    source = MergeSource(directory, "", IMPORTED, 0, -1, 0, rows, rows, {NAME: state})
    return replace(source, text_bytes=text_bytes(fs, source, stored))
