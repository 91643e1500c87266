"""An Arrow stream as the one task of a staged frame."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pyarrow as pa

from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.imports.frames.staged_rows import StagedShare, StagePlan, stage_rows
from sparkhaven.writers.imports.given_rows import Progress
from sparkhaven.writers.merge.executor import EVERY_S


def run_reader(
    fs: Fs, reader: pa.RecordBatchReader, clock: Callable[[], float] = time.monotonic
) -> Callable[[StagePlan, Progress], list[StagedShare]]:
    """What gives the rows of a stream, once; it reports every ``EVERY_S`` seconds by ``clock`` how many were read."""

    def run(plan: StagePlan, on_progress: Progress) -> list[StagedShare]:
        def counted() -> Iterator[pa.RecordBatch]:
            rows, last = 0, clock()
            for batch in reader:
                yield batch
                rows, now = rows + batch.num_rows, clock()
                if now - last >= EVERY_S:
                    on_progress(f"{rows:,} rows read")
                    last = now

        return [stage_rows(fs, plan, 0, "", counted())]

    return run
