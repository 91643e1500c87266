"""The error budget of a stream: bad rows in a batch, and their fraction of all rows of the last hour."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sparkhaven.ingest.bad_rows import BadRow, check_budget
from sparkhaven.ingest.spec.stream_spec import BadRowBudget
from sparkhaven.ingest.values.refusals import Refusal
from sparkhaven.store.epochs.reading.stream_state import EpochEntry
from sparkhaven.store.epochs.state.log_values import REJECTED
from sparkhaven.store.errors import counted
from sparkhaven.store.quarantine.reasons import Reason
from sparkhaven.writers.batch.commit import BatchOutcome
from sparkhaven.writers.task.decoding import LateRows, SplitNotes

HOUR_S = 3600.0
PIECE_S = 60.0  # batches within it are counted together
LATE = Refusal(Reason.LATE, "the date was truncated or deleted. It takes no more rows")


@dataclass(slots=True)
class _Piece:
    since: float
    read: int
    bad: int


class ErrorBudget:
    """The error budget of one run of a stream: too many bad rows stop a batch, with nothing committed.

    A run begins with an empty hour: its first batches count alone. ``earlier`` gives the bad and all rows of batches
    of the last hour that other processes have committed; it is asked when a batch has bad rows.
    """

    def __init__(
        self,
        budget: BadRowBudget,
        clock: Callable[[], float] = time.monotonic,
        *,
        earlier: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        self._budget, self._clock, self._earlier = budget, clock, earlier
        self._pieces: deque[_Piece] = deque()

    def __call__(self, notes: SplitNotes, good: int) -> None:
        """Raises ErrorBudgetExceeded that names the first bad rows."""
        rows = [_late(sample) if isinstance(sample, LateRows) else sample for sample in notes.rejected]
        while self._pieces and self._pieces[0].since < self._clock() - HOUR_S:
            self._pieces.popleft()
        bad, read = self._earlier()
        before = bad + sum(piece.bad for piece in self._pieces), read + sum(piece.read for piece in self._pieces)
        check_budget(rows, notes.rejected_rows, good + notes.rejected_rows, self._budget, before=before)

    def committed(self, outcome: BatchOutcome) -> None:
        """Counts a committed batch."""
        now = self._clock()
        if not self._pieces or now - self._pieces[-1].since >= PIECE_S:
            self._pieces.append(_Piece(now, 0, 0))
        self._pieces[-1].read += outcome.rows + outcome.rejected
        self._pieces[-1].bad += outcome.rejected


def rows_of_hour(epochs: Iterable[EpochEntry], now_s: float) -> tuple[int, int]:
    """Bad and all rows of the last hour in committed epochs that were not rolled back."""
    since_ms = (now_s - HOUR_S) * 1000
    recent = [epoch for epoch in epochs if epoch.live and epoch.kind == "commit" and epoch.time_ms >= since_ms]
    bad = sum(epoch.counts.get(REJECTED, 0) for epoch in recent)
    return bad, bad + sum(epoch.rows for epoch in recent)


def _late(late: LateRows) -> BadRow:
    return BadRow(late.file, 0, None, LATE, f"{counted(late.rows, 'row')} for {late.key.internal}/{late.key.value}")
