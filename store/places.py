"""Where a table, or one stream of it, is stored: file system, root and name, which travel as one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.read_only_roots import is_copy, require_writable
from sparkhaven.store.layout import Layout, LocationKey, TableName

REMEMBERED = 256  # tables or streams of which a path is made once only: each read asks for some thirty


class _TablePath:
    """A path of ``Layout``, of the table of a place."""

    def __init__(self, path: Callable[[Layout, TableName], Path]) -> None:
        self._path = lru_cache(maxsize=REMEMBERED)(path)

    def __get__(self, table_place: TablePlace, owner: object = None) -> Path:
        return self._path(table_place.layout, table_place.table)


class _StreamPath:
    """A path of ``Layout``, of the stream of a place."""

    def __init__(self, path: Callable[[Layout, TableName, str], Path]) -> None:
        self._path = lru_cache(maxsize=REMEMBERED)(path)

    def __get__(self, stream_place: StreamPlace, owner: object = None) -> Path:
        return self._path(stream_place.layout, stream_place.table, stream_place.stream)


@dataclass(frozen=True, slots=True)
class TablePlace:
    """A table below a database root; its paths are those of ``Layout``."""

    fs: Fs
    layout: Layout
    table: TableName

    schema = _TablePath(Layout.schema)
    schema_history = _TablePath(Layout.schema_history)
    intraday = _TablePath(Layout.intraday)
    set_aside = _TablePath(Layout.set_aside)
    streams = _TablePath(Layout.streams)
    metadata_index = _TablePath(Layout.metadata_index)
    extended = _TablePath(Layout.extended)
    merges = _TablePath(Layout.merges)
    drops = _TablePath(Layout.drops)
    user_definition = _TablePath(Layout.user_definition)
    user_first = _TablePath(Layout.user_first)
    user_lock = _TablePath(Layout.user_lock)
    user_locations = _TablePath(Layout.user_locations)
    user_partitions = _TablePath(Layout.user_partitions)
    splayed = _TablePath(Layout.splayed)

    @property
    def user_intraday(self) -> Path | None:
        """Intraday data of a user table; None where no directory is named."""
        return self.layout.user_intraday(self.table)

    @property
    def partitions(self) -> Path:
        """Where readers find the storage partitions of the namespace."""
        return self.layout.partitions(self.table.namespace)

    def intraday_location(self, key: LocationKey) -> Path:
        return self.layout.intraday_location(self.table, key)

    def history_location(self, key: LocationKey) -> Path:
        return self.layout.history_location(self.table, key)

    def user_location(self, key: LocationKey) -> Path:
        return self.layout.user_location(self.table, key)

    def of_stream(self, stream: str) -> StreamPlace:
        return StreamPlace(self.fs, self.layout, self.table, stream)


@dataclass(frozen=True, slots=True)
class StreamPlace(TablePlace):
    """One stream of a table; stands for its table too."""

    stream: str

    stream_log = _StreamPath(Layout.stream_log)
    stream_checkpoint = _StreamPath(Layout.stream_checkpoint)
    stream_head = _StreamPath(Layout.stream_head)
    stream_lock = _StreamPath(Layout.stream_lock)
    stream_removals = _StreamPath(Layout.stream_removals)
    stream_quarantine = _StreamPath(Layout.stream_quarantine)
    stream_failure = _StreamPath(Layout.stream_failure)
    stream_removed = _StreamPath(Layout.stream_removed)
    scratch = _StreamPath(Layout.scratch)
    spark_checkpoint = _StreamPath(Layout.spark_checkpoint)
    requeues = _StreamPath(Layout.requeues)


def followed_root(fs: Fs, root: Path) -> Path:
    """The root that is read: of a mirror, whose link is switched, the snapshot that it leads to now."""
    stat = fs.stat(root, follow=False)
    return fs.resolve(root) if stat is not None and stat.is_link and is_copy(root) else root


def writable_layout(root: Path) -> Layout:
    """The layout of a root that the caller is to write. Raises what ``require_writable`` raises."""
    require_writable(root)
    return Layout(root)
