"""History that other programs wrote: its tables, and the location index that its directories call for.

A table is foreign where nothing here knows its rows: it has neither a stream nor a merge. Its locations are the
directories below ``Partitions``; rows are those of ``table.size``, or of a ``table.parquet`` that stands alone. What
neither says is not guessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sparkhaven.store.epochs.reading.stream_state import list_streams
from sparkhaven.store.errors import CorruptFileError, InvalidNameError, LockLostError, UnsupportedVersionError
from sparkhaven.store.format.column.region import DAT
from sparkhaven.store.format.index.tlmi import DEEPHAVEN, PARQUET, IndexEntry
from sparkhaven.store.format.parquet.location_files import NAME, in_parquet
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.table_size import TableSize
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey, TableName, check_partition, without_generation
from sparkhaven.store.merges.merge_records import all_values
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.imports.foreign_file import open_foreign
from sparkhaven.writers.merge.location_index import (
    Entries,
    IndexUpdate,
    recorded_entries,
    stored_entries,
    update_index,
    updated_index,
)


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
    return entries_on_disk(place) if is_foreign(place) else recorded_entries(place)


def update_entries(place: TablePlace, *, dry_run: bool = False) -> IndexUpdate:
    """Writes the index where it differs. Raises as ``wanted_entries``; LockLostError: another process writes it."""
    if not is_foreign(place):
        return update_index(place, dry_run=dry_run)
    if dry_run:
        return updated_index(place, entries_on_disk(place), write=False)
    directory = place.metadata_index.parent
    wanted = entries_on_disk(place)
    place.fs.keep_dirs(directory, place.layout.root)
    lock = place.fs.lock(directory, make=False)  # a file of ours would make the table one of ours
    if lock is None:
        raise LockLostError(
            "another process writes a location index", where=directory, hint="wait until it ends, then run this again"
        )
    with lock:
        return updated_index(place, wanted, write=True)


def entries_on_disk(place: TablePlace) -> Entries:
    """The locations with rows. Raises as ``wanted_entries``, and for an index of another version, which has more."""
    with suppress(CorruptFileError):
        stored_entries(place)
    entries: Entries = {}
    for directory in _values(place.fs, place.partitions):
        location = directory / place.table.table
        if place.fs.stat(location) is None:
            continue
        internal, value = directory.parent.name, directory.name
        if without_generation(internal) != internal:
            expected = "partitions without a mark of a later generation or a supplement"
            raise _unknown("it is not known which generation counts", directory.parent, expected, internal)
        key = LocationKey(check_partition("internal partition", internal), check_partition("partition value", value))
        entry = _entry(place.fs, location, key)
        if entry.rows:
            entries[key] = entry
    return entries


def _values(fs: Fs, partitions: Path) -> Iterator[Path]:
    for internal in fs.names(partitions):
        yield from (partitions / internal / value for value in fs.names(partitions / internal))


def _entry(fs: Fs, location: Path, key: LocationKey) -> IndexEntry:
    record = recorded_size(fs, location)
    if record is not None:
        kind = PARQUET if in_parquet(record.data_file_sizes) else DEEPHAVEN
        return IndexEntry(key, 0 if record.truncated else record.size, record.last_modified_ms, kind)
    names = fs.names(location)
    stat = fs.stat(location / NAME)
    if stat is None or any(name.endswith(DAT) for name in names):
        shown = ", ".join(names[:3]) or "an empty directory"
        raise _unknown("rows of a location are not known", location, f"{table_size.NAME}, or {NAME} alone", shown)
    return IndexEntry(key, open_foreign(fs, location / NAME).metadata.num_rows, stat.mtime_ns // 1_000_000, PARQUET)


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


def _unknown(what: str, where: Path, expected: str, found: str) -> UnsupportedVersionError:
    return UnsupportedVersionError(
        what,
        where=where,
        expected=expected,
        found=found,
        hint="nothing was written. Have the program that wrote the tree write its index",
    )
