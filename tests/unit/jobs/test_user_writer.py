"""The writer of frames as user tables, without Spark's JVM: tasks, commit, abort, in processes of their own."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from sparkhaven import open_table
from sparkhaven.errors import SettingsError, StorageError
from sparkhaven.jobs.dataframes.user_writer import (
    STALE_S,
    PartMessage,
    UserTableWriter,
    remove_stale,
    user_writer,
    write_part,
)
from sparkhaven.jobs.settings.source_options import user_options
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.readers.spark.batch import SnapshotReader
from sparkhaven.readers.spark.options import read_options
from sparkhaven.store.io.fs import Fs

SCHEMA = StructType([StructField("N", LongType())])


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch({"N": pa.array(numbers, pa.int64())})


def writer_of(root: Path, *, overwrite: bool = True) -> UserTableWriter:
    """As it reaches a task, or the process of the commit."""
    writer = user_writer({"user": "me.T", "path": str(root)}, SCHEMA, overwrite)
    copy: UserTableWriter = pickle.loads(pickle.dumps(writer))
    return copy


def part(writer: UserTableWriter, number: int, *batches: pa.RecordBatch) -> PartMessage:
    name = f"{number}-0.arrow"
    size = write_part(Fs(), writer._scratch / name, iter(batches))
    return PartMessage(number, name if size else None, size)


def numbers(root: Path) -> list[int]:
    listed: list[int] = open_table(root, "me.T").to_arrow("N")["N"].to_pylist()
    return listed


def test_parts_are_saved_in_the_order_of_the_frame(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    parts = [
        part(writer, 2, batch(5)),
        part(writer, 0, batch(1, 2), batch(3)),
        part(writer, 1),
        part(writer, 3, batch()),
    ]
    (writer._scratch / "0-7.arrow").write_bytes(b"of an attempt that does not count")
    writer.commit(list(parts))
    assert numbers(tmp_path) == [1, 2, 3, 5]
    again = writer_of(tmp_path, overwrite=False)
    again.commit([again.write(iter([batch(6)]))])
    assert numbers(tmp_path) == [1, 2, 3, 5, 6]
    assert not list((tmp_path / ".scratch/me.T").iterdir())


def test_tasks_of_a_read_have_the_rows_of_the_snapshot(tmp_path: Path) -> None:
    """A save after the plan does not change what they read, in whatever process."""
    writer_of(tmp_path).commit([])
    writer = writer_of(tmp_path)
    writer.commit([part(writer, 0, batch(1, 2, 3))])
    options = read_options({"root": str(tmp_path), "path": "me.T"}, {})
    planner = SnapshotReader(pinned_of(open_table(tmp_path, "me.T")).detached(), options)
    tasks = pickle.loads(pickle.dumps(planner.partitions()))
    writer = writer_of(tmp_path)
    writer.commit([part(writer, 0, batch(9))])
    reader = pickle.loads(pickle.dumps(planner))
    rows = [number for task in tasks for read in reader.read(task) for number in read["N"].to_pylist()]
    assert rows == [1, 2, 3]
    assert numbers(tmp_path) == [9]


def test_rows_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    """Driver and worker have different disks."""
    writer = writer_of(tmp_path)
    sent = part(writer, 0, batch(1))
    (writer._scratch / "0-0.arrow").unlink()
    with pytest.raises(StorageError, match="missing where they are saved"):
        writer.commit([sent])
    assert not (tmp_path / "Users/me/Definitions/T.tbl").exists()


def test_a_write_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    part(writer, 0, batch(1))
    writer.abort([None])
    assert not list((tmp_path / ".scratch/me.T").iterdir())


def test_scratch_of_a_write_that_died_goes_with_a_later_one(tmp_path: Path) -> None:
    scratch = writer_of(tmp_path)._scratch
    begun = scratch.stat().st_ctime
    remove_stale(Fs(), scratch.parent, begun + STALE_S - 60)
    assert scratch.exists()
    remove_stale(Fs(), scratch.parent, begun + STALE_S + 60)
    assert not scratch.exists()


def test_the_root_is_path_option_or_environment(tmp_path: Path) -> None:
    for options, environ in (
        ({"USER": "me.T", "path": str(tmp_path)}, {}),
        ({"user": "me.T", "root": str(tmp_path)}, {}),
        ({"user": "me.T"}, {"SPARKHAVEN_ROOT": str(tmp_path)}),
    ):
        assert user_options(options, environ).root == tmp_path
    with pytest.raises(SettingsError, match="root"):
        user_options({"user": "me.T"}, {})
    with pytest.raises(SettingsError, match="two database roots"):
        user_options({"user": "me.T", "root": "/a", "path": "/b"}, {})
