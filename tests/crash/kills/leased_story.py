"""A query's batches by data source, run again after every crash: each is begun, run and committed by itself."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

from sparkhaven.jobs.dataframes.source_writers import BATCH_ID, QUERY_ID, begin, commit, run
from sparkhaven.jobs.settings.source_options import write_options
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.spark.frame_writes import FrameSource, batch_of_query
from tests.crash.kills.kill_steps import numbered
from tests.support.disks.model_fs import CrashingFs
from tests.support.spark.data_source import TYPES, in_task, options, rows

BATCHES = (
    [[rows(range(8))]],
    [[rows(range(8, 12))], [rows(range(12, 16)), rows(range(16, 20))]],
    [[], [rows(range(20, 24))]],
)
ROWS = [*range(24)]


def tell(fs: Fs, root: Path, committed: Callable[[int], None] = lambda batch: None) -> None:
    """All batches from the first, as Spark repeats them from a checkpoint that knows none."""
    given = write_options(options(root), {}, streaming=True)
    columns = [(field.name, field.dataType.simpleString()) for field in TYPES.fields]
    for number, parts in enumerate(BATCHES):
        write = begin(fs, given, columns)
        messages = []
        for index, part in enumerate(parts):
            with in_task(index, {QUERY_ID: "q", BATCH_ID: str(number)}):
                messages.append(run(fs, write, iter(part), streaming=True))
        sent = [pickle.loads(pickle.dumps(message)) for message in messages]
        commit(fs, given, sent, FrameSource("q", number, batch_of_query("q", number)))
        committed(number)


def steps_of_the_story(root: Path) -> list[tuple[str, int]]:
    """Every step with its occurrence."""
    fs = CrashingFs()
    tell(fs, root)
    return numbered(fs.steps)
