"""Opens a stream as a new generation: takes its locks, recovers it, and begins its log with an ``open`` record.

A process that cannot live until its commit leaves the generation by a lease, with which another one takes it over. In
between nobody holds the lock: who opens the stream then begins a later generation, and the lease is void.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from sparkhaven.store.epochs.files.lock import take_commit_lock, take_leased_lock, take_lock, write_owner
from sparkhaven.store.epochs.files.logfile import Lease, LogFile
from sparkhaven.store.epochs.files.removals import interrupted_removals, record_removals
from sparkhaven.store.epochs.files.stream_notes import read_removed
from sparkhaven.store.epochs.recovery.recover import (
    RecoveryReport,
    apply,
    lost_beyond,
    plan_recovery,
    remove_temporaries,
)
from sparkhaven.store.epochs.recovery.removed_stream import begin_anew, remove_empty
from sparkhaven.store.epochs.recovery.resume import Resumed, resume
from sparkhaven.store.epochs.recovery.set_aside import list_set_aside
from sparkhaven.store.epochs.state.commit_policy import DEFAULTS, Retention
from sparkhaven.store.epochs.state.log_records import OpenRecord, RollbackRecord, encode, schema_columns
from sparkhaven.store.epochs.state.replay import RolledBackEpochs, StreamState
from sparkhaven.store.epochs.state.resume_rules import PartitionRule, rule_changed
from sparkhaven.store.errors import CorruptFileError, refused
from sparkhaven.store.framing import frame
from sparkhaven.store.gc_pause import gc_paused
from sparkhaven.store.io.fs import Lock, SyncGuard
from sparkhaven.store.io.read_only_roots import require_writable
from sparkhaven.store.layout import LocationKey, check_stream
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.types.model import TableSchema

WENT_DOWN = "the machine went down before the records of these epochs were synced"
REMOVED = "these epochs are of a stream of this name that was removed"


@dataclass(frozen=True, slots=True)
class Opening:
    """Who opens a stream, when and how. ``pid`` and ``host``: default: this process.

    ``schema`` and ``rule`` None: maintenance, which keeps those of the log. ``accept_rule``: the rule may be another
    one than that of the log.
    ``leave_damaged``: locations with missing or short files are left as they are; then only a rollback is possible.
    """

    schema: TableSchema | None
    query_id: str
    clock: Callable[[], float]
    pid: int = field(default_factory=os.getpid)
    host: str = field(default_factory=socket.gethostname)
    retention: Retention = DEFAULTS
    rule: PartitionRule | None = None
    accept_rule: bool = False
    leave_damaged: bool = False

    def now_ms(self) -> int:
        return int(self.clock() * 1000)


@dataclass(frozen=True, slots=True)
class Generation:
    """An open generation: its lock, its log file, and the state that recovery ended with.

    ``guard``: of the data files, unless every commit is synced. ``resumed``: what was read. ``undone``: the epochs
    rolled back above the floor. ``damaged``: locations left as they are.
    """

    lock: Lock
    guard: SyncGuard | None
    file: LogFile
    state: StreamState
    resumed: Resumed
    undone: RolledBackEpochs
    damaged: dict[LocationKey, CorruptFileError]
    recovery: RecoveryReport


def open_generation(place: StreamPlace, opening: Opening) -> Generation:
    """Opens a stream as a new generation and recovers it.

    1. lock; 2. read the log, sync it, decide which epochs are durable; 3. copy its sound records to a temporary file,
    which the disk writes meanwhile, and plan the changes of the directories; 4. choose an epoch number after those that
    were published but lost; up to here a failure leaves all as it was; 5. replace the log by the copy with the ``open``
    record; 6. record deletes that a kill has left unrecorded, truncate tails, remove strays, rewrite ``table.size``
    where it is missing, torn or old.
    SettingsError: another partition rule, or permissions. CommitError: the disk does not allow it. LockLostError:
    another process has the stream. CorruptFileError: a file is damaged.
    """
    check_stream(place.stream)
    require_writable(place.layout.root)
    absent = _absent(place)
    with ExitStack() as held:
        try:
            place.fs.keep_dirs(place.streams, place.layout.root)
            lock = held.enter_context(take_lock(place.fs, place.stream_lock))
            held.callback(_leave_nothing, place, absent)  # while the lock is held
            synced = opening.retention.policy.syncs_each_batch
            guard = None if synced else held.enter_context(place.fs.sync_guard(place.layout.root))
            with take_commit_lock(place.fs, place.stream_removals) as commit_lock:
                generation = _begin(place, opening, lock, guard, commit_lock)
        except OSError as error:
            raise refused(error, f"stream {place.stream!r} cannot be opened", place.streams) from error
        held.pop_all()
    return generation


def _absent(place: StreamPlace) -> list[Path]:
    """What the opening of a stream without a log creates before it has one: removals, lock, and their directory."""
    if place.fs.stat(place.stream_log) is not None:
        return []
    beside = place.stream_removals, place.stream_lock, place.streams
    return [path for path in beside if place.fs.stat(path) is None]


def _leave_nothing(place: StreamPlace, created: list[Path]) -> None:
    """Removes what an opening that failed has created, unless it came as far as the log."""
    if created and place.fs.stat(place.stream_log) is None:
        for path in created:
            if path == place.streams:
                remove_empty(place.fs, path, place.layout.root)
            else:
                place.fs.unlink(path)


def _begin(place: StreamPlace, opening: Opening, lock: Lock, guard: SyncGuard | None, commit_lock: Lock) -> Generation:
    """Steps 2 to 6."""
    boot_id = place.fs.boot_id()
    with gc_paused():
        resumed = resume(place, boot_id=boot_id, time_ms=opening.now_ms())
    state, more, lost, undone = resumed.state, resumed.more, resumed.lost, resumed.undone
    if opening.schema is not None:
        state.offsets.require_settled(place.stream_log)
    replaced_rule = state.rule if is_other_rule(state, opening.rule) else None
    if not opening.accept_rule:
        require_rule(place, state, opening.rule)
    interrupted = interrupted_removals(place, state, now_ms=opening.now_ms())
    for removal in interrupted:
        state.remove(removal)
    remove_temporaries(place)
    file = LogFile(place.fs, place.stream_log, lock.path)
    with file.copying(resumed.log):
        plan = plan_recovery(place, resumed, leave_damaged=opening.leave_damaged)
        removed, ahead, reason = None, plan.ahead, WENT_DOWN
        if resumed.log.source is None and (removed := read_removed(place)) is not None:
            state.generation, ahead, reason = removed.generation, removed.epoch, REMOVED
        elif ahead:
            lost += lost_beyond(state, plan)
        if ahead:
            passed = _pass_over(state, ahead, opening.now_ms(), reason)
            undone += RolledBackEpochs.of([passed], [passed])
            more += frame(encode(passed))
        if removed is not None:
            begin_anew(place, state)
        record = _open_record(state, opening, boot_id)
        file.begin(more, record)
    if place.fs.stat(place.stream_removed) is not None:
        place.fs.unlink(place.stream_removed)  # of a stream that was removed, or was to be removed
    state.note(record)
    write_owner(
        place.fs, lock.path, pid=opening.pid, host=opening.host, generation=state.generation, since_ms=record.time_ms
    )
    if interrupted:
        record_removals(place, interrupted, commit_lock)
    with place.fs.during("recover-files"):
        apply(place, plan)
    aside = list_set_aside(place)
    recovery = RecoveryReport.of(state, plan, log_bytes=resumed.dropped_bytes, lost=lost, aside=aside)
    recovery = replace(recovery, rule=replaced_rule)
    return Generation(lock, guard, file, state, resumed, undone, plan.damaged, recovery)


def is_other_rule(state: StreamState, rule: PartitionRule | None) -> bool:
    """Whether rows go elsewhere by this rule than those that the stream has committed."""
    return bool(state.epoch) and None not in (state.rule, rule) and state.rule != rule


def require_rule(place: StreamPlace, state: StreamState, rule: PartitionRule | None) -> None:
    """SettingsError: rows would go elsewhere."""
    if state.rule is not None and rule is not None and is_other_rule(state, rule):
        raise rule_changed(place.stream, place.table, state.rule, rule)


def take_over_generation(place: StreamPlace, lease: Lease, opening: Opening) -> Generation:
    """Continues a generation that another process has begun and left, without recovery; only the owner is written.

    LockLostError: a later generation has begun, the log has grown, or another process holds the lock for a minute.
    SettingsError, CommitError: the disk or its permissions do not allow it.
    """
    check_stream(place.stream)
    path, synced = place.stream_lock, opening.retention.policy.syncs_each_batch
    with ExitStack() as held:
        try:
            lock = held.enter_context(take_leased_lock(place.fs, path, lease.generation))
            guard = None if synced else held.enter_context(place.fs.sync_guard(place.layout.root))
            file = LogFile(place.fs, place.stream_log, path)
            file.take_over(lease)
            now = opening.now_ms()
            with gc_paused(), place.fs.during("take-over"):
                resumed = resume(place, boot_id=place.fs.boot_id(), time_ms=now, settle=False)
            write_owner(place.fs, path, pid=opening.pid, host=opening.host, generation=lease.generation, since_ms=now)
        except OSError as error:
            raise refused(error, f"stream {place.stream!r} cannot be opened", place.streams) from error
        held.pop_all()
    recovery = RecoveryReport(place.stream, lease.generation, resumed.state.epoch)
    return Generation(lock, guard, file, resumed.state, resumed, resumed.undone, {}, recovery)


def _pass_over(state: StreamState, ahead: int, time_ms: int, reason: str) -> RollbackRecord:
    """A rollback record numbered after ``ahead``, the newest lost or removed epoch: numbers are never reused."""
    record = RollbackRecord(state.n + 1, ahead + 1, state.generation, time_ms, state.epoch, reason, ())
    state.apply(record)
    state.note(record)
    return record


def _open_record(state: StreamState, opening: Opening, boot_id: str) -> OpenRecord:
    schema, retention = opening.schema, opening.retention
    return OpenRecord(
        n=state.n + 1,
        epoch=state.epoch,
        generation=state.generation + 1,
        time_ms=opening.now_ms(),
        boot_id=boot_id,
        pid=opening.pid,
        host=opening.host,
        query_id=opening.query_id,
        durability=retention.policy.durability,
        keep_epochs=retention.keep_epochs,
        durable=state.epoch,
        schema_version=schema.version if schema else state.schema_version,
        columns=schema_columns(schema) if schema else (),
        rule=state.rule if opening.rule is None else opening.rule,
    )
