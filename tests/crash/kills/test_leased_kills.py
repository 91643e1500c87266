"""Writes by data source, killed before and after every named step and before changes of the disk, and powered off.

A query's batches by data source, run again after every crash: each is begun, run and committed by itself.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkhaven.jobs.dataframes.source_writers import BATCH_ID, QUERY_ID, begin, commit, run
from sparkhaven.jobs.settings.source_options import write_options
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.writers.spark.frame_writes import FrameSource, batch_of_query
from tests.crash.kills.kill_steps import in_child, numbered, some_in_turns
from tests.support.disks.model_fs import Crash, CrashingFs
from tests.support.disks.power_cut_fs import PowerCutFs
from tests.support.examples import some_of
from tests.support.spark.data_source import TYPES, in_task, options, rows
from tests.support.spark.frames import STREAM, TABLE, epochs, numbers

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


pytestmark = pytest.mark.slow
STEPS = {"hand-over", "take-over", "append", "collect", "commit-record", "log-append", "publish", "recover-files"}


def goes_on(root: Path, acknowledged: int, boot: str = "boot-1") -> None:
    """What was acknowledged is there; telling it all again leads to each row once."""
    held = epochs(root) if STREAM in list_streams(TablePlace(Fs(), Layout(root), TABLE)) else 0
    assert acknowledged <= held <= len(BATCHES)
    tell(CrashingFs(boot=boot), root)
    assert (numbers(root), epochs(root)) == (ROWS, len(BATCHES))
    assert [*Layout(root).scratch(TABLE, STREAM).iterdir()] == []


def test_killed_before_and_after_every_step(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    steps = steps_of_the_story(tmp_path / "plain" / "db")
    assert {name.partition(":")[0] for name, _ in steps} >= STEPS
    for number, (step, occurrence) in enumerate(some_in_turns(steps)):
        place = tmp_path / f"{number}"
        place.mkdir()

        def work(root: Path = place / "db", step: str = step, occurrence: int = occurrence) -> None:
            def die() -> None:
                os.kill(os.getpid(), signal.SIGKILL)

            tell(CrashingFs(crash_at=step, occurrence=occurrence, die=die), root)

        assert in_child(work) == -signal.SIGKILL, (step, occurrence)
        goes_on(place / "db", 0)


def test_stopped_before_any_change_of_the_disk(tmp_path: Path) -> None:
    plain = CrashingFs()
    (tmp_path / "plain").mkdir()
    tell(plain, tmp_path / "plain" / "db")
    for change in some_of(random.Random(3).sample(range(plain.changes), 20)):
        place = tmp_path / f"{change}"
        place.mkdir()
        acknowledged: list[int] = []
        with pytest.raises(Crash):
            tell(CrashingFs(crash_after=change), place / "db", acknowledged.append)
        goes_on(place / "db", len(acknowledged))


def test_powered_off_at_any_change_loses_nothing_acknowledged(tmp_path: Path) -> None:
    def place(name: str) -> Path:
        (tmp_path / name / "db").mkdir(parents=True)
        return tmp_path / name / "db"

    first = PowerCutFs(place("plain"))
    tell(first, tmp_path / "plain" / "db")
    for seed, change in enumerate(some_of(random.Random(5).sample(range(first.changes), 20))):
        root = place(f"{seed}")
        fs = PowerCutFs(root)
        fs.crash_after = change
        acknowledged: list[int] = []
        with pytest.raises(Crash):
            tell(fs, root, acknowledged.append)
        fs.cut(seed)
        if acknowledged:
            assert load_stream(StreamPlace(Fs(), Layout(root), TABLE, STREAM)).epoch >= len(acknowledged)
        goes_on(root, len(acknowledged), "boot-2")
