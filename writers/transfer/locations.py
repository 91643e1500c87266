"""The Locations table of the tree beside history, against the tree's manifest and files.

Where a Locations table is, it alone decides which leaves other programs read: a leaf too many gives null rows, a leaf
that is missing hides rows. The manifest, which is written last and has a checksum, says which leaves there are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sparkhaven.readers.arrow.opening import open_place
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.readers.checks.location_index import Kind
from sparkhaven.store import next_steps
from sparkhaven.store.errors import CorruptFileError, FormatError, SchemaMismatchError
from sparkhaven.store.format.parquet.manifest import TreeManifest, decode_manifest, encode_manifest
from sparkhaven.store.format.parquet.trees import EXTENDED, LOCATIONS_TABLES, MANIFEST
from sparkhaven.store.format.parquet.trees import staged as stage_of
from sparkhaven.store.format.table.locations import DEEPHAVEN, PARQUET, LocationEntry
from sparkhaven.store.format.table.table_size import COLUMN_VERSION
from sparkhaven.store.merges.merge_records import all_values
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.location_files import locations_directory, read_locations
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.datatypes import CHAR_NULL
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.transfer.export import staged_tree
from sparkhaven.writers.transfer.export_plan import ExportOptions, plan_export
from sparkhaven.writers.transfer.extended import replace_names
from sparkhaven.writers.transfer.tree_writer import TreeWriter

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
