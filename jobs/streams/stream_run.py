"""The runs of streams in a process: one stream, those of one stream file, and restarts.

A run has what was opened, its error budget, what it has reported, and how it ended. The budget is bad rows in a batch,
and their fraction of all rows of the last hour. The quarantine of a stream is kept in step with the commit log.

The streams of one stream file, one for each table that its feed has rows of, start, run and end together. A failed one
is reported, released, and started again after a pause, beside others that run. Only errors whose exit code is "worth
retrying" lead to a restart: a source or disk that is away, a worker that died. Bad data, a source that does not
continue, settings, and a stream that another process has taken over end the stream. The pause doubles with each
consecutive failure; an epoch in between resets it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sparkhaven.ingest.bad_rows import BadRow, check_budget
from sparkhaven.ingest.spec import BadRowBudget, Contract
from sparkhaven.ingest.values.typed_rows import Refusal
from sparkhaven.jobs.monitor.epochs import field_words
from sparkhaven.jobs.monitor.waiting import SourceWatch, older_line, passed_lines
from sparkhaven.jobs.settings.stream_file import NotStarted, StreamSettings, name_stream
from sparkhaven.jobs.streams.progress import Progress
from sparkhaven.store.delta.log import is_table
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.reading.stream_state import EpochEntry, list_streams, load_stream
from sparkhaven.store.epochs.state.log_values import REJECTED, absent_in, ignored_in
from sparkhaven.store.epochs.state.replay import StreamState, furthest_back
from sparkhaven.store.errors import EXIT_RETRY, LockLostError, SettingsError, counted, ours
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.quarantine.ledger import read_ledger
from sparkhaven.store.quarantine.rejected_rows import Reason
from sparkhaven.store.schema.deployed.deploy import user_tables
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.batch.commit import BatchOutcome
from sparkhaven.writers.batch.stream_batches import StreamTotals
from sparkhaven.writers.quarantine.changes import follow_log, leftovers
from sparkhaven.writers.quarantine.table import Quarantine
from sparkhaven.writers.task import LateRows, SplitNotes, StreamTarget

MAX_FIELDS = 100  # fields that a run names; a feed may have new keys in every row
HOUR_S = 3600.0
PIECE_S = 60.0  # batches within it are counted together
LATE = Refusal(Reason.LATE, "the date was truncated or deleted. It takes no more rows")
REMIND_SECONDS = 60.0


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


T = TypeVar("T", StreamSettings, StreamRun)


@dataclass(slots=True)
class StreamGroup:
    """The runs of one stream file, in the order in which they commit. An error is of all of them."""

    runs: list[StreamRun]

    @property
    def first(self) -> StreamRun:
        return self.runs[0]

    @property
    def name(self) -> str:
        return self.first.name

    @property
    def error(self) -> Exception | None:
        return next((run.error for run in self.runs if run.error is not None), None)

    @error.setter
    def error(self, error: Exception | None) -> None:
        if error is not None:
            name_stream(error, self.first.settings)
        for run in self.runs:
            run.error = error

    @property
    def epoch(self) -> int:
        """A number that rises with each epoch of one of them."""
        return sum(run.epoch for run in self.runs)

    @property
    def state(self) -> StreamState:
        """What all tables have of the feed."""
        return furthest_back([run.state for run in self.runs])


def grouped(runs: Iterable[StreamRun]) -> list[StreamGroup]:
    """The runs by stream file."""
    by_file: dict[Path, list[StreamRun]] = {}
    for run in runs:
        by_file.setdefault(run.settings.file, []).append(run)
    return [StreamGroup(of_file) for of_file in by_file.values()]


def whole_files(streams: Sequence[T], failed: Sequence[NotStarted]) -> list[T]:
    """Those of files of which no stream has failed: a feed is not ingested into some of its tables."""
    broken = {stream.file for stream in failed}
    return [stream for stream in streams if _file_of(stream) not in broken]


def _file_of(stream: StreamSettings | StreamRun) -> Path:
    return stream.file if isinstance(stream, StreamSettings) else stream.settings.file


def fed_places(fs: Fs, layout: Layout, settings: StreamSettings) -> list[StreamPlace]:
    """The streams of all tables of a feed."""
    stream = settings.spec.stream
    return [StreamPlace(fs, layout, TableName.parse(table), stream) for table in settings.spec.fed_tables]


def joint_state(fs: Fs, layout: Layout, settings: StreamSettings) -> StreamState | None:
    """What all tables of a feed have of it; None where no stream has files. Raises what ``load_stream`` raises."""
    places = fed_places(fs, layout, settings)
    states = [load_stream(place) for place in places if place.stream in list_streams(place)]
    return furthest_back(states) if states else None


def left_tables(fs: Fs, layout: Layout, group: StreamGroup) -> list[str]:
    """Tables that the last run of the stream has fed, and that its file does not name any more."""
    routes, last = group.first.settings.spec.routes, {run.state.last_query for run in group.runs} - {None}
    if routes is None or not last:
        return []
    left = []
    for table in user_tables(fs, layout):
        place = StreamPlace(fs, layout, table, group.name)
        has_run = str(table) not in routes.names and fs.stat(place.stream_log) is not None
        if has_run and load_stream(place).last_query in last:
            left.append(str(table))
    return left


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds before the first restart, and at most; after ``tries`` failures in a row the stream ends."""

    first: float = 1.0
    most: float = 60.0
    tries: int = 10

    def pause(self, failures: int) -> float | None:
        """Seconds to wait after that many consecutive failures, at least one; None: no more restarts."""
        return None if failures > self.tries else min(self.most, self.first * 2.0 ** min(failures - 1, 32))


