"""``save_table``: rows as a user table, replaced or extended as a whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa

from sparkhaven.store.errors import FormatError, SchemaMismatchError, SettingsError, TableExistsError
from sparkhaven.store.format.table.definition import NESTED, SPLAYED, definition_of
from sparkhaven.store.format.table.tbl import decode_tbl, encode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.io.system_errors import as_storage_errors
from sparkhaven.store.layout import TableName, check_identifier, check_partition
from sparkhaven.store.places import TablePlace, writable_layout
from sparkhaven.store.schema.document.schema_file import load_schema, parse_schema
from sparkhaven.store.types.model import Kind, TableSchema
from sparkhaven.store.users.user_table import UserTable, load_locations, load_user_table, splayed_now
from sparkhaven.writers.users.arrow_columns import columns_of, require_same_columns
from sparkhaven.writers.users.incoming_rows import IncomingRows, arrow_stream
from sparkhaven.writers.users.partitioned import begun, save_partitioned, settle_partitioned
from sparkhaven.writers.users.splayed import append_splayed, next_save, replace_splayed, settle_splayed
from sparkhaven.writers.users.table_lock import lock_user_table

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
    """How to save; the arguments of ``save_table``. ``wait_s``: seconds to wait for another process that saves."""

    mode: str = "replace"
    partition_by: str | None = None
    schema: str | Path | bytes | None = None
    internal: str = INTERNAL
    wait_s: float = WAIT_S


def save_table(
    root: str | Path,
    namespace: str,
    name: str,
    data: Any,
    *,
    mode: Mode = "replace",
    partition_by: str | None = None,
    schema: str | Path | bytes | None = None,
    internal: str = INTERNAL,
) -> SavedTable:
    """Saves data as the user table ``namespace.name`` below a database root: all rows, or none after a crash.

    ``data``: a pyarrow Table, RecordBatch or RecordBatchReader, a data frame of pandas or polars, any Arrow stream, or
    a Spark frame, which is collected. ``mode``: ``replace`` takes the place of a table that exists (default),
    ``append`` adds rows to it, ``error`` refuses it. Who has the old rows open keeps them for an hour.

    ``partition_by``: the column whose values become partitions. Without it the table is splayed: one directory. The
    columns have the types of the Arrow data, or those of ``schema``, a ``.schema`` file or its bytes. ``internal``
    names the internal partition of new locations. A save waits up to ten minutes for another one of the same table.

    SchemaMismatchError: a type or value that no column holds exactly, or other columns than the table has.
    ValidationFailedError: the disk gave back other rows than were given, before they were published.
    TableExistsError, InvalidNameError, SettingsError, LockLostError: nothing was changed.
    """
    table = TableName(check_identifier("namespace", namespace), check_identifier("table name", name))
    options = SaveOptions(mode, partition_by, schema, internal)
    return save_rows(TablePlace(Fs(), writable_layout(local_path(root)), table), data, options)


def save_rows(place: TablePlace, data: Any, options: SaveOptions, clock: Callable[[], float] = time.time) -> SavedTable:
    """The same for a table at its place; ``clock`` gives seconds since the epoch. Errors as ``save_table``."""
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
        before = sum(held.rows for held in table.locations.values()) if append and table is not None else 0
        path = place.splayed if schema.partitioning is None else place.user_partitions
        return SavedTable(str(place.table), self._mode, count, before + count, save, path)

    def _settled(self) -> UserTable | None:
        """The table after recovery of what an earlier save left: a definition that is behind is written anew."""
        place, now_s = self._place, self._clock()
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
    if place.fs.stat(place.schema) is not None:
        raise TableExistsError(
            f"{place.table} is a system table",
            where=place.schema,
            expected=f"a name that is free for {place.user_definition}",
            hint="save the rows in another namespace, or under another name",
        )
