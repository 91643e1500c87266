"""Append, commit, crash, recover, roll back, undo, compact, truncate, delete, in any order, against a plain model."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.reading.stream_state import list_epochs, load_joint_positions, load_stream, newest_state
from sparkhaven.store.epochs.recovery.resume import resume
from sparkhaven.store.epochs.state.log_records import Withdrawn
from sparkhaven.store.epochs.state.log_values import LocationState, OffsetRange
from sparkhaven.store.epochs.state.removed_locations import Removal
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.epochs.undo import Withdrawal, plan_undo
from sparkhaven.store.errors import (
    EpochConflictError,
    PositionGapError,
    SettingsError,
    TableExistsError,
    TableNotFoundError,
)
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.types.row_ranges import RowRanges
from tests.support.disks.model_fs import Crash, CrashingFs
from tests.support.streams.tiny_writer import (
    STREAM,
    TABLE,
    append,
    batch_of,
    open_log,
    read_location,
    remove,
    write_batch,
)

KEYS = st.sampled_from([LocationKey(internal, value) for internal in "ab" for value in ("d1", "d2")])
ROWS = st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=4)
BATCHES = st.dictionaries(KEYS, ROWS, min_size=1, max_size=3)
COMMIT_STEPS = ("log-append", "log-sync", "publish-location")
COMPACT_STEPS = ("compaction-slice", "write-head", "checkpoint-replace", "log-replace")
ROLLBACK_STEPS = ("log-append", "log-sync", "rollback-files", "cut-file", "remove-stray-location", "publish-location")
WITHDRAW_STEPS = ("log-append", "log-sync", "withdraw-publish", "publish-location")
HEAD_STEPS = ("write-head",)
OPEN_STEPS = (
    "resume-sync",
    "log-copy",
    "log-open",
    "recover-files",
    "cut-file",
    "remove-stray-file",
    "publish-location",
)


def steps(names: tuple[str, ...]) -> st.SearchStrategy[str | None]:
    """No crash, or one before or after a step."""
    return st.none() | st.sampled_from([f"{name}:{when}" for name in names for when in ("before", "after")])


Rows = dict[LocationKey, tuple[int, tuple[int | None, ...]]]  # since, values; None: withdrawn
Ends = dict[int, int]  # partition of the one topic to the offset that comes next
READS = st.dictionaries(st.integers(0, 2), st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=2)  # gap, messages


def shown_values(fs: Fs, root: Path, location: LocationState) -> tuple[int | None, ...]:
    """The values of all rows in the files, None for those that are withdrawn."""
    values: list[int | None] = [*read_location(fs, root, location)]
    for row in location.withdrawn.positions.tolist():
        values[row] = None
    return tuple(values)


class Headless(Fs):
    """A disk on which there is no head."""

    def map(self, path: Path, length: int) -> pa.Buffer:
        if path.suffix == ".head":
            raise FileNotFoundError(path)
        return super().map(path, length)

    def read(self, path: Path) -> bytes:
        if path.suffix == ".head":
            raise FileNotFoundError(path)
        return super().read(path)


class StreamMachine(RuleBasedStateMachine):
    """``epochs`` and ``ends``: rows and positions of every epoch that can be read; ``removed``: (key, since) to whether
    it is gone for good.
    """

    log: StreamLog
    fs: CrashingFs

    @initialize(keep=st.integers(0, 4))
    def start(self, keep: int) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="machine-"))
        self.layout = Layout(self.root)
        self.keep = keep
        self.epochs: dict[int, Rows] = {0: {}}
        self.ends: dict[int, Ends] = {0: {}}
        self.newest = 0
        self.number = 0
        self.removed: dict[tuple[LocationKey, int], bool] = {}
        self.added: dict[int, dict[LocationKey, tuple[int, int, int]]] = {}  # by epoch: since, first row, last row + 1
        self.undone: dict[int, int] = {}  # by epoch that is undone
        self.opened: tuple[StreamState, StreamState] | None = None  # what a reader has, and what that was
        self.open(None)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()
            shutil.rmtree(self.root)

    def open(self, crash_at: str | None) -> None:
        try:
            self.fs = CrashingFs(crash_at=crash_at)
            self.log = open_log(self.fs, self.root, keep_epochs=self.keep, compact_bytes=1, head_bytes=1, slice_work=1)
        except Crash:
            self.fs = CrashingFs()
            self.log = open_log(self.fs, self.root, keep_epochs=self.keep, compact_bytes=1, head_bytes=1, slice_work=1)
        self.fs.crash_at = None

    def stopped(self, action: Callable[[], object], crash_at: str | None) -> bool:
        """Runs an action that may be killed; True if its record was in the log by then."""
        self.fs.crash_at, self.fs.occurrence = crash_at, 1
        self.fs.steps.clear()
        try:
            action()
        except Crash:
            landed = "log-append:after" in self.fs.steps
            self.open(None)
            return landed
        self.fs.crash_at = None
        return True

    def rows(self, epoch: int) -> Rows:
        """What the model holds of an epoch, deleted locations left out."""
        return {key: found for key, found in self.epochs[epoch].items() if not self.removed.get((key, found[0]))}

    @rule(batch=BATCHES, reads=READS, pieces=st.integers(1, 2), crash_at=steps(COMMIT_STEPS))
    def commit(
        self, batch: dict[LocationKey, list[int]], reads: dict[int, tuple[int, int]], pieces: int, crash_at: str | None
    ) -> None:
        before, ends = self.rows(self.newest), self.ends[self.newest]
        todo = {k: v for k, v in batch.items() if k not in before or (k, before[k][0]) not in self.removed}
        ranges, gaps = self.positions(ends, reads, pieces)
        assert self.log.state.classify(ranges, gaps).fresh == tuple(ranges)
        self.number += 1

        def write() -> None:
            write_batch(self.fs, self.root, self.log, todo, self.number, ranges=ranges, gaps=gaps)

        if self.stopped(write, crash_at):
            self.newest += 1
            self.ends[self.newest] = ends | {part.partition: part.stop for part in ranges}
            after = dict(before)
            for key, values in todo.items():
                since, held = before.get(key, (self.newest, ()))
                after[key] = (since, (*held, *values))
                self.added.setdefault(self.newest, {})[key] = since, len(held), len(held) + len(values)
            self.epochs[self.newest] = after

    @precondition(lambda self: self.added)
    @rule(data=st.data(), crash_at=steps(WITHDRAW_STEPS))
    def undo(self, data: st.DataObject, crash_at: str | None) -> None:
        """The rows of an epoch go, those after it stay, and so do positions; or it is refused and nothing changes."""
        epoch = data.draw(st.sampled_from(sorted(self.added)))
        parts, place = self.added[epoch], StreamPlace(self.fs, self.layout, TABLE, STREAM)
        rows = self.rows(self.newest)
        gone = any((key, since) in self.removed for key, (since, _, _) in parts.items())
        still = {key: part for key, part in parts.items() if key in rows and rows[key][0] == part[0]}  # not rolled back
        shown = not gone and any(v is not None for key, (_, a, b) in still.items() for v in rows[key][1][a:b])

        def undo() -> int:
            return self.log.withdraw(lambda: plan_undo(place, [epoch]))

        if epoch in self.undone:
            with contextlib.suppress(TableNotFoundError, TableExistsError, SettingsError):
                undo()  # what was done already is done
            assert self.log.state.epoch == self.newest
        elif epoch not in self.epochs or epoch <= self.log.state.floor or not shown:
            with pytest.raises((TableNotFoundError, TableExistsError, SettingsError)):
                undo()
        elif self.stopped(undo, crash_at):
            self.newest += 1
            self.undone[epoch] = self.newest
            self.withdraw({key: (since, range(a, b)) for key, (since, a, b) in parts.items()})

    @precondition(lambda self: self.rows(self.newest))
    @rule(data=st.data(), crash_at=steps(WITHDRAW_STEPS))
    def withdraw_rows(self, data: st.DataObject, crash_at: str | None) -> None:
        """Any rows of any location go, as those that a condition chooses."""
        rows = self.rows(self.newest)
        key = data.draw(st.sampled_from(sorted(rows)))
        since, values = rows[key]
        if (key, since) in self.removed or not values:
            return
        chosen = sorted(data.draw(st.sets(st.integers(0, len(values) - 1), min_size=1)))
        part = Withdrawn(key, since, RowRanges.at(np.array(chosen, np.int64)))
        if self.stopped(lambda: self.log.withdraw(lambda: Withdrawal((), "chosen", (part,))), crash_at):
            self.newest += 1
            self.withdraw({key: (since, chosen)})

    def withdraw(self, chosen: dict[LocationKey, tuple[int, Iterable[int]]]) -> None:
        """The newest epoch of the model has these rows no longer."""
        after = dict(self.rows(self.newest - 1))
        for key, (since, rows) in chosen.items():
            gone = set(rows)
            after[key] = since, tuple(None if row in gone else v for row, v in enumerate(after[key][1]))
        self.epochs[self.newest], self.ends[self.newest] = after, self.ends[self.newest - 1]

    def positions(
        self, ends: Ends, reads: dict[int, tuple[int, int]], pieces: int
    ) -> tuple[list[OffsetRange], list[OffsetRange]]:
        """Ranges that go on from ``ends``, each in some pieces, and the gaps before them."""
        ranges: list[OffsetRange] = []
        gaps: list[OffsetRange] = []
        for partition, (gap, messages) in reads.items():
            start = ends.get(partition, 7) + gap
            if gap and partition in ends:
                gaps.append(OffsetRange("topic", partition, start - gap, start, "id"))
            elif messages == 0 and partition in ends:
                continue  # nothing new
            cuts = sorted({start, start + messages, start + messages // pieces})
            parts = list(pairwise(cuts)) or [(start, start)]
            ranges.extend(OffsetRange("topic", partition, *part, "id") for part in parts)
        return ranges, gaps

    @precondition(lambda self: self.ends[self.newest])
    @rule(data=st.data(), back=st.integers(1, 5), ahead=st.integers(1, 5))
    def propose_again(self, data: st.DataObject, back: int, ahead: int) -> None:
        """What is committed is known after any crash, rollback and compaction, and nothing but it."""
        partition, end = data.draw(st.sampled_from(sorted(self.ends[self.newest].items())))
        known = OffsetRange("topic", partition, end - back, end, "id")
        rest = OffsetRange("topic", partition, end, end + ahead, "id")
        over = OffsetRange("topic", partition, end - back, end + ahead, "id")
        beyond = OffsetRange("topic", partition, end + ahead, end + ahead + back, "id")
        assert self.log.state.classify([known]).instead == {known: None}
        assert self.log.state.classify([over]).instead == {over: rest}
        for wrong in (known, over, beyond):
            with pytest.raises((EpochConflictError, PositionGapError)):
                self.log.commit(batch_of([], self.number, files=[], ranges=[wrong]))

    @rule(key=KEYS, values=ROWS)
    def append_only(self, key: LocationKey, values: list[int]) -> None:
        self.log.refresh()
        location = self.log.state.locations.get(key)
        if location is None or not location.truncated:
            append(self.fs, self.root, location, key, values)

    @rule(crash_at=steps(OPEN_STEPS), kill=st.booleans())
    def reopen(self, crash_at: str | None, kill: bool) -> None:
        if kill:
            with contextlib.suppress(Crash):
                self.fs.crash()
        else:
            self.log.close()
        self.open(crash_at)

    @rule(crash_at=steps(COMPACT_STEPS), now=st.booleans())
    def compact(self, crash_at: str | None, now: bool) -> None:
        self.stopped(lambda: self.log.compact_if_due(now=now), crash_at)
        self.epochs = {e: rows for e, rows in self.epochs.items() if e >= self.log.state.floor}
        self.ends = {e: self.ends[e] for e in self.epochs}

    @rule(crash_at=steps(HEAD_STEPS))
    def write_head(self, crash_at: str | None) -> None:
        self.stopped(self.log.write_head, crash_at)

    @rule(data=st.data(), crash_at=steps(ROLLBACK_STEPS))
    def roll_back(self, data: st.DataObject, crash_at: str | None) -> None:
        to = data.draw(st.sampled_from(sorted(self.epochs)))
        if to == self.newest:
            assert self.log.rollback(to) == to
        elif self.stopped(lambda: self.log.rollback(to), crash_at):
            self.newest += 1
            self.epochs = {e: rows for e, rows in self.epochs.items() if e <= to} | {self.newest: self.epochs[to]}
            self.ends = {e: ends for e, ends in self.ends.items() if e <= to} | {self.newest: self.ends[to]}
            self.undone = {epoch: by for epoch, by in self.undone.items() if by <= to}

    @precondition(lambda self: self.rows(self.newest))
    @rule(data=st.data(), delete=st.booleans())
    def remove(self, data: st.DataObject, delete: bool) -> None:
        rows = self.rows(self.newest)
        key = data.draw(st.sampled_from(sorted(rows)))
        since, values = rows[key]
        if (key, since) not in self.removed:
            removal = Removal(key, since, len(values), "truncate", self.newest, {"digest": "x"})
            remove(self.fs, self.root, removal)
            self.removed[(key, since)] = False
        if delete:
            remove(self.fs, self.root, Removal(key, since, 0, "delete", self.newest))
            self.fs.remove_tree(self.layout.intraday_location(TABLE, key))
            self.removed[(key, since)] = True

    @invariant()
    def every_kept_epoch_reads_as_the_model_says(self) -> None:
        if not hasattr(self, "log"):
            return
        for epoch in self.epochs:
            state = load_stream(StreamPlace(self.fs, self.layout, TABLE, STREAM), epoch=epoch)
            expected = {
                key: () if (key, since) in self.removed else values for key, (since, values) in self.rows(epoch).items()
            }
            found = {key: shown_values(self.fs, self.root, loc) for key, loc in state.locations.items()}
            assert found == expected, epoch
            ends = {f"topic/{partition}": stop for partition, stop in self.ends[epoch].items()}
            assert state.offsets.positions() == ends, epoch
        newest = load_stream(StreamPlace(self.fs, self.layout, TABLE, STREAM))
        assert newest.epoch == self.newest
        assert newest == load_stream(StreamPlace(self.fs, self.layout, TABLE, STREAM), cached=False)
        assert (newest.files, newest.offsets) == load_joint_positions(
            [StreamPlace(self.fs, self.layout, TABLE, STREAM)]
        )
        kept = newest_state(StreamPlace(self.fs, self.layout, TABLE, STREAM)).state
        assert kept == newest
        assert self.opened is None or self.opened[0] == self.opened[1], "an open table changes by itself"
        self.opened = kept, newest
        with_head, without = (
            resume(StreamPlace(fs, self.layout, TABLE, STREAM), boot_id="boot-1", time_ms=0)
            for fs in (Fs(), Headless())
        )
        assert (without.head_end, without.known_removals) == (0, 0)
        bare = replace(with_head, head_end=0, head_bytes=0, known_removals=0, last_removal=without.last_removal)
        assert bare == without
        live = {entry.epoch for entry in list_epochs(StreamPlace(self.fs, self.layout, TABLE, STREAM)) if entry.live}
        assert live | {newest.floor} == set(self.epochs)


@pytest.mark.parametrize(("examples", "steps_each"), [(5, 12), pytest.param(25, 25, marks=pytest.mark.slow)])
def test_any_order_of_steps_leaves_what_a_plain_model_says(examples: int, steps_each: int) -> None:
    phases = (Phase.explicit, Phase.reuse, Phase.generate)
    chosen = settings(max_examples=examples, stateful_step_count=steps_each, deadline=None, phases=phases)
    run_state_machine_as_test(StreamMachine, settings=chosen)