class Reminders:
    """When to report streams that have stopped while others run: every ``every`` seconds."""

    def __init__(self, every: float = REMIND_SECONDS) -> None:
        self._every = every
        self._stopped: dict[str, tuple[float, float]] = {}  # name -> stopped at, reported at

    def due(self, stopped: Iterable[str], now: float) -> list[tuple[str, float]]:
        """The streams to report at ``now``, with the seconds since each has stopped."""
        due = []
        for name in stopped:
            since, reported = self._stopped.setdefault(name, (now, now))
            if now - reported >= self._every:
                self._stopped[name] = since, now
                due.append((name, now - since))
        return due


class Restartable(Protocol):
    """A stream that can be restarted."""

    error: Exception | None

    @property
    def epoch(self) -> int:
        """The newest epoch of the stream."""


def is_retryable(error: Exception) -> bool:
    """Whether a restart may help without any change."""
    if isinstance(error, OSError):
        return True
    known = ours(error)
    return known is not None and known.exit_code == EXIT_RETRY and not isinstance(known, LockLostError)


def keep_running(
    stream: Restartable,
    run: Callable[[], None],
    reopen: Callable[[], None],
    *,
    stop: threading.Event,
    on_restart: Callable[[Exception, float], None],
    can_restart: Callable[[], bool] = lambda: True,
    backoff: Backoff = Backoff(),
) -> int:
    """Calls ``run`` until it leaves no error on the stream, or one that ends it; returns the number of restarts.

    ``reopen`` releases the stream and opens it again, with recovery; it may raise the errors of ``run``. ``on_restart``
    gets each failure that is followed by a restart, and the pause in seconds. ``can_restart`` is False once there is no
    session to run in.
    """
    restarts, failures = 0, 0
    opened = True
    before = stream.epoch
    while True:
        if opened:
            run()
        error = stream.error
        if error is None or stop.is_set() or not is_retryable(error) or not can_restart():
            return restarts
        failures = 1 if opened and stream.epoch > before else failures + 1
        pause = backoff.pause(failures)
        if pause is None:
            return restarts
        on_restart(error, pause)
        if stop.wait(pause):
            return restarts
        stream.error = None
        try:
            reopen()
        except Exception as again:  # noqa: BLE001 handled like any other at the head of the loop
            stream.error, opened = again, False
            continue
        opened = True
        restarts, before = restarts + 1, stream.epoch
