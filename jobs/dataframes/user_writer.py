"""A Spark frame as a user table: tasks write Arrow files, the commit saves them as a whole.

1. each task writes its rows to a file of its own below the scratch directory of the root
2. the commit reads the files of the tasks that Spark counts, in their order, and saves them as ``save_table`` does
3. the scratch directory is removed; that of a write that died goes with a later one, after ``STALE_S``
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from sparkhaven.jobs.settings.source_options import UserOptions, user_options
from sparkhaven.readers.spark.releases import message_first
from sparkhaven.store.errors import StorageError, as_storage_errors
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import TablePlace, writable_layout
from sparkhaven.writers.users.save import INTERNAL, SaveOptions, save_rows

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SCRATCH = "user-"
STALE_S = 86_400.0  # a write of a day has died


@dataclass(frozen=True)
class PartMessage(WriterCommitMessage):  # type: ignore[misc]  # pyspark is not typed here
    """What a task sends to the commit: its place in the frame, its file, None without rows, and the file's bytes."""

    partition: int
    file: str | None
    size: int = 0


def user_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """The writer of a frame of this schema. SettingsError, InvalidNameError: wrong options; nothing was written."""
    from sparkhaven.readers.spark.spark_types import arrow_schema

    checked = user_options(options, os.environ)
    fs, layout = Fs(), writable_layout(checked.root)
    scratch = layout.scratch(checked.table, f"{SCRATCH}{os.urandom(8).hex()}")
    with as_storage_errors():
        remove_stale(fs, scratch.parent, time.time())
        fs.mkdirs(scratch)
    return UserTableWriter(checked, arrow_schema(schema), scratch, "replace" if overwrite else "append")


class UserTableWriter(DataSourceArrowWriter):  # type: ignore[misc]
    def __init__(self, options: UserOptions, schema: pa.Schema, scratch: Path, mode: str) -> None:
        self._options, self._schema, self._scratch, self._mode = options, schema, scratch, mode

    @message_first()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        partition, attempt = (context.partitionId(), context.taskAttemptId()) if context is not None else (0, 0)
        name = f"{partition}-{attempt}.arrow"
        with as_storage_errors():
            size = write_part(Fs(), self._scratch / name, iterator)
        return PartMessage(partition, name if size else None, size)

    @message_first()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        fs, options = Fs(), self._options
        parts = sorted((m for m in messages if isinstance(m, PartMessage)), key=lambda part: part.partition)
        place = TablePlace(fs, Layout(options.root), options.table)
        chosen = SaveOptions(self._mode, options.partition_by, options.schema, options.internal or INTERNAL)
        save_rows(place, rows_of_parts(fs, self._scratch, parts, self._schema), chosen)
        fs.remove_tree(self._scratch)

    @message_first()
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        with as_storage_errors():
            Fs().remove_tree(self._scratch)


def write_part(fs: Fs, path: Path, batches: Iterator[pa.RecordBatch]) -> int:
    """Writes batches as an Arrow stream; returns its bytes, 0 without a row, and then there is no file."""
    size, writer, sink = 0, None, None
    for batch in batches:
        if not batch.num_rows:
            continue
        if writer is None:
            sink = pa.BufferOutputStream()
            writer = pa.ipc.new_stream(sink, batch.schema)
        writer.write_batch(batch)
        assert sink is not None  # noqa: S101
        size = _flush(fs, path, size, sink, writer)
        writer = sink = None
    return size


def _flush(fs: Fs, path: Path, offset: int, sink: pa.BufferOutputStream, writer: pa.ipc.RecordBatchStreamWriter) -> int:
    writer.close()
    data = sink.getvalue()
    fs.write_at(path, offset, memoryview(data))
    return offset + int(data.size)


def rows_of_parts(fs: Fs, scratch: Path, parts: Sequence[PartMessage], schema: pa.Schema) -> pa.RecordBatchReader:
    """The rows of all parts, one after the other; their types are those of the first, ``schema`` without one."""
    batches = _batches(fs, scratch, parts)
    first = next(batches, None)
    if first is None:
        return pa.RecordBatchReader.from_batches(schema, [])
    head = first

    def rows() -> Iterator[pa.RecordBatch]:
        yield head
        for batch in batches:
            yield batch if batch.schema == head.schema else batch.cast(head.schema)

    return pa.RecordBatchReader.from_batches(head.schema, rows())


def _batches(fs: Fs, scratch: Path, parts: Sequence[PartMessage]) -> Iterator[pa.RecordBatch]:
    """A file holds streams, one behind the other."""
    for part in parts:
        if part.file is None:
            continue
        path = scratch / part.file
        stat = fs.stat(path)
        if stat is None or stat.size != part.size:
            raise StorageError(
                "the rows of a task are missing where they are saved",
                where=path,
                expected=f"{part.size} bytes",
                found="no file" if stat is None else f"{stat.size} bytes",
                hint="the root must be a file system that driver and workers share. The table was not changed",
            )
        source = pa.BufferReader(fs.map(path, part.size))
        while source.tell() < part.size:
            yield from pa.ipc.open_stream(source)


def remove_stale(fs: Fs, directory: Path, now_s: float) -> None:
    """Scratch directories of writes that died."""
    for name, stat in fs.entries(directory):
        if name.startswith(SCRATCH) and now_s - stat.ctime_ns / 1e9 > STALE_S:
            fs.remove_tree(directory / name)
