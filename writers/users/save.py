"""Rows as a user table, replaced or extended as a whole.

A partitioned user table, ``Partitions/<internal>/<value>/<Table>/``, is saved in steps. The record comes third: what
it names is in place and synced, and what is derived from it follows.

1. write the rows: behind the committed lengths of a location that stays, else into a hidden directory beside the place
   of a new one; sync all of it, and read the rows back: what is committed was seen
2. rename new directories into place
3. replace the record of the locations: the commit of all of them at once, but of a first save, see ``mark_first``
4. write ``table.size`` and the definition anew from the record

A location that is replaced stays for ``GRACE_S``, for readers that opened the table before. A replacement has an
internal partition of its own (``0.g2``), as a merge has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

from sparkhaven.store.errors import (
    CorruptFileError,
    FormatError,
    SchemaMismatchError,
    SettingsError,
    TableExistsError,
    UnsupportedVersionError,
    as_storage_errors,
)
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.definition import NESTED, SPLAYED, definition_of
from sparkhaven.store.format.table.tbl import decode_tbl, encode_tbl
from sparkhaven.store.layout import (
    LocationKey,
    check_partition,
    saves_beside,
    staged,
    without_generation,
)
from sparkhaven.store.merges.dropped_tables import refuse_doomed
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import refuse_table_twin
from sparkhaven.store.schema.document.schema_file import load_schema, parse_schema
from sparkhaven.store.types.model import Kind, TableSchema
from sparkhaven.store.user_tables import (
    DEFINITION,
    SAVE,
    CommittedRows,
    LocationRecord,
    UserTable,
    encode_locations,
    load_locations,
    load_user_table,
    splayed_now,
)
from sparkhaven.writers.users.arrow_columns import IncomingRows, arrow_stream, columns_of, require_same_columns
from sparkhaven.writers.users.location_writer import (
    GRACE_S,
    LocationWriter,
    append_splayed,
    lock_user_table,
    mark_first,
    next_save,
    replace_splayed,
    settle_splayed,
    size_of,
)


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
    mark_first(place)
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
                self._writer(value).add(stored if whole else stored.take(pa.array(chosen)))

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
    size = table_size.of_files(held.rows, now_ms, held.files, source_state={SAVE: str(save)})
    return table_size.encode(size)


Mode = Literal["replace", "append", "error"]
MODES: tuple[str, ...] = get_args(Mode)
WAIT_S = 600.0
INTERNAL = "0"


@dataclass(frozen=True, slots=True)
class SavedTable:
    """What a save did: ``rows`` were given, ``total`` are in the table now. ``save``: its number, from 1 on."""

    table: str
    mode: str
    rows: int
    total: int
    save: int
    path: Path


@dataclass(frozen=True, slots=True)
class SaveOptions:
    """How to save. ``wait_s``: seconds to wait for another process that saves."""

    mode: str = "replace"
    partition_by: str | None = None
    schema: str | Path | bytes | None = None
    internal: str = INTERNAL
    wait_s: float = WAIT_S


def save_rows(place: TablePlace, data: Any, options: SaveOptions, clock: Callable[[], float] = time.time) -> SavedTable:
    """Saves data as a user table: all rows, or none after a crash. ``clock`` gives seconds since the epoch.

    ``data``: anything that gives Arrow, also a Spark frame, which is collected. Who has the old rows open keeps them
    for an hour. A save waits up to ten minutes for another one of the same table.

    SchemaMismatchError: a type or value that no column holds exactly, or other columns than the table has.
    ValidationFailedError: the disk gave back other rows than were given, before they were published.
    TableExistsError, InvalidNameError, SettingsError, LockLostError: nothing was changed.
    """
    if options.mode not in MODES:
        raise SettingsError("unknown mode", where="save_table", expected=" | ".join(MODES), found=repr(options.mode))
    check_partition("internal partition", options.internal)
    rows = arrow_stream(data)
    with as_storage_errors():
        _refuse_system_table(place)
        with lock_user_table(place, options.wait_s):
            return _Save(place, options, clock).run(rows)


class _Save:
    """One save, under the lock of its table."""

    def __init__(self, place: TablePlace, options: SaveOptions, clock: Callable[[], float]) -> None:
        self._place, self._options, self._clock = place, options, clock
        self._mode, self._by = options.mode, options.partition_by

    def run(self, rows: pa.RecordBatchReader) -> SavedTable:
        place = self._place
        table = self._settled()
        if table is not None and self._mode == "error":
            raise TableExistsError(
                f"user table {place.table} exists",
                where=place.user_definition,
                expected="a name that is free",
                hint='save with mode "append" or "replace"',
            )
        if table is None:
            refuse_table_twin(place)
        append = self._mode == "append" and table is not None
        schema = self._schema(rows.schema, table if append else None)
        self._refuse_other_kind(table, schema)
        batches, now_ms = IncomingRows(rows, schema.columns, str(place.table)), int(self._clock() * 1000)
        if schema.partitioning is None:
            save = next_save(place)
            if append and table is not None:
                count = append_splayed(place, table, batches, save, now_ms)
            else:
                count = replace_splayed(place, schema, batches, save, now_ms)
        else:
            record = begun(place, schema, table)
            save = record.save + 1
            count = save_partitioned(place, schema, batches, record, self._options.internal, now_ms, append=append)
        if not append:
            self._write(encode_tbl(schema, storage_type=NESTED if schema.partitioning else SPLAYED))
            self._end_first()
        before = sum(held.rows for held in table.locations.values()) if append and table is not None else 0
        path = place.splayed if schema.partitioning is None else place.user_partitions
        return SavedTable(str(place.table), self._mode, count, before + count, save, path)

    def _settled(self) -> UserTable | None:
        """The table after recovery of what an earlier save left: a definition that is behind is written anew."""
        place, now_s = self._place, self._clock()
        if place.fs.stat(place.user_first) is not None:
            if place.fs.stat(place.user_definition) is None:
                self._forget_first()
            self._end_first()
        settle_splayed(place, now_s)
        if (record := load_locations(place)) is not None:
            record = settle_partitioned(place, record, now_s)
        table = None
        if place.fs.stat(place.user_definition) is None:
            if record is not None and record.save:
                self._write(record.definition)
            elif (path := splayed_now(place)) is not None and place.fs.stat(path / "table.tbl") is not None:
                self._write(place.fs.read(path / "table.tbl"))
        try:
            table = load_user_table(place)
        except FormatError:
            if self._mode != "replace":
                raise
        if table is not None and table.save:
            self._write(encode_tbl(table.definition))
        return table

    def _forget_first(self) -> None:
        """Removes the rows of a first save that has not come to its definition: readers have never found the table."""
        place, record = self._place, load_locations(self._place)
        place.fs.remove_tree(place.splayed)
        if record is not None and record.save:
            for key in record.locations:
                place.fs.remove_tree(place.user_location(key))
            place.fs.replace(place.user_locations, encode_locations(replace(record, save=0, locations={})))

    def _end_first(self) -> None:
        if self._place.fs.stat(self._place.user_first) is not None:
            self._place.fs.unlink(self._place.user_first)
            self._place.fs.sync_dirs([self._place.user_first.parent])

    def _schema(self, given: pa.Schema, table: UserTable | None) -> TableSchema:
        """The schema of the rows: of the table that they are added to, of a file, or by their Arrow types."""
        place, source = self._place, self._options.schema
        if table is not None:
            if source is not None:
                raise SettingsError(
                    "an append takes the schema of its table", found="schema", hint="leave it out, or use mode replace"
                )
            column = table.schema.partitioning
            if self._by not in (None, column.name if column else None):
                raise SettingsError(
                    f"{place.table} has other partitions",
                    expected=f"partition_by={column.name!r}" if column else "no partition_by: the table is splayed",
                    found=f"partition_by={self._by!r}",
                )
            require_same_columns(str(place.table), table.schema.columns, given.names)
            return table.schema
        if source is None:
            columns = columns_of(given, self._by)
        else:
            columns = _declared(place, source, self._by).columns
            require_same_columns(str(place.table), columns, given.names)
        nested = columns[0].kind is Kind.PARTITIONING
        schema = TableSchema(place.table.namespace, place.table.table, columns, nested=nested)
        written = encode_tbl(definition_of(schema, storage_type=NESTED if nested else SPLAYED))
        return decode_tbl(written, place.user_definition).schema()  # as readers will have it

    def _refuse_other_kind(self, table: UserTable | None, schema: TableSchema) -> None:
        if table is not None and table.splayed != (schema.partitioning is None):
            raise SettingsError(
                "a user table stays splayed or partitioned",
                where=self._place.user_definition,
                expected="no partition_by" if table.splayed else "partition_by",
                found="partition_by" if table.splayed else "no partition_by",
                hint="save the rows under another name",
            )

    def _write(self, definition: bytes) -> None:
        fs, path = self._place.fs, self._place.user_definition
        if fs.stat(path) is None or fs.read(path) != definition:
            with fs.during("user-definition"):
                fs.replace(path, definition)


def _declared(place: TablePlace, source: str | Path | bytes, by: str | None) -> TableSchema:
    """The schema of a file, partitioning column first; grouping columns become normal ones."""
    file = parse_schema(source, "") if isinstance(source, bytes) else load_schema(place.fs, Path(source))
    schema = file.materialised().schema
    if schema.full_name != str(place.table):
        raise SchemaMismatchError("the schema is of another table", expected=place.table, found=schema.full_name)
    column = schema.partitioning
    if by is not None and (column is None or column.name != by):
        raise SettingsError(
            "partition_by is not the partitioning column of the schema",
            expected=column.name if column else "no partition_by: the schema has no partitioning column",
            found=by,
        )
    ordered = sorted(schema.columns, key=lambda c: c.kind is not Kind.PARTITIONING)
    plain = [replace(c, kind=Kind.NORMAL) if c.kind is Kind.GROUPING else c for c in ordered]
    return replace(schema, columns=tuple(replace(c, id=number) for number, c in enumerate(plain)))


def _refuse_system_table(place: TablePlace) -> None:
    refuse_doomed(place)  # whose files are there still
    if place.fs.stat(place.schema) is not None:
        raise TableExistsError(
            f"{place.table} is a system table",
            where=place.schema,
            expected=f"a name that is free for {place.user_definition}",
            hint="save the rows in another namespace, or under another name",
        )
