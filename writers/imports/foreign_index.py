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
from sparkhaven.store.errors import CorruptFileError, InvalidNameError, LockLostError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.table_size import TableSize
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.merge_records import all_values
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.location_index import (
    Entries,
    IndexUpdate,
    seen_entries,
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
