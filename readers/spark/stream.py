"""A table as a stream: each epoch's rows once, in the order of the epochs of each writing stream.

The offset is the vector of epochs up to which rows were read: writing stream -> epoch. ``{}`` is before everything;
the first batch from there is the whole snapshot, history included. From then on a batch is what the following epochs
have appended to intraday, so a merge changes nothing. A writing stream that appears later is read from its beginning.

What the epochs of a writing stream have added is known by the commit records above its floor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sparkhaven.readers.arrow.opening import pinned_table
from sparkhaven.readers.arrow.pinned_table import PinnedTable, filter_of
from sparkhaven.readers.spark.batch import ReadTask, make_tasks, read_columns, read_task, shown_columns, where_of
from sparkhaven.readers.spark.options import Epochs, ReadOptions
from sparkhaven.readers.spark.releases import message_first
from sparkhaven.readers.spark.source_api import (
    DataSourceStreamReader,
    InputPartition,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from sparkhaven.readers.spark.spark_types import require_exact
from sparkhaven.store.epochs.pins import Pin
from sparkhaven.store.epochs.reading.log_reader import LogFiles, read_files
from sparkhaven.store.epochs.reading.stream_state import list_streams
from sparkhaven.store.epochs.state.log_records import CommitRecord, EpochRecord, WithdrawRecord
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.replay import chain
from sparkhaven.store.errors import SettingsError, SnapshotMovedError, as_storage_errors, near
from sparkhaven.store.framing import refuse_damage
from sparkhaven.store.io.fs import Fs, Stat
from sparkhaven.store.layout import Layout, LocationKey, TableName, stream_of
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.scan.checksums import checks_of
from sparkhaven.store.scan.narrowing import kept_slices
from sparkhaven.store.scan.ranges import intraday_slice
from sparkhaven.store.scan.selection import Selection, is_well_formed, refuse_ambiguous_source, refuse_malformed
from sparkhaven.store.scan.slices import NamesOfNow, Slice


class EpochReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Plans batches of epochs in one process; workers get the tasks, and of the reader what those need."""

    def __init__(self, table: PinnedTable, options: ReadOptions, fs: Fs | None = None) -> None:
        self._options, self._schema = options, table.schema
        self._columns = shown_columns(table, options)
        self._where = where_of(options, table.schema)
        self._place = TablePlace(fs or Fs(), Layout(options.root), TableName.parse(options.name))
        self._changes: dict[str, tuple[tuple[Stat | None, ...], EpochChanges]] = {}
        self._target: Epochs | None = None

    def __getstate__(self) -> dict[str, object]:
        return {name: vars(self)[name] for name in ("_options", "_columns", "_where")}

    @message_first()
    def initialOffset(self) -> Epochs:
        """Where a query without a checkpoint begins."""
        start = self._options.start
        with as_storage_errors():
            if isinstance(start, str):
                return {} if start == "earliest" else self._newest()
            for stream, epoch in start.items():
                if stream not in (streams := list_streams(self._place)):
                    raise SettingsError(
                        f"{self._place.table} has no stream {stream!r}",
                        where="option start",
                        expected=near(stream, streams),
                        found=repr(stream),
                    )
                self._changes_of(stream).after(epoch)
            return start

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of rows, if there is one; that of epochs always holds."""
        return ReadMaxRows(self._options.max_rows) if self._options.max_rows else ReadAllAvailable()

    @message_first()
    def latestOffset(self, start: Epochs, limit: ReadLimit) -> Epochs:
        """The end of the next batch: at least one epoch, at most as many rows and epochs as the limits say."""
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_rows
        with as_storage_errors():
            if not start:
                return self._target if self._target is not None else self._newest()
            steps = sorted(self._waiting(start), key=lambda pair: (pair[1].time_ms, pair[0], pair[1].epoch))
            end, rows_taken = dict(start), 0
            for number, (stream, step) in enumerate(steps):
                rows_taken += step.rows
                if number and ((rows and rows_taken > rows) or number == self._options.max_epochs):
                    break
                end[stream] = step.epoch
            return end

    @message_first()
    def reportLatestOffset(self) -> Epochs:
        with as_storage_errors():
            return self._newest()

    @message_first()
    def prepareForTriggerAvailableNow(self) -> None:
        """What is there now is what the query reads before it ends."""
        with as_storage_errors():
            self._target = self._newest()

    @message_first()
    def partitions(self, start: Epochs, end: Epochs) -> Sequence[ReadTask]:
        """The tasks of a batch. SnapshotMovedError: its rows were rolled back, or removed, before they were read."""
        options = self._options
        with as_storage_errors():
            table = self._pinned(end)
            if not start:
                plan = table.plan(dates=options.dates, sources=options.sources, where=self._where, tier=options.tier)
                slices: Sequence[Slice] = plan.slices
            else:
                self._refuse_withdrawn(table, start, end)
                added = self._added(table, start, end)
                slices = kept_slices(self._schema, added, filter_of(self._where, self._schema.readable))
            require_exact(slices, self._columns, options)
            opened = read_columns(self._schema, self._columns, self._where)
            return make_tasks(table, slices, opened, options.task_bytes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(partition, self._columns, self._where, self._options)

    def commit(self, end: Epochs) -> None:
        """Nothing is held for a batch."""

    def stop(self) -> None:
        """Nothing is open."""

    def _newest(self) -> Epochs:
        names = list_streams(self._place)
        return {stream: self._changes_of(stream).newest for stream in names}

    def _waiting(self, start: Epochs) -> Iterator[tuple[str, Step]]:
        """The epochs after an offset; those below the floor of a stream that appeared since as one."""
        for stream in list_streams(self._place):
            changes = self._changes_of(stream)
            until = None if self._target is None else self._target.get(stream, 0)
            if stream not in start and changes.floor:
                yield stream, Step(changes.floor, 0, 0)
            for step in changes.after(start.get(stream, changes.floor)):
                if until is None or step.epoch <= until:
                    yield stream, step

    def _changes_of(self, stream: str) -> EpochChanges:
        """Read again only if log or checkpoint have changed."""
        place = self._place.of_stream(stream)
        stats = place.fs.stat(place.stream_log), place.fs.stat(place.stream_checkpoint)
        if stream not in self._changes or self._changes[stream][0] != stats:
            self._changes[stream] = stats, EpochChanges.of(place)
        return self._changes[stream][1]

    def _pinned(self, end: Epochs) -> PinnedTable:
        place = self._place
        pins = [Pin.of(place.of_stream(stream), epoch=end.get(stream)) for stream in list_streams(place)]
        checks = checks_of(self._options.checksum_verify)
        skip = self._options.skip_set_aside
        return pinned_table(place, self._schema, pins, checks, skip_set_aside=skip, seen=end)

    def _added(self, table: PinnedTable, start: Epochs, end: Epochs) -> Iterator[Slice]:
        """Slices of the rows that came between two offsets, in the order of the plan of a batch query."""
        selection = Selection.of(self._options.dates, self._options.sources)
        states = {state.stream: state for state in table.snapshot.streams}
        compared = bool(selection.sources) or not all(map(is_well_formed, selection.values or ()))  # with the table's
        names = NamesOfNow(self._schema)
        keys = [key for state in states.values() for key in state.locations] if compared else []
        for source in selection.sources or ():
            refuse_ambiguous_source(self._place.table, source, {key.internal for key in keys})
        refuse_malformed(selection.values or (), {key.value for key in keys}, new=True)  # a date may still come
        for stream in sorted(end):
            after, until = start.get(stream, 0), end[stream]
            if after == until:
                continue
            changes = self._changes_of(stream)
            locations = states[stream].locations
            for key, added in sorted(_all_added(changes, stream in start, after, until, locations)):
                loc, since = locations.get(key), added.since
                if loc is None or loc.truncated or (loc.since != since if since is not None else loc.since > after):
                    raise changes.left_unread(key, after, until)
                if selection.takes_value(key.value) and selection.takes_source(key.internal):
                    path = self._place.layout.intraday_path(self._place.table, key)
                    slice_ = intraday_slice(path, stream, loc, added.start, added.stop, names)
                    if slice_ is not None:
                        yield slice_

    def _refuse_withdrawn(self, table: PinnedTable, start: Epochs, end: Epochs) -> None:
        """SnapshotMovedError: an epoch of the batch has withdrawn rows that an earlier batch has given out."""
        if self._options.skip_withdrawn:
            return
        for stream in sorted(start):
            after, until = start[stream], end.get(stream, start[stream])
            if after == until:
                continue
            changes = self._changes_of(stream)
            records = changes.withdrawn(after, until)
            added = changes.added(after, until) if records else {}
            for record in records:
                for part in record.locations:
                    new = added.get(part.key)
                    first = None if new is None else 0 if new.since is not None else new.start
                    given = part.rows.rows if first is None else part.rows.within(0, first).rows
                    if given:
                        raise changes.withdrawn_since(record, part.key, given)


def _all_added(
    changes: EpochChanges, has_begun: bool, after: int, until: int, locations: Mapping[LocationKey, LocationState]
) -> list[tuple[LocationKey, AddedRows]]:
    """What the epochs between have added; of a writing stream that appeared since, all that it has."""
    if has_begun:
        return list(changes.added(after, until).items())
    return [(key, AddedRows(loc.since, 0, loc.rows)) for key, loc in locations.items() if loc.rows or loc.truncated]


@dataclass(frozen=True, slots=True)
class Step:
    """One epoch that was not rolled back: its number, the rows that it added, and its time (ms)."""

    epoch: int
    rows: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class AddedRows:
    """Rows ``[start, stop)`` of a location. ``since``: the epoch that created it; None: one that was read before."""

    since: int | None
    start: int
    stop: int


class EpochChanges:
    def __init__(self, files: LogFiles) -> None:
        self._files = files
        table, stream = stream_of(files.path)
        listed = f"`sparkhaven epochs list {table} {stream}`"
        self._anew = f"start with a new checkpoint, at `earliest`, `latest` or a kept epoch ({listed})"
        self._records = chain(files.records, files.epoch, None, files.path)
        self.floor = files.epoch
        self.steps = tuple(
            Step(r.epoch, r.batch.rows, r.batch.time_ms) if isinstance(r, CommitRecord) else Step(r.epoch, 0, r.time_ms)
            for r in self._records
            if isinstance(r, EpochRecord)
        )

    @classmethod
    def of(cls, place: StreamPlace) -> EpochChanges:
        """Reads log and checkpoint; CorruptFileError if the log is damaged."""
        files = read_files(place)
        refuse_damage(files.found, files.path)
        return cls(files)

    @property
    def newest(self) -> int:
        return self.steps[-1].epoch if self.steps else self.floor

    def after(self, epoch: int) -> tuple[Step, ...]:
        """The epochs that follow one. SnapshotMovedError: it is not kept, was rolled back, or does not exist."""
        if epoch == self.floor:
            return self.steps
        for index, step in enumerate(self.steps):
            if step.epoch == epoch:
                return self.steps[index + 1 :]
        raise self._not_kept(epoch)

    def added(self, after: int, until: int) -> dict[LocationKey, AddedRows]:
        """The rows that the epochs after one, up to another, have added to each location.

        SnapshotMovedError: one of both is not kept or was rolled back; or a location was removed and created again in
        between, so that its first rows are gone.
        """
        wanted = {step.epoch for step in self.after(after)} - {step.epoch for step in self.after(until)}
        rows: dict[LocationKey, AddedRows] = {}
        for record in self._records:
            if not isinstance(record, CommitRecord) or record.epoch not in wanted:
                continue
            full = self._files.full(record)
            for report in full.batch.reports if isinstance(full, CommitRecord) else ():
                before = rows.get(report.key)
                if report.base_epoch == 0:
                    if before is not None:
                        raise self.left_unread(report.key, after, until)
                    rows[report.key] = AddedRows(record.epoch, 0, report.rows)
                else:
                    since, start = (before.since, before.start) if before else (None, report.base_rows)
                    rows[report.key] = AddedRows(since, start, report.rows)
        return rows

    def withdrawn(self, after: int, until: int) -> tuple[WithdrawRecord, ...]:
        """The records after one epoch, up to another, that have withdrawn rows. Raises what ``added`` raises."""
        wanted = {step.epoch for step in self.after(after)} - {step.epoch for step in self.after(until)}
        return tuple(r for r in self._records if isinstance(r, WithdrawRecord) and r.epoch in wanted)

    def withdrawn_since(self, record: WithdrawRecord, key: LocationKey, rows: int) -> SnapshotMovedError:
        """The error for rows that were withdrawn after they were read."""
        undone = f"epoch {record.epoch} undoes epoch {', '.join(map(str, record.undoes))}" if record.undoes else ""
        return SnapshotMovedError(
            "rows that this stream has read were withdrawn since",
            where=self._files.path,
            expected=f"the {rows} rows of {key.internal}/{key.value} that were read before",
            found=undone or f"epoch {record.epoch} withdraws them ({record.reason})",
            hint="remove the rows from what was derived from them, then go on with the option skipWithdrawn=true, which"
            f" passes over epochs that withdraw rows. Or {self._anew}",
        )

    def left_unread(self, key: LocationKey, after: int, until: int) -> SnapshotMovedError:
        """The error for rows that were removed from intraday before they were read."""
        return SnapshotMovedError(
            "rows were removed from intraday before this stream read them",
            where=self._files.path,
            expected=f"the rows that epochs {after + 1} to {until} added to {key.internal}/{key.value}",
            found="another location, or none",
            hint=f"merged rows are in history. Read the date {key.value} with spark.read, then {self._anew}",
        )

    def _not_kept(self, epoch: int) -> SnapshotMovedError:
        if epoch < self.floor:
            what = "the epoch up to which the stream was read is no longer kept"
            hint = f"{self._anew}. The writing stream keeps `keep_epochs` epochs"
        elif epoch > self.newest:
            what = "the epoch up to which the stream was read is not in its log"
            hint = f"if the log was restored from an older copy, restore it from a newer one. Else {self._anew}"
        else:
            what = "epochs that were read have been rolled back"
            hint = f"remove their rows from what was derived from them, then {self._anew}"
        return SnapshotMovedError(
            what,
            where=self._files.path,
            expected=f"an epoch from {self.floor} to {self.newest}",
            found=epoch,
            hint=hint,
        )
