"""Saves of a partitioned user table: ``Partitions/<internal>/<value>/<Table>/``.

1. write the rows: behind the committed lengths of a location that stays, else into a hidden directory beside the place
   of a new one; sync all of it, and read the rows back: what is committed was seen
2. rename new directories into place
3. replace the record of the locations: the commit of all of them at once
4. write ``table.size`` and the definition anew from the record

A location that is replaced stays for ``GRACE_S``, for readers that opened the table before. A replacement has an
internal partition of its own (``0.g2``), as a merge has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError, FormatError, UnsupportedVersionError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.definition import NESTED
from sparkhaven.store.format.table.table_size import TableSize
from sparkhaven.store.format.table.tbl import encode_tbl
from sparkhaven.store.layout import LocationKey, saves_beside, staged, without_generation
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.model import TableSchema
from sparkhaven.store.users.location_record import CommittedRows, LocationRecord, encode_locations
from sparkhaven.store.users.user_table import DEFINITION, SAVE, UserTable, load_locations
from sparkhaven.writers.users.incoming_rows import IncomingRows
from sparkhaven.writers.users.location_writer import LocationWriter
from sparkhaven.writers.users.splayed import GRACE_S, size_of


def begun(place: TablePlace, schema: TableSchema, table: UserTable | None) -> LocationRecord:
    """The record that a save starts from; a table without one gets it, with what another program has published."""
    if table is not None and table.record is not None:
        return table.record
    if table is None and (record := load_locations(place)) is not None:
        return record
    definition = encode_tbl(schema if table is None else table.definition, storage_type=NESTED)
    locations = {} if table is None else table.locations
    record = LocationRecord(str(place.table), 0, definition, dict(locations), {})
    place.fs.replace(place.user_locations, encode_locations(record))
    return record


def save_partitioned(
    place: TablePlace,
    schema: TableSchema,
    rows: IncomingRows,
    record: LocationRecord,
    internal: str,
    now_ms: int,
    *,
    append: bool,
) -> int:
    """Replaces the rows of the table, or adds to them; returns the number of rows that were given."""
    fs, save = place.fs, record.save + 1
    kept = dict(record.locations) if append else {}
    fresh = _internal(record, internal, save, append=append)
    writers = _Writers(place, schema, kept, fresh, save)
    with fs.during("user-stage"):
        try:
            for batch in rows:
                writers.append(batch)
            rows.require(writers.rows)
        except Exception:
            writers.discard()
            raise
        writers.sync(now_ms)
    with fs.during("user-publish"):
        writers.rename()
        retired = {} if append else dict.fromkeys(record.locations, now_ms)
        after = LocationRecord(
            str(place.table),
            save,
            record.definition if append else encode_tbl(schema, storage_type=NESTED),
            {**kept, **writers.held()},
            {**record.replaced, **retired},
        )
        fs.replace(place.user_locations, encode_locations(after))
    writers.publish(now_ms)
    return writers.rows


def settle_partitioned(place: TablePlace, record: LocationRecord, now_s: float) -> LocationRecord:
    """Removes what a killed save has left, and replaced locations after ``GRACE_S``; publishes sizes that are behind.

    Other locations that the record does not name were put there by hand, and stay.
    """
    fs = place.fs
    due = {key for key, time_ms in record.replaced.items() if now_s - time_ms / 1000 >= GRACE_S}
    known = {*record.locations, *record.replaced} - due
    for key in _on_disk(place):
        path = place.user_location(key)
        for save in saves_beside(path, fs.names(path.parent), "stage"):
            fs.remove_tree(staged(path, save))
        if key in due:
            fs.remove_tree(path)
        elif key not in known and _was_saved(place, key, record.save + 1):
            fs.rename(path, staged(path, record.save + 1))  # first: half of it would not say who has written it
            fs.remove_tree(staged(path, record.save + 1))
    for key, held in record.locations.items():
        size = size_of(fs, place.user_location(key))
        if size is None or (size.size, size.files) != (held.rows, held.files):
            _publish(place, key, held, record.save, int(now_s * 1000))
    if due:
        record = replace(record, replaced={key: ms for key, ms in record.replaced.items() if key not in due})
        fs.replace(place.user_locations, encode_locations(record))
    return record


def _was_saved(place: TablePlace, key: LocationKey, save: int) -> bool:
    """Whether a location says that a save of this number has written it."""
    try:
        size = table_size.load(place.fs, place.user_location(key))
    except FormatError:
        return False
    return size is not None and (size.source_state or {}).get(SAVE) == str(save)


def _on_disk(place: TablePlace) -> Iterator[LocationKey]:
    """Directories in the place of a location, or where one is staged."""
    fs, base, name = place.fs, place.user_partitions, place.table.table
    for internal in fs.names(base):
        for value in fs.names(base / internal):
            names = fs.names(base / internal / value)
            if name in names or saves_beside(base / internal / value / name, names, "stage"):
                yield LocationKey(internal, value)


def _internal(record: LocationRecord, internal: str, save: int, *, append: bool) -> str:
    """The internal partition of new locations: that of the others, or one that no location has had."""
    if append:
        for key in sorted(record.locations, reverse=True):
            if without_generation(key.internal) == internal:
                return key.internal
    used = {key.internal for key in (*record.locations, *record.replaced)}
    return f"{internal}.g{save}" if internal in used or record.save else internal


class _Writers:
    """One writer a location; ``kept`` locations take rows behind theirs, others are made in partition ``fresh``."""

    def __init__(
        self, place: TablePlace, schema: TableSchema, kept: dict[LocationKey, CommittedRows], fresh: str, save: int
    ) -> None:
        self._place, self._schema, self._kept, self._fresh, self._save = place, schema, kept, fresh, save
        column = schema.partitioning
        if column is None:
            raise UnsupportedVersionError("a partitioned table has no partitioning column", where=place.user_definition)
        self._column, self._stored = column.name, [c.name for c in schema.stored]
        self._open: dict[LocationKey, LocationWriter] = {}

    @property
    def rows(self) -> int:
        """Rows that were added to all locations."""
        before = sum(self._kept[key].rows for key in self._open.keys() & self._kept.keys())
        return sum(writer.rows for writer in self._open.values()) - before

    def append(self, batch: pa.RecordBatch) -> None:
        values = batch.column(batch.schema.get_field_index(self._column))
        numbers, stored = values.indices.to_numpy(), batch.select(self._stored)
        for number, value in enumerate(values.dictionary.to_pylist()):
            chosen = np.flatnonzero(numbers == number)
            if len(chosen):
                whole = len(chosen) == batch.num_rows
                self._writer(value).append(stored if whole else stored.take(pa.array(chosen)))

    def _writer(self, value: str) -> LocationWriter:
        key = LocationKey(self._fresh, value)
        writer = self._open.get(key)
        if writer is None:
            held, path = self._kept.get(key), self._place.user_location(key)
            directory = staged(path, self._save) if held is None else path
            writer = LocationWriter(self._place.fs, directory, self._schema.stored, held)
            self._open[key] = writer
        return writer

    def discard(self) -> None:
        for key, writer in self._open.items():
            if key not in self._kept:
                self._place.fs.remove_tree(writer.directory)

    def sync(self, now_ms: int) -> None:
        """Makes all rows durable, and new directories complete; then proves the rows."""
        fs = self._place.fs
        files: list[Path] = []
        directories: list[Path] = []
        for key, writer in self._open.items():
            files += writer.touched
            if key not in self._kept:
                definition, size = writer.directory / DEFINITION, writer.directory / table_size.NAME
                fs.write_new(definition, encode_tbl(self._schema, storage_type=NESTED))
                fs.write_new(size, _size(writer.held(), self._save, now_ms))
                files += [definition, size]
            directories.append(writer.directory)
        fs.sync(files)
        fs.sync_dirs(directories)
        for writer in self._open.values():
            writer.prove()
        fs.keep_all_dirs([directory.parent for directory in directories], self._place.layout.root)

    def rename(self) -> None:
        """New directories into their places, durably."""
        new = [key for key in self._open if key not in self._kept]
        for key in new:
            path = self._place.user_location(key)
            if self._place.fs.stat(path) is not None:
                raise CorruptFileError(
                    "a directory has the place of a new location",
                    where=path,
                    expected="nothing",
                    found="a directory that no record names",
                    hint="move it away. The table was not changed",
                )
            self._place.fs.rename(self._open[key].directory, path)
        self._place.fs.sync_dirs([self._place.user_location(key).parent for key in new])

    def held(self) -> dict[LocationKey, CommittedRows]:
        return {key: writer.held() for key, writer in self._open.items()}

    def publish(self, now_ms: int) -> None:
        for key, writer in self._open.items():
            if key in self._kept:
                _publish(self._place, key, writer.held(), self._save, now_ms)


def _publish(place: TablePlace, key: LocationKey, held: CommittedRows, save: int, now_ms: int) -> None:
    place.fs.replace(place.user_location(key) / table_size.NAME, _size(held, save, now_ms))


def _size(held: CommittedRows, save: int, now_ms: int) -> bytes:
    return table_size.encode(
        TableSize(
            held.rows,
            now_ms,
            {name: state.size for name, state in held.files.items()},
            source_state={SAVE: str(save)},
            checksums={name: state.crc for name, state in held.files.items()},
        )
    )
