"""Power cuts under the writer of a quarantine, on real file systems.

``python -m tests.crash.disk.quarantine_cuts [--rounds N]``. Each round goes on with the table that the round before has
left, is cut off at a random moment, and the file system is mounted again. Then the table must be readable, and have the
row of each epoch that was acknowledged, once.
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
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.quarantine.table import Thresholds
from tests.crash.disk.images import KINDS, Image, missing
from tests.support.streams.stream_kit import open_log
from tests.support.writers.quarantine_cases import marks, quarantine_at, rejected_at


@dataclass(slots=True)
class CutTally:
    """What the cuts have cost; ``unreadable`` tables end a run."""

    kind: str
    rounds: int = 0
    acknowledged: int = 0
    lost: int = 0
    doubled: int = 0
    unreadable: int = 0

    @property
    def bad(self) -> bool:
        """Whether a row was lost or doubled."""
        return bool(self.lost or self.doubled or self.unreadable)


class UnsyncedFs(Fs):
    """Sabotage: files are not synced."""

    def _sync_file(self, path: Path) -> None:
        del path


def cut_rounds(base: Path, kind: str, rounds: int, seed: int, fs: Fs) -> CutTally:
    """Cuts the power so often; what it found."""
    chance, tally, acknowledged = random.Random(seed), CutTally(kind), 0
    with Image(base, kind) as image:
        root = image.mount / "db"
        root.mkdir()
        open_log(Fs(), root).close()
        os.sync()
        for _ in range(rounds):
            acknowledged = _round(image, root, fs, acknowledged, chance)
            tally.rounds += 1
            tally.acknowledged = acknowledged
            try:
                rows = Counter(epoch for epoch, _ in marks(quarantine_at(Fs(), root)))
            except SparkhavenError as error:
                print(error, flush=True)
                tally.unreadable += 1
                break
            tally.doubled += sum(count - 1 for count in rows.values())
            tally.lost += len({*range(1, acknowledged + 1)} - rows.keys())
            if tally.bad:
                break
            acknowledged = max(rows, default=0)
    return tally


def _round(image: Image, root: Path, fs: Fs, before: int, chance: random.Random) -> int:
    """The newest epoch that the writer had acknowledged when the power went."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _write(root, fs, before, writing)
    os.close(writing)
    try:
        select.select([reading], [], [], 30)  # the first epoch
        acknowledged = _listen(reading, chance.uniform(0.05, 0.6), before)
        image.cut_power()
        return max(acknowledged, _listen(reading, 0.05, acknowledged))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        image.boot()


def _write(root: Path, fs: Fs, before: int, pipe: int) -> None:
    try:
        quarantine = quarantine_at(fs, root, thresholds=Thresholds(small_files=8))  # so that compactions are cut, too
        with tempfile.TemporaryDirectory() as scratch:
            for epoch in range(before + 1, before + 10**6):
                quarantine.add([rejected_at(Path(scratch) / "r", epoch)], epoch)
                os.write(pipe, f"{epoch}\n".encode())
    finally:  # the disk is gone, as is to be expected
        os._exit(1)


def _listen(pipe: int, seconds: float, before: int) -> int:
    """The newest epoch that is acknowledged by the time that is over."""
    end, text = time.monotonic() + seconds, ""
    while (left := end - time.monotonic()) > 0 and select.select([pipe], [], [], left)[0]:
        data = os.read(pipe, 65536).decode("ascii")
        if not data:
            break
        text += data
    return max((int(word) for word in text.split("\n")[:-1]), default=before)


def main(rounds: int, seed: int, kinds: Sequence[str], *, is_sabotaged: bool = False) -> list[CutTally]:
    """The tally of each kind."""
    tallies = []
    with tempfile.TemporaryDirectory() as directory:
        for kind in kinds:
            tallies.append(cut_rounds(Path(directory), kind, rounds, seed, UnsyncedFs() if is_sabotaged else Fs()))
            print(tallies[-1], flush=True)
    return tallies


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Cuts the power of a real file system under a quarantine.")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="*", default=[*KINDS])
    parser.add_argument("--sabotage", action="store_true", help="sync no file: rows must be lost")
    given = parser.parse_args()
    if why := missing():
        print(f"no power cuts on real file systems here: {why}")
        sys.exit(0)
    sys.exit(any(tally.bad for tally in main(given.rounds, given.seed, given.kinds, is_sabotaged=given.sabotage)))
