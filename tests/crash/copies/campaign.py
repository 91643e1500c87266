"""Snapshots and a mirror under ingest, merges, rollbacks, removals and kills, compared with the rows of their epochs.

A process ingests and maintains a table in a loop, and is killed at random. Meanwhile snapshots are taken, most since
the one before, and restored, and a mirror is brought up to date. Some of these processes are killed, too. What a copy
must have follows from the feed: the rows of the files that its log has taken, in the table or in quarantine. Full size
is ``python -m tests.crash.copies.campaign --snapshots 50``.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from sparkhaven import open_table
from sparkhaven.jobs.monitor.rejected import rejected_rows
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.writers.quarantine.row_choice import Chosen
from tests.crash.beside.campaign import DAYS, TABLE, steps, write_feed
from tests.support.commands import run

COLUMNS = ("Sym", "N", "Note", "Source", "Date")
LIFE = 100_000  # numbers of rounds in one life of the process that works


@dataclass
class Tally:
    """What was done, and what went wrong, in words."""

    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def work(root: Path, stream: Path, life: int) -> None:
    """The process that ingests, rolls back, merges, truncates and deletes, until it is killed."""
    rng = random.Random(life)
    for number in count(life * LIFE):
        for step in steps(root, stream, number, rng):
            step()
        if number % 4 == 3:
            run(root, "delete", TABLE, "--date", DAYS[number % 2])


class Campaign:
    """One root, the process that works on it, and the snapshots of it."""

    def __init__(self, base: Path, seed: int, locations: int = 6) -> None:
        self.base, self.root, self.rng, self.tally = base, base / "db", random.Random(seed), Tally()
        self.stream, self.life, self.last = write_feed(base, 20, locations), 0, None
        run(self.root, "partitions", "add", "Beside", "0")
        result = run(self.root, "ingest", str(self.stream), "--once")
        assert result.exit_code == 0, result.output
        self.mirror = base / "mirror"
        self.worker = self.started()

    last: Path | None

    def started(self) -> subprocess.Popen[bytes]:
        self.life += 1
        words = ["work", str(self.root), str(self.stream), str(self.life)]
        with (self.base / "worker.log").open("ab") as log:
            command = [sys.executable, "-m", "tests.crash.copies.campaign", *words]
            return subprocess.Popen(command, stdout=log, stderr=log)

    def disturb(self) -> None:
        """Lets the process work for a while; in one of three rounds it is killed, and another one begins."""
        time.sleep(self.rng.random() * 1.5)
        if self.worker.poll() is not None:
            self.tally.done["worker ended"] += 1
            self.worker = self.started()
        elif self.rng.random() < 1 / 3:
            self.worker.kill()
            self.worker.wait()
            self.tally.done["worker killed"] += 1
            self.worker = self.started()

    def command(self, number: int, name: str, root: Path, *words: str | Path) -> bool:
        """Runs a command, in one of four rounds killed once before; whether it succeeded."""
        line = [sys.executable, "-m", "sparkhaven", "--root", str(root), name, *map(str, words)]
        if self.rng.random() < 1 / 4:
            process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.3 + self.rng.random() * 0.8)
            if process.poll() is None:
                process.kill()
                self.tally.done[f"{name} killed"] += 1
            process.wait()
            if name == "mirror" and self.mirror.is_symlink():
                self.same(f"mirror, killed in pass {number}", self.mirror.resolve())
        for _ in range(4):
            ended = subprocess.run(line, capture_output=True, text=True, check=False)
            if ended.returncode == 0 or (name == "snapshot" and (Path(words[1]) / "snapshot.json").exists()):
                return True
            if ended.returncode != 3:
                break
            self.tally.done[f"{name} again"] += 1
        self.tally.wrong.append(f"{name} ended with {ended.returncode}: {ended.stderr[-1500:]}")
        return False

    def round(self, number: int) -> None:
        """One snapshot, restored and compared."""
        self.disturb()
        out, back = self.base / f"snapshot{number}", self.base / f"restored{number}"
        since = ("--since", self.last) if self.last and self.rng.random() < 3 / 4 else ()
        if not self.command(number, "snapshot", self.root, "--out", out, *since):
            return
        self.tally.done["snapshots since another" if since else "snapshots"] += 1
        earlier = [path for path in (self.last, out) if path]
        self.last = out
        for source in earlier:  # the one before too, whose files the new one continues
            if self.command(number, "restore", back, source):
                self.same(source.name, back)
                self.goes_on(source.name, back)
                self.tally.done["restored"] += 1
            shutil.rmtree(back, ignore_errors=True)
        if self.command(number, "mirror", self.root, self.root, self.mirror):
            self.same(f"mirror after pass {number}", self.mirror.resolve())
            self.tally.done["mirrored"] += 1

    def same(self, name: str, root: Path) -> None:
        """A table has the rows of the files that its log has taken."""
        rows = self.rows_taken(root)
        if table_rows(root) + rejected(root) != rows:
            self.tally.wrong.append(f"{name}: other rows than the {rows.total()} of its epochs")
        for finding in verify(Fs(), Layout(root), None, deep=True).findings:
            if finding.severity == "error" or not name.startswith("mirror"):  # a killed pass leaves tails
                self.tally.wrong.append(f"{name}: {finding.text()}")

    def goes_on(self, name: str, root: Path) -> None:
        """A restored table takes the files that came later, in one of three rounds."""
        if self.rng.random() < 1 / 3:
            result = run(root, "ingest", str(self.stream), "--once")
            if result.exit_code or table_rows(root) + rejected(root) != self.rows_taken(root):
                self.tally.wrong.append(f"{name}: does not go on: {result.output[-1500:]}")
            self.tally.done["went on"] += 1

    def rows_taken(self, root: Path) -> Counter[tuple[str, ...]]:
        place = StreamPlace(Fs(), Layout(root), TableName.parse(TABLE), "rows")
        expected: Counter[tuple[str, ...]] = Counter()
        for taken in load_stream(place).files:
            for line in Path(taken.path).read_text().splitlines():
                expected[values(line)] += 1
        return expected


def values(line: str) -> tuple[str, ...]:
    """The columns of a row in the feed."""
    row = json.loads(line)
    return *(str(row[name]) for name in COLUMNS[:-1]), row["At"][:10]


def rejected(root: Path) -> Counter[tuple[str, ...]]:
    """Rows in quarantine: late rows of a date that was truncated."""
    place = StreamPlace(Fs(), Layout(root), TableName.parse(TABLE), "rows")
    rows = rejected_rows(place, load_stream(place))
    return Counter(values(str(row["Payload"] or b"", "utf-8")) for row in rows.rows(Chosen())) if rows else Counter()


def table_rows(root: Path) -> Counter[tuple[str, ...]]:
    columns = open_table(root, TABLE).to_arrow(list(COLUMNS)).to_pydict()
    return Counter(zip(*(map(str, columns[name]) for name in COLUMNS), strict=True))


def campaign(base: Path, *, snapshots: int, seed: int = 1) -> Tally:
    """Runs the campaign in a new directory ``base``."""
    running = Campaign(base, seed)
    try:
        for number in range(snapshots):
            running.round(number)
            if running.tally.wrong:
                break
    finally:
        running.worker.kill()
        running.worker.wait()
    return running.tally


def main() -> None:
    """Runs the campaign, or is the process that works."""
    if sys.argv[1:2] == ["work"]:
        return work(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--snapshots", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as base:
        tally = campaign(Path(base) / "copies", snapshots=chosen.snapshots, seed=chosen.seed)
    print(", ".join(f"{what} {times}" for what, times in sorted(tally.done.items())))
    for said in tally.wrong:
        print(f"wrong: {said}")
    sys.exit(bool(tally.wrong))


if __name__ == "__main__":
    main()
