"""Deployed schemas: the copy of a ``.schema`` file that a database root is read and written with.

``Schemas/<NS>.<Table>.schema`` holds the bytes of the newest version, ``<NS>.<Table>.history.json`` every version
with the ids that its columns were given (``store.schema.deployed.history``).

Deploying runs in this order, so that a stop between any two steps leaves the old version or the new one:

1. take the lock of the directory; read the deployed version
2. compare: a change of how existing data are stored is refused (E161)
3. replace the history, which then names the new version and the SHA-256 of its bytes
4. replace the schema file: from here on the new version is the deployed one

A reader looks up the version by the SHA-256 of the schema file, so it does not matter which of the two it saw first.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from store.errors import (
    CorruptFileError,
    InvalidNameError,
    LockLostError,
    SchemaMismatchError,
    TableNotFoundError,
    UnsupportedVersionError,
)
from store.io.fs import Fs
from store.layout import INTERNAL_NAMESPACE, Layout, TableName
from store.schema.deployed.history import ColumnRecord, Version, decode_history, encode_history
from store.schema.document.xmlfile import SchemaFile, load_schema, parse_schema
from store.schema.findings import Collector
from store.schema.tree import Element
from store.types.model import Kind, TableSchema

_LOCK_TRIES, _LOCK_PAUSE_S = 250, 0.02


def deploy(fs: Fs, layout: Layout, source: Path | bytes, *, pause: Callable[[float], None] = time.sleep) -> TableSchema:
    """Makes a schema the deployed one of its table and returns it with version and column ids.

    Nothing is written when its bytes are deployed already. Raises SchemaParseError for a schema with errors and, as
    E161, for one that would change how existing data are stored; LockLostError when another process holds the lock.
    """
    given = parse_schema(source, "") if isinstance(source, bytes) else load_schema(fs, source)
    file = given.materialised()
    _check_supported(file)
    table = TableName(file.schema.namespace, file.schema.name)
    digest = sha256(file.to_bytes()).hexdigest()
    current = _deployed(fs, layout, table)
    fs.keep_dirs(layout.schemas(), layout.root)
    if current is not None and current.sha256 == digest:
        fs.sync_dirs([layout.schemas()])  # who deployed it may have died before its own sync
        return _numbered(file.schema, current)
    with _locked(fs, layout, pause):
        history = load_history(fs, layout, table)
        current = _deployed(fs, layout, table)
        if current is not None and current.sha256 == digest:
            return _numbered(file.schema, current)
        if current is None and _has_rows(fs, layout, table):
            if not history:
                raise _lost(layout, table)
            current = history[-1]  # the schema file was lost: the columns of the data keep their ids
        if current is not None and _has_data(fs, layout, table):
            _check_change(file, given.name or str(layout.schema(table)), current, history)
        if history and history[-1].sha256 == digest:
            new = history.pop()  # who recorded it has stopped before its file was in place
        else:
            new = Version(history[-1].version + 1 if history else 1, digest, _ids(file.schema, current, history))
        with fs.during("schema-history"):
            fs.replace(layout.schema_history(table), encode_history([*history, new]))
        with fs.during("schema-file"):
            fs.replace(layout.schema(table), file.to_bytes())
        return _numbered(file.schema, new)


def load_deployed(fs: Fs, layout: Layout, table: TableName) -> TableSchema:
    """The deployed schema of a table with its version and column ids.

    Raises TableNotFoundError when none is deployed, SchemaMismatchError when the file was changed by hand,
    CorruptFileError when it, or its history, is damaged or lost.
    """
    version = _deployed(fs, layout, table)
    if version is None and _has_rows(fs, layout, table):  # without rows a first deployment may have stopped half way
        raise _lost(layout, table)
    if version is None:
        raise TableNotFoundError(
            f"table {table} has no deployed schema",
            where=layout.schema(table),
            expected="a schema that a stream or a user deployed",
            found="no file",
            hint="start a stream of the table, or check the root; `sparkhaven tables` lists what is there",
        )
    return _numbered(load_schema(fs, layout.schema(table)).schema, version)


def standing_tables(fs: Fs, layout: Layout) -> list[TableName]:
    """Every table of which there is a schema, its history, a commit log or a merge record, sorted.

    Other names are ignored.
    """
    names = {n for n in fs.names(layout.schemas()) if n[0] != "."}
    found = {n.removesuffix(end) for n in names for end in (".schema", ".history.json") if n.endswith(end)}
    intraday, systems = layout.root / "Intraday", layout.root / "Systems"
    for space in fs.names(intraday):
        found |= {f"{space}.{name}" for name in fs.names(intraday / space) if _logs(fs, intraday / space / name)}
    for space in fs.names(systems):
        merges = [n[1:].removesuffix(".merges") for n in fs.names(systems / space / "MetadataIndex") if _is_merges(n)]
        found |= {f"{space}.{name}" for name in merges}
    tables = set()
    for name in found:
        with suppress(InvalidNameError):
            tables.add(TableName.parse(name))
    return sorted(tables)


def _logs(fs: Fs, table: Path) -> bool:
    try:
        return any(name.endswith(".log") for name in fs.names(table / ".streams"))
    except PermissionError:  # a matter of whoever reads the table; the others can be read
        return True


def _is_merges(name: str) -> bool:
    return name.startswith(".") and name.endswith(".merges")


def deployed_tables(fs: Fs, layout: Layout) -> list[TableName]:
    """Every table with a deployed schema, sorted."""
    names = [n.removesuffix(".schema") for n in fs.names(layout.schemas()) if n.endswith(".schema") and n[0] != "."]
    return sorted(TableName.parse(name) for name in names)


def user_tables(fs: Fs, layout: Layout) -> list[TableName]:
    """The deployed tables without the log tables: what commands list by default."""
    return [table for table in deployed_tables(fs, layout) if table.namespace != INTERNAL_NAMESPACE]


def _check_supported(file: SchemaFile) -> None:
    if not file.schema.nested:
        raise UnsupportedVersionError(
            f"{file.schema.full_name} is not a nested partitioned table",
            where=file.name,
            expected='storageType="NestedPartitionedOnDisk"',
            found='storageType="SplayedOnDisk"',
            hint="this release writes nested partitioned tables only",
        )
    partitioning = [c.name for c in file.schema.columns if c.kind is Kind.PARTITIONING]
    if len(partitioning) != 1:  # which the schema language allows beside ExtendedStorage
        raise UnsupportedVersionError(
            f"{file.schema.full_name} has {len(partitioning)} partitioning columns",
            where=file.name,
            expected="one Partitioning column",
            found=", ".join(partitioning) or "none",
            hint="make the others Normal: their values would not be stored",
        )


@contextmanager
def _locked(fs: Fs, layout: Layout, pause: Callable[[float], None]) -> Iterator[None]:
    for _ in range(_LOCK_TRIES):
        lock = fs.lock(layout.schemas())
        if lock is not None:
            with lock:
                yield
            return
        pause(_LOCK_PAUSE_S)
    raise LockLostError(
        "another process holds the schema lock for too long",
        where=layout.schemas(),
        expected=f"the lock within {_LOCK_TRIES * _LOCK_PAUSE_S:.0f} s",
        hint="look for a stopped process that has the directory open, then try again",
    )


def _deployed(fs: Fs, layout: Layout, table: TableName) -> Version | None:
    """The version whose bytes the deployed file has; None without a file."""
    path = layout.schema(table)
    if fs.stat(path) is None:
        return None
    # the history is read second: it is written first, so it knows every file that can be there
    digest = sha256(fs.read(path)).hexdigest()
    history = load_history(fs, layout, table)
    found = [v for v in history if v.sha256 == digest]
    if not history:
        raise CorruptFileError(
            f"the history of the schema of {table} is missing",
            where=layout.schema_history(table),
            expected="every deployed version with its column ids",
            found="no version",
            hint="restore the file from a copy: column ids must not be given twice",
        )
    if not found:
        raise SchemaMismatchError(
            f"the deployed schema of {table} is not the one that was deployed",
            where=path,
            expected=f"a version of {layout.schema_history(table).name}",
            found=f"other bytes, SHA-256 {digest[:16]}…",
            hint="put the deployed file back, then deploy the change through a stream",
        )
    return found[-1]


def load_history(fs: Fs, layout: Layout, table: TableName) -> list[Version]:
    """Every version that was deployed, oldest first; none without the file, CorruptFileError where it is damaged."""
    path = layout.schema_history(table)
    return [] if fs.stat(path) is None else decode_history(fs.read(path), path)


def _ids(schema: TableSchema, current: Version | None, history: list[Version]) -> tuple[ColumnRecord, ...]:
    """A column that is the same as in the deployed version keeps its id, every other one gets a new one."""
    kept = {c.identity: c.id for c in current.columns} if current else {}
    following = 1 + max((c.id for v in history for c in v.columns), default=-1)
    records: list[ColumnRecord] = []
    for column in schema.columns:
        number = kept.get(ColumnRecord.of(column, 0).identity)
        if number is None:
            number, following = following, following + 1
        records.append(ColumnRecord.of(column, number))
    return tuple(records)


def _numbered(schema: TableSchema, version: Version) -> TableSchema:
    ids = {c.name: c.id for c in version.columns}
    for column in schema.columns:
        recorded = next((c for c in version.columns if c.name == column.name), None)
        if recorded != ColumnRecord.of(column, ids.get(column.name, 0)) or len(ids) != len(schema.columns):
            raise CorruptFileError(
                "schema and its history disagree on a column",
                where=f"{schema.full_name}, version {version.version}, column {column.name}",
                expected=ColumnRecord.of(column, ids.get(column.name, 0)),
                found=recorded or f"only {', '.join(ids)}",
                hint="restore the history of the schema from a backup: column ids must not be given twice",
            )
    columns = tuple(dataclasses.replace(c, id=ids[c.name]) for c in schema.columns)
    return dataclasses.replace(schema, columns=columns, version=version.version)


def _lost(layout: Layout, table: TableName) -> CorruptFileError:
    return CorruptFileError(
        f"the deployed schema of {table} is missing, although the table is here",
        where=layout.schema(table),
        expected=f"the schema, and {layout.schema_history(table).name} beside it",
        found="no file",
        hint="restore both from a copy; where the history is still there, starting the stream deploys its schema again",
    )


def _has_rows(fs: Fs, layout: Layout, table: TableName) -> bool:
    """Whether a stream or a merge of the table has left records."""
    return _logs(fs, layout.intraday(table)) or bool(fs.names(layout.merges(table)))


def _has_data(fs: Fs, layout: Layout, table: TableName) -> bool:
    """Whether a location may exist in either tree; stops at the first one."""
    intraday = layout.intraday(table)
    if any(fs.names(intraday / name) for name in fs.names(intraday) if not name.startswith(".")):
        return True
    return bool(fs.names(layout.merges(table))) or fs.stat(layout.metadata_index(table)) is not None


def _check_change(file: SchemaFile, name: str, current: Version, history: list[Version]) -> None:
    findings = Collector(name)
    elements = {e.attributes.get("name", ""): e for e in file.root.all("Column")}
    before = {c.name: c for c in current.columns}
    # versions after the deployed one never took effect: deploying them was cut short
    retired = {c.name for v in history if v.version <= current.version for c in v.columns} - set(before)

    def refuse(element: Element, expected: str, found: str, hint: str) -> None:
        findings.add("E161", element, expected=expected, found=found, hint=hint)

    for column in file.schema.columns:
        new = ColumnRecord.of(column, 0)
        element = elements.get(column.name, file.root)
        old = before.get(column.name)
        if old is None:
            if column.name in retired:
                hint = "choose another name: the files of the retired column are still there"
                refuse(element, "a name that was never used", f"{column.name}, a retired column", hint)
        elif "PARTITIONING" in (old.kind, new.kind) and old.kind != new.kind:
            hint = "make a new table: the directories are named by this column"
            refuse(element, f"{column.name} {old.kind}", new.kind, hint)
        elif old.identity != new.identity:
            refuse(element, _stored(old), _stored(new), "add a column of another name, or truncate the table first")
    gone = [c.name for c in current.columns if c.kind == "PARTITIONING" and c.name not in elements]
    if gone:
        refuse(file.root, f"{gone[0]} as Partitioning column", "none", "make a new table")
    findings.raise_errors()


def _stored(record: ColumnRecord) -> str:
    return f"{record.name}: {record.type}, stored as {record.storage}" + (
        f" in {record.encoding}" if record.encoding else ""
    )
