"""A stream's driver without Spark, as a program of its own: ``python -m tests.crash.spark.plain_job ROOT [options]``.

Reads a topic in batches of offsets from where the commit log ends, and says ``epoch N offsets M`` once an epoch is
acknowledged: offsets below M are there for good. ``--stop STEP`` stops the process with SIGSTOP when it comes to that
step (``--nth`` time); ``--fork`` runs the task of each batch in a process of its own, which outlives a killed driver.
Errors are reported by class and text on standard error; the exit code is that of the error.
"""

from __future__ import annotations

import argparse
import os
import pickle
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

import sparkhaven.store.epochs.files.lock
import sparkhaven.writers.append.append
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.epochs.state.log_values import OffsetRange, Split
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs, Lock
from sparkhaven.store.layout import LocationKey
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import BatchRequest, write_batch
from sparkhaven.writers.batch.task import TaskResult
from sparkhaven.writers.task import SplitNotes
from tests.support.streams.stream_kit import LocalExecutor, decode, open_log, target_of

TOPIC = "topic"
HERE = f"{TOPIC}/0"


class StoppingFs(Fs):
    """The real file system, in a process that stops itself at a step."""

    def __init__(self, stop: str | None, nth: int) -> None:
        self._stop, self._nth = stop, nth

    def step(self, name: str) -> None:
        if name == self._stop:
            self._nth -= 1
            if self._nth == 0:
                os.kill(os.getpid(), signal.SIGSTOP)


@dataclass(slots=True)
class ForkExecutor:
    """Runs the task in a child; the pipe to the driver is all that they share."""

    inside: LocalExecutor
    lock: Lock

    def __call__(self, batch: str, instead: Mapping[Split, Split | None]) -> list[TaskResult]:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            self.lock.release()  # here alone: a Spark worker is no child of the driver and holds nothing of it
            print(f"task {os.getpid()}", flush=True)
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)  # who waits for the end of the driver's words must not wait for its task
            os.dup2(silence, 2)
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(self.inside(batch, instead), pipe)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            data = pipe.read()
        os.waitpid(child, 0)
        results: list[TaskResult] = pickle.loads(data)
        return results


def work(root: Path, options: argparse.Namespace, fs: StoppingFs | None = None) -> None:
    """Opens the stream and takes batches from where it ends."""
    fs = fs or StoppingFs(options.stop, options.nth)

    def decode_slowly(split: Split, notes: SplitNotes) -> Iterator[tuple[LocationKey, pa.RecordBatch]]:
        for part in decode(split, notes):
            yield part
            fs.step("decoded")

    settings = {"pid": os.getpid(), "host": socket.gethostname(), "clock": time.time}
    with open_log(fs, root, durability=options.durability, keep_epochs=3, compact_bytes=1, **settings) as log:
        print(f"open generation {log.state.generation} lost {len(log.recovery.lost_epochs)}", flush=True)
        target = replace(target_of(root, log), policy=CommitPolicy(options.durability))
        memory = WorkerCache()
        for number in range(options.batches):
            start = log.state.offsets.positions().get(HERE, 0)
            splits: Sequence[Split] = [OffsetRange(TOPIC, 0, start, start + options.rows, "id")]
            inside = LocalExecutor(
                fs, target, [splits], decoder=decode_slowly, max_buffered=options.gathered, memories=[memory]
            )
            outcome = write_batch(
                fs,
                log,
                target,
                memory,
                BatchRequest(
                    ForkExecutor(inside, log._lock) if options.fork else inside,
                    query_id="query",
                    batch_id=number,
                    proposed=splits,
                ),
            )
            if options.sync_every and (number + 1) % options.sync_every == 0:
                log.sync_now()
                print(f"durable offsets {start + options.rows}", flush=True)
            print(f"epoch {outcome.epoch} offsets {start + options.rows}", flush=True)
            if not log.compact_if_due():
                log.write_head()


def main() -> int:
    """Exit code: that of the first error of ours, else 0."""
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--durability", default="fsync")
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--gathered", type=int, default=1 << 20, help="bytes that a task holds before it appends")
    parser.add_argument("--sync-every", type=int, default=0, help="batches between two syncs of other modes")
    parser.add_argument("--stop")
    parser.add_argument("--nth", type=int, default=1)
    parser.add_argument("--fork", action="store_true")
    parser.add_argument("--impatient", action="store_true", help="waits for locks of locations no longer than 0.2 s")
    options = parser.parse_args()
    if options.impatient:
        sparkhaven.writers.append.append.LOCK_PAUSES = (0.1, 0.1)
        sparkhaven.store.epochs.files.lock.COMMIT_LOCK_PAUSES = (0.1, 0.1)
    try:
        work(options.root, options)
    except SparkhavenError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
