"""Deployed schemas: the copy of a ``.schema`` file that a database root is read and written with.

``Schemas/<NS>.<Table>.schema`` holds the bytes of the newest version, ``<NS>.<Table>.history.json`` every version
with the ids that its columns were given (``store.schema.deployed.history``).

Deploying runs in this order, so that a stop between any two steps leaves the old version or the new one:

1. take the lock of the directory; read the deployed version
2. compare: another storage of existing data is refused (E161), and without consent all but additions
   (``store.schema.deployed.schema_changes``)
3. replace the history, which then names the new version and the SHA-256 of its bytes
4. replace the schema file: from here on the new version is the deployed one

A reader looks up the version by the SHA-256 of the schema file, so it does not matter which of the two it saw first.

Also here: what this release can store of a schema, and what a table may be called; the locks around a deployment
(of the schemas, and of running streams, which write by the version before); whether rows may still be written by a
schema that was deployed a moment ago; and the ``table.tbl`` of each version, put together from the history.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from sparkhaven.store.errors import (
    CorruptFileError,
    InvalidNameError,
    LockLostError,
    SchemaChangeError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedVersionError,
)
from sparkhaven.store.format.table.tbl import encode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import INTERNAL_NAMESPACE, Layout, TableName
from sparkhaven.store.merges.dropped_tables import doomed, drop_path, dropped_tables, is_doomed, refuse_doomed
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.history import (
    ColumnVersion,
    Version,
    decode_history,
    encode_history,
    kept_text,
    last_renames,
    numbered,
    recorded_schema,
)
from sparkhaven.store.schema.deployed.schema_changes import (
    ADDITIONS,
    Consent,
    SchemaChange,
    compare,
    dropped_ids,
    ids,
    refusal,
    refuse_conflicts,
    refused_by,
    renamed_back,
    require_sensible,
    require_unambiguous,
    same_meaning,
)
from sparkhaven.store.schema.document.schema_file import SchemaFile, load_schema, parse_schema
from sparkhaven.store.types.model import Column, Kind, TableSchema
from sparkhaven.store.user_tables import list_user_tables


def check_supported(file: SchemaFile) -> None:
    """UnsupportedVersionError for a schema whose rows no stream could store."""
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
            hint="make the others Normal. Their values would not be stored",
        )


def refuse_table_twin(place: TablePlace) -> None:
    """InvalidNameError for a new table whose name differs in case only from that of a deployed or user table."""
    table = place.table
    tables = (*deployed_tables(place.fs, place.layout), *list_user_tables(place.fs, place.layout))
    twin = next((other for other in tables if str(other).lower() == str(table).lower() and other != table), None)
    if twin is not None:
        raise InvalidNameError(
            f"the names {table} and {twin} differ in case only",
            where=table,
            expected="a name that differs from those of the other tables by more than case",
            found=twin,
            hint=f"write {twin} if that table is meant, else choose another name. SQL and many file systems ignore"
            " case",
        )


_TRIES, _PAUSE_S = 250, 0.02


@contextmanager
def locked_schemas(fs: Fs, layout: Layout, pause: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Holds the lock of the deployed schemas; LockLostError: another process has it for too long."""
    for _ in range(_TRIES):
        lock = fs.lock(layout.schemas())
        if lock is not None:
            with lock:
                yield
            return
        pause(_PAUSE_S)
    raise LockLostError(
        "another process holds the schema lock for too long",
        where=layout.schemas(),
        expected=f"the lock within {_TRIES * _PAUSE_S:.0f} s",
        hint="look for a stopped process that has the directory open, then try again",
    )


def running_streams(place: TablePlace) -> list[str]:
    """Streams of a table that a process has open now, sorted."""
    running = []
    for name in sorted(place.fs.names(place.streams)):
        stream, dot, suffix = name.rpartition(".")
        if dot and suffix == "lock":
            lock = place.fs.lock(place.of_stream(stream).stream_lock, make=False)
            if lock is None:
                running.append(stream)
            else:
                lock.release()
    return running


REMEMBERED = 64  # deployed schemas


def deploy(
    fs: Fs,
    layout: Layout,
    source: Path | bytes,
    *,
    consent: Consent = ADDITIONS,
    pause: Callable[[float], None] = time.sleep,
) -> TableSchema:
    """Makes a schema the deployed one of its table and returns it with version and column ids.

    Without ``consent`` it may add, nothing else. A file that means the same as the deployed one is not written then.
    Raises SchemaParseError for a schema with errors and, as E161, for one that would change how existing data are
    stored; SchemaChangeError for a change without consent; LockLostError when another process holds the lock;
    TableExistsError while files of a dropped table of that name are there, or a user table has it.
    """
    return deployment(fs, layout, source, consent=consent, pause=pause).schema


