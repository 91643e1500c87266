"""Locations tables against their trees, and the location index of history that other programs wrote.

Where a Locations table is, it alone decides which leaves other programs read: a leaf too many gives null rows, a leaf
that is missing hides rows. The manifest of our own tree, which is written last and has a checksum, says which leaves
there are.

A table is foreign where nothing here knows its rows: it has neither a stream nor a merge. Its locations are the
directories below ``Partitions``; rows are those of ``table.size``, or of a ``table.parquet`` that stands alone. What
neither says is not guessed.

A foreign Locations table's own definition says which columns directories give, and their types. A leaf is a Parquet
file, or a directory with ``table.size``; its rows are those of the footer, or of that record. What a directory names in
a way that programs read differently, and rows that nothing records, are not guessed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from sparkhaven.readers.arrow.opening import open_place
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.readers.checks.history import Entries, Kind, seen_entries, stored_entries
from sparkhaven.store import next_steps
from sparkhaven.store.epochs.reading.stream_state import list_streams
from sparkhaven.store.errors import (
    CorruptFileError,
    FormatError,
    InvalidNameError,
    LockLostError,
    SchemaMismatchError,
    UnsupportedVersionError,
)
from sparkhaven.store.format.parquet.trees import (
    EXTENDED,
    HIVE_NULL,
    LOCATIONS_TABLES,
    MANIFEST,
    TreeManifest,
    decode_manifest,
    encode_manifest,
)
from sparkhaven.store.format.parquet.trees import staged as stage_of
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.definition import SPLAYED
from sparkhaven.store.format.table.locations import (
    DEEPHAVEN,
    FIXED_NAMES,
    FIXED_TYPES,
    PARQUET,
    LocationEntry,
)
from sparkhaven.store.format.table.table_size import COLUMN_VERSION, TableSize
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.managed_trees import refuse_managed
from sparkhaven.store.merges.merge_records import all_values
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.location_files import location_schema, locations_directory, read_locations
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.datatypes import CHAR_NULL
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.merge.publish.staged_locations import IndexUpdate, update_index, updated_index
from sparkhaven.writers.transfer.export import staged_tree
from sparkhaven.writers.transfer.export_plan import ExportOptions, plan_export
from sparkhaven.writers.transfer.extended import replace_names
from sparkhaven.writers.transfer.leaf_readers import directory_value, open_foreign
from sparkhaven.writers.transfer.tree_walk import is_parquet, visible
from sparkhaven.writers.transfer.tree_writer import TreeWriter, write_column_leaf

Leaves = Mapping[str, LocationEntry]


@dataclass(frozen=True, slots=True)
class LeafDifference:
    """``lost`` and ``damaged`` are the whole table, ``missing`` and ``extra`` a leaf, the others a part of its row."""

    kind: Kind
    leaf: str | None = None
    date: str | None = None
    expected: str | None = None
    found: str | None = None


class LocationsTable(ABC):
    """The Locations table of a tree, and the leaves that it is to have. CorruptFileError: it is damaged."""

    @abstractmethod
    def stored(self) -> Leaves | None:
        """Its rows by leaf, of two for one the last; None: there is no table."""

    @abstractmethod
    def wanted(self) -> Leaves:
        """The rows that it is to have."""

    @abstractmethod
    def write(self, *, now_ms: int) -> list[LeafDifference]:
        """Writes it where it differs; what differed. LockLostError: another process writes the tree."""

    def differences(self) -> Iterator[LeafDifference]:
        """How it differs from the tree. Raises as ``wanted``."""
        return self._compared(self.wanted())

    def _compared(self, wanted: Leaves) -> Iterator[LeafDifference]:
        try:
            stored = self.stored()
        except (FormatError, SchemaMismatchError) as error:
            yield LeafDifference("damaged", expected=f"{len(wanted)} leaves", found=error.what)
            return
        if stored is None:
            if wanted:
                yield LeafDifference("lost", expected=f"{len(wanted)} leaves", found="no Locations table")
            return
        for leaf in sorted({*stored, *wanted}):
            yield from _differences(leaf, stored.get(leaf), wanted.get(leaf))


class OwnLocations(LocationsTable):
    """That of the tree beside history. CorruptFileError: the manifest is damaged or lost, or a leaf is lost."""

    def __init__(self, place: TablePlace, schema: TableSchema) -> None:
        self._place, self._schema = place, schema

    @staticmethod
    def of(place: TablePlace) -> OwnLocations | None:
        """That of a table whose schema asks for one, else None. TableNotFoundError: there is no schema."""
        schema = load_deployed(place)
        return OwnLocations(place, schema) if EXTENDED.get(schema.extended or "") == "hive" else None

    def stored(self) -> Leaves | None:
        place, partitioning = self._place, self._schema.partitioning
        directory = locations_directory(place.fs, place.extended)
        if directory is None:
            return None
        assert partitioning is not None  # noqa: S101
        return {e.filename: e for e in read_locations(place.fs, directory, partitioning.name, self._schema)}

    def wanted(self) -> Leaves:
        manifest = _manifest(self._place)
        leaves = () if manifest is None else manifest.leaves
        return {leaf.path: _entry(self._place, leaf.path, leaf.value, leaf.rows) for leaf in leaves}

    def write(self, *, now_ms: int) -> list[LeafDifference]:
        fs, root = self._place.fs, self._place.extended
        if not list(self.differences()):
            return []
        table = pinned_of(open_place(self._place, null_char=CHAR_NULL))
        with staged_tree(fs, root):
            different = list(self.differences())
            if not different:
                return []
            manifest = _manifest(self._place)
            assert manifest is not None  # noqa: S101  there is something to write
            for name in LOCATIONS_TABLES[1:]:
                fs.remove_tree(root / name)
            plan = plan_export(table, ExportOptions("hive", manifest.leaf, tier="history"))  # type: ignore[arg-type]
            writer = TreeWriter(fs, table, stage_of(root), plan, now_ms, lambda _: None)
            named = replace_names(fs, root, writer, manifest.leaves).named
            fs.replace(root / MANIFEST, encode_manifest(replace(manifest, named=named)))
        return different


def _manifest(place: TablePlace) -> TreeManifest | None:
    """None where there is no tree yet."""
    path = place.extended / MANIFEST
    if place.fs.stat(path) is None and not place.fs.names(place.extended):
        return None
    again = next_steps.tree_again(place.table, all_values(place))
    if place.fs.stat(path) is None:
        raise CorruptFileError("the manifest of the tree is missing", where=path, expected=MANIFEST, hint=again)
    manifest = decode_manifest(place.fs.read(path), path)
    if (manifest.table, manifest.layout) != (str(place.table), "hive"):
        wanted, other = f"{place.table}, layout hive", f"{manifest.table}, layout {manifest.layout}"
        raise CorruptFileError("manifest is that of another tree", where=path, expected=wanted, found=other, hint=again)
    return manifest


def _entry(place: TablePlace, leaf: str, value: str, rows: int) -> LocationEntry:
    stat = place.fs.stat(place.extended / leaf)
    if stat is None:
        raise CorruptFileError(
            "a leaf of the tree is missing",
            where=place.extended / leaf,
            expected=f"{rows} rows",
            found="nothing",
            hint=next_steps.tree_again(place.table, [value]),
        )
    kind, version = (DEEPHAVEN, COLUMN_VERSION) if stat.is_dir else (PARQUET, None)
    return LocationEntry(value, leaf, rows, kind, stat.mtime_ns, version)


def _differences(leaf: str, entry: LocationEntry | None, right: LocationEntry | None) -> Iterator[LeafDifference]:
    """How the row of a leaf differs from what it is to be; None: there is no row, or no leaf."""
    if entry is None or right is None:
        date = entry.value if entry is not None else right.value if right is not None else None
        sides = (None if side is None else f"{side.rows} rows" for side in (right, entry))
        yield LeafDifference("missing" if entry is None else "extra", leaf, date, *sides)
        return
    if (entry.value, entry.rows) != (right.value, right.rows):
        sides = (f"{side.rows} rows of {side.value}" for side in (right, entry))
        yield LeafDifference("size", leaf, right.value, *sides)
    if (entry.format, entry.version, entry.columns) != (right.format, right.version, right.columns):
        sides = (_form(side) for side in (right, entry))
        yield LeafDifference("format", leaf, right.value, *sides)
    if entry.modified != right.modified:
        yield LeafDifference("time", leaf, right.value, str(right.modified), str(entry.modified))


def _form(entry: LocationEntry) -> str:
    """Format and version, then columns that paths of the tree do not have."""
    words = (
        entry.format,
        str(entry.version or ""),
        *(f"{name}={value if value.is_valid else 'null'}" for name, value in entry.columns),
    )
    return " ".join(filter(None, words))


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


class ForeignLocations(LocationsTable):
    """The Locations table of a tree that another program wrote.

    CorruptFileError: there are two, or it has no definition, or the tree contradicts itself.
    UnsupportedVersionError: its columns are not known, or what a directory or a leaf has.
    SchemaMismatchError: a directory names no value of its column.
    """

    def __init__(self, place: TablePlace) -> None:
        self._place, self._fs, self.root = place, place.fs, place.extended
        directory = locations_directory(self._fs, self.root)
        assert directory is not None  # noqa: S101  the caller saw it
        self.directory = directory
        self._groups: dict[str, list[int]] = {}  # rows of each row group of the leaves in Parquet
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

    def stored(self) -> Leaves:
        return {e.filename: e for e in read_locations(self._fs, self.directory, None, self.schema)}

    def wanted(self) -> Leaves:
        entries = (self._entry(path, keys) for path, keys in self._leaves(self.root, {}))
        return {entry.filename: entry for entry in entries}

    def write(self, *, now_ms: int) -> list[LeafDifference]:
        """By a new directory that takes its place in one step."""
        with staged_tree(self._fs, self.root):
            wanted = self.wanted()
            different = [*self._compared(wanted)]
            if different:
                self._write(wanted, stage_of(self.root) / self.directory.name, now_ms)
            return different

    def _write(self, wanted: Leaves, stage: Path, now_ms: int) -> None:
        fs = self._fs
        written = write_column_leaf(fs, stage, self.schema, [self._rows(wanted)], now_ms, SPLAYED)
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

    def _rows(self, wanted: Leaves) -> pa.RecordBatch:
        rows = [
            {
                "Filename": entry.filename,
                "Size": entry.rows,
                "Format": entry.format,
                "LastModifiedNanos": entry.modified,
                "ColumnVersion": entry.version,
                GROUP_ROWS: self._groups.get(entry.filename),
                **dict(entry.columns),
            }
            for entry in wanted.values()
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

    def _entry(self, path: Path, keys: Mapping[str, str]) -> LocationEntry:
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
            self._groups[name] = [group.rows for group in file.groups()]
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
