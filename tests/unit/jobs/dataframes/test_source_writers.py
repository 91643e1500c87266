"""The writers of the data source without Spark: planned, run and committed as by processes that share only the disk."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.jobs.dataframes.frame_stream import open_stream
from sparkhaven.jobs.dataframes.source_writers import BATCH_ID, QUERY_ID, WriteRefused, batch_writer, stream_writer
from sparkhaven.readers import open_table
from sparkhaven.store.epochs.reading.stream_state import list_epochs, load_stream
from sparkhaven.store.errors import (
    CommitError,
    EpochConflictError,
    ErrorBudgetExceeded,
    LockLostError,
    PositionGapError,
    SchemaMismatchError,
    SettingsError,
)
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.writers.merge.date_merges import merge_dates
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.removal.removal_proof import States, prove
from sparkhaven.writers.removal.row_removal import truncate
from tests.support.spark.data_source import BOUNDS, TYPES, Write, options, rows, write
from tests.support.spark.frames import STREAM, TABLE, epochs, numbers, rolled_back

pytestmark = pytest.mark.slow
POSITIONS = '{"partition": "part", "offset": "off"}'
FS = Fs()


def scratch(root: Path) -> list[Path]:
    return [*Layout(root).scratch(TABLE, STREAM).glob("*")]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "db"


def test_a_frame_of_several_tasks_is_one_epoch(root: Path) -> None:
    write(root, [rows(range(10)), rows(range(10, 14))], [], [rows(range(14, 20))])
    assert (numbers(root), epochs(root), scratch(root)) == ([*range(20)], 1, [])
    write(root, [rows(range(20, 22))])
    write(root, [])  # a frame without rows
    assert (numbers(root), epochs(root)) == ([*range(22)], 3)
    assert load_stream(StreamPlace(FS, Layout(root), TABLE, STREAM)).generation == 3


def test_a_label_is_written_once(root: Path) -> None:
    write(root, [rows(range(8))], [rows(range(8, 12))], label="first")
    before = sorted(path.stat().st_size for path in root.rglob("*.dat"))
    write(root, [rows(range(6, 12))], [rows(range(6))], label="first")
    assert (numbers(root), epochs(root), scratch(root)) == ([*range(12)], 1, [])
    assert sorted(path.stat().st_size for path in root.rglob("*.dat")) == before  # its tasks only looked
    with pytest.raises(PositionGapError, match="other rows"):
        write(root, [rows(range(11))], label="first")
    write(root, [rows(range(12, 14))], label="second")
    assert (numbers(root), epochs(root)) == ([*range(14)], 2)


def test_a_frame_without_rows_takes_no_label(root: Path) -> None:
    nothing: list[list[list[pa.RecordBatch]]] = [[[]], [[], [rows([])]]]
    for parts in nothing:
        write(root, *parts, label="day")
    assert (epochs(root), scratch(root)) == (0, [])
    write(root, [rows(range(4))], label="day")
    write(root, [rows(range(4))], label="day")
    assert (numbers(root), epochs(root)) == ([*range(4)], 1)
    with pytest.raises(PositionGapError, match="other rows were written under this label") as caught:
        write(root, [], label="day")
    assert "label day" in str(caught.value) and "checkpoint" not in str(caught.value)
    write(root, [], query="q", batch=0)  # of a query each batch counts
    write(root, [rows([9])], query="q", batch=1)
    assert (numbers(root), epochs(root)) == ([*range(4), 9], 3)


@pytest.mark.parametrize("late", ["supplement", "fail"])
def test_rows_for_a_truncated_date_are_stored_by_default(root: Path, late: str) -> None:
    write(root, [rows(range(10))], [rows(range(10, 14))])
    place = TablePlace(FS, Layout(root), TABLE)
    add_partition(FS, place.layout, TABLE.namespace, "0")
    merger = LocalExecutor(1)
    (merged,) = merge_dates(place, ["2026-11-20"], MergeOptions(), executor=merger, clock=lambda: 0.0)
    assert merged.error is None
    truncate(States(place), proof=prove(place, "2026-11-20"), clock=lambda: 0.0)
    bounds = BOUNDS.replace("}", f', "late": "{late}"}}') if late == "fail" else BOUNDS
    again = [rows(range(14, 18))], [rows(range(18, 30))]
    if late == "fail":
        with pytest.raises(ErrorBudgetExceeded, match="a date that the stream refuses"):
            write(root, *again, bounds=bounds)
        return
    write(root, *again, bounds=bounds)
    assert (numbers(root), epochs(root), scratch(root)) == ([*range(30)], 2, [])
    intraday = open_table(root, str(TABLE)).to_arrow("N", tier="intraday")["N"].to_pylist()
    assert sorted(intraday) == [*range(14, 30)]


def test_another_partition_rule_is_taken_by_name_only(root: Path) -> None:
    write(root, [rows(range(4))])
    tokyo = '{"column": "At", "zone": "Asia/Tokyo"}'
    with pytest.raises(SettingsError, match="the partition rule of a stream has changed") as refused:
        write(root, [rows(range(4, 6))], value=tokyo)
    assert "accept_rule" in str(refused.value.hint)
    write(root, [rows(range(4, 6))], value=tokyo, acceptRule="true")
    write(root, [rows(range(6, 8))], value=tokyo)
    assert (numbers(root), epochs(root)) == ([*range(8)], 3)


def test_positions_decide(root: Path) -> None:
    write(root, [rows(range(6), (0, 0))], [rows(range(6, 9), (1, 5))], positions=POSITIONS)
    write(root, [rows(range(6), (0, 0)), rows(range(20, 22), (0, 6))], positions=POSITIONS)
    assert (numbers(root), epochs(root)) == ([*range(9), 20, 21], 2)
    write(root, [rows(range(6), (0, 0))], positions=POSITIONS)
    assert epochs(root) == 2
    with pytest.raises(PositionGapError):
        write(root, [rows(range(30, 32), (0, 10))], positions=POSITIONS)
    write(root, [rows(range(30, 32), (0, 10))], positions=POSITIONS, allowGap="true")
    assert [(gap.start, gap.stop) for gap in list_epochs(StreamPlace(FS, Layout(root), TABLE, STREAM))[-1].gaps] == [
        (8, 10)
    ]
    assert scratch(root) == []


def test_batches_of_a_query_are_written_once(root: Path) -> None:
    write(root, [rows(range(4))], query="q", batch=0)
    write(root, [rows(range(4, 8))], query="q", batch=1)
    assert (numbers(root), epochs(root)) == ([*range(8)], 2)
    again = Write(options(root), query="q", batch=1)  # Spark was killed before it wrote that the batch is done
    before = sorted(path.stat().st_size for path in root.rglob("*.dat"))
    messages = again.tasks([rows([6, 7])], [rows([4, 5])])
    assert sorted(path.stat().st_size for path in root.rglob("*.dat")) == before
    again.commit(messages)
    assert (numbers(root), epochs(root), scratch(root)) == ([*range(8)], 2, [])
    with pytest.raises(PositionGapError, match="repeated with other rows"):
        write(root, [rows(range(4, 9))], query="q", batch=1)
    with pytest.raises(PositionGapError, match="another query"):
        write(root, [rows([9])], query="r", batch=0)
    write(root, [rows([9])], query="r", batch=0, adopt="true")
    write(root, [], query="r", batch=1)
    assert (numbers(root), epochs(root)) == ([*range(8), 9], 4)
    rolled_back(root, 1)
    with pytest.raises(PositionGapError, match="batches of this query are missing"):
        write(root, [rows([9])], query="q", batch=2)


def test_a_replay_whose_tasks_do_not_know_their_batch_is_one_all_the_same(root: Path) -> None:
    write(root, [rows(range(4))], query="q", batch=0)
    again = Write(options(root), query="q", batch=0)
    again.properties.pop(BATCH_ID)
    again.commit(again.tasks([rows(range(4))]))
    assert (numbers(root), epochs(root)) == ([*range(4)], 1)


def test_tasks_that_only_looked_are_not_committed(root: Path) -> None:
    write(root, [rows(range(4))], query="q", batch=0)
    other = Write(options(root), query="q", batch=0)
    looked = other.tasks([rows(range(4, 6))])
    other._batch = 1
    with pytest.raises(EpochConflictError, match="but the log does not have it"):
        other.commit(looked)
    assert epochs(root) == 1


def test_a_frame_that_a_batch_of_a_query_saves_is_no_batch_of_that_query(root: Path) -> None:
    write(root, [rows(range(4))], query="q", batch=0)
    for label in ("", "first", "first"):
        inner = Write(options(root, **({"label": label} if label else {})))
        inner.commit(inner.tasks([rows(range(4))], **{QUERY_ID: "q", BATCH_ID: "0"}))
    assert (sorted(set(numbers(root))), epochs(root)) == ([*range(4)], 3)


def test_a_query_with_positions_needs_no_checkpoint(root: Path) -> None:
    for query, batch in (("q", 0), ("q", 0), ("r", 0), ("r", 7)):
        write(root, [rows(range(6), (0, 0))], query=query, batch=batch, positions=POSITIONS)
    assert (numbers(root), epochs(root)) == ([*range(6)], 1)


# --- nothing is committed -----------------------------------------------------------------------------------


@pytest.mark.parametrize("streaming", [False, True])
def test_a_row_that_cannot_be_stored_ends_the_write(root: Path, streaming: bool) -> None:
    query = "q" if streaming else ""
    with pytest.raises(ErrorBudgetExceeded) as caught:
        write(root, [rows(range(4))], [rows([4]), rows([5], Small=99_999)], query=query)
    assert "Nothing of this batch was committed" in str(caught.value)
    assert (epochs(root), scratch(root)) == (0, [])
    write(root, [rows(range(6))], query=query)
    assert (numbers(root), epochs(root)) == ([*range(6)], 1)


def test_frames_that_do_not_fit_are_refused_when_the_write_begins(root: Path, tmp_path: Path) -> None:
    from pyspark.sql.types import StringType, StructField, StructType

    fewer = StructType(TYPES.fields[:-1])
    other = StructType([*TYPES.fields[:-1], StructField("Live", StringType())])
    for types, reported in ((fewer, "lacks Live"), (other, "column Live of the data frame")):
        with pytest.raises(SchemaMismatchError, match=reported):
            batch_writer(options(root), types, False)
        with pytest.raises(WriteRefused, match=reported):
            Write(options(root), types, query="q")
    with pytest.raises(SettingsError, match="lacks the columns of its positions"):
        batch_writer(options(root, positions=POSITIONS), TYPES, False)
    more = StructType([*TYPES.fields, StructField("More", StringType())])
    batch_writer(options(root, ignore="More"), more, False)
    wrong = tmp_path / "wrong.schema"
    wrong.write_bytes((tmp_path / "db.schema").read_bytes().replace(b'"Quote"', b'"Other"'))
    with pytest.raises(SettingsError, match="the schema is of another table"):
        batch_writer(options(root, schema=str(wrong)), TYPES, False)


def test_overwriting_is_refused(root: Path) -> None:
    make: Callable[..., Any]
    for make, expected in ((batch_writer, 'mode("append")'), (stream_writer, 'outputMode("append")')):
        with pytest.raises(SettingsError) as caught:
            make(options(root), TYPES, True)
        assert caught.value.expected == expected
    assert not root.exists()


def test_speculation_is_refused_by_the_tasks(root: Path) -> None:
    begun = Write(options(root))
    messages = begun.tasks([rows(range(4))], **{"spark.speculation": "True"})
    with pytest.raises(SettingsError, match="speculative execution"):
        begun.commit(messages)
    assert epochs(root) == 0


def test_the_rows_of_no_query_are_refused(root: Path) -> None:
    begun = Write(options(root), query="q")
    begun.properties.clear()
    messages = begun.tasks([rows(range(4))])
    with pytest.raises(SettingsError, match="not a batch of a streaming query"):
        stream_writer(options(root), TYPES, False).commit([pickle.loads(each) for each in messages], 0)


def test_messages_of_two_writes_are_refused(root: Path) -> None:
    first = Write(options(root))
    old = first.tasks([rows([1])])
    second = Write(options(root))
    new = second.tasks([rows([2])])
    for mixed in ([*old, *new], [pickle.dumps(None), *new], []):
        with pytest.raises(SettingsError, match="not those of one write"):
            second.commit(mixed)
    second.commit(new)
    assert numbers(root) == [2]


# --- crashes and zombies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["", "q"])
def test_a_write_whose_driver_dies_is_not_there_and_the_next_one_cuts_its_tails(root: Path, query: str) -> None:
    write(root, [rows(range(4))], query=query)
    lost = Write(options(root), query=query, batch=1)
    lost.tasks([rows(range(4, 8))])
    assert numbers(root) == [*range(4)]
    assert scratch(root) != []
    stream = open_stream(FS, lost_options(root), "")
    with stream.log as log:
        assert len(log.recovery.cut_files) > 0
    assert scratch(root) == []
    write(root, [rows(range(8, 10))], query=query, batch=1)
    assert (numbers(root), epochs(root)) == ([*range(4), 8, 9], 2)


def lost_options(root: Path) -> Any:
    from sparkhaven.jobs.settings.source_options import write_options

    return write_options(options(root), {}, streaming=False).frame


@pytest.mark.parametrize("query", ["", "q"])
def test_of_two_writers_at_once_the_later_one_wins(root: Path, query: str) -> None:
    write(root, [rows(range(4))], query=query)
    first = Write(options(root), query=query, batch=1)
    early = first.tasks([rows(range(4, 6))])
    second = Write(options(root), query=query, batch=1)
    late = first.tasks([rows(range(6, 8))], first=1)  # a zombie: it writes nothing
    with pytest.raises(LockLostError, match="opened the stream since this write began"):
        first.commit([*early, *late])
    first.abort([*early, *late])
    messages = second.tasks([rows(range(10, 14))], [rows([14])])
    with pytest.raises(LockLostError):
        first.commit(early)
    second.commit(messages)
    assert (numbers(root), epochs(root), scratch(root)) == ([*range(4), *range(10, 15)], 2, [])
    with pytest.raises(LockLostError):
        first.commit(early)
    assert epochs(root) == 2


def test_a_zombie_task_fails_and_writes_nothing(root: Path) -> None:
    first = Write(options(root))
    second = Write(options(root))
    (message,) = first.tasks([rows(range(4))])
    error = pickle.loads(message).found.result.error
    assert isinstance(error, CommitError)
    assert [*root.rglob("*.dat")] == []
    second.commit(second.tasks([rows(range(5, 8))]))
    assert numbers(root) == [5, 6, 7]


@pytest.mark.parametrize("query", ["", "q"])
def test_a_task_that_outlives_its_aborted_write_writes_nothing(root: Path, query: str) -> None:
    begun = Write(options(root), query=query)
    messages = begun.tasks([rows(range(4))])
    begun.abort([*messages, pickle.dumps(None)])
    assert scratch(root) == []
    (late,) = begun.tasks([rows(range(4, 8))], first=1)
    assert isinstance(pickle.loads(late).found.result.error, CommitError)
    write(root, [rows(range(9))], query=query)
    assert numbers(root) == [*range(9)]


def test_an_abort_after_the_commit_changes_nothing(root: Path) -> None:
    begun = Write(options(root))
    messages = begun.tasks([rows(range(4))])
    begun.commit(messages)
    begun.abort(messages)
    Write(options(root), query="q").abort([])
    assert numbers(root) == [*range(4)]


def test_two_attempts_of_a_task_and_the_one_that_counts(root: Path) -> None:
    begun = Write(options(root))
    begun.task(0, [rows(range(4))])  # its report is lost; it owns the locations
    begun.commit([begun.task(0, [rows(range(4))]), begun.task(1, [rows(range(4, 9))])])
    assert (numbers(root), epochs(root)) == ([*range(9)], 1)


def test_a_stream_that_is_open_elsewhere(root: Path) -> None:
    write(root, [rows(range(2))])
    begun = Write(options(root))
    messages = begun.tasks([rows(range(2, 4))])
    stream = open_stream(FS, lost_options(root), "")
    with stream.log:
        with pytest.raises(LockLostError, match="another process is writing the stream"):
            Write(options(root))
        with pytest.raises(WriteRefused, match="LockLostError: another process is writing the stream"):
            Write(options(root), query="q")
        with pytest.raises(LockLostError):
            begun.commit(messages)
    write(root, [rows(range(2, 4))])
    assert (numbers(root), epochs(root)) == ([*range(4)], 2)
