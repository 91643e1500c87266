"""A real engine, minutes of rows that come, are rolled back, merged, truncated and deleted: memory stays bounded.

Each round commits epochs of two sources; every third one rolls a shown epoch back, so that the attached table ends and
is opened again; every fifth one takes a date to history and out of intraday. After each round the client's count is
compared with what was written, and whole columns are read, where they are mapped. Memory is what the server has for
itself (``RssAnon``): the median of the last quarter of the time is compared with that of the second. The removed files
that it has mapped are those of the attached table, and go with it at the next rollback.

    python -m tests.deephaven.soak [--minutes 10] [--growth 128MiB]

Ctrl-C ends it earlier. Exit 1: a count is wrong, or memory has grown beyond the bound.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from sparkhaven.jobs.cli.options import memory_bytes
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.removal.removal_proof import States, prove
from sparkhaven.writers.removal.row_removal import delete, truncate
from tests.support.served import Served, serving
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_runs import FS, merge

SCHEMA = b"""<Table namespace="Soak" name="Row" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="N" dataType="long"/><Column name="Price" dataType="double"/>
  <Column name="Text" dataType="String" symbolTable="None"/></Table>"""
VARIABLE = "Soak_Row"
SOURCES = "a", "b"
ROWS = 5_000  # of one source in one epoch
EPOCHS = 8  # of a round
ROLLBACKS, MERGES = 3, 5  # every so many rounds: between two rollbacks at most one date goes
FILES = 8  # of a date: two sources with four files
HEAP = "384MiB"  # so small that it is soon as large as it may become
COLLECTED_SECONDS = 10.0  # until files of an ended table are no longer mapped
NOW = 1_700_000_000.0
GRACE_SECONDS = 4_000.0


@dataclass
class Sample:
    """The server's memory after a round: bytes of its own, and removed files that it has mapped."""

    second: float
    anonymous: int
    removed: int


def sample(pid: int, second: float) -> Sample:
    """What the system knows of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    anonymous = next(line for line in status.splitlines() if line.startswith("RssAnon:"))
    maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
    paths = {line.split(maxsplit=5)[-1] for line in maps.splitlines()}  # a file that has grown may be mapped twice
    removed = sum(path.endswith((".dat (deleted)", ".bytes (deleted)")) for path in paths)
    return Sample(second, int(anonymous.split()[1]) << 10, removed)


@dataclass
class Soak:
    """The writer, and the number of rows that a client must see."""

    root: Path
    rounds: int = 0
    date: int = 0
    rows: int = 0
    rollbacks: int = 0
    samples: list[Sample] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.db = IntradayRows(self.root, SCHEMA, fs=FS)
        add_partition(FS, self.db.layout, "Soak", "0")
        self.commit()

    @property
    def value(self) -> str:
        """The date that is written now."""
        return str(np.datetime64("2024-01-01") + self.date)

    def commit(self) -> None:
        """One epoch of two sources."""
        n = np.arange(self.rows, self.rows + ROWS)
        block = pa.table({"N": n, "Price": n / 4, "Text": pa.array(n).cast(pa.string())})
        self.db.commit({(source, self.value): block for source in SOURCES})
        self.rows += 2 * ROWS

    def round(self, served: Served) -> None:
        """Epochs, and every so often a rollback or a merge; AssertionError: a count is wrong."""
        self.rounds += 1
        for _ in range(EPOCHS):
            self.commit()
            assert served.ask("count", name="rows") <= self.rows
        self.wait(served)
        assert served.rows("rows", where=["N = 5", "Price = 1.25"]).num_rows == len(SOURCES)  # it reads whole columns
        if self.rounds % ROLLBACKS == 0:
            self.commit()
            self.wait(served)
            self.db.log.rollback(self.db.log.state.epoch - 1)
            self.rows -= 2 * ROWS
            self.rollbacks += 1
            self.wait(served, anew=True)
        if self.rounds % MERGES == 0:
            self.to_history(served)

    def to_history(self, served: Served) -> None:
        """Merges the date, goes on with the next one, and removes it from intraday."""
        db, value = self.db, self.value
        place = TablePlace(FS, db.layout, db.table)
        merge(db.layout, value, table=db.table)
        truncate(States(place), proof=prove(place, value), clock=lambda: NOW)
        db.log.refresh()
        self.date += 1
        self.commit()
        self.wait(served)  # the truncate was seen too: it is deleted after a grace
        delete(States(place), proof=prove(place, value), clock=lambda: NOW + GRACE_SECONDS)
        db.log.refresh()
        self.commit()
        self.wait(served)

    def wait(self, served: Served, *, anew: bool = False) -> None:
        """Until the client counts all rows; ``anew``: in the table that the variable now stands for."""
        served.wait_count("rows", self.rows, VARIABLE if anew else None)


def rounds(soak: Soak, served: Served, seconds: float) -> None:
    """Rounds for so long, a line after each."""
    begun = time.monotonic()
    while (second := time.monotonic() - begun) < seconds:
        soak.round(served)
        found = sample(served.server.pid, second)
        while found.removed > FILES and time.monotonic() - begun < second + COLLECTED_SECONDS:
            time.sleep(0.1)
            found = sample(served.server.pid, second)
        soak.samples.append(found)
        done = f"{soak.rows:>10,} rows, {soak.rollbacks:>3} rollbacks, {soak.date:>3} dates merged"
        memory = f"{found.anonymous / 2**20:6.0f} MiB, {found.removed} removed files mapped"
        print(f"{second:6.0f} s  {done}, {memory}", flush=True)


def judge(samples: list[Sample], growth: int) -> bool:
    """Prints the figures; whether memory has not grown beyond the bound."""
    end = samples[-1].second
    second = [each for each in samples if end / 4 <= each.second < end / 2]
    last = [each for each in samples if each.second >= end * 3 / 4]
    if not second or not last:
        print("too short to compare quarters")
        return True
    before, after = (statistics.median(each.anonymous for each in part) for part in (second, last))
    print(f"server's own memory: {before / 2**20:.0f} MiB in the second quarter, {after / 2**20:.0f} MiB in the last")
    removed = max(each.removed for each in samples)
    print(f"removed files mapped: {removed} at most, {FILES} of the attached table are allowed")
    return after - before <= growth and removed <= FILES


def main() -> int:
    """Serves and writes for so many minutes; 1 if memory has grown."""
    options = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--growth", default="128MiB", help="bound of what the server's own memory grows by")
    args = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="sparkhaven-soak-") as directory:
        base = Path(directory)
        soak = Soak(base / "db")
        with serving(base / "db", base, "--memory", HEAP) as served:
            served.attach("rows", VARIABLE)
            with suppress(KeyboardInterrupt):
                rounds(soak, served, args.minutes * 60)
    bounded = judge(soak.samples, memory_bytes(args.growth))
    print("bounded" if bounded else "memory has grown")
    return int(not bounded)


if __name__ == "__main__":
    sys.exit(main())
