"""The log of a Delta table as plain data: which versions there are, and what one of them says. Spark is not asked.

The part of Delta's transaction protocol that a reader of appended files needs. A version is one file of JSON lines,
an action each. ``add`` names a data file; with ``dataChange`` false it holds rows that were there before. ``remove``
with ``dataChange`` true takes rows away. ``metaData`` and ``protocol`` hold from their version on. Other actions are
of no meaning here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparkhaven.ingest.values.refusals import unexpected
from sparkhaven.store.delta.log import damaged, data_path, deleted_rows, parse_actions, require_features, version_file
from sparkhaven.store.errors import RetryableFeedError
from sparkhaven.store.io.fs import Fs


@dataclass(frozen=True, slots=True)
class AddedFile:
    """One data file: absolute path, bytes, modification time in ms, rows if the log counts them, partition values.

    A partition value is text as the protocol writes it; None is null. ``vector``: some of its rows are deleted by a
    deletion vector.
    """

    path: str
    size: int
    time_ms: int
    rows: int | None = None
    values: tuple[tuple[str, str | None], ...] = ()
    vector: bool = False


@dataclass(frozen=True, slots=True)
class Metadata:
    """Id of the table, its settings, and the names of its columns, each with its type where that is a simple one."""

    id: str
    configuration: Mapping[str, str]
    columns: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Protocol:
    """What a reader must be able to."""

    reader: int
    features: frozenset[str] = frozenset()


@dataclass(slots=True)
class Actions:
    """What a version says: ``added`` rows, ``moved`` files with rows that were there before, ``removed`` paths.

    ``changes`` is True where rows were removed or rewritten; ``operation`` is what did it, in Delta's words.
    """

    version: int
    added: list[AddedFile] = field(default_factory=list)
    moved: list[AddedFile] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    changes: bool = False
    operation: str = "an operation without a name"
    metadata: Metadata | None = None
    protocol: Protocol | None = None


def read_version(fs: Fs, table: Path, version: int) -> Actions | None:
    """What a version says; None if it has no file, CorruptFileError if that is damaged."""
    path = version_file(table, version)
    try:
        data = fs.read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RetryableFeedError(
            "the Delta log cannot be read", where=path, found=error, hint="check the disk and permissions"
        ) from error
    actions = Actions(version)
    for number, kind, body in parse_actions(path, data):
        try:
            take(actions, table, kind, body)
        except Exception as error:
            unexpected(error)
            words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise damaged(path, f"line {number}: {words}") from error
    return actions


def take(actions: Actions, table: Path, kind: str, body: Mapping[str, Any]) -> None:
    """Adds one action to what a version, or a checkpoint, says."""
    match kind:
        case "add":
            (actions.moved if body.get("dataChange") is False else actions.added).append(added(table, body))
        case "remove":
            actions.removed.add(str(data_path(table, body["path"])))
            actions.changes |= body.get("dataChange") is not False
        case "metaData":
            columns = json.loads(body.get("schemaString") or "{}").get("fields", ())
            types = {str(c["name"]): c["type"] if isinstance(c.get("type"), str) else None for c in columns}
            actions.metadata = Metadata(str(body["id"]), dict(body.get("configuration") or {}), types)
        case "protocol":
            actions.protocol = Protocol(
                int(body["minReaderVersion"]), frozenset(map(str, body.get("readerFeatures") or ()))
            )
        case "commitInfo":
            actions.operation = str(body.get("operation") or actions.operation)


def added(table: Path, body: Mapping[str, Any]) -> AddedFile:
    values = sorted(dict(body.get("partitionValues") or {}).items())
    return AddedFile(
        str(data_path(table, body["path"])),
        int(body["size"]),
        int(body["modificationTime"]),
        _rows_of(body.get("stats")),
        tuple((name, value or None) for name, value in values),  # an empty text is null too
        bool(body.get("deletionVector")),
    )


def _rows_of(stats: str | None) -> int | None:
    """The number of rows that the statistics of a file say, if they do."""
    try:
        rows = json.loads(stats or "{}").get("numRecords")
    except (ValueError, AttributeError):
        return None
    return rows if type(rows) is int and rows >= 0 else None


def require_whole(files: Iterable[AddedFile]) -> None:
    """UnsupportedVersionError if rows of a file are deleted by a vector: to read it would bring them back."""
    for file in files:
        if file.vector:
            raise deleted_rows(Path(file.path))


def require_readable(table: Path, metadata: Metadata, protocol: Protocol) -> None:
    """UnsupportedVersionError for a table that has to be read by rules that we do not have."""
    require_features(table, metadata.configuration, protocol.reader, protocol.features)
