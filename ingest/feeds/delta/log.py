"""The log of a Delta table as plain data: which versions there are, and what one of them says. Spark is not asked.

The part of Delta's transaction protocol that a reader of appended files needs. A version is one file of JSON lines,
an action each. ``add`` names a data file; with ``dataChange`` false it holds rows that were there before. ``remove``
with ``dataChange`` true takes rows away. ``metaData`` and ``protocol`` hold from their version on. Other actions are
of no meaning here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ingest.feeds.delta.errors import damaged, unreadable
from store.errors import RetryableFeedError
from store.io.fs import Fs
from store.io.local_path import file_of_url
from store.types.frozen import frozen

LOG = "_delta_log"
READ_FEATURES = frozenset(  # of readers; those that change nothing for us, or are looked at where they are used
    {
        "columnMapping",  # by the metadata's mode
        "deletionVectors",  # by each file
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "vacuumProtocolCheck",
    }
)
_VERSION = re.compile(r"(\d{20})\.json\Z")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet\Z")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_ROWS = re.compile(r'"numRecords"\s*:\s*(\d+)')


@frozen
class Added:
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


@frozen
class Metadata:
    """Id of the table, its settings, and the names of its columns; ``instants``: those of type timestamp."""

    id: str
    configuration: Mapping[str, str]
    columns: frozenset[str] = frozenset()
    instants: frozenset[str] = frozenset()


@frozen
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
    added: list[Added] = field(default_factory=list)
    moved: list[Added] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    changes: bool = False
    operation: str = "an operation without a name"
    metadata: Metadata | None = None
    protocol: Protocol | None = None


@frozen
class Listing:
    """Versions with a file of their own, and checkpoints that are complete: version -> names of their files."""

    versions: frozenset[int]
    checkpoints: Mapping[int, tuple[str, ...]]

    @property
    def latest(self) -> int | None:
        """The newest version; None where there is no table."""
        return max((*self.versions, *self.checkpoints), default=None)


def list_log(fs: Fs, table: Path) -> Listing:
    """What lies in the log of a table."""
    versions: set[int] = set()
    parts: dict[tuple[int, int], list[str]] = {}
    for name in fs.names(table / LOG):
        if match := _VERSION.match(name):
            versions.add(int(match[1]))
        elif match := _CHECKPOINT.match(name):
            parts.setdefault((int(match[1]), int(match[3] or 1)), []).append(name)
    complete = {version: tuple(sorted(names)) for (version, count), names in parts.items() if len(names) == count}
    return Listing(frozenset(versions), complete)


def version_file(table: Path, version: int) -> Path:
    """The file of a version."""
    return table / LOG / f"{version:020d}.json"


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
    found = Actions(version)
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            action = json.loads(line)
            for kind, body in action.items():
                take(found, table, kind, body)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise damaged(path, f"line {number}: {error or type(error).__name__}") from error
    return found


def take(found: Actions, table: Path, kind: str, body: Mapping[str, Any]) -> None:
    """Adds one action to what a version, or a checkpoint, says."""
    match kind:
        case "add":
            (found.moved if body.get("dataChange") is False else found.added).append(added(table, body))
        case "remove":
            found.removed.add(str(data_path(table, body["path"])))
            found.changes |= body.get("dataChange") is not False
        case "metaData":
            fields = json.loads(body.get("schemaString") or "{}").get("fields", ())
            columns = frozenset(field["name"] for field in fields)
            instants = frozenset(field["name"] for field in fields if field.get("type") == "timestamp")
            found.metadata = Metadata(body["id"], dict(body.get("configuration") or {}), columns, instants)
        case "protocol":
            found.protocol = Protocol(body["minReaderVersion"], frozenset(body.get("readerFeatures") or ()))
        case "commitInfo":
            found.operation = str(body.get("operation") or found.operation)


def added(table: Path, body: Mapping[str, Any]) -> Added:
    """The data file of an ``add``."""
    rows = _ROWS.search(body.get("stats") or "")
    values = sorted(dict(body.get("partitionValues") or {}).items())
    return Added(
        str(data_path(table, body["path"])),
        int(body["size"]),
        int(body["modificationTime"]),
        int(rows[1]) if rows else None,
        tuple((name, value or None) for name, value in values),  # an empty text is null too
        bool(body.get("deletionVector")),
    )


def data_path(table: Path, text: str) -> Path:
    """Where a data file is: a path in the table, or a URI, both with percent signs for special characters."""
    scheme = _SCHEME.match(text)
    if scheme is None:
        return table / unquote(text)
    if scheme[1] != "file":
        raise unreadable(table, f"a data file at {text}", "only tables whose files are on a mounted disk can be read")
    return Path(file_of_url(text))


def require_whole(files: Iterable[Added]) -> None:
    """UnsupportedVersionError if rows of a file are deleted by a vector: to read it would bring them back."""
    for file in files:
        if file.vector:
            raise unreadable(
                Path(file.path),
                "a data file with a deletion vector",
                "run REORG TABLE ... APPLY (PURGE) on the table, and set delta.enableDeletionVectors = false",
            )


def require_readable(table: Path, metadata: Metadata, protocol: Protocol) -> None:
    """UnsupportedVersionError for a table that has to be read by rules that we do not have."""
    mode = metadata.configuration.get("delta.columnMapping.mode", "none")
    if mode != "none":
        raise unreadable(
            table,
            f"column mapping by {mode}",
            "copy the rows into a table without it (CREATE TABLE ... AS SELECT) and follow that one",
        )
    unknown = sorted(protocol.features - READ_FEATURES)
    if unknown or protocol.reader > 3:
        what = f"reader feature {', '.join(unknown)}" if unknown else f"reader version {protocol.reader}"
        raise unreadable(table, what, "ALTER TABLE ... DROP FEATURE, or let another job copy the rows into a table")
