"""What a power cut on the model of a disk leaves wrong."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import StreamPlace
from tests.support.disks.model_fs import Crash
from tests.support.disks.power_cut_fs import PowerCutFs
from tests.support.streams.tiny_writer import STREAM, TABLE, open_log, read_state, write_batch

KEYS = [LocationKey(internal, value) for internal in "ab" for value in ("d1", "d2")]
LIVES = 30
Positions = frozenset[str | tuple[str, int]]  # files taken, ends of partitions
Seen = tuple[tuple[tuple[LocationKey, tuple[int, ...]], ...], Positions]
MakeFs = Callable[..., PowerCutFs]


def seen(fs: Fs, root: Path, state: StreamState) -> Seen:
    """Rows and positions of a state, to be compared."""
    rows = read_state(fs, root, state)
    positions: Positions = frozenset([*(file.path for file in state.files), *state.offsets.positions().items()])
    return tuple(sorted((key, tuple(values)) for key, values in rows.items())), positions


class Life:
    """A stream that lives through several power cuts; ``allowed`` are the states that it may come back with."""

    def __init__(self, root: Path, seed: int, durability: str, make_fs: MakeFs) -> None:
        self.root, self.chance, self.durability, self.make_fs = root, random.Random(seed), durability, make_fs
        self.allowed: list[Seen] = [((), frozenset())]
        self.number = 0
        self.losses = 0

    def live(self) -> None:
        """Three times: work until the power goes, come back, compare. AssertionError or SparkhavenError: a loss."""
        for boot in range(3):
            fs = self.make_fs(self.root, crash_after=self.chance.randint(3, 150), boot=f"boot-{boot}")
            try:
                with self.open(fs) as log:
                    self.come_back(fs, log)
                    for _ in range(12):
                        self.work(fs, log)
            except Crash:
                pass
            fs.cut(self.chance.randrange(10**6))
        fs = self.make_fs(self.root, boot="boot-last")
        with self.open(fs) as log:
            self.come_back(fs, log)

    def open(self, fs: Fs) -> StreamLog:
        return open_log(fs, self.root, durability=self.durability, keep_epochs=2, compact_bytes=1)

    def come_back(self, fs: Fs, log: StreamLog) -> None:
        whole, quick = (
            load_stream(StreamPlace(fs, Layout(self.root), TABLE, STREAM), cached=cached) for cached in (False, True)
        )
        assert whole == quick
        now = seen(fs, self.root, log.state)
        assert now in self.allowed, f"came back as {now}, allowed are {self.allowed}"
        self.losses += len(log.recovery.lost_epochs)
        self.allowed = [now]

    def work(self, fs: Fs, log: StreamLog) -> None:
        dice = self.chance.random()
        if dice < 0.1:
            log.compact_if_due()
            log.write_head()
        elif dice < 0.2 and log.state.epoch > log.state.floor:
            self.roll_back(fs, log)
        elif dice < 0.3:
            log.sync_now()
            self.allowed = self.allowed[-1:]
        else:
            self.batch(fs, log)

    def batch(self, fs: Fs, log: StreamLog) -> None:
        self.number += 1
        before, positions = self.allowed[-1]
        rows = dict(before)
        added = {
            key: [self.chance.randrange(10**6) for _ in range(self.chance.choice([1, 3, 200]))]
            for key in self.chance.sample(KEYS, self.chance.randint(1, 2))
        }
        after = rows | {key: (*rows.get(key, ()), *values) for key, values in added.items()}
        ends = dict(entry for entry in positions if isinstance(entry, tuple))
        start = ends.get("topic/0", 0)
        read = OffsetRange("topic", 0, start, start + self.chance.randint(1, 9), "id")
        taken = {entry for entry in positions if isinstance(entry, str)} | {f"/feed/{self.number}"}
        self.allowed.append((tuple(sorted(after.items())), frozenset([*taken, ("topic/0", read.stop)])))
        write_batch(fs, self.root, log, added, self.number, sync=self.durability == "fsync", ranges=[read])
        if self.durability == "fsync":
            self.allowed = self.allowed[-1:]

    def roll_back(self, fs: Fs, log: StreamLog) -> None:
        try:
            epoch = self.chance.randint(log.state.floor, log.state.epoch)
            target = load_stream(StreamPlace(fs, Layout(self.root), TABLE, STREAM), epoch=epoch)
        except SparkhavenError:
            return  # rolled back before
        self.allowed.append(seen(fs, self.root, target))
        log.rollback(epoch)
        self.allowed = self.allowed[-1:]


def problem(root: Path, durability: str, make_fs: MakeFs) -> str | None:
    """The first that goes wrong, within twice as many lives as are to go well."""
    return next((found for found, _ in _lives(root, durability, make_fs, 2 * LIVES) if found), None)


def problems(root: Path, durability: str, make_fs: MakeFs, lives: int = LIVES) -> tuple[list[str], int]:
    """What went wrong over many lives, and how many epochs were reported lost."""
    ended = [*_lives(root, durability, make_fs, lives)]
    return [found for found, _ in ended if found], sum(losses for _, losses in ended)


def _lives(root: Path, durability: str, make_fs: MakeFs, lives: int) -> Iterator[tuple[str | None, int]]:
    """Of each life what went wrong, and how many epochs were reported lost."""
    for seed in range(lives):
        place = root / str(seed)
        place.mkdir()
        life = Life(place, seed, durability, make_fs)
        found: str | None = None
        try:
            life.live()
        except (AssertionError, SparkhavenError, OSError) as error:
            found = f"life {seed}: {type(error).__name__}: {error}"
        yield found, life.losses
