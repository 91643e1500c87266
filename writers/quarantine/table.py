"""The quarantine (dead-letter table): a Delta table of rejected rows, one row per source position.

=====================================  =================================================================================
``Namespace``, ``TableName``,          owner of the row; with ``SourcePartition`` and ``Position`` the key. A retried
``Stream``                             batch adds its rows only where key and ``SourceTime`` are not there yet, so
                                       no duplicates, while a recreated topic, or a new file of an old name, has
                                       other rows at the same positions. Rows of an epoch that the ledger did not
                                       know are appended, in the same time however many there are already
the columns of ``rejected_rows``       position, reason, what was expected and found, the row as received
``Epoch``                              the epoch to be committed when the row was written. If the commit log lacks that
                                       epoch, the row does not count: its batch failed or was rolled back, and the
                                       source is read again. See ``writers.quarantine.changes``
``Time``                               when it was written
``RequeuedEpoch``, ``RequeuedTime``    the epoch that requeued it successfully; null while it is pending
=====================================  =================================================================================

It is written without Spark: data files first, synced, then one version of Delta's log, which is published whole under
its number or not at all. All writers of ours lock the table's directory. A writer of others that takes a number first
is noticed, and the change is made again on top of its version.

A change also merges small files and writes checkpoints of Delta's log, where it is time for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkhaven.store.delta.log import LAST_CHECKPOINT, LOG, is_table
from sparkhaven.store.errors import CommitError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.quarantine.ledger import Ledger, read_ledger, write_ledger
from sparkhaven.store.quarantine.rejected_rows import decode_rejected
from sparkhaven.writers.quarantine.changes import Requeue
from sparkhaven.writers.quarantine.row_choice import Chosen, Dead, QuarantinedRow
from sparkhaven.writers.task import RejectedFile

if TYPE_CHECKING:
    import pyarrow as pa

    from sparkhaven.store.delta.snapshot import DeltaSnapshot
    from sparkhaven.writers.quarantine.changes import Change, Edit, Mark


@dataclass(frozen=True, slots=True)
class Thresholds:
    """So many small files are written as one; a checkpoint follows so many versions, where the table does not say."""

    small_files: int = 50  # as Delta's own compaction
    checkpoint_versions: int = 10  # Delta's default


THRESHOLDS = Thresholds()


# Modules that read and write Parquet are imported where rows are there: most runs have none

TRIES = 20
Build = Callable[["DeltaSnapshot"], "Change"]


class Quarantine:
    """The quarantine of one stream. ``directory`` is local, created with the first row."""

    def __init__(
        self,
        place: StreamPlace,
        directory: Path,
        *,
        clock: Callable[[], float],
        file: str = "",
        thresholds: Thresholds = THRESHOLDS,
    ) -> None:
        self._place, self.directory, self._clock, self._file = place, directory, clock, file
        self._thresholds = thresholds
        self._owner = (place.table.namespace, place.table.table, place.stream)

    @property
    def exists(self) -> bool:
        return is_table(self._place.fs, self.directory)

    def add(self, files: Sequence[RejectedFile], epoch: int) -> None:
        """Adds the rejected rows of a batch whose epoch is committed next; durable when it returns."""
        from sparkhaven.writers.quarantine.changes import RejectedBatch, new_rows

        with self._locked():
            is_new = self.announce(epoch)
            if not is_new:
                self._sync_all()
            batch = RejectedBatch(self._owner, files, epoch, self._clock())
            operation = "WRITE" if is_new else "MERGE"
            self._change(operation, lambda snapshot: new_rows(self._place.fs, snapshot, batch, is_new=is_new))

    def announce(self, epoch: int) -> bool:
        """Records in the ledger that the quarantine may have rows of this epoch; whether it surely has none yet.

        A batch that failed has announced its epoch, and so has a process that is fenced off and goes on.
        """
        known = read_ledger(self._place)
        ledger = known or Ledger()
        noted = replace(ledger, place=str(self.directory), file=self._file, newest=max(ledger.newest, epoch))
        if noted != ledger:
            write_ledger(self._place, noted)
        return known is not None and epoch > known.newest

    def settle(self, committed: Sequence[Requeue]) -> None:
        """Applies the pending changes of the ledger, and marks committed requeues that are not marked yet."""
        for requeue in committed:
            self.mark(requeue)
        ledger = read_ledger(self._place)
        if ledger is None or not ledger.dead:
            return
        with self._place.fs.during("quarantine-settle"):
            self._remove_dead(ledger.dead)
        named = replace(ledger, place=ledger.place or str(self.directory), file=ledger.file or self._file)
        write_ledger(self._place, replace(named, dead=()))

    def rows(self, chosen: Chosen) -> Iterator[QuarantinedRow]:
        """Matching rows of the stream, by source and position; later changes of the table are not seen."""
        from sparkhaven.writers.quarantine.quarantined_rows import QuarantineRows

        return QuarantineRows(self._place.fs, self.directory, self._owner).rows(chosen)

    def mark(self, requeue: Requeue) -> None:
        """Marks the rows of a committed requeue, durably, and removes its file; idempotent."""
        from sparkhaven.writers.quarantine.changes import Edit, Mark, having, keys_of
        from sparkhaven.writers.quarantine.row_choice import epochs_of, owned

        with self._place.fs.during("quarantine-mark"):
            keys = frozenset(keys_of(decode_rejected(self._place.fs.read(requeue.path))))

            def decide(rows: pa.Table) -> Edit:
                mine = owned(rows, self._owner)
                mask = having(rows, keys, mine & (epochs_of(rows, "RequeuedEpoch") < 0))
                return Edit(mine & False, mask)

            if self.exists:
                with self._locked():
                    self._edit("UPDATE", decide, Mark(requeue.epoch, round(self._clock() * 1e6)))
        self._place.fs.unlink(requeue.path)

    def drop(self, chosen: Chosen, after: int | None = None) -> int:
        """Deletes matching rows, except those of epochs ``after`` the newest committed one; returns how many."""
        from sparkhaven.writers.quarantine.changes import Edit, Mark
        from sparkhaven.writers.quarantine.row_choice import fitting

        later: Dead = () if after is None else ((after, None),)

        def decide(rows: pa.Table) -> Edit:
            mask = fitting(rows, self._owner, chosen, later)
            return Edit(mask, mask & False)

        if not self.exists:
            return 0
        with self._locked():
            return self._edit("DELETE", decide, Mark())

    def _remove_dead(self, dead: Sequence[tuple[int, int]]) -> None:
        """Removes the rows of dead epochs, and the marks of requeues by them."""
        from sparkhaven.writers.quarantine.changes import Edit, Mark
        from sparkhaven.writers.quarantine.row_choice import among, epochs_of, owned

        if not self.exists:
            return

        def decide(rows: pa.Table) -> Edit:
            mine = owned(rows, self._owner)
            removed = mine & among(epochs_of(rows, "Epoch"), dead)
            return Edit(removed, mine & ~removed & among(epochs_of(rows, "RequeuedEpoch"), dead))

        with self._locked():
            self._sync_all()
            self._edit("DELETE", decide, Mark())

    def _edit(self, operation: str, decide: Callable[[pa.Table], Edit], mark: Mark) -> int:
        from sparkhaven.writers.quarantine.changes import edit_files

        return self._change(
            operation, lambda snapshot: edit_files(self._place.fs, snapshot, decide, mark, self._now_ms())
        )

    def _change(self, operation: str, build: Build) -> int:
        """Commits what ``build`` makes of the newest version, and compacts many small files; returns removed rows."""
        from sparkhaven.writers.quarantine.changes import compacted, is_crowded

        many = self._thresholds.small_files
        with self._place.fs.during("quarantine-write"):
            version, removed = self._commit(operation, build)
        if version is not None and is_crowded(version, many):
            with self._place.fs.during("quarantine-compact"):
                self._commit("OPTIMIZE", lambda snapshot: compacted(self._place.fs, snapshot, self._now_ms(), many))
        return removed

    def _commit(self, operation: str, build: Build) -> tuple[DeltaSnapshot | None, int]:
        """Commits one version, durably: the table as it is then, None if nothing changes; and removed rows."""
        from sparkhaven.store.delta.commit import checkpoint, commit, is_checkpoint_due
        from sparkhaven.store.delta.snapshot import read_snapshot

        fs = self._place.fs
        for _ in range(TRIES):
            snapshot = read_snapshot(fs, self.directory)
            require_quarantine(snapshot)
            change = build(snapshot)
            if not change.actions:
                return None, 0
            actions = [("commitInfo", self._info(operation)), *change.actions]
            if commit(fs, self.directory, snapshot.version + 1, actions):
                version = snapshot.after(actions)
                if is_checkpoint_due(version, self._thresholds.checkpoint_versions):
                    with fs.during("quarantine-checkpoint"):
                        checkpoint(fs, version, self._now_ms())
                return version, change.rows
            change.discard()
        raise CommitError(
            "the quarantine cannot be written. Another program commits each version first",
            where=self.directory,
            found=f"{TRIES} attempts",
            hint="stop the other writer of this Delta table, then restart. Nothing of a running batch was committed",
        )

    def _info(self, operation: str) -> dict[str, Any]:
        return {
            "timestamp": self._now_ms(),
            "operation": operation,
            "operationParameters": {},
            "isBlindAppend": operation == "WRITE",
            "engineInfo": "sparkhaven",
        }

    def _now_ms(self) -> int:
        return round(self._clock() * 1000)

    def _sync_all(self) -> None:
        """Syncs all that the table consists of: a process may have been killed, in Spark, before it had done so."""
        from sparkhaven.store.delta.snapshot import read_snapshot

        snapshot = read_snapshot(self._place.fs, self.directory)
        paths = [*snapshot.read, *snapshot.files, self.directory / LOG / LAST_CHECKPOINT]
        self._place.fs.sync([path for path in paths if self._place.fs.stat(path) is not None])
        self._place.fs.sync_dirs([self.directory, self.directory / LOG])

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Holds the lock of the table, whose directories are there, durably."""
        from sparkhaven.store.delta.commit import clean_log

        fs = self._place.fs
        if not self.exists:
            fs.keep_dirs(self.directory / LOG, self.directory.parent.parent)
        lock = fs.lock(self.directory, wait=True)
        try:
            clean_log(fs, self.directory)
            yield
        finally:
            if lock is not None:
                lock.release()


def require_quarantine(snapshot: DeltaSnapshot) -> None:
    """UnsupportedVersionError: the table has other columns, or rules of writing that are not supported."""
    from sparkhaven.store.delta.commit import require_writable, unwritable
    from sparkhaven.writers.quarantine.row_choice import lacking

    if not snapshot.metadata:
        return
    require_writable(snapshot)
    columns = lacking(snapshot.metadata["schemaString"])
    if columns:
        raise unwritable(snapshot.table, f"no column {', '.join(columns)} of the type that a quarantine has")


def requeued_rows(fs: Fs, requeue: Requeue) -> list[tuple[str, int]]:
    """Source partition and position of the rows of a requeue."""
    table = decode_rejected(fs.read(requeue.path))
    return list(zip(table["SourcePartition"].to_pylist(), table["Position"].to_pylist(), strict=True))
