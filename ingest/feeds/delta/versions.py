"""What the versions of a Delta table say: which files they add, and what a table is now. Spark is not asked.

``add`` names a data file; with ``dataChange`` false it holds rows that were there before. ``remove`` with
``dataChange`` true takes rows away. A version that removes a file and adds it with another deletion vector adds no
file: it deletes rows, or (RESTORE) brings them back. ``metaData`` and ``protocol`` hold from their version on.

Also here: what can be wrong between a table and our position in it, one error for each case.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

from sparkhaven.store.delta.log import Body, Listing, data_path, list_log, version_file
from sparkhaven.store.delta.snapshot import (
    DeltaColumns,
    FileKey,
    actions_up_to,
    delta_columns,
    file_key,
    read_version,
    require_table,
    version_bytes,
)
from sparkhaven.store.delta.vectors import Vector, vector_of
from sparkhaven.store.epochs.state.log_values import LastMessage, VersionPosition
from sparkhaven.store.epochs.state.resume_rules import ROLL_BACK
from sparkhaven.store.errors import FeedError, PositionGapError, SparkhavenError
from sparkhaven.store.io.fs import Fs

_AGAIN = "read it as a new stream (another name), with start_version if rows are in the table already"


def no_table(path: Path) -> SparkhavenError:
    """There is no log, or an empty one."""
    return FeedError(
        "there is no Delta table",
        where=path,
        expected="a directory with a _delta_log in it",
        found="no version of a table",
        hint="correct feed.path, or write the table first",
    )


def recreated(path: Path, our_id: str, their_id: str) -> SparkhavenError:
    return PositionGapError(
        "the Delta table was recreated, or the path is of another table. Its id changed",
        where=path,
        expected=f"table id {our_id}",
        found=f"table id {their_id}",
        hint=f"{_AGAIN}. Its versions have other rows now",
    )


def versions_gone(path: Path, wanted: int, first: int | None) -> SparkhavenError:
    """Log retention has removed versions that were not read."""
    left = "no version" if first is None else f"the first version that is left is {first}"
    return PositionGapError(
        "versions of the Delta table were removed before they were read. Log retention has passed the committed"
        " position",
        where=path,
        expected=f"version {wanted}",
        found=left,
        hint=f"bring the log's files back from a copy, or {_AGAIN}. Raise delta.logRetentionDuration",
    )


def ends_before(path: Path, wanted: int, latest: int) -> SparkhavenError:
    """The table has fewer versions than were read."""
    return PositionGapError(
        "the Delta table ends before the committed position. It has lost versions whose rows are in the table",
        where=path,
        expected=f"version {wanted - 1} or later",
        found=f"version {latest} as the last",
        hint=f"was it restored from a backup? {ROLL_BACK} at or before that version, or read it as a new stream",
    )


def version_replaced(path: Path, last: LastMessage, theirs: LastMessage) -> SparkhavenError:
    """The table has another version where one was read: it was put back to an older copy and has grown past it."""
    return PositionGapError(
        f"the Delta table has another version {last.offset} than the one that was read. It was put back to an older"
        " copy, and has new versions since",
        where=path,
        expected=f"version {last.offset} with CRC-32 {last.crc:08x} of its file",
        found=f"CRC-32 {theirs.crc:08x}",
        hint="our table has rows that the Delta table has lost, and lacks others that it has now."
        f" {ROLL_BACK} before the two parted, or read it as a new stream",
    )


def file_gone(path: Path, version: int) -> SparkhavenError:
    return PositionGapError(
        "a data file of the Delta table was removed before it was read",
        where=path,
        expected=f"the file that version {version} has",
        found="nothing",
        hint="was it rewritten, and VACUUM run? Bring the file back from a copy, or read the table as a new stream",
    )


def rewritten(path: Path, version: int, operation: str) -> SparkhavenError:
    """A version removes rows."""
    return FeedError(
        f"version {version} of the Delta table removes or rewrites rows ({operation})",
        where=f"{path}, version {version}",
        expected="a version that only adds files",
        found=operation,
        hint="set ignore_changes = true in [feed] to take the files that such versions add. Removed rows stay in the"
        " table then, and copied rows come twice. Or read the table as a new stream after this version",
    )


_FILES = {
    "add": ("path", "partitionValues", "size", "modificationTime", "deletionVector", "stats"),
    "remove": ("path", "deletionVector"),
}
_RULES = {
    "metaData": ("id", "configuration", "schemaString"),
    "protocol": ("minReaderVersion", "readerFeatures"),
}


Mark = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class AddedFile:
    """One data file: absolute path, bytes, modification time in ms, rows if the log counts them, partition values.

    A partition value is text as the protocol writes it, under the name that the log has; None is null. ``vector``: some
    of its rows are deleted. ``before``: the vector that it had, where only the rows count that come back.
    """

    path: str
    size: int
    time_ms: int
    rows: int | None = None
    values: tuple[tuple[str, str | None], ...] = ()
    vector: Vector | None = None
    before: Vector | None = None


@dataclass(slots=True)
class Changes:
    """What a version says: ``added`` are files with new rows, in order.

    ``changes`` is True where rows were removed or rewritten; ``operation`` is what did it, in Delta's words.
    """

    version: int
    added: list[AddedFile] = field(default_factory=list)
    changes: bool = False
    operation: str = "an operation without a name"
    metadata: Body | None = None
    protocol: Body | None = None


@dataclass(frozen=True, slots=True)
class TableView:
    """A table as it is now: which versions there are, and its id, columns and rules at the newest.

    ``mark`` tells the file of the newest version from another one of its name; None: it has none.
    """

    listing: Listing
    latest: int
    columns: DeltaColumns
    metadata: Body
    protocol: Body
    mark: Mark | None

    @property
    def id(self) -> str:
        return str(self.metadata["id"])


def mark_of(fs: Fs, table: Path, version: int) -> Mark | None:
    """Size, time and inode of the file of a version; None: it has none."""
    stat = fs.stat(version_file(table, version))
    return None if stat is None else (stat.size, stat.mtime_ns, stat.inode)


def changes_of(fs: Fs, table: Path, version: int) -> Changes | None:
    """What a version says; None if it has no file, CorruptFileError if that is damaged."""
    actions = read_version(fs, table, version)
    if actions is None:
        return None
    changes = Changes(version)
    removed = {data_path(table, body["path"]): vector_of(table, body) for kind, body in actions if kind == "remove"}
    for kind, body in actions:
        match kind:
            case "add" if body.get("dataChange") is not False:
                file = _added(table, body)
                if file.path not in removed:
                    changes.added.append(file)
                elif (before := removed[file.path]) is not None:  # without one no row can come back
                    changes.added.append(_added(table, body, before))
            case "remove":
                changes.changes |= body.get("dataChange") is not False
            case "metaData":
                changes.metadata = body
            case "protocol":
                changes.protocol = body
            case "commitInfo":
                changes.operation = str(body.get("operation") or changes.operation)
    return changes


def last_version(fs: Fs, table: Path, end: VersionPosition) -> LastMessage | None:
    """The last version that was read up to a position, by the bytes of its file; None: there is no such file now."""
    version = end.version if end.snapshot or end.file else end.version - 1
    data = version_bytes(fs, table, version) if version >= 0 else None
    return None if data is None else LastMessage(version, -1, -1, crc32(data))


def require_same(fs: Fs, table: Path, end: VersionPosition, last: LastMessage | None) -> None:
    """PositionGapError where the last version that was read is another one now; one that is gone is not compared."""
    theirs = None if last is None else last_version(fs, table, end)
    if last is not None and theirs is not None and not last.same(theirs):
        raise version_replaced(table, last, theirs)


def _added(table: Path, body: Body, before: Vector | None = None) -> AddedFile:
    values = sorted(dict(body.get("partitionValues") or {}).items())
    return AddedFile(
        data_path(table, body["path"]),
        body["size"],
        body["modificationTime"],
        _rows_of(body.get("stats")),
        tuple((name, None if text is None else str(text) or None) for name, text in values),  # an empty text is null
        vector_of(table, body),
        before,
    )


def _rows_of(stats: object) -> int | None:
    """The number of rows that the statistics of a file say, if they do."""
    try:
        rows = json.loads(stats if isinstance(stats, str) else "{}").get("numRecords")
    except (ValueError, AttributeError, RecursionError):
        return None
    return rows if type(rows) is int and rows >= 0 else None


def look(fs: Fs, table: Path, seen: TableView | None = None) -> TableView:
    """The table now. FeedError where there is none, UnsupportedVersionError for one that we cannot read.

    Of a table that was ``seen`` before only later versions are read.
    """
    listing = list_log(fs, table)
    latest = listing.latest
    if latest is None:
        raise no_table(table)
    metadata: Body | None = None
    protocol: Body | None = None
    mark = mark_of(fs, table, latest)  # before its version is read
    if seen is None or not _goes_on(fs, table, seen, listing):
        actions = actions_up_to(fs, table, listing, latest, _RULES, versions_gone)
    else:
        metadata, protocol = seen.metadata, seen.protocol
        later = range(seen.latest + 1, latest + 1)
        actions = (action for version in later for action in read_version(fs, table, version, tuple(_RULES)) or ())
    for kind, body in actions:
        if kind == "metaData":
            metadata = body
        else:
            protocol = body
    metadata, protocol = require_table(table, metadata, protocol)
    same = seen is not None and seen.metadata is metadata
    columns = seen.columns if seen is not None and same else delta_columns(table, metadata)
    return TableView(listing, latest, columns, metadata, protocol, mark)


def _goes_on(fs: Fs, table: Path, seen: TableView, listing: Listing) -> bool:
    """Whether the table is still the one that was seen, with all versions since."""
    later = range(seen.latest + 1, (listing.latest or 0) + 1)
    there = all(version in listing.versions for version in later)
    return there and seen.mark is not None and mark_of(fs, table, seen.latest) == seen.mark


def snapshot(fs: Fs, table: Path, version: int, listing: Listing | None = None) -> list[AddedFile]:
    """The files that a table has at a version, the oldest first, in the same order whenever it is asked.

    PositionGapError if log retention has removed what it takes to tell.
    """
    files: dict[FileKey, AddedFile] = {}
    for kind, body in actions_up_to(fs, table, listing or list_log(fs, table), version, _FILES, versions_gone):
        if kind == "add":
            files[file_key(table, body)] = _added(table, body)
        else:
            files.pop(file_key(table, body), None)
    return sorted(files.values(), key=lambda file: (file.time_ms, file.path))