@dataclass(frozen=True, slots=True)
class Deployment:
    """What a deployment did, or would do: ``version`` is that of the schema after it, ``before`` the one until then."""

    schema: TableSchema
    change: SchemaChange
    before: int | None

    @property
    def written(self) -> bool:
        """Whether the deployed file has changed."""
        return self.before != self.schema.version


def deployment(
    fs: Fs,
    layout: Layout,
    source: Path | bytes,
    *,
    consent: Consent = ADDITIONS,
    dry_run: bool = False,
    pause: Callable[[float], None] = time.sleep,
) -> Deployment:
    """Deploys as ``deploy`` and returns what has changed; with ``dry_run`` nothing is written, the errors are equal."""
    source_file = parse_schema(source, "") if isinstance(source, bytes) else load_schema(fs, source)
    file = source_file.materialised()
    check_supported(file)
    table = TableName(file.schema.namespace, file.schema.name)
    refuse_doomed(TablePlace(fs, layout, table))
    name = source_file.name or str(layout.schema(table))
    history = _deployed(TablePlace(fs, layout, table))
    if history and history[-1].sha256 == sha256(file.to_bytes()).hexdigest() and consent == ADDITIONS:
        if not dry_run:
            fs.sync_dirs([layout.schemas()])  # who deployed it may have died before its own sync
        return Deployment(numbered(file.schema, history), SchemaChange(), history[-1].version)
    if dry_run:
        return _next(fs, layout, file, name, consent)[0]
    fs.keep_dirs(layout.schemas(), layout.root)
    with locked_schemas(fs, layout, pause):
        planned, history = _next(fs, layout, file, name, consent)
        if planned.written:
            with fs.during("schema-history"):
                fs.replace(layout.schema_history(table), encode_history(history))
            with fs.during("schema-file"):
                fs.replace(layout.schema(table), file.to_bytes())
        return planned


def _next(fs: Fs, layout: Layout, file: SchemaFile, name: str, consent: Consent) -> tuple[Deployment, list[Version]]:
    """The deployment of a file, and the history after it. Raises what ``deploy`` raises."""
    table, content = TableName(file.schema.namespace, file.schema.name), file.to_bytes()
    place = TablePlace(fs, layout, table)
    history = _deployed(place)  # without later ones, whose deployment was cut short
    before = history[-1].version if history else None
    data_exist = _has_data(place)
    stored = data_exist or _has_rows(place)
    if not history and stored:  # the schema file was lost: the columns of the data keep their ids
        history = load_history(place)
        if not history and _has_rows(place):
            raise _lost(place)
    if not history:
        refuse_table_twin(place)
        if fs.stat(place.user_definition) is not None:
            raise TableExistsError(
                f"{table} is a user table",
                where=place.user_definition,
                expected="a name that is free",
                found="a user table",
                hint="choose another name. Of two tables of one name neither can be read",
            )
    require_unambiguous(consent, name)
    if history and history[-1].sha256 == sha256(content).hexdigest():  # the same file again, as after a kill
        left = tuple(pair for pair in consent.rename if pair not in last_renames(history))
        consent = replace(consent, rename=left)
    change, rename = SchemaChange(added=tuple(column.name for column in file.schema.columns)), dict(consent.rename)
    numbers = {column.name: number for number, column in enumerate(file.schema.columns)}
    if history:
        deployed = _schema_of(fs, layout, file.schema, history, before)
        rename |= renamed_back(file.schema, history, consent)
        change = compare(file.schema, deployed, history, rename)
        consent = replace(consent, rename=tuple(rename.items()))
        require_sensible(change, consent, history, name)
        running = running_streams(place) if stored and not data_exist else []
        if data_exist or running:
            refuse_conflicts(file, name, deployed, history, rename, running)
        if stored and not (refused := refused_by(change, consent, history)).additive:
            raise refusal(deployed, name, place.schema, history, change, refused)
        standing = before is not None and (not consent.changes or sha256(content).hexdigest() == history[-1].sha256)
        if standing and not dropped_ids(change, consent, history) and same_meaning(file.schema, deployed, change):
            return Deployment(deployed, change, before), history
        widening = data_exist or bool(running)
        numbers = ids(file.schema, history, rename, returning=stored, widening=widening, restore=consent.restore)
    columns = tuple(ColumnVersion.of(column, numbers[column.name]) for column in file.schema.columns)
    dropped = dropped_ids(change, consent, history)
    version = Version(len(history) + 1, sha256(content).hexdigest(), columns, dropped, kept_text(content))
    history = [*history, version]
    return Deployment(numbered(file.schema, history), change, before), history


