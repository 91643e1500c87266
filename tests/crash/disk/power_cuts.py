"""Power cuts under a running writer, on real file systems: ``python -m tests.crash.disk.power_cuts [--rounds N]``.

Each round mounts nothing new: the writer of the round before has left its table, the next one goes on with it, is cut
off at a random moment, and the file system is mounted again as after a reboot. Then the stream is recovered and
compared: every epoch that was acknowledged in mode ``fsync`` is there, and in the other modes every one that had been
synced; rows are a gapless beginning of the topic, whole, once.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import signal
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace, TablePlace
from tests.crash.disk.images import KINDS, Image, missing
from tests.crash.spark.plain_job import StoppingFs, work
from tests.support.streams.stream_kit import STREAM, TABLE, file_sizes_are_exact, numbers, open_log

ROWS_A_BATCH = 20
SYNC_EVERY = 7  # batches, in the modes that do not sync each one
MODES = ("fsync", "periodic", "none")


class BootedFs(StoppingFs):
    """The file system of a machine that has come up ``boot`` times."""

    def __init__(self, boot: int) -> None:
        super().__init__(None, 0)
        self._boot = boot

    def boot_id(self) -> str:
        return f"boot-{self._boot}"


class UnsyncedFs(BootedFs):
    """Sabotage: what commits rely on is not synced, ``file`` the columns, ``log`` the commit log."""

    left_out = ""

    def _sync_file(self, path: Path) -> None:
        of_stream = ".streams" in path.parts
        if not (self.left_out == "file" and not of_stream) and not (self.left_out == "log" and ".log" in path.name):
            super()._sync_file(path)


@dataclass(slots=True)
class Tally:
    """What many cuts have cost. ``gone``: rows that were acknowledged, not synced, and went, as the mode says."""

    kind: str
    mode: str
    rounds: int = 0
    acknowledged: int = 0
    lost: int = 0
    doubled: int = 0
    torn: int = 0
    gone: int = 0
    most_gone: int = 0

    @property
    def bad(self) -> bool:
        """Whether the mode has not kept its word."""
        return bool(self.lost or self.doubled or self.torn)


def cut_rounds(
    base: Path, kind: str, mode: str, rounds: int, seed: int, make_fs: Callable[[int], StoppingFs] = BootedFs
) -> Tally:
    """Cuts the power so often; what it found."""
    chance, tally = random.Random(seed), Tally(kind, mode)
    with Image(base, kind) as image:
        root = image.mount / "db"
        for boot in range(rounds):
            root.mkdir(exist_ok=True)
            _round(image, root, chance, tally, make_fs(boot), BootedFs(boot + 1))
            if tally.bad:
                break
        root.mkdir(exist_ok=True)
        if not tally.bad:
            report = verify(Fs(), Layout(root), deep=True)
            tally.torn += sum(f.severity == "error" and "schema" not in f.what.lower() for f in report.findings)
    return tally


def _round(image: Image, root: Path, chance: random.Random, tally: Tally, fs: StoppingFs, after: Fs) -> None:
    before = _committed(root)
    child, pipe = _start(root, tally.mode, fs)
    with closing(os.fdopen(pipe, encoding="ascii")) as said:
        try:
            acknowledged, synced = _listen(said.fileno(), chance.uniform(0.02, 0.5), before)
            image.cut_power()
            more = _listen(said.fileno(), 0.0, before)  # what it had said by then
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    acknowledged, synced = max(acknowledged, more[0]), max(synced, more[1])
    image.boot()
    root.mkdir(exist_ok=True)
    tally.rounds += 1
    tally.acknowledged += acknowledged - before
    if tally.mode == "fsync":
        synced = acknowledged
    try:
        with open_log(after, root, durability=tally.mode) as log:
            found = numbers(root, log.state)
            whole = file_sizes_are_exact(root, log.state)
    except (AssertionError, SparkhavenError) as error:
        print(f"{tally.kind} {tally.mode} round {tally.rounds}: {error}", flush=True)
        tally.torn += 1
        return
    tally.torn += not whole or len(found) % ROWS_A_BATCH != 0
    tally.doubled += len(found) - len(set(found))
    kept = len(set(found))
    tally.lost += max(0, synced - kept) + len({*range(kept)} - set(found))
    gone = max(0, acknowledged - max(kept, synced))
    tally.gone += gone
    tally.most_gone = max(tally.most_gone, gone)


def _committed(root: Path) -> int:
    fs, layout = Fs(), Layout(root)
    if STREAM not in list_streams(TablePlace(fs, layout, TABLE)):
        return 0
    return len(numbers(root, load_stream(StreamPlace(fs, layout, TABLE, STREAM))))


def _start(root: Path, mode: str, fs: StoppingFs) -> tuple[int, int]:
    """The writer, in a child that starts warm; its process and what it says."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    try:
        os.close(reading)
        os.dup2(writing, 1)
        sys.stdout = os.fdopen(1, "w", encoding="ascii")
        sync_every = 0 if mode == "fsync" else SYNC_EVERY
        options = Namespace(durability=mode, batches=10**6, rows=ROWS_A_BATCH, gathered=1 << 20, fork=False)
        options.sync_every = sync_every
        work(root, options, fs=fs)
    except BaseException:  # the disk is gone, as is to be expected
        os._exit(1)
    os._exit(0)


def _listen(pipe: int, seconds: float, before: int) -> tuple[int, int]:
    """Offsets acknowledged and synced by the time that is over; it begins with the first epoch."""
    acknowledged = synced = before
    end, text = time.monotonic() + (30 if seconds else 0.05), ""
    begun = False
    while (left := end - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left)[0]:
            break
        data = os.read(pipe, 65536).decode("ascii")
        if not data:
            break
        text += data
        *lines, text = text.split("\n")
        for line in lines:
            words = line.split()
            if words[0] == "epoch":
                acknowledged = int(words[3])
                if not begun and seconds:
                    begun, end = True, time.monotonic() + seconds
            elif words[0] == "durable":
                synced = int(words[2])
    return acknowledged, synced


def main(rounds: int, seed: int, kinds: Sequence[str], modes: Sequence[str], sabotage: str = "") -> list[Tally]:
    """The tally of each kind and mode."""
    UnsyncedFs.left_out = sabotage
    tallies = []
    with tempfile.TemporaryDirectory() as directory:
        for kind in kinds:
            for mode in modes:
                tallies.append(cut_rounds(Path(directory), kind, mode, rounds, seed, UnsyncedFs))
                print(tallies[-1], flush=True)
    return tallies


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Cuts the power of a real file system under a running writer.")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="*", default=[*KINDS])
    parser.add_argument("--modes", nargs="*", default=[*MODES])
    parser.add_argument("--sabotage", default="", choices=["", "file", "log"])
    given = parser.parse_args()
    if why := missing():
        print(f"no power cuts on real file systems here: {why}; tests/support/disks/power_cut_fs.py models them")
        sys.exit(0)
    found = main(given.rounds, given.seed, given.kinds, given.modes, given.sabotage)
    sys.exit(any(tally.bad for tally in found))
