"""What a Delta table holds at one version, and what it is: from its newest checkpoint and the versions after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sparkhaven.ingest.feeds.delta.errors import no_table, versions_gone
from sparkhaven.ingest.feeds.delta.log import (
    Actions,
    AddedFile,
    Metadata,
    Protocol,
    read_version,
    require_readable,
    require_whole,
    take,
)
from sparkhaven.ingest.values.refusals import unexpected
from sparkhaven.store.delta.log import LOG, Listing, damaged, list_log
from sparkhaven.store.io.fs import Fs

BATCH_ROWS = 4096
_ADD = ("path", "partitionValues", "size", "modificationTime", "deletionVector", "stats")
_KINDS: dict[str, tuple[str, ...]] = {
    "add": tuple(f"add.{name}" for name in _ADD),
    "metaData": ("metaData.id", "metaData.configuration", "metaData.schemaString"),
    "protocol": ("protocol.minReaderVersion", "protocol.readerFeatures"),
}
_REQUIRED = {"add": "path", "metaData": "id", "protocol": "minReaderVersion"}


@dataclass(frozen=True, slots=True)
class TableView:
    """A table as it is now: which versions there are, and its id and rules at the newest."""

    listing: Listing
    latest: int
    metadata: Metadata
    protocol: Protocol


def look(fs: Fs, table: Path) -> TableView:
    """The table now. FeedError where there is none, UnsupportedVersionError for one that we cannot read."""
    listing = list_log(fs, table)
    latest = listing.latest
    if latest is None:
        raise no_table(table)
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    for actions in _up_to(fs, table, listing, latest, ("metaData", "protocol")):
        metadata, protocol = actions.metadata or metadata, actions.protocol or protocol
    if metadata is None or protocol is None:
        raise damaged(table / LOG, "no metaData or no protocol")
    require_readable(table, metadata, protocol)
    return TableView(listing, latest, metadata, protocol)


def snapshot(fs: Fs, table: Path, version: int, listing: Listing | None = None) -> list[AddedFile]:
    """The files that a table has at a version, the oldest first, in the same order whenever it is asked.

    UnsupportedVersionError for a file with a deletion vector, PositionGapError if log retention has removed what it
    takes to tell.
    """
    files: dict[str, AddedFile] = {}
    for actions in _up_to(fs, table, listing or list_log(fs, table), version, ("add",)):
        for path in actions.removed:
            files.pop(path, None)
        files |= {file.path: file for file in (*actions.added, *actions.moved)}
    require_whole(files.values())
    return sorted(files.values(), key=lambda file: (file.time_ms, file.path))


def _up_to(fs: Fs, table: Path, listing: Listing, version: int, kinds: tuple[str, ...]) -> Iterator[Actions]:
    """The newest checkpoint at or before a version, and each version after it."""
    base = listing.checkpoint_before(version)
    for name in listing.checkpoints.get(base, ()):
        yield _checkpoint(fs, table, table / LOG / name, base, kinds)
    for number in range(base + 1, version + 1):
        actions = read_version(fs, table, number)
        if actions is None:
            left = min((later for later in listing.versions if later > number), default=None)
            raise versions_gone(table, number, left)
        yield actions


def _checkpoint(fs: Fs, table: Path, path: Path, version: int, kinds: tuple[str, ...]) -> Actions:
    actions = Actions(version)
    try:
        file = pq.ParquetFile(pa.BufferReader(fs.read(path)))
        names = set(file.schema_arrow.names)
        columns = [name for kind in kinds if kind in names for name in _KINDS[kind]]
        for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=columns, use_threads=False):
            for kind in kinds:
                if kind in batch.schema.names:
                    column = batch.column(kind)
                    for body in column.filter(column.is_valid()).to_pylist():
                        if body.get(_REQUIRED[kind]) is not None:
                            take(actions, table, kind, body)
    except Exception as error:
        if not isinstance(error, OSError):  # also what Arrow says of a damaged file
            unexpected(error)
        raise damaged(path, str(error).partition("\n")[0] or type(error).__name__) from error
    return actions