def _schema_of(
    fs: Fs, layout: Layout, schema: TableSchema, history: Sequence[Version], standing: int | None
) -> TableSchema:
    """The schema that is deployed, or was before its file was lost; ``schema`` replaces it."""
    table = TableName(schema.namespace, schema.name)
    if standing is not None:
        return numbered(load_schema(fs, layout.schema(table), deployed=True).schema, history)
    text = history[-1].text
    if text is not None:
        return numbered(parse_schema(text.encode(), "", deployed=True).schema, history)
    # only its columns are known: nothing else can be compared
    columns = [
        replace(new, name=old.name, type=old.type, kind=old.kind, storage=old.storage, encoding=old.encoding, id=old.id)
        if (new := schema.column(old.name)) is not None
        else old
        for old in recorded_schema(table, history[-1]).columns
    ]
    return replace(schema, columns=tuple(columns), version=history[-1].version)


def load_deployed(place: TablePlace) -> TableSchema:
    """The deployed schema of a table with its version and column ids.

    Raises TableNotFoundError when none is deployed, SchemaMismatchError when the file was changed by hand,
    CorruptFileError when it, or its history, is damaged or lost. The last few are remembered by the bytes of both
    files: each opening of a table asks.
    """
    files = _files(place)
    schema = _remembered.get(files)
    if schema is None:
        schema, alone = _loaded(place)
        if alone and _files(place) == files:
            if len(_remembered) >= REMEMBERED:
                _remembered.clear()
            _remembered[files] = schema
    return schema


_Files = tuple[Path, bytes | None, bytes | None]
_remembered: dict[_Files, TableSchema] = {}


def _files(place: TablePlace) -> _Files:
    """The path of a deployed schema, its bytes, and those of its history; None for a file that is not there."""
    return place.schema, _bytes(place.fs, place.schema), _bytes(place.fs, place.schema_history)


def _bytes(fs: Fs, path: Path) -> bytes | None:
    try:
        return fs.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _loaded(place: TablePlace) -> tuple[TableSchema, bool]:
    """The deployed schema, and whether no other file than the two has a part in it."""
    history = _deployed(place)
    if not history and (drop := doomed(place)) is not None:
        raise TableNotFoundError(
            f"table {place.table} was dropped",
            where=drop_path(place, drop.number),
            expected="a table that was not dropped",
            found=drop.reason,
            hint=f"`sparkhaven drop {place.table} --yes` removes what is left. A snapshot may have a copy",
        )
    if not history and _has_rows(place):  # without rows a first deployment may have stopped half way
        raise _lost(place)
    if not history and place.fs.stat(place.user_definition) is not None:
        raise TableNotFoundError(
            f"{place.table} is a user table, whose rows are saved as a whole",
            where=place.user_definition,
            expected="a table that streams or merges write",
            found="a user table",
            hint=f"`sparkhaven read {place.table}` and sql show it. save_table replaces its rows, or adds to them",
        )
    if not history:
        raise TableNotFoundError(
            f"table {place.table} has no deployed schema",
            where=place.schema,
            expected="a schema that a stream or a user deployed",
            found="no file",
            hint="start a stream of the table, or check the root. `sparkhaven tables` lists what is there",
        )
    file = load_schema(place.fs, place.schema, deployed=True)
    return numbered(file.schema, history), file.origin is None


def standing_tables(fs: Fs, layout: Layout) -> list[TableName]:
    """Every table of which there is a schema, its history, a commit log or a merge record, sorted.

    Other names are ignored, and tables that were dropped.
    """
    names = {n for n in fs.names(layout.schemas()) if n[0] != "."}
    table_names = {n.removesuffix(end) for n in names for end in (".schema", ".history.json") if n.endswith(end)}
    intraday, systems = layout.root / "Intraday", layout.root / "Systems"
    for space in fs.names(intraday):
        table_names |= {f"{space}.{name}" for name in fs.names(intraday / space) if _logs(fs, intraday / space / name)}
    for space in fs.names(systems):
        merges = [n[1:].removesuffix(".merges") for n in fs.names(systems / space / "MetadataIndex") if _is_merges(n)]
        table_names |= {f"{space}.{name}" for name in merges}
    tables = set()
    for name in table_names:
        with suppress(InvalidNameError):
            tables.add(TableName.parse(name))
    gone = {table for table in dropped_tables(fs, layout) if is_doomed(TablePlace(fs, layout, table))}
    return sorted(tables - gone)


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


