"""The commit log (write-ahead log) of one stream, for its only writer.

Files in ``.streams``:

``<stream>.log``         frames of ``store.framing``, magic ``SHVLOG2``, number = epoch at which the log
                         begins, payloads of ``store.epochs.state.log_records``
``<stream>.checkpoint``  state at the rollback floor (``store.epochs.files.checkpoint``): that epoch, for a moment a
                         later one
``<stream>.head``        cache of the state at a recent record (``store.epochs.files.head``): may be missing, old or
                         torn
``<stream>.lock``        locked by the writer; JSON {pid, host, generation, since} of its owner
``<stream>.removals``    locations emptied by maintenance (``store.epochs.files.removals``)

*Writer.* ``StreamLog.open`` takes the lock, recovers, and replaces the log by a copy that ends in a new ``open``
record: a new inode, so that the writer of an older generation notices that it has lost the log, and no page of a failed
sync is trusted. ``commit`` appends one record and syncs it: the commit point. After a failed sync the content on disk
is unknown: every further call raises CommitUnknownError until the stream is opened again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import TracebackType

from sparkhaven.store.epochs.compaction import Shortening, new_floor
from sparkhaven.store.epochs.files.lock import commits_held
from sparkhaven.store.epochs.files.logfile import Lease
from sparkhaven.store.epochs.files.published_size import TABLE_DEFINITION, TABLE_SIZE, Unsynced, publish_location
from sparkhaven.store.epochs.files.removals import finish_removal, read_removals
from sparkhaven.store.epochs.generation import Generation, Opening, open_generation, take_over_generation
from sparkhaven.store.epochs.reading.log_reader import read_rolled_back_epochs
from sparkhaven.store.epochs.recovery.recover import apply
from sparkhaven.store.epochs.state.log_records import CommitRecord, SyncRecord, WithdrawRecord
from sparkhaven.store.epochs.state.log_values import Batch, LocationReport, LocationState
from sparkhaven.store.epochs.state.removed_locations import RemovalPhase
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.epochs.undo import Withdrawal, plan_rollback
from sparkhaven.store.errors import EpochConflictError, PositionGapError
from sparkhaven.store.io.fs import Lock
from sparkhaven.store.layout import LocationKey, check_partition
from sparkhaven.store.merges.merge_records import lock_table
from sparkhaven.store.places import StreamPlace


def require(state: StreamState, batch: Batch, log: Path) -> None:
    """EpochConflictError: a report or position does not continue from ``state``; nothing landed.

    PositionGapError: a file was taken with other content or is older than the horizon, or offsets do not continue at
    the committed end.
    """
    state.offsets.require_settled(log)
    resolution = state.classify(batch.splits, batch.gaps)
    if resolution.taken:
        raise _conflict("splits of this batch are already committed", resolution.taken[0].path, "new ones", "taken")
    if resolution.cut:
        proposed, rest = resolution.cut[0]
        raise _conflict("a part of this batch is already committed", proposed.path, rest.path, "all of it")
    if resolution.below:
        raise PositionGapError(
            "a file is older than the horizon of the stream",
            where=resolution.below[0].path,
            expected=f"modified at or after {state.horizon} ns",
            found=f"modified at {resolution.below[0].mtime_ns} ns",
            hint="give the file a new modification time",
        )
    seen = set()
    for report in batch.reports:
        if report.key in seen:
            raise _conflict("a location has two reports", report.key, "one", "two")
        seen.add(report.key)
        location = state.locations.get(report.key)
        _require_base(report, location)
        _require_growth(report, location)


def _require_base(report: LocationReport, location: LocationState | None) -> None:
    if location is not None and location.truncated:
        raise _conflict("the location was truncated", report.key, "no rows", f"rows up to {report.rows}")
    expected = (location.epoch, location.rows) if location else (0, 0)
    if (report.base_epoch, report.base_rows) != expected:
        raise _conflict(
            "a task appended to another state than the committed one",
            report.key,
            f"epoch {expected[0]} with {expected[1]} rows",
            f"epoch {report.base_epoch} with {report.base_rows} rows",
        )


def _require_growth(report: LocationReport, location: LocationState | None) -> None:
    check_partition("internal partition", report.key.internal)
    check_partition("partition value", report.key.value)
    if report.rows < report.base_rows:
        raise _conflict("a location shrinks", report.key, f"{report.base_rows} rows or more", report.rows)
    committed = location.files if location else {}
    for name, state in committed.items():
        size = report.files[name].size if name in report.files else None
        if size is None or size < state.size:
            raise _conflict(f"file {name} shrinks", report.key, f"{state.size} bytes or more", size)
    for name, state in report.files.items():
        unfit = "/" in name or "\0" in name or name in ("", TABLE_SIZE, TABLE_DEFINITION) or name.startswith(".")
        if unfit or state.size < 0 or not 0 <= state.crc < 2**32:
            raise _conflict("a report has an impossible file", report.key, "a column file", f"{name!r} {state}")


def _conflict(what: str, where: LocationKey | str, expected: object, found: object) -> EpochConflictError:
    return EpochConflictError(
        what,
        where=where if isinstance(where, str) else f"{where.internal}/{where.value}",
        expected=expected,
        found=found,
        hint="nothing was committed. The tails are truncated when the batch is retried",
    )


class StreamLog:
    """One open generation of a stream, by ``open`` or ``take_over``; not thread-safe. The driver has one per stream.

    ``state`` is live and belongs to the log; ``recovery`` reports what opening found and dropped. ``removals_end`` is
    the place up to which the state has applied removals; it grows with each removal.
    """

    def __init__(self, place: StreamPlace, *, opened: Generation, opening: Opening) -> None:
        self._place = place
        self._lock, self._guard, self._file = opened.lock, opened.guard, opened.file
        self._retention, self._now_ms = opening.retention, opening.now_ms
        self.state, self.recovery = opened.state, opened.recovery
        self._undone, self._damaged = opened.undone, opened.damaged
        self._short = Shortening(place, log=self._file, retention=self._retention)
        resumed = opened.resumed
        self._short.begin(resumed.checkpoint_bytes, resumed.head_end, resumed.head_bytes)
        self._unsynced = Unsynced(place)
        self.unfinished: OSError | None = None  # why files did not follow the last rollback or withdrawal
        self._pending: dict[int, list[LocationKey]] = {}
        self.removals_end, self._last_removal = resumed.removals_end, resumed.last_removal
        self._removals_seen: tuple[int, int] | None = None

    @classmethod
    def open(cls, place: StreamPlace, opening: Opening) -> StreamLog:
        """Opens the stream as a new generation and recovers it; ``recovery`` reports what was dropped.

        The steps and errors are those of ``open_generation``.
        """
        return cls(place, opened=open_generation(place, opening), opening=opening)

    @classmethod
    def take_over(cls, place: StreamPlace, lease: Lease, opening: Opening) -> StreamLog:
        """Continues a generation that another process has left with ``hand_over``; recovers nothing.

        Errors are those of ``take_over_generation``.
        """
        return cls(place, opened=take_over_generation(place, lease, opening), opening=opening)

    def __enter__(self) -> StreamLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def commit(self, batch: Batch) -> int:
        """Commits a batch as an epoch and returns its number; it is durable on return in mode ``fsync``.

        In mode ``fsync`` the files of the reports must be synced before. EpochConflictError, PositionGapError,
        LockLostError: nothing landed. CommitUnknownError: it may have landed; open the stream again to recover.
        """
        self._file.require_usable()
        with self._commit_lock():
            self.refresh()
            self._file.require_owned()
            for error in self._damaged.values():
                raise error
            require(self.state, batch, self._place.stream_log)
            max_age_ns = int(self._retention.max_file_age_s * 1e9)
            horizon = self.state.files.next_horizon(batch.files, self._now_ms() * 1_000_000, max_age_ns)
            stamped = batch if batch.time_ms else replace(batch, time_ms=self._now_ms())
            state = self.state
            record = CommitRecord(state.n + 1, state.epoch + 1, state.generation, stamped, horizon)
            self._file.append(record, sync=self._retention.policy.syncs_each_batch)
            state.apply(record)
            state.note(record)
        self._short.touched += len(batch.reports)
        self._pending[record.epoch] = [report.key for report in batch.reports]
        if not self._retention.policy.syncs_each_batch:
            self._unsynced.note(batch.reports)
        return record.epoch

    def last_digest(self) -> str:
        """SHA-256, in hex, of the last record that this process appended: positions, lengths, checksums of an epoch."""
        return sha256(self._file.appended).hexdigest()

    def publish(self, epoch: int | None = None) -> int:
        """Replaces ``table.size`` of what epochs up to ``epoch`` (None: all) changed; the number of locations."""
        self._file.require_usable()
        epochs = [pending for pending in self._pending if epoch is None or pending <= epoch]
        keys = dict.fromkeys(key for pending in epochs for key in self._pending[pending])
        with self._commit_lock():
            self._file.require_owned()
            self.refresh()  # a location that was removed since its commit stays so
            for key in keys:
                location = self.state.locations.get(key)
                if location is not None and not location.truncated:
                    publish_location(self._place, location)
        for pending in epochs:
            del self._pending[pending]
        return len(keys)

    def refresh(self) -> None:
        """Applies removals recorded since; a commit does so itself. Costs one stat."""
        stat = self._place.fs.stat(self._place.stream_removals)
        seen = (stat.inode, stat.size) if stat else None
        if seen != self._removals_seen:
            removals = read_removals(self._place, self.removals_end)
            for _, removal in removals.entries:
                self.state.remove(removal)
                if removal.phase == RemovalPhase.DELETE:
                    self._unsynced.forget(removal.key)
            self.removals_end = removals.end
            self._last_removal = removals.last if removals.last[1] else self._last_removal
            self._removals_seen = seen

    def sync_now(self) -> int:
        """Makes every epoch durable (modes ``periodic`` and ``none``) and returns the newest durable epoch."""
        self._file.require_usable()
        state = self.state
        if state.durable < state.epoch:
            self._file.require_owned()
            self.refresh()  # deleted files need no sync
            with self._file.unknown_on_failure("data could not be synced"), self._place.fs.during("data-sync"):
                self._unsynced.sync(self._place.fs, self._guard)
                self._place.fs.sync([self._place.stream_log])  # before the record that says so
            record = SyncRecord(state.n + 1, state.epoch, state.generation, self._now_ms())
            self._file.append(record, sync=True)
            state.note(record)
        return state.durable

    def compact_if_due(self, *, now: bool = False) -> bool:
        """Moves the rollback floor up if the log has grown enough (``now``: whenever possible); True if it did.

        A large compaction takes several calls, each with about twice the work of the batches since the last one;
        ``now`` does all of it. Otherwise replaces the head if the log has grown enough. EpochConflictError: there is no
        space; the log is unchanged.
        """
        self._file.require_usable()
        short = self._short
        if not short.running and (now or short.is_due(self.state)):
            floor = new_floor(self.state, self._undone, self._retention.keep_epochs)
            if floor is not None:
                self._start_compaction(floor)
        if not short.running:
            short.touched = 0
            if self._fold_removals() or short.head.is_due(self._file.length + self.removals_end):
                self.write_head()
            return False
        if not short.step(whole=now):
            return False
        self._finish_compaction()
        return True

    def _start_compaction(self, floor: int) -> None:
        self.sync_now()
        with self._commit_lock() as commit_lock:  # their writer may have died before its sync
            self._short.keep_removals(commit_lock)
            self.refresh()
        self._short.start(floor, self._undone, self.removals_end)

    def _finish_compaction(self) -> None:
        with self._commit_lock():
            self._file.require_owned()
            done = self._short.finish(self.state, (self.removals_end, self._last_removal))
            self.state.floor, self._undone = done.floor, done.undone

    @property
    def compacting(self) -> bool:
        """Whether a compaction has begun and needs further calls; ``close`` abandons it."""
        return self._short.running

    def _fold_removals(self) -> bool:
        """Folds the removals if they have grown enough; then a new head with their last record is due."""
        if not self._short.fold_is_due():
            return False
        with self._commit_lock() as commit_lock:
            self._file.require_owned()
            self.refresh()
            last = self._short.fold(commit_lock)
        self._last_removal = last or self._last_removal
        return last is not None

    def write_head(self) -> bool:
        """Writes the newest state to the head, which spares reading earlier records; False if it cannot be written."""
        self._file.require_usable()
        with self._commit_lock():
            self._file.require_owned()
            removals = self.removals_end, self._last_removal
            return self._short.head.write(self.state, self._undone, self._file, removals)

    def rollback(self, to: int, *, reason: str = "asked for") -> int:
        """Commits the state of the kept epoch ``to``, positions included, as a new epoch; returns its number.

        Files are shortened by copies with new inodes, so a reader that has mapped them keeps its rows. Rolling back to
        the current epoch does nothing. TableNotFoundError: that epoch is not kept. TableExistsError: history has rows
        that would be removed. LockLostError: a merge or removal is running.
        """
        self.sync_now()
        self.publish()
        with lock_table(self._place):
            return self._rollback(to, reason)

    def _rollback(self, to: int, reason: str) -> int:
        self._short.stop()
        with self._commit_lock():
            self.refresh()
            self._file.require_owned()
            place, now, damaged = self._place, self._now_ms(), self._damaged
            rollback = plan_rollback(place, self.state, to, time_ms=now, reason=reason, damaged=damaged)
            if rollback is None:
                return to
            self._file.append(rollback.record, sync=True)
            self.state = rollback.state
            self._undone = read_rolled_back_epochs(place)
            self._pending.clear()
            with self._after_commit(), place.fs.during("rollback-files"):
                apply(place, rollback.plan)
            self._damaged.clear()
        return rollback.record.epoch

    def withdraw(self, plan: Callable[[], Withdrawal]) -> int:
        """Commits as an epoch that rows are withdrawn, and publishes their locations; returns its number.

        ``plan`` is called under the locks of the table and of commits: what it reads is what the record is of. It
        raises where rows cannot be withdrawn; nothing is changed then. Where there are none, no epoch is made.
        LockLostError: a merge or removal is running.
        """
        self.sync_now()
        self.publish()
        with lock_table(self._place), self._commit_lock():
            self.refresh()
            self._file.require_owned()
            for error in self._damaged.values():
                raise error
            what, state = plan(), self.state
            if not what.locations:  # another process has come before
                return state.epoch
            numbers = state.n + 1, state.epoch + 1, state.generation, self._now_ms()
            record = WithdrawRecord(*numbers, what.undoes, what.reason, what.locations)
            self._file.append(record, sync=True)
            state.apply(record)
            state.note(record)
            with self._after_commit(), self._place.fs.during("withdraw-publish"):
                for part in record.locations:
                    publish_location(self._place, state.locations[part.key])
        return record.epoch

    @contextmanager
    def _after_commit(self) -> Iterator[None]:
        """The commit stands, whatever becomes of the body: the next start of the stream does it again.

        An error of the system is left in ``unfinished``, and this log takes no further call.
        """
        try:
            yield
        except OSError as error:
            self._file.poison("files could not follow the log", error)
            self.unfinished = error

    def reopen(self, key: LocationKey) -> bool:
        """Finishes the removal of a truncated location, so that rows make a new one under its key.

        False where no merge record says that history has its rows; it stays truncated then.
        """
        self._file.require_usable()
        with self._commit_lock() as commit_lock:
            self.refresh()
            self._file.require_owned()
            location = self.state.locations.get(key)
            if location is None or not location.truncated:
                return True
            place, now = self._place, self._now_ms()
            done = finish_removal(place, self.state, location, now_ms=now, commit_lock=commit_lock)
            self.refresh()
        return done

    def close(self) -> None:
        """Syncs what is not durable yet and releases the stream; idempotent."""
        if self._lock.held:
            try:
                self._short.stop()
                if not self._file.poisoned:
                    self.sync_now()
            finally:
                self.abandon()

    def abandon(self) -> None:
        """Releases the lock without writing to the log; the next start recovers what was not closed."""
        if self._guard is not None:
            self._guard.close()
        self._lock.release()

    def hand_over(self) -> Lease:
        """Closes the stream so that another process can continue this generation; all epochs are durable then."""
        with self._place.fs.during("hand-over"):
            self.sync_now()
            lease = self._file.lease(self.state.generation)
            self.close()
        return lease

    def _commit_lock(self) -> Lock:
        """The commit lock: fences off maintenance and older generations between a check and the change after it."""
        return commits_held(self._place.fs, self._place.stream_removals)
