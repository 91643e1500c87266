"""History that other programs wrote: the location index, and the Locations table of a tree, from what lies on disk.

A table is foreign where nothing here knows its rows: it has neither a stream nor a merge. Its locations are the
directories below ``Partitions``; rows are those of ``table.size``, or of a ``table.parquet`` that stands alone. What
neither says is not guessed.

A Locations table's own definition says which columns directories give, and their types. A leaf is a Parquet file, or a
directory with ``table.size``; its rows are those of the footer, or of that record. What a directory names in a way that
programs read differently, and rows that nothing records, are not guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from sparkhaven.readers.checks.location_index import Entries, seen_entries, stored_entries
from sparkhaven.store.epochs.reading.stream_state import list_streams
from sparkhaven.store.errors import (
    CorruptFileError,
    FormatError,
    InvalidNameError,
    LockLostError,
    SchemaMismatchError,
    UnsupportedVersionError,
)
from sparkhaven.store.format.parquet.trees import HIVE_NULL, LOCATIONS_TABLES, MANIFEST
from sparkhaven.store.format.parquet.trees import staged as stage_of
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.definition import SPLAYED
from sparkhaven.store.format.table.locations import (
    DEEPHAVEN,
    FIXED_NAMES,
    FIXED_TYPES,
    PARQUET,
    LocationEntry,
    decode_locations,
)
from sparkhaven.store.format.table.table_size import TableSize
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.managed_trees.directories import refuse_managed
from sparkhaven.store.merges.merge_records import all_values
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.column_file import read_column, written_column
from sparkhaven.store.scan.location_files import location_schema
from sparkhaven.store.types.model import Column, TableSchema
from sparkhaven.writers.merge.location_index import IndexUpdate, update_index, updated_index
from sparkhaven.writers.transfer.export import staged_tree
from sparkhaven.writers.transfer.leaf_readers import directory_value, open_foreign
from sparkhaven.writers.transfer.leaves import write_column_leaf
from sparkhaven.writers.transfer.locations import LeafDifference, leaf_differences
from sparkhaven.writers.transfer.tree_walk import is_parquet, visible


def is_foreign(place: TablePlace) -> bool:
    """Whether neither a stream nor a merge knows the rows of the table."""
    return not list_streams(place) and not all_values(place)


def foreign_tables(fs: Fs, layout: Layout) -> list[TableName]:
    """Tables with history, a location index or a tree that are foreign, sorted. Names that no table has are ignored."""
    tables = set()
    for namespace in fs.names(layout.root / "Systems"):
        with suppress(InvalidNameError):
            base = layout.system(TableName.parse(f"{namespace}.T").namespace)
            names = {name.removesuffix(".tlmi") for name in fs.names(base / "MetadataIndex") if name.endswith(".tlmi")}
            names.update(fs.names(base / "Extended"))
            for directory in _values(fs, layout.partitions(namespace)):
                names.update(fs.names(directory))
            for name in names:
                with suppress(InvalidNameError):
                    tables.add(TableName.parse(f"{namespace}.{name}"))
    return sorted(table for table in tables if is_foreign(TablePlace(fs, layout, table)))


def wanted_entries(place: TablePlace) -> Entries:
    """What the location index is to have: by the merge records, or of a foreign table by its directories.

    CorruptFileError: a file that ``table.size`` names is missing. UnsupportedVersionError: rows are not known.
    """
    return entries_on_disk(place) if is_foreign(place) else seen_entries(place)


def update_entries(place: TablePlace, *, dry_run: bool = False) -> IndexUpdate:
    """Writes the index where it differs. Raises as ``wanted_entries``; LockLostError: another process writes it."""
    if not is_foreign(place):
        return update_index(place, dry_run=dry_run)
    if dry_run:
        return updated_index(place, entries_on_disk(place), write=False)
    directory = place.metadata_index.parent
    wanted = entries_on_disk(place, lossless=True)
    place.fs.keep_dirs(directory, place.layout.root)
    lock = place.fs.lock(directory, make=False)  # a file of ours would make the table one of ours
    if lock is None:
        raise LockLostError(
            "another process writes a location index", where=directory, hint="wait until it ends, then run this again"
        )
    with lock:
        return updated_index(place, wanted, write=True)


def entries_on_disk(place: TablePlace, *, lossless: bool = False) -> Entries:
    """The locations with rows. Raises as ``wanted_entries``, and for an index of another version, which has more."""
    with suppress(CorruptFileError):
        stored_entries(place)
    return seen_entries(place, lossless=lossless)


def _values(fs: Fs, partitions: Path) -> Iterator[Path]:
    for internal in fs.names(partitions):
        yield from (partitions / internal / value for value in fs.names(partitions / internal))


def recorded_size(fs: Fs, location: Path) -> TableSize | None:
    """``table.size`` of a location or leaf; None where there is none. CorruptFileError: a file that it names is gone.

    UnsupportedVersionError: it has the form of another program.
    """
    record = table_size.load(fs, location)
    for name, size in record.data_file_sizes.items() if record is not None else ():
        stat = fs.stat(location / name)
        if stat is None or stat.size < size:
            raise CorruptFileError(
                "a file of a location is not as its record says",
                where=location / name,
                expected=f"{size} bytes or more",
                found="nothing" if stat is None else f"{stat.size} bytes",
                hint="restore the location from a copy",
            )
    return record


GROUP_ROWS = "RowGroupSizes"


def has_foreign_locations(place: TablePlace) -> bool:
    """Whether the table has a tree with a Locations table of another program."""
    if place.fs.stat(place.extended / MANIFEST) is not None or not is_foreign(place):
        return False
    return any(place.fs.stat(place.extended / name) is not None for name in LOCATIONS_TABLES)


@dataclass(frozen=True, slots=True)
class FoundLeaves:
    """The leaves of a tree as rows of its Locations table, and rows of each row group of those in Parquet."""

    entries: tuple[LocationEntry, ...]
    groups: Mapping[str, list[int]]


class ForeignLocations:
    """The Locations table of a tree.

    CorruptFileError: there are two, or it has no definition. UnsupportedVersionError: its columns are not known.
    """

    def __init__(self, place: TablePlace) -> None:
        self._place, self._fs, self.root = place, place.fs, place.extended
        names = [name for name in LOCATIONS_TABLES if self._fs.stat(self.root / name) is not None]
        if len(names) > 1:
            raise CorruptFileError(
                "the tree has two Locations tables",
                where=self.root,
                expected=" or ".join(LOCATIONS_TABLES),
                found=" and ".join(names),
                hint="remove the one that no program writes",
            )
        self.directory = self.root / names[0]
        schema = location_schema(self._fs, self.directory)
        if schema is None:
            raise CorruptFileError(
                "the Locations table has no definition, so the columns of the tree are not known",
                where=self.directory,
                expected="table.tbl",
                found="no file",
                hint="restore it from a copy",
            )
        self.schema: TableSchema = schema
        self.given = tuple(column for column in schema.columns if column.name not in FIXED_NAMES)
        self._require_columns()

    def stored(self) -> dict[str, LocationEntry]:
        """Its rows by leaf, of two for one the last. CorruptFileError: it is damaged."""
        record = table_size.load(self._fs, self.directory)
        if record is None:
            raise CorruptFileError("the Locations table has no table.size", where=self.directory, expected="a record")
        sizes, rows = record.data_file_sizes, record.size
        columns = {column.name: self._read(column, sizes, rows) for column in self.schema.columns}
        plain = {name: columns[name].to_pylist() for name in FIXED_NAMES & columns.keys()}
        parents = [str(name).rpartition("/")[0] or "." for name in plain["Filename"]]
        given = {column.name: columns[column.name] for column in self.given}
        listed = decode_locations({**plain, "": parents}, "", self.directory, given)
        return {entry.filename: entry for entry in listed}

    def _read(self, column: Column, sizes: Mapping[str, int], rows: int) -> pa.Array:
        own = written_column(self._fs, self.directory, column, sizes)
        array = read_column(self._fs, self.directory, own, sizes, rows)
        if pa.types.is_dictionary(array.type):
            return array.dictionary_decode()
        times = pa.types.is_timestamp(array.type) and column.name in FIXED_NAMES
        return array.cast(pa.int64()) if times else array

    def on_disk(self) -> FoundLeaves:
        """The leaves that there are. UnsupportedVersionError: it is not known what a directory or a leaf has.

        CorruptFileError: the tree contradicts itself. SchemaMismatchError: a directory names no value of its column.
        """
        groups: dict[str, list[int]] = {}
        entries = [self._entry(path, keys, groups) for path, keys in self._leaves(self.root, {})]
        return FoundLeaves(tuple(entries), groups)

    def differences(self, leaves: FoundLeaves) -> Iterator[LeafDifference]:
        wanted = {entry.filename: entry for entry in leaves.entries}
        try:
            stored = self.stored()
        except (FormatError, SchemaMismatchError) as error:
            yield LeafDifference("damaged", expected=f"{len(wanted)} leaves", found=error.what)
            return
        for leaf in sorted({*stored, *wanted}):
            yield from leaf_differences(leaf, stored.get(leaf), wanted.get(leaf))

    def update(self, *, now_ms: int, dry_run: bool) -> tuple[list[LeafDifference], bool]:
        """Differences, and whether the table was written, by a new directory that takes its place in one step.

        LockLostError: another process writes the tree.
        """
        if dry_run:
            return [*self.differences(self.on_disk())], False
        with staged_tree(self._fs, self.root):
            leaves = self.on_disk()
            different = [*self.differences(leaves)]
            if different:
                self._write(leaves, stage_of(self.root) / self.directory.name, now_ms)
            return different, bool(different)

    def _write(self, leaves: FoundLeaves, stage: Path, now_ms: int) -> None:
        fs = self._fs
        written = write_column_leaf(fs, stage, self.schema, [self._rows(leaves)], now_ms, SPLAYED)
        fs.sync(written.files)
        fs.sync_dirs([stage])
        if not fs.exchange(stage, self.directory):
            raise UnsupportedVersionError(
                "the file system cannot exchange two directories in one step",
                where=self.directory,
                expected="a file system like ext4 or xfs",
                hint="nothing was changed. Have the program that wrote the tree write its Locations table",
            )
        fs.sync_dirs([self.root, stage.parent])

    def _rows(self, leaves: FoundLeaves) -> pa.RecordBatch:
        rows = [
            {
                "Filename": entry.filename,
                "Size": entry.rows,
                "Format": entry.format,
                "LastModifiedNanos": entry.modified,
                "ColumnVersion": entry.version,
                GROUP_ROWS: leaves.groups.get(entry.filename),
                **dict(entry.columns),
            }
            for entry in leaves.entries
        ]
        arrays = []
        for column in self.schema.columns:
            values = [row[column.name] for row in rows]
            plain = [value.as_py() if isinstance(value, pa.Scalar) else value for value in values]
            arrays.append(pa.array(plain, column.type.arrow))
        return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in self.schema.columns])

    def _require_columns(self) -> None:
        types = {column.name: column.type.name for column in self.schema.stored}
        for name, kinds in FIXED_TYPES.items():
            if types.get(name) not in kinds and (name in types or name != GROUP_ROWS):
                what = "a column of the Locations table has another type than is known"
                raise self._unknown(what, f"{name} of type {' or '.join(kinds)}", types.get(name, "none"))
        if not self.given or any(column not in self.schema.stored for column in self.given):
            names = ", ".join(column.name for column in self.schema.columns)
            raise self._unknown("the Locations table has no column of directories", "one or more with files", names)

    def _leaves(self, directory: Path, keys: dict[str, str]) -> Iterator[tuple[Path, dict[str, str]]]:
        """Paths of the leaves below a directory with the texts of their directories, in the order of their names."""
        fs, missing = self._fs, {column.name for column in self.given} - keys.keys()
        there = fs.names(directory)
        refuse_managed(fs, directory, there)
        names = visible(there)
        levels = {name.partition("=")[0] for name in names}
        if missing and len(levels) > 1:
            raise CorruptFileError(
                "the tree contradicts itself",
                where=directory,
                expected="directories of one key",
                found=", ".join(sorted(levels)),
                hint="move what does not belong to the tree out of it",
            )
        for name in names:
            path, (key, equals, text) = directory / name, name.partition("=")
            if missing:
                if not equals or key not in missing or not fs.is_dir(path):
                    raise self._misfit(path, " or ".join(f"{key}=<value>" for key in sorted(missing)))
                if "%" in text or text == HIVE_NULL:
                    raise self._unknown(
                        "programs read the name of this directory in two ways",
                        f"a value without %XX, and not {HIVE_NULL}",
                        name,
                        path,
                    )
                yield from self._leaves(path, {**keys, key: text})
            elif is_parquet(fs, path) or fs.is_dir(path):
                yield path, keys
            else:
                raise self._misfit(path, "Parquet files, or directories of column files")

    def _entry(self, path: Path, keys: Mapping[str, str], groups: dict[str, list[int]]) -> LocationEntry:
        name, stat = path.relative_to(self.root).as_posix(), self._fs.stat(path)
        assert stat is not None  # noqa: S101 - it was listed just now
        given = tuple((c.name, directory_value(keys[c.name], c, path.parent)[0]) for c in self.given)
        if stat.is_dir:
            record = recorded_size(self._fs, path)
            if record is None:
                raise self._unknown("rows of a leaf are not known", table_size.NAME, "no such file", path)
            rows, kind, version = record.size, DEEPHAVEN, record.column_version
        else:
            file = open_foreign(self._fs, path)
            groups[name] = [group.rows for group in file.groups()]
            rows, kind, version = file.rows, PARQUET, None
        parent = path.relative_to(self.root).parent.as_posix()
        return LocationEntry(parent, name, rows, kind, stat.mtime_ns, version, given)

    def _misfit(self, where: Path, expected: str) -> CorruptFileError:
        return CorruptFileError(
            "the tree does not fit its Locations table",
            where=where,
            expected=expected,
            found=where.name,
            hint="move it out of the tree",
        )

    def _unknown(self, what: str, expected: str, found: str, where: Path | None = None) -> UnsupportedVersionError:
        hint = "nothing was written. Have the program that wrote the tree write its Locations table"
        return UnsupportedVersionError(what, where=where or self.directory, expected=expected, found=found, hint=hint)
