"""Maintenance between the batches of a stream: syncs of mode ``periodic``, and compaction of the log."""

from __future__ import annotations

import time
from collections.abc import Callable

from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.errors import EpochConflictError, SparkhavenError


class Maintenance:
    """Maintenance of one open log. ``warn`` is called if there is no space for a compaction; the stream continues."""

    def __init__(
        self,
        log: StreamLog,
        policy: CommitPolicy,
        warn: Callable[[SparkhavenError], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log, self._policy, self._warn, self._clock = log, policy, warn, clock
        self._synced = clock()

    def after_batch(self) -> None:
        """Syncs and compacts if due; raises what ``sync_if_due`` raises."""
        self.sync_if_due()
        self._compact()

    def finish(self) -> None:
        """Completes a compaction that has begun; without it a log of which each process writes few batches only grows.

        Called before the log is closed.
        """
        if self._log.compacting:
            self._compact(now=True)

    def _compact(self, *, now: bool = False) -> None:
        try:
            self._log.compact_if_due(now=now)
        except EpochConflictError as error:  # the log is as it was
            self._warn(error)

    def sync_if_due(self) -> None:
        """Syncs unsynced epochs when the loss window is over; raises what ``StreamLog.sync_now`` raises."""
        due = not self._policy.syncs_each_batch and self._clock() - self._synced >= self._policy.loss_window_s
        if due:
            self._log.sync_now()
            self._synced = self._clock()
