"""Rows that the data source cannot store: in the quarantine before their epoch, once, within the budget. No Spark."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven.jobs.dataframes.source_writers import commit
from sparkhaven.jobs.settings.source_options import write_options
from sparkhaven.store.errors import ErrorBudgetExceeded, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from sparkhaven.writers.quarantine.row_choice import Chosen
from sparkhaven.writers.quarantine.table import Quarantine
from sparkhaven.writers.spark.frame_writes import FrameSource
from tests.support.disks.model_fs import Crash, CrashingFs
from tests.support.spark.data_source import TYPES, Write, options, rows, write
from tests.support.spark.frames import STREAM, TABLE, epochs, numbers

pytestmark = pytest.mark.slow
POSITIONS = '{"partition": "part", "offset": "off"}'
ANY = '{"max_fraction": 1.0}'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "db"


def bad(number: int, place: tuple[int, int] | None = None) -> pa.RecordBatch:
    return rows([number], place, Small=40_000)


def quarantined(root: Path, place: Path | None = None) -> list[tuple[str, int, str, int]]:
    """Source partition, position, reason and epoch of the rows in the quarantine."""
    layout = Layout(root)
    shelf = Quarantine(StreamPlace(Fs(), layout, TABLE, STREAM), place or layout.quarantine(STREAM), clock=lambda: 0.0)
    kept = [*shelf.rows(Chosen())] if shelf.exists else []
    return sorted((row["SourcePartition"], row["Position"], row["Reason"], row["Epoch"]) for row in kept)


def test_a_bad_row_is_kept_and_its_neighbours_are_stored(root: Path) -> None:
    write(root, [rows(range(3)), bad(3)], [bad(4), rows(range(5, 8))], badRows=ANY)
    assert (numbers(root), epochs(root)) == ([0, 1, 2, 5, 6, 7], 1)
    assert [(reason, epoch) for _, _, reason, epoch in quarantined(root)] == [("overflow", 1)] * 2
    assert [*Layout(root).scratch(TABLE, STREAM).iterdir()] == []


def test_a_repeated_write_keeps_a_bad_row_once(root: Path) -> None:
    for _ in range(2):
        write(root, [rows(range(3)), bad(3)], badRows=ANY, label="first")
    assert (numbers(root), epochs(root), len(quarantined(root))) == ([0, 1, 2], 1, 1)
    other = root.parent / "other"
    for start in (0, 2):  # offsets 2 and 3 come again
        parts = [rows(range(start, 3), (0, start)), bad(3, (0, 3)), rows(range(4, 6), (0, 4))]
        write(other, parts, badRows=ANY, positions=POSITIONS)
    assert (numbers(other), quarantined(other)) == ([0, 1, 2, 4, 5], [("source/0", 3, "overflow", 1)])


def test_batches_of_a_query_and_a_batch_that_comes_again(root: Path) -> None:
    for batch in (0, 1, 1):
        write(root, [rows([10 * batch]), bad(10 * batch + 1)], query="q", batch=batch, badRows=ANY)
    assert (numbers(root), epochs(root)) == ([0, 10], 2)
    assert [epoch for *_, epoch in quarantined(root)] == [1, 2]


def test_a_row_is_durable_before_its_epoch_and_goes_if_that_never_came(root: Path) -> None:
    given = options(root, badRows=ANY)
    begun = Write(given, TYPES)
    sent = [pickle.loads(message) for message in begun.tasks([rows(range(3)), bad(3)])]
    with pytest.raises(Crash):
        fs = CrashingFs(crash_at="commit-record:before")
        commit(fs, write_options(given, {}, streaming=False), sent, FrameSource("write", 0))
    assert [(reason, epoch) for _, _, reason, epoch in quarantined(root)] == [("overflow", 1)]
    assert epochs(root) == 0
    write(root, [rows(range(4))], badRows=ANY)  # corrected
    assert (numbers(root), quarantined(root)) == ([0, 1, 2, 3], [])


def test_more_bad_rows_than_the_budget_allows_commit_nothing(root: Path) -> None:
    with pytest.raises(ErrorBudgetExceeded, match="more bad rows"):
        write(root, [rows(range(3)), bad(3)], [bad(4)], badRows='{"max_rows": 1, "max_fraction": 1.0}')
    with pytest.raises(ErrorBudgetExceeded, match="Nothing of this batch was committed"):
        write(root, [rows(range(3)), bad(3)], badRows='{"max_rows": 0}')
    assert (epochs(root), quarantined(root)) == (0, [])


def test_the_share_of_bad_rows_is_of_the_last_hour_of_the_query(root: Path) -> None:
    """Each batch is a process of its own, so the hour before it comes from the log."""
    budget = '{"max_fraction": 0.3, "min_rows": 0}'

    def send(batch: int, wrong: int, query: str = "q") -> None:
        first = 10 * batch
        good, refused = (
            rows(range(first + wrong, first + 10), (0, first + wrong)),
            rows(range(first, first + wrong), (0, first), Small=40_000),
        )
        write(root, [refused, good], query=query, batch=batch, badRows=budget, positions=POSITIONS)

    send(0, 2)
    send(1, 4)  # 4 of 10, but 6 of 20
    with pytest.raises(ErrorBudgetExceeded, match="after 6 of 20 in the hour before"):
        send(2, 4)
    send(2, 3)
    assert (epochs(root), len(quarantined(root))) == (3, 9)
    with pytest.raises(ErrorBudgetExceeded, match="4 bad of 10 rows:"):
        send(3, 4, "another")


def test_the_quarantine_stands_where_the_option_says(root: Path) -> None:
    place = root.parent / "elsewhere"
    write(root, [rows(range(3)), bad(3)], badRows=f'{{"max_fraction": 1.0, "quarantine": "{place}"}}')
    assert [reason for _, _, reason, _ in quarantined(root, place)] == ["overflow"]
    with pytest.raises(SettingsError, match="in another place than its settings say"):
        write(root, [rows(range(3, 5))], badRows=ANY)
    write(root, [rows(range(3, 5))])
    assert (numbers(root), epochs(root)) == ([0, 1, 2, 3, 4], 2)
