"""Processes of a real stream from a topic, killed at random: ``python -m tests.crash.chaos.campaign [--kills 500]``.

A broker, ``sparkhaven ingest`` and readers are processes of their own. Each round kills one of them (SIGKILL): the
driver, Spark's JVM, a Python worker, the broker; at a random moment, or at a named step. It is started again where it
does not come back by itself, and the stream has to commit again before the next round. In a third of the rounds Spark's
checkpoint is deleted, emptied, truncated or put back to an older copy before that. The readers look all the time; at
the end the job takes what is left, and each message must be in the table once.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from sparkhaven.jobs.streams.process import stopping
from sparkhaven.store.epochs.files.published_size import physical_size
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from tests.crash.chaos.faults import Checkpoint, jvm_of, kill, kill_all, workers_of
from tests.crash.chaos.job import DRIVER_STEPS, OPEN_STEPS, TASK_STEPS
from tests.crash.chaos.reader import REST, Finding, committed
from tests.crash.chaos.run import Job, Watcher
from tests.crash.chaos.tally import Campaign
from tests.crash.chaos.topic import PARTITIONS, STREAM, TABLE, TOPIC, Source, stream_file
from tests.support.kafka.topics import make_topic
from tests.support.servers.broker import Broker

PATIENCE = 150.0  # seconds in which a stream must have committed again
GIVE_UP = 5  # restarts in one round that were not asked for
DAMAGED = 0.5  # of the rounds, to come to a third: where the stream lives on there is no moment for it
IN_WORKER, IN_DRIVER = "worker, step of a task", "driver, step of a task"
SMALL, LARGE = 400, 24_000  # rows of a batch: one runs in the driver, the other is shared by two workers
BROKER = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "300"}


class Chaos:
    """Broker, source, job and readers below ``base``."""

    def __init__(
        self,
        base: Path,
        opened: ExitStack,
        seed: int,
        *,
        readers: int = 1,
        sizes: Sequence[int] = (SMALL, LARGE),
        rest: float = REST,
    ) -> None:
        self._base, self._root, self._trap = base, base / "db", base / "trap"
        self._chance = random.Random(seed)
        self._sizes = sizes
        self._root.mkdir()
        self._broker = opened.enter_context(Broker(Fs(), base / "broker", settings=BROKER))
        make_topic(self._broker.bootstrap, PARTITIONS, name=TOPIC)
        self._source = Source(self._broker.bootstrap)
        self._size = self._sizes[0]
        self._source.send(4 * self._size)
        self._readers = [Watcher(self._root, rest) for _ in range(readers)]
        for reader in self._readers:
            opened.callback(reader.close)
        spark = Layout(self._root).spark_checkpoint(TABLE, STREAM)
        self._checkpoint = Checkpoint(spark, base / "older", self._chance)
        self.found = Campaign()
        self._trouble: list[Finding] = []
        self._old: list[Job] = []
        self._job = self._start()
        opened.callback(self._close)
        self.faults: dict[str, tuple[int, Callable[[], int]]] = {
            "worker, random moment": (10, self._kill_worker),
            IN_WORKER: (10, partial(self._step, TASK_STEPS)),
            "broker, random moment": (5, self._kill_broker),
            "driver, random moment": (3, self._kill_driver),
            "driver and all it started, random moment": (1, self._kill_everything),
            "driver, step of a commit": (3, partial(self._step, DRIVER_STEPS)),
            "driver, and again while it starts": (2, self._kill_starting_driver),
            "driver, and at a step of recovery": (1, self._opening_step),
            "JVM, random moment": (3, self._kill_jvm),
        }

    def round(self, fault: str | None = None, kind: str | None = None) -> None:
        """One fault and what follows until the stream has committed again; default: at random."""
        self._committing(1)
        names = list(self.faults)
        fault = fault or self._chance.choices(names, [self.faults[name][0] for name in names])[0]
        if kind is None and self._chance.random() < DAMAGED:
            kind = self._chance.choice(list(self._checkpoint.kinds))
        if kind == "older copy":
            self._checkpoint.remember()
            self._committing(2)
        time.sleep(self._chance.uniform(0.0, 0.6))
        restarts = self._job.restarts
        kills = self.faults[fault][1]()
        if self._job.ended is not None:
            if fault == IN_WORKER:
                fault = IN_DRIVER  # where the tasks of small batches run
            self._damage(kind)
            self._restart()
        elif kind is not None and self._restarts_itself(restarts):
            self._damage(kind)
        else:
            kind = None
        self._committing(2)
        bad = self._findings()
        self.found.note(fault, kills, bad)
        self.found.epochs, self.found.rows = self._job.epoch, max(reader.rows for reader in self._readers)
        checkpoint = f", checkpoint {kind}" if kind else ""
        print(
            f"round {self.found.rounds}, kill {self.found.kills}: {fault}{checkpoint};"
            f" epoch {self._job.epoch}, {self.found.rows:,} rows read, {'BAD' if bad else 'good'}",
            flush=True,
        )

    def finish(self) -> None:
        """The job takes what is left; then each message must be there once, and no file longer than it should be."""
        end = time.monotonic() + 2 * PATIENCE
        while min(reader.rows for reader in self._readers) < self._source.rows and time.monotonic() < end:
            if self._job.ended is not None:
                self._trouble.append(("other", f"the job ended with {self._job.ended}:\n{self._job.error_summary()}"))
                break
            time.sleep(0.05)
        self._close()
        for reader in self._readers:
            reader.finish(PATIENCE)
        ends = committed(self._root)
        if any(end != self._source.sent for end in ends.values()):
            self._trouble.append(("lost", f"{self._source.sent} messages a partition were sent, taken are {ends}"))
        if any(reader.rows != self._source.rows for reader in self._readers):
            self._trouble.append(
                ("lost", f"{self._source.rows} messages, read are {[reader.rows for reader in self._readers]}")
            )
        self._trouble += [("torn", f"{path} is not as long as committed") for path in tails(self._root)]
        self.found.end.note(0, self._findings())
        self.found.rows, self.found.looks = self._source.rows, sum(reader.looks for reader in self._readers)

    # --- faults: each returns its number of kills ------------------------------------------------------

    def _kill_driver(self) -> int:
        kill(self._job.pid)
        self._job.wait(PATIENCE)
        return 1

    def _kill_everything(self) -> int:
        kill_all(self._job.pid)
        self._job.wait(PATIENCE)
        return 1

    def _kill_starting_driver(self) -> int:
        self._kill_driver()
        self._restart()
        self._job.wait(self._chance.uniform(0.0, 8.0))
        return 1 + self._kill_driver()

    def _kill_jvm(self) -> int:
        jvm = jvm_of(self._job.pid)
        if jvm is None:
            return 0
        kill(jvm)
        if self._job.wait(PATIENCE) != 3:
            self._trouble.append(
                ("other", f"without its JVM the job ended with {self._job.ended}: {self._job.error_summary()}")
            )
            self._kill_driver()
        return 1

    def _kill_worker(self) -> int:
        workers = workers_of(self._job.pid)
        return int(bool(workers) and kill(self._chance.choice(workers)))

    def _kill_broker(self) -> int:
        self._broker.kill()
        time.sleep(self._chance.choice([0.0, self._chance.uniform(0.0, 3.0)]))
        self._broker.start()
        return 1

    def _step(self, steps: Sequence[str]) -> int:
        self._set_trap(steps)
        return self._sprung()

    def _opening_step(self) -> int:
        self._kill_driver()
        self._set_trap(OPEN_STEPS)
        self._restart()
        return 1 + self._sprung()

    # --- how it goes on --------------------------------------------------------------------------------

    def _findings(self) -> list[Finding]:
        """What was wrong since the last call; reported as it is found."""
        found = self._trouble + [finding for reader in self._readers for finding in reader.taken()]
        self._trouble = []
        for kind, text in found:
            print(f"  {kind}: {text}", flush=True)
        return found

    def _set_trap(self, steps: Sequence[str]) -> None:
        made = self._trap.with_suffix(".new")
        made.write_text(self._chance.choice(steps), encoding="utf-8")
        made.rename(self._trap)

    def _sprung(self) -> int:
        """Waits until somebody has fallen into the trap; 0 if nobody did."""
        end = time.monotonic() + PATIENCE
        while self._trap.exists() and time.monotonic() < end and self._job.ended is None:
            self._feed()
            time.sleep(0.01)
        if self._trap.exists():
            self._trouble.append(("other", f"nobody came to {self._trap.read_text()}: {self._job.error_summary()}"))
            self._trap.unlink()
            return 0
        if self._victim() == self._job.pid:
            self._job.wait(PATIENCE)
        return 1

    def _victim(self) -> int:
        """Who fell into the trap."""
        said = self._trap.with_suffix(".sprung")
        while not (pid := said.read_text(encoding="utf-8")).isdigit():
            time.sleep(0.001)
        said.unlink()
        return int(pid)

    def _damage(self, kind: str | None) -> None:
        if kind is not None:
            self._checkpoint.damage(kind)
            self.found.checkpoints[kind] = self.found.checkpoints.get(kind, 0) + 1

    def _restarts_itself(self, before: int) -> bool:
        """Whether the stream is between a failure and its next life; a worker that was idle may not be missed."""
        end = time.monotonic() + 3.0
        while self._job.restarts == before and time.monotonic() < end and self._job.ended is None:
            time.sleep(0.01)
        return self._job.restarts > before

    def _start(self) -> Job:
        self._size = self._chance.choice(self._sizes)
        return Job(self._base, self._root, self._stream(self._size), self._trap)

    def _restart(self) -> None:
        self._feed()
        if self._job.ended is None:
            self._kill_driver()
        for job in self._old:
            job.close()
        self._old = [self._job]  # what is left of it may live on beside its successor for a while
        self._job = self._start()

    def _close(self) -> None:
        for job in [*self._old, self._job]:
            job.close()

    def _stream(self, rows: int) -> Path:
        return stream_file(self._base, self._broker.bootstrap, rows)

    def _feed(self) -> None:
        wanted = (2 if self._size == LARGE else 6) * self._size
        if self._source.rows - max(reader.rows for reader in self._readers) < wanted:
            self._source.send(wanted)

    def _committing(self, epochs: int) -> None:
        """Waits for so many epochs more. A job that ends by itself or does not commit is reported and started."""
        wanted = self._job.epoch + epochs if self._job.epoch else 1
        end = time.monotonic() + PATIENCE
        while self._job.epoch < wanted:
            if self._job.ended is not None or time.monotonic() > end:
                how = "stands still" if self._job.ended is None else f"ended with exit code {self._job.ended}"
                self._trouble.append(("other", f"the job {how}:\n{self._job.error_summary()}"))
                assert len(self._trouble) < GIVE_UP, self._trouble[-1][1]
                self._restart()
                wanted, end = 1, time.monotonic() + PATIENCE
            self._feed()
            time.sleep(0.02)


def tails(root: Path) -> list[Path]:
    """Column files that are not as long as committed."""
    layout = Layout(root)
    state = load_stream(StreamPlace(Fs(), layout, TABLE, STREAM))
    return [
        layout.intraday_location(TABLE, key) / name
        for key, location in state.locations.items()
        for name, file in location.files.items()
        if (layout.intraday_location(TABLE, key) / name).stat().st_size != physical_size(name, file.size)
    ]


def run_campaign(base: Path, kills: int, seed: int, *, seconds: float = float("inf"), readers: int = 2) -> Campaign:
    """Random rounds until there were so many kills, so many seconds are over, or SIGTERM has come; then the end."""
    end = time.monotonic() + seconds
    with ExitStack() as opened:
        stop = opened.enter_context(stopping())  # hours are not lost with their last round
        chaos = Chaos(base, opened, seed, readers=readers)
        while chaos.found.kills < kills and time.monotonic() < end and not stop.is_set():
            chaos.round()
        chaos.finish()
        return chaos.found


def main() -> int:
    """Runs it and prints what came of it; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no round after so long")
    parser.add_argument("--keep", type=Path, help="a new directory for all files, kept; default: one that is removed")
    parser.add_argument("--sum", type=Path, help="JSON file that adds up the results of several runs")
    given = parser.parse_args()
    with ExitStack() as opened:
        base = given.keep or Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        base.mkdir(parents=True, exist_ok=True)
        found = run_campaign(base.absolute(), given.kills, given.seed, seconds=given.seconds)
    if given.sum is not None:
        if given.sum.exists():
            found.add(Campaign.from_json(given.sum.read_text(encoding="utf-8")))
        given.sum.write_text(found.to_json(), encoding="utf-8")
    print(found.table())
    return int(found.bad > 0)


if __name__ == "__main__":
    sys.exit(main())
