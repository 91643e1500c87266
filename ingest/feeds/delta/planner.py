"""Which files of a Delta table come next, from a position and the log of the table. No Spark.

Versions are read ahead, each once, in order; what was read waits in a queue. Before a version is read it is proven
that the table is still the one whose last version was read: a table that is recreated has versions of the same
numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from sparkhaven.ingest.content.raw_file import SMALL_BATCH
from sparkhaven.ingest.feeds.delta.versions import (
    AddedFile,
    Mark,
    TableView,
    changes_of,
    ends_before,
    look,
    mark_of,
    recreated,
    require_same,
    rewritten,
    snapshot,
    versions_gone,
)
from sparkhaven.ingest.spec import FILE_META, FILES, Limit, MissingColumns, Traits
from sparkhaven.store.delta.log import list_log, require_readable
from sparkhaven.store.delta.snapshot import delta_columns
from sparkhaven.store.epochs.state.log_values import TABLE, LastMessage, OffsetRange, packed, unpacked
from sparkhaven.store.epochs.state.offsets import OffsetEnd
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs

READ_AHEAD = 10_000  # files that wait in memory; the snapshot of a start is held whole
RowBytes = Callable[[AddedFile], float]


@dataclass(frozen=True, slots=True)
class DeltaOptions:
    """A Delta table at ``path``, an absolute directory, followed by version.

    ``start_version`` None: what the table holds first, then what later versions add; else what is added from that
    version on. ``ignore_changes``: of a version that removes or rewrites rows, take the files that it adds; rows that
    it copied from files taken before then come twice. ``missing_columns``: a stored column that neither a file nor
    the table declares is refused, or null. ``binary_as_text`` takes columns of bytes for texts.
    """

    traits: ClassVar[Traits] = Traits("delta", OffsetRange, FILES, FILE_META, ("file",))

    path: str
    start_version: int | None = None
    max_per_trigger: Limit = field(default_factory=Limit)
    ignore_changes: bool = False
    missing_columns: MissingColumns = "fail"
    binary_as_text: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    position: int
    file: AddedFile


@dataclass(frozen=True, slots=True)
class Planned:
    """A batch: from a position to another, with the files between them."""

    start: int
    stop: int
    entries: tuple[Entry, ...]

    @property
    def bytes(self) -> int:
        return sum(entry.file.size for entry in self.entries)


class DeltaPlanner:
    """Follows one table. ``end`` is that of the commit log, None before the first epoch."""

    def __init__(self, fs: Fs, feed: DeltaOptions, end: OffsetEnd | None, row_bytes: RowBytes | None = None) -> None:
        self._fs, self._feed, self._table = fs, feed, Path(feed.path)
        self._row_bytes = row_bytes
        self._queue: deque[Entry] = deque()
        self._last: int | None = None  # the last version to read, once that is settled
        self._mark: Mark | None = None
        self.table_id = end.topic_id if end is not None else ""
        view = self._view()
        self.table_id = view.id
        self._next = 0  # the next version to read
        if end is None:
            self._begin(view)
        else:
            self.position = end.stop
            self._go_on(view, end.last)
        self._mark = mark_of(self._fs, self._table, self._next - 1) if self._next else None

    def _begin(self, view: TableView) -> None:
        version = self._feed.start_version
        if version is None:
            self._from_snapshot(view, view.latest, 0)
            return
        if version > view.latest + 1:
            raise SettingsError(
                "the Delta table has no such version yet",
                where="feed.start_version",
                expected=f"at most {view.latest + 1}, which is the next one",
                found=version,
                hint="without start_version the stream begins with what the table holds",
            )
        self.position, self._next = packed(version), version
        self._require_there(view)

    def _go_on(self, view: TableView, last: LastMessage | None) -> None:
        position = unpacked(self.position)
        if position.version > view.latest + (0 if position.snapshot or position.file else 1):
            raise ends_before(self._table, position.version, view.latest)
        require_same(self._fs, self._table, position, last)
        if position.snapshot:
            self._from_snapshot(view, position.version, position.file)
            return
        self._next = position.version
        self._require_there(view)
        if position.file:
            self._read_ahead(single=True)
            while self._queue and self._queue[0].position < self.position:
                self._queue.popleft()

    def _from_snapshot(self, view: TableView, version: int, first: int) -> None:
        files = snapshot(self._fs, self._table, version, view.listing)
        self.position = packed(version, first, snapshot=True)
        self._queue.extend(_entries(version, files, snapshot=True)[first:])
        self._next = version + 1

    def _require_there(self, view: TableView) -> None:
        if self._next <= view.latest and self._next not in view.listing.versions:
            raise versions_gone(self._table, self._next, view.listing.first_after(self._next))

    def _view(self) -> TableView:
        view = look(self._fs, self._table)
        if self.table_id and view.id != self.table_id:
            raise recreated(self._table, self.table_id, view.id)
        return view

    def look(self) -> None:
        """Reads versions that are new. Raises the errors of ``ingest.feeds.delta.versions``."""
        if self._mark is not None and mark_of(self._fs, self._table, self._next - 1) != self._mark:
            view = self._view()  # the last version's file is gone or another one: by retention, or with the table
            if view.latest < self._next - 1:
                raise ends_before(self._table, self._next, view.latest)
            self._require_there(view)
            self._mark = mark_of(self._fs, self._table, self._next - 1)
        self._read_ahead()

    def freeze(self) -> None:
        """From now on only the versions that are there now."""
        self.look()
        self._last = self._view().latest

    def _read_ahead(self, *, single: bool = False) -> None:
        while len(self._queue) < READ_AHEAD and (self._last is None or self._next <= self._last):
            changes = changes_of(self._fs, self._table, self._next)
            if changes is None:
                return
            if changes.metadata is not None:
                if changes.metadata["id"] != self.table_id:
                    raise recreated(self._table, self.table_id, changes.metadata["id"])
                delta_columns(self._table, changes.metadata)
            if changes.protocol is not None:
                require_readable(self._table, changes.protocol)
            if changes.changes and not self._feed.ignore_changes:
                raise rewritten(self._table, changes.version, changes.operation)
            self._queue.extend(_entries(changes.version, changes.added))
            self._mark = mark_of(self._fs, self._table, self._next)
            self._next += 1
            if single:
                return

    def plan(self, limit: Limit) -> Planned | None:
        """The next batch, which is no longer waiting then; None when nothing is new. At least one file is taken.

        Versions that add nothing are passed over by a batch, of their own if there are no files: so the position never
        waits in a version that log retention may remove.
        """
        taken: list[Entry] = []
        left_bytes, left_rows = limit.bytes, limit.rows
        while self._queue and (limit.files is None or len(taken) < limit.files):
            file = self._queue[0].file
            rows = self._rows(file) if left_rows is not None else 0
            over = (left_bytes is not None and file.size > left_bytes) or (left_rows is not None and rows > left_rows)
            if taken and over:
                break
            taken.append(self._queue.popleft())
            left_bytes = None if left_bytes is None else left_bytes - file.size
            left_rows = None if left_rows is None else left_rows - rows
        start, self.position = self.position, self._queue[0].position if self._queue else packed(self._next)
        if self.position == start:
            return None
        return Planned(start, self.position, tuple(taken))

    def _rows(self, file: AddedFile) -> int:
        if file.rows is not None:
            return file.rows
        return max(1, round(file.size / self._row_bytes(file))) if self._row_bytes else 1

    def waiting(self) -> tuple[int, int]:
        """Files and bytes that are known and not planned yet; of a long backlog the next ``READ_AHEAD`` files."""
        return len(self._queue), sum(entry.file.size for entry in self._queue)


def share_out(batch: Planned, table_id: str, tasks: int, small: int = SMALL_BATCH) -> list[OffsetRange]:
    """At most ``tasks`` ranges that follow each other, about even in bytes; one if the files are small together."""
    total = batch.bytes
    starts = [batch.start]
    done = size = 0
    for entry in batch.entries if tasks > 1 and total > small else ():
        if size and len(starts) < tasks and done + entry.file.size / 2 > total * len(starts) / tasks:
            starts.append(entry.position)
            size = 0
        size += entry.file.size
        done += entry.file.size
    stops = [*starts[1:], batch.stop]
    return [OffsetRange(TABLE, 0, start, stop, table_id) for start, stop in zip(starts, stops, strict=True)]


def _entries(version: int, files: Sequence[AddedFile], *, snapshot: bool = False) -> list[Entry]:
    return [Entry(packed(version, number, snapshot=snapshot), file) for number, file in enumerate(files)]


def entries_of(
    fs: Fs, feed: DeltaOptions, start: int, stop: int, snapshot_of: Callable[[int], Sequence[AddedFile]]
) -> list[Entry]:
    """The files between two positions, read from the log once more; PositionGapError if the log no longer has them.

    ``snapshot_of`` gives the files of a version's snapshot.
    """
    table, begin, end = Path(feed.path), unpacked(start), unpacked(stop)
    entries: list[Entry] = []
    version = begin.version
    if begin.snapshot:
        entries += _entries(version, snapshot_of(version), snapshot=True)
        version += 1
    while version < end.version or (version == end.version and end.file and not end.snapshot):
        changes = changes_of(fs, table, version)
        if changes is None:
            raise versions_gone(table, version, min(list_log(fs, table).versions, default=None))
        entries += _entries(version, changes.added)
        version += 1
    return [entry for entry in entries if start <= entry.position < stop]
