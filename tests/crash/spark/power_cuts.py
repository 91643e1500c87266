"""Power cuts under a real Spark job: ``python -m tests.crash.spark.power_cuts [--rounds N] [--sinks ...]``.

Table, commit log and Spark's checkpoint lie on the image that goes down; the feed does not, so a query may read again
whatever it has to. After each cut the job is started again and takes all that is in the feed; then its table is
compared with the feed. Then all is synced, as a disk does by itself in time: a cut takes only what is new. The same
cuts are made under Spark's Parquet sink and under Delta, with the settings that they come with. A query that does not
start any more, or a table that nobody can read, is counted, and begun anew.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash.disk.images import KINDS, Image, missing
from tests.crash.spark.sink_job import ROWS_A_FILE, SINKS, put_files
from tests.crash.spark.zombies import processes_of
from tests.support.places import REPOSITORY
from tests.support.streams.stream_kit import STREAM, TABLE

FILES_A_ROUND = 8
SECONDS = 180
OURS = ("stream", "writer")


@dataclass(slots=True)
class SinkTally:
    """What the cuts have cost a sink, in rows where nothing else is said.

    ``lost`` and ``doubled`` once the job was started again and was through; ``gone`` acknowledged rows that were not
    there after the cut, whether they came back or not; ``unreadable`` tables and ``stuck`` queries are counted by cuts.
    """

    kind: str
    sink: str
    rounds: int = 0
    acknowledged: int = 0
    gone: int = 0
    lost: int = 0
    doubled: int = 0
    torn: int = 0
    unreadable: int = 0
    stuck: int = 0
    repaired: int = 0
    said: list[str] = field(default_factory=list)

    @property
    def bad(self) -> bool:
        """Whether it is not exactly once, at once."""
        return bool(self.gone or self.lost or self.doubled or self.torn or self.unreadable or self.stuck)


@dataclass(slots=True)
class _Feed:
    place: Path
    files: int = 0

    def grow(self) -> None:
        put_files(self.place, self.files, self.files + FILES_A_ROUND)
        self.files += FILES_A_ROUND

    @property
    def numbers(self) -> set[int]:
        return {*range(self.files * ROWS_A_FILE)}


class SinkJob:
    """The running job; what it says line by line."""

    program = "tests.crash.spark.sink_job"

    def __init__(self, sink: str, feed: Path, place: Path) -> None:
        self._said, self._rest = deque[bytes](), b""  # lines that nobody has asked for yet, and a part of one
        self.process = subprocess.Popen(
            [sys.executable, "-m", self.program, sink, str(feed), str(place)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1"},
        )

    def lines(self, seconds: float = SECONDS) -> Iterator[tuple[str, str]]:
        """First word and rest of each line, until the job ends or the time is over."""
        assert self.process.stdout is not None
        descriptor, end = self.process.stdout.fileno(), time.monotonic() + seconds
        while True:
            while self._said:
                word, _, rest = self._said.popleft().decode(errors="replace").partition(" ")
                yield word, rest
            if not select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0]:
                return
            data = os.read(descriptor, 65536)
            if not data:
                return
            *whole, self._rest = (self._rest + data).split(b"\n")
            self._said.extend(whole)

    def go_on(self) -> None:
        """Lets it take what is in the feed now."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")

    def kill(self) -> None:
        """Ends it with its JVM and its workers."""
        for process in processes_of(self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self.process.wait()


def cut_sink(base: Path, kind: str, sink: str, rounds: int, seed: int) -> SinkTally:
    """Cuts the power of an image under a sink so often; what it has cost."""
    base.mkdir(parents=True)
    chance, tally, feed = random.Random(seed), SinkTally(kind, sink), _Feed(base / "feed")
    acknowledged: int | None = None
    with Image(base, kind) as image:
        place = image.mount / "place"
        while True:
            if sink == "writer" and acknowledged is not None:
                tally.repaired += _repair(place, tally)
            if not feed.files:
                feed.grow()
            job = SinkJob(sink, feed.place, place)
            try:
                sound = _after(job, feed, acknowledged, tally)
                if not sound and acknowledged is None:
                    raise RuntimeError(f"{sink} does not run without a power cut either: {tally.said[-1]}")
                if tally.rounds == rounds and acknowledged is not None:
                    return tally
                if sound:
                    os.sync()
                    feed.grow()
                    job.go_on()
                    before, acknowledged = feed.files - FILES_A_ROUND, _cut(job, image, chance)
                    tally.acknowledged += max(0, acknowledged - before * ROWS_A_FILE)
                    tally.rounds += 1
            finally:
                job.kill()
            if sound:
                image.boot()
            else:  # what is left is of no use: from the beginning
                for path in (place, feed.place):
                    shutil.rmtree(path, ignore_errors=True)
                feed.files, acknowledged = 0, None
                if tally.rounds == rounds:
                    return tally


def _after(job: SinkJob, feed: _Feed, acknowledged: int | None, tally: SinkTally) -> bool:
    """Counts what the cut before has cost, once the job is through with the feed; whether it can be gone on with."""
    before: dict[str, Any] = {}
    after: dict[str, Any] = {"error": "the job has not come to an end"}
    for word, rest in job.lines():
        if word == "before":
            before = json.loads(rest)
            if "error" in before:
                tally.unreadable += 1
                tally.said.append(f"cut {tally.rounds}, before the start: {before['error']}")
            elif acknowledged is not None:
                tally.gone += len({*range(acknowledged)} - {*before["numbers"]})
                tally.torn += before["torn"]
        elif word == "after":
            after = json.loads(rest)
            break
        elif word == "failed":
            tally.stuck += 1
            tally.said.append(f"cut {tally.rounds}: {rest}")
            return False
    if "error" in after:
        tally.unreadable += "error" not in before
        tally.said.append(f"cut {tally.rounds}: {after['error']}")
        return False
    found = after["numbers"]
    lost, doubled = len(feed.numbers - {*found}), len(found) - len({*found})
    tally.lost, tally.doubled, tally.torn = tally.lost + lost, tally.doubled + doubled, tally.torn + after["torn"]
    return not lost and not doubled and not after["torn"]


def _cut(job: SinkJob, image: Image, chance: random.Random) -> int:
    """Cuts the power some batches later; how many rows the job had reported by then."""
    reported, wait = 0, chance.randint(1, FILES_A_ROUND - 2)
    for word, rest in job.lines():
        if word == "acknowledged":
            reported, wait = int(rest), wait - 1
            if wait == 0:
                break
    pause = time.monotonic() + chance.uniform(0.0, 0.3)
    while (left := pause - time.monotonic()) > 0 and job.process.poll() is None:
        reported = max([reported, *(int(rest) for word, rest in job.lines(left) if word == "acknowledged")])
    image.cut_power()
    return max([reported, *(int(rest) for word, rest in job.lines(0.05) if word == "acknowledged")])


def _repair(place: Path, tally: SinkTally) -> int:
    """``checkpoint repair`` as one does it after a power cut; 1 if there was something to mend."""
    checkpoint, root = place / "checkpoint", place / "table"
    if not checkpoint.exists():
        return 0
    known = [str(TABLE), STREAM] if root.exists() else []
    command = ["--root", str(root), "checkpoint", "repair", str(checkpoint), *known, "--repair", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "sparkhaven.jobs.cli.main", *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
    )
    if done.returncode:
        tally.said.append(f"cut {tally.rounds}: repair: {done.stdout} {done.stderr}")
    return int(done.returncode == 0 and json.loads(done.stdout)["repaired"])


def main(rounds: int, seed: int, kinds: Sequence[str], sinks: Sequence[str]) -> list[SinkTally]:
    """The tally of each kind and sink."""
    tallies = []
    with tempfile.TemporaryDirectory() as directory:
        for kind in kinds:
            for sink in sinks:
                tallies.append(cut_sink(Path(directory) / f"{kind}-{sink}", kind, sink, rounds, seed))
                print(tallies[-1], flush=True)
    return tallies


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Cuts the power of a real file system under a Spark job.")
    parser.add_argument("--rounds", type=int, default=5, help="of each kind and sink")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="*", default=[*KINDS], choices=[*KINDS])
    parser.add_argument("--sinks", nargs="*", default=[*SINKS], choices=[*SINKS])
    given = parser.parse_args()
    if why := missing():
        print(f"no power cuts on real file systems here: {why}")
        sys.exit(0)
    found = main(given.rounds, given.seed, given.kinds, given.sinks)
    sys.exit(any(tally.bad for tally in found if tally.sink in OURS))
