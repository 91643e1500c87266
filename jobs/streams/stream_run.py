"""One stream of a process: what was opened, its error budget, what it has reported, and how it ended.

The budget is bad rows in a batch, and their fraction of all rows of the last hour. The quarantine of a stream, by its
settings, is kept in step with the commit log.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkhaven.ingest.bad_rows import BadRow, check_budget
from sparkhaven.ingest.spec import BadRowBudget, Contract
from sparkhaven.ingest.values.typed_rows import Refusal
from sparkhaven.jobs.monitor.epochs import field_words
from sparkhaven.jobs.monitor.waiting import SourceWatch, older_line, passed_lines
from sparkhaven.jobs.settings.stream_file import StreamSettings
from sparkhaven.jobs.streams.progress import Progress
from sparkhaven.store.delta.log import is_table
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.reading.stream_state import EpochEntry
from sparkhaven.store.epochs.state.log_values import REJECTED, absent_in, ignored_in
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SettingsError, counted
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.quarantine.ledger import read_ledger
from sparkhaven.store.quarantine.rejected_rows import Reason
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.batch.commit import BatchOutcome
from sparkhaven.writers.batch.stream_batches import StreamTotals
from sparkhaven.writers.quarantine.changes import follow_log, leftovers
from sparkhaven.writers.quarantine.table import Quarantine
from sparkhaven.writers.task import LateRows, SplitNotes, StreamTarget

if TYPE_CHECKING:
    from sparkhaven.writers.batch.commit import BatchOutcome

MAX_FIELDS = 100  # fields that a run names; a feed may have new keys in every row
HOUR_S = 3600.0
PIECE_S = 60.0  # batches within it are counted together
LATE = Refusal(Reason.LATE, "the date was truncated or deleted. It takes no more rows")


class DataWarnings:
    """Remembers the fields and columns that this run has warned of.

    ``contract``: by discard-value other fields are as expected.
    """

    def __init__(self, contract: Contract = "evolve") -> None:
        self._expected = contract == "discard-value"
        self._fields: set[str] = set()
        self._empty: set[str] = set()

    def of(self, outcome: BatchOutcome) -> list[str]:
        """The new warnings of a batch."""
        lines: list[str] = []
        if self._expected:
            return lines
        ignored = {name: rows for name, rows in ignored_in(outcome.counts).items() if name not in self._fields}
        if ignored and len(self._fields) < MAX_FIELDS:
            self._fields.update(ignored)
            lines.append(f"fields without a column: {field_words(ignored)}. List expected ones under [columns] ignore")
        absent = {name: rows for name, rows in absent_in(outcome.counts).items() if name not in self._empty}
        if absent:
            self._empty.update(absent)
            lines.append(
                f"no field for columns: {field_words(absent)}. Check `from` under [columns], or set `required`"
            )
        empty = sorted(set(outcome.empty) - self._empty)
        if empty:
            self._empty.update(empty)
            lines.append(f"no row of this batch has a value for {', '.join(empty)}. Check `from` under [columns]")
        return lines


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


@dataclass(slots=True)
class StreamRun:
    """One stream of this process; ``totals`` or ``error`` once it has ended.

    ``watch`` asks its broker, if it has one; ``opened_s``: seconds that opening took. ``begun``: the epoch that it was
    opened at. ``older``: new files that are not ingested because they were modified before the horizon. ``so_far``:
    totals over all restarts.
    """

    settings: StreamSettings
    schema: TableSchema
    log: StreamLog
    place: StreamPlace
    totals: StreamTotals | None = None
    error: Exception | None = None
    older: int = 0
    passed: set[str] = field(default_factory=set)  # reasons and files that were reported
    remarks: DataWarnings = field(default_factory=DataWarnings)
    so_far: StreamTotals = field(default_factory=StreamTotals)
    watch: SourceWatch | None = None
    opened_s: float = 0.0
    begun: int = 0

    @property
    def state(self) -> StreamState:
        """What the stream has committed."""
        return self.log.state

    @property
    def epoch(self) -> int:
        return self.log.state.epoch

    @property
    def name(self) -> str:
        return self.settings.spec.stream

    @property
    def label(self) -> str:
        """The stream in lines for people: with its table, where the feed has several."""
        several = len(self.settings.spec.fed_tables) > 1
        return f"{self.name} {self.settings.spec.table}" if several else self.name

    @property
    def target(self) -> StreamTarget:
        """What tasks are told of where they write."""
        settings, generation, late = self.settings, self.log.state.generation, self.settings.spec.partition.takes_late
        return StreamTarget(
            self.place.layout, settings.table, self.name, self.schema, generation, settings.policy, late
        )

    def listener(self, progress: Progress) -> Callable[[Mapping[str, Any]], None]:
        """What receives the reports of the source, and reports every file that is not ingested."""

        def listen(said: Mapping[str, Any]) -> None:
            count = int(said.get("older_files", 0))
            if count > self.older:
                age_s = self.settings.feed.resume.remember_s
                progress.older(self.name, older_line(count - self.older, said.get("older", ()), age_s))
            self.older = count
            fresh = {reason: files for reason, files in said.get("passed", {}).items() if reason not in self.passed}
            progress.passed(self.name, passed_lines(fresh))
            for remark in said.get("remarks", ()):
                if remark not in self.passed:
                    progress.remark(self.name, remark)
                    self.passed.add(remark)
            growing = [path for path in said.get("growing", ()) if path not in self.passed]
            if growing:
                progress.growing(self.name, growing)
            self.passed.update(fresh, growing)

        return listen


def place_of(layout: Layout, settings: StreamSettings) -> Path:
    """Directory of the Delta table."""
    return settings.quarantine or layout.quarantine(settings.spec.stream)


def quarantine_of(fs: Fs, layout: Layout, settings: StreamSettings) -> Quarantine:
    place = StreamPlace(fs, layout, settings.table, settings.spec.stream)
    file = str(settings.file.absolute())
    return Quarantine(place, place_of(layout, settings), clock=time.time, file=file)


def catch_up(place: TablePlace, state: StreamState) -> None:
    """Updates the ledger from a log that was just opened and removes uncommitted requeues.

    Called at every start, also of a stream without bad rows: the log forgets its rollbacks.
    """
    follow_log(place, state)
    for requeue in leftovers(place, state)[1]:
        place.fs.unlink(requeue.path)


def settle(place: TablePlace, state: StreamState, quarantine: Quarantine, where: object) -> None:
    """Updates the quarantine from its ledger, before rows are written to it. The table is only read if there is work.

    SettingsError when the settings at ``where`` name another place than the one that has the rows.
    """
    ledger = read_ledger(place.of_stream(state.stream))
    moved = ledger is not None and ledger.place not in ("", str(quarantine.directory))
    if ledger is not None and moved and is_table(place.fs, Path(ledger.place)):
        raise SettingsError(
            "the stream's quarantine is in another place than its settings say",
            where=where,
            expected=ledger.place,
            found=quarantine.directory,
            hint="move the directory there, or requeue its rows and remove it",
        )
    quarantine.settle(leftovers(place, state)[0])
