"""What a Delta table is at a version: the actions of its newest checkpoint before it and of the versions after that.

This is the only code that reads Delta's log. ``deltalake`` gives no actions of one version, and of a table's files only
typed partition values: a timestamp then no longer says whether it had a zone.

With column mapping a data file has *physical* names, or field ids (mode ``id``); so a column can be renamed or dropped
without its files being written again. A name of a file that the table does not map is one of a dropped column.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sparkhaven.store.delta.log import (
    LOG,
    SIDECARS,
    Action,
    Body,
    Listing,
    damaged,
    data_path,
    list_log,
    read_json,
    read_parquet,
    require_readable,
    unreadable,
    version_file,
)
from sparkhaven.store.errors import RetryableFeedError, SparkhavenError
from sparkhaven.store.io.fs import Fs

NO_VERSION = -1
ALL: Mapping[str, Sequence[str]] = {  # what is read of a checkpoint, if no less is asked for
    "txn": ("appId", "version", "lastUpdated"),
    "add": ("path", "partitionValues", "size", "modificationTime", "dataChange", "tags", "stats", "deletionVector"),
    "remove": (
        "path",
        "deletionTimestamp",
        "dataChange",
        "extendedFileMetadata",
        "partitionValues",
        "size",
        "deletionVector",
    ),
    "metaData": (
        "id",
        "name",
        "description",
        "format",
        "schemaString",
        "partitionColumns",
        "configuration",
        "createdTime",
    ),
    "protocol": ("minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures"),
    "domainMetadata": ("domain", "configuration", "removed"),
}

FileKey = tuple[str, str]  # absolute path of a data file, and its deletion vector
Declared = str | Mapping[str, Any]  # a type as the schema of the table has it
_FIELD_ID = b"PARQUET:field_id"
_NAME, _ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"


@dataclass(frozen=True, slots=True)
class DeltaSnapshot:
    """A table at ``version``, ``NO_VERSION`` before its first one; ``files`` and ``removed`` by absolute path.

    ``read`` names the files of the log that it was read from.
    """

    table: Path
    version: int = NO_VERSION
    read: tuple[Path, ...] = ()
    protocol: Body = field(default_factory=dict)
    metadata: Body = field(default_factory=dict)
    files: Mapping[Path, Body] = field(default_factory=dict)
    removed: tuple[Body, ...] = ()
    transactions: Mapping[str, Body] = field(default_factory=dict)
    domains: Mapping[str, Body] = field(default_factory=dict)

    @property
    def configuration(self) -> Mapping[str, str]:
        return self.metadata.get("configuration") or {}

    def paths(self) -> list[Path]:
        """The data files, the oldest first, in the same order whenever it is asked."""
        return sorted(self.files, key=lambda path: (self.files[path]["modificationTime"], path))

    def after(self, actions: Iterable[Action]) -> DeltaSnapshot:
        state = _State(self)
        state.take(actions)
        return state.snapshot(self.version + 1)


def read_snapshot(fs: Fs, table: Path, *, plain: bool = True) -> DeltaSnapshot:
    """The newest version of a table; of ``NO_VERSION`` where there is none.

    ``plain``: its data files are read as they are, and ``read`` is all of its log. CorruptFileError for a damaged log,
    UnsupportedVersionError for a table that has to be read by other rules.
    """
    listing = list_log(fs, table)
    latest = listing.latest
    if latest is None:
        return DeltaSnapshot(table)
    names, versions = listing.files(latest)
    read = (*(table / LOG / name for name in names), *(version_file(table, version) for version in versions))
    state = _State(DeltaSnapshot(table, read=read))
    state.take(actions_up_to(fs, table, listing, latest))
    snapshot = state.snapshot(latest)
    require_table(table, snapshot.metadata, snapshot.protocol)
    if plain:
        _require_plain(snapshot)
    return snapshot


def require_table(table: Path, metadata: Body | None, protocol: Body | None) -> tuple[Body, Body]:
    """Both. CorruptFileError without one, UnsupportedVersionError where rules of reading are not supported."""
    if not metadata or not protocol:
        raise damaged(table / LOG, "no metaData or no protocol")
    require_readable(table, protocol)
    return metadata, protocol


def _require_plain(snapshot: DeltaSnapshot) -> None:
    mode = snapshot.configuration.get("delta.columnMapping.mode", "none")
    if mode != "none" or "v2Checkpoint" in (snapshot.protocol.get("readerFeatures") or ()):
        what = "checkpoints of version 2" if mode == "none" else f"column mapping by {mode}"
        raise unreadable(snapshot.table, what, "ALTER TABLE ... DROP FEATURE, or move the table away")
    for path, body in snapshot.files.items():
        if body.get("deletionVector"):
            raise unreadable(
                path,
                "a data file with a deletion vector",
                "run REORG TABLE ... APPLY (PURGE) on the table, and set delta.enableDeletionVectors = false",
            )


def read_version(fs: Fs, table: Path, version: int, kinds: Sequence[str] = ()) -> list[Action] | None:
    """The actions of a version, ``kinds``: only these; None if it has no file, CorruptFileError if that is damaged."""
    data = version_bytes(fs, table, version)
    return None if data is None else list(read_json(version_file(table, version), data, kinds))


def version_bytes(fs: Fs, table: Path, version: int) -> bytes | None:
    """The file of a version as it is; None: there is none. RetryableFeedError: the disk does not give it."""
    path = version_file(table, version)
    try:
        return fs.read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RetryableFeedError(
            "the Delta log cannot be read", where=path, found=error, hint="check the disk and permissions"
        ) from error


def _missing(table: Path, version: int, later: int | None) -> SparkhavenError:
    return damaged(version_file(table, version), "no such file, although the log has later versions")


def actions_up_to(
    fs: Fs,
    table: Path,
    listing: Listing,
    version: int,
    wanted: Mapping[str, Sequence[str]] = ALL,
    missing: Callable[[Path, int, int | None], SparkhavenError] = _missing,
) -> Iterator[Action]:
    """The ``wanted`` kinds of actions of a checkpoint and of the versions after it, in order, up to a version.

    CorruptFileError: one is damaged. ``missing``: the error for a version without a file, by its number and that of the
    first later one that has a file.
    """
    names, versions = listing.files(version)
    kinds = () if wanted is ALL else tuple(wanted)
    for name in names:
        yield from _checkpoint(fs, table, table / LOG / name, wanted)
    for number in versions:
        actions = read_version(fs, table, number, kinds) if number in listing.versions else None
        if actions is None:
            raise missing(table, number, listing.first_after(number))
        yield from actions


def _checkpoint(fs: Fs, table: Path, path: Path, wanted: Mapping[str, Sequence[str]]) -> Iterator[Action]:
    with_sidecars = {**wanted, "sidecar": ("path",)}
    data = fs.read(path)
    if path.suffix == ".json":
        actions = read_json(path, data, tuple(with_sidecars))
    else:
        actions = read_parquet(path, data, with_sidecars)
    files = {kind: names for kind, names in wanted.items() if kind in ("add", "remove")}
    for kind, body in actions:
        if kind != "sidecar":
            yield kind, body
        elif files:
            sidecar = Path(data_path(table / LOG / SIDECARS, body["path"]))
            if fs.stat(sidecar) is None:
                raise damaged(sidecar, f"no such file, although {path.name} names it")
            yield from read_parquet(sidecar, fs.read(sidecar), files)


def file_key(table: Path, body: Body) -> FileKey:
    """What tells a data file from another: the same file with another deletion vector is another one."""
    vector = body.get("deletionVector") or {}
    marks = [str(vector.get(name, "")) for name in ("storageType", "pathOrInlineDv", "offset")]
    return data_path(table, body["path"]), "@".join(marks) if vector else ""


class _State:
    """A snapshot that takes actions, by dictionaries of its own."""

    def __init__(self, base: DeltaSnapshot) -> None:
        self._table = base.table
        self._files = {self._key(body): body for body in base.files.values()}
        self._removed = {self._key(body): body for body in base.removed}
        self._transactions, self._domains = dict(base.transactions), dict(base.domains)
        self._protocol, self._metadata, self._read = base.protocol, base.metadata, base.read

    def _key(self, body: Body) -> FileKey:
        return file_key(self._table, body)

    def take(self, actions: Iterable[Action]) -> None:
        for kind, body in actions:
            match kind:
                case "add":
                    self._removed.pop(self._key(body), None)
                    self._files[self._key(body)] = body
                case "remove":
                    self._files.pop(self._key(body), None)
                    self._removed[self._key(body)] = body
                case "metaData":
                    self._metadata = body
                case "protocol":
                    self._protocol = body
                case "txn":
                    self._transactions[body["appId"]] = body
                case "domainMetadata":
                    self._domains[body["domain"]] = body

    def snapshot(self, version: int) -> DeltaSnapshot:
        files = {Path(path): body for (path, _), body in self._files.items()}
        removed = tuple(self._removed.values())
        return DeltaSnapshot(
            self._table,
            version,
            self._read,
            self._protocol,
            self._metadata,
            files,
            removed,
            self._transactions,
            self._domains,
        )


@dataclass(frozen=True, slots=True)
class DeltaColumn:
    """A column, or a field of a struct."""

    name: str
    type: Declared
    physical: str
    id: str

    @property
    def simple(self) -> str | None:
        """Its type, if that is a simple one."""
        return self.type if isinstance(self.type, str) else None


@dataclass(frozen=True, slots=True)
class DeltaColumns:
    """The columns of a table. ``mode`` of column mapping: ``none``, ``name`` or ``id``."""

    columns: tuple[DeltaColumn, ...] = ()
    mode: str = "none"

    @property
    def types(self) -> Mapping[str, str | None]:
        """Names, each with its type if that is a simple one."""
        return {column.name: column.simple for column in self.columns}

    def logical(
        self, schema: pa.Schema, given: Collection[str], wanted: Collection[str] = ()
    ) -> list[MappedField | None]:
        """Of each column of a data file what it is in the table, which may write its name in another case.

        None: the table does not have it, or the log has its values for this file: ``given`` names such columns. A file
        from before the table was partitioned by a column has that itself. Row tracking and change data leave columns
        that no table has. Without column mapping one that is ``wanted`` by name keeps it, as of an earlier schema.
        """
        fields: list[MappedField | None] = []
        for stored in schema:
            column = _find(stored, self.columns, self.mode)
            if column is not None and column.name in given:
                fields.append(None)
            elif self.mode == "none" and (column is not None or stored.name in wanted or not self.columns):
                fields.append(MappedField(stored.name if column is None else column.name))
            else:
                fields.append(None if column is None else MappedField(column.name, column.type, self.mode))
        return fields

    def names_of(self, values: Mapping[str, str | None]) -> dict[str, str | None]:
        """Partition values by the names of columns: the log has physical names, or some in other case."""
        exact = {column.physical: column.name for column in self.columns}
        by_case = {physical.lower(): name for physical, name in exact.items()}
        return {exact.get(name) or by_case.get(name.lower(), name): text for name, text in values.items()}


@dataclass(frozen=True, slots=True)
class MappedField:
    """A column of a data file by its name in the table. ``type`` None: its own names are those of the table."""

    name: str
    type: Declared | None = None
    mode: str = "none"

    def array(self, array: pa.Array) -> pa.Array:
        """The values with the names that fields of structs have in the table, without those that it dropped."""
        return array if self.type is None else _renamed(array, self.type, self.mode)

    def kind(self, kind: pa.DataType) -> pa.DataType:
        """The type of such values."""
        return kind if self.type is None or not pa.types.is_nested(kind) else self.array(pa.array([], kind)).type


def delta_columns(table: Path, metadata: Body) -> DeltaColumns:
    """CorruptFileError for a schema that is none, UnsupportedVersionError for an unknown mode of column mapping."""
    mode = str((metadata.get("configuration") or {}).get("delta.columnMapping.mode", "none"))
    if mode not in ("none", "name", "id"):
        raise unreadable(table, f"column mapping by {mode}", "let another job copy the rows into a table")
    try:
        return DeltaColumns(_columns(json.loads(metadata.get("schemaString") or "{}"), mode), mode)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise damaged(table / LOG, f"schemaString: {error!r}") from error


def _columns(struct: Mapping[str, Any], mode: str) -> tuple[DeltaColumn, ...]:
    columns = []
    for part in struct.get("fields", ()):
        notes = part.get("metadata") or {}
        name = str(part["name"])
        physical = str(notes.get(_NAME, name)) if mode != "none" else name
        columns.append(DeltaColumn(name, part.get("type") or "", physical, str(notes.get(_ID, ""))))
    return tuple(columns)


def _find(field: pa.Field, columns: Sequence[DeltaColumn], mode: str) -> DeltaColumn | None:
    field_id = (field.metadata or {}).get(_FIELD_ID, b"").decode("ascii", "replace")
    if mode == "id" and field_id:
        return next((column for column in columns if column.id == field_id), None)
    same = [column for column in columns if column.physical.lower() == field.name.lower()]
    return next((column for column in same if column.physical == field.name), same[0] if same else None)


def _renamed(array: pa.Array, declared: Declared, mode: str) -> pa.Array:
    kind, kinds = array.type, pa.types
    if isinstance(declared, str) or not kinds.is_nested(kind):
        return array
    if array.offset:
        array = array.take(pa.array(np.arange(len(array))))
    empty = array.is_null() if array.null_count else None
    if kinds.is_struct(kind):
        fields, children = [], []
        own = _columns(declared, mode)
        for number in range(kind.num_fields):
            if (column := _find(kind.field(number), own, mode)) is not None:
                children.append(_renamed(array.field(number), column.type, mode))
                fields.append(pa.field(column.name, children[-1].type))
        return pa.StructArray.from_arrays(children, fields=fields, mask=empty) if children else pa.nulls(len(array))
    if kinds.is_map(kind):
        keys = _renamed(array.keys, declared.get("keyType", ""), mode)
        items = _renamed(array.items, declared.get("valueType", ""), mode)
        return pa.MapArray.from_arrays(array.offsets, keys, items, mask=empty)
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        values = _renamed(array.values, declared.get("elementType", ""), mode)
        return type(array).from_arrays(array.offsets, values, mask=empty)
    return array