def _deployed(place: TablePlace) -> list[Version]:
    """The history up to the version whose bytes the deployed file has; empty without a file."""
    path = place.schema
    if place.fs.stat(path) is None:
        return []
    # the history is read second: it is written first, so it knows every file that can be there
    digest = sha256(place.fs.read(path)).hexdigest()
    history = load_history(place)
    matching = [v.version for v in history if v.sha256 == digest]
    if not history:
        raise CorruptFileError(
            f"the history of the schema of {place.table} is missing",
            where=place.schema_history,
            expected="every deployed version with its column ids",
            found="no version",
            hint="restore the file from a copy. Column ids must not be given twice",
        )
    if not matching:
        raise SchemaMismatchError(
            f"the deployed schema of {place.table} is not the one that was deployed",
            where=path,
            expected=f"a version of {place.schema_history.name}",
            found=f"other bytes, SHA-256 {digest[:16]}…",
            hint="put the deployed file back, then deploy the change through a stream",
        )
    return history[: matching[-1]]


def load_history(place: TablePlace) -> list[Version]:
    """Every version that was deployed, oldest first; none without the file, CorruptFileError where it is damaged."""
    path = place.schema_history
    return [] if place.fs.stat(path) is None else decode_history(place.fs.read(path), path)


def _lost(place: TablePlace) -> CorruptFileError:
    return CorruptFileError(
        f"the deployed schema of {place.table} is missing, although the table is here",
        where=place.schema,
        expected=f"the schema, and {place.schema_history.name} beside it",
        found="no file",
        hint="restore both from a copy. Where the history is still there, starting the stream deploys its schema again",
    )


def _has_rows(place: TablePlace) -> bool:
    """Whether a stream or a merge of the table has left records."""
    return _logs(place.fs, place.intraday) or bool(place.fs.names(place.merges))


def _has_data(place: TablePlace) -> bool:
    """Whether a location may exist in either tree; stops at the first one."""
    intraday = place.intraday
    if any(place.fs.names(intraday / name) for name in place.fs.names(intraday) if not name.startswith(".")):
        return True
    return bool(place.fs.names(place.merges)) or place.fs.stat(place.metadata_index) is not None


def require_writable(fs: Fs, layout: Layout, schema: TableSchema) -> None:
    """SchemaChangeError: a version that cannot read rows of ``schema`` was deployed since; no row was written.

    To be called with the lock of the stream held, or of the table for an import: from then on no such version is
    deployed. A version that adds, drops, renames or widens columns is none.
    """
    table = TableName(schema.namespace, schema.name)
    with locked_schemas(fs, layout):
        deployed = load_deployed(TablePlace(fs, layout, table))
    if deployed.version == schema.version:
        return
    names = {column.id: column.name for column in schema.columns}
    retired = (c for c in deployed.retired if c.id in deployed.dropped or deployed.column(names.get(c.id, "")) is None)
    columns = {column.id: column for column in (*deployed.columns, *retired)}
    lost = [column.name for column in schema.columns if not _readable(column, columns.get(column.id))]
    if lost:
        raise SchemaChangeError(
            f"version {deployed.version} of the schema was deployed meanwhile, and has other columns of these names",
            where=layout.schema(table),
            expected=f"the columns of version {schema.version}",
            found=", ".join(lost),
            hint="start again, with that schema",
            table=schema.full_name,
        )


def _readable(column: Column, deployed: Column | None) -> bool:
    """Whether the deployed column finds the values that are written by ``column``."""
    if deployed is None:
        return False
    kinds = {column.kind.name, deployed.kind.name}
    own, declared = ColumnVersion.of(column, 0), ColumnVersion.of(deployed, 0)
    return (own.stored == declared.stored or own.widens_to(declared)) and (
        "PARTITIONING" not in kinds or len(kinds) == 1
    )


def definitions(place: TablePlace) -> Mapping[int, bytes]:
    """The content of ``table.tbl`` by schema version; raises what ``load_deployed`` raises."""
    deployed = load_deployed(place)
    contents = {v.version: encode_tbl(recorded_schema(place.table, v)) for v in load_history(place)}
    return contents | {deployed.version: encode_tbl(deployed)}
