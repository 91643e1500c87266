"""What Spark does with the writers of a Python data source, without a JVM.

PySpark's own workers run in this process, each with nothing but the bytes that the JVM sends to it.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)
from pyspark.sql.worker import (
    commit_data_source_write,
    create_data_source,
    python_streaming_sink_runner,
    write_into_data_source,
)
from pyspark.worker_util import pickleSer

from sparkhaven.jobs.dataframes.source import DeephavenSource
from sparkhaven.jobs.dataframes.source_writers import BATCH_ID, QUERY_ID
from tests.support.spark.frames import SCHEMA, STREAM, TABLE, row

TYPES = StructType(
    [
        StructField("N", LongType()),
        StructField("Small", IntegerType()),
        StructField("At", TimestampType()),
        StructField("Px", DoubleType()),
        StructField("Sym", StringType()),
        StructField("Note", StringType()),
        StructField("Side", StringType()),
        StructField("Live", BooleanType()),
    ]
)
PLACED = StructType([*TYPES.fields, StructField("part", IntegerType()), StructField("off", LongType())])
ARROW = pa.schema(
    [
        ("N", pa.int64()),
        ("Small", pa.int32()),
        ("At", pa.timestamp("us", "UTC")),
        ("Px", pa.float64()),
        ("Sym", pa.string()),
        ("Note", pa.string()),
        ("Side", pa.string()),
        ("Live", pa.bool_()),
    ]
)
RESULT = StructType([StructField("message", BinaryType())])  # of a task
BOUNDS = '{"max_past": "36500d", "max_future": "36500d"}'
_ATTEMPTS = count()


def options(root: Path, **more: str) -> dict[str, str]:
    """Options as Spark hands them over: names in lower case, the table as path."""
    schema = root.parent / f"{root.name}.schema"
    if not schema.exists():
        schema.write_bytes(SCHEMA)
    given = {"root": str(root), "path": str(TABLE), "stream": STREAM, "internal": "Sym", "value": "At"}
    return {name.lower(): text for name, text in (given | {"schema": str(schema), "bounds": BOUNDS} | more).items()}


def rows(numbers: Sequence[int], place: tuple[int, int] | None = None, **changes: Any) -> pa.RecordBatch:
    """Rows as a task gets them; ``place`` is partition and offset of the first, ``changes`` are other columns."""
    made = [{**row(number), **changes} for number in numbers]
    batch = pa.RecordBatch.from_pylist(made, ARROW)
    if place is None:
        return batch
    offsets = pa.array(range(place[1], place[1] + len(made)), pa.int64())
    parts = pa.array([place[0]] * len(made), pa.int32())
    return pa.RecordBatch.from_arrays([*batch.columns, parts, offsets], [*ARROW.names, "part", "off"])


@contextmanager
def in_task(index: int, properties: Mapping[str, str]) -> Iterator[None]:
    """A worker that runs one attempt of a task."""
    context = TaskContext()
    context._partitionId, context._taskAttemptId, context._localProperties = index, next(_ATTEMPTS), dict(properties)
    TaskContext._setTaskContext(context)
    try:
        yield
    finally:
        TaskContext._taskContext = None


class Write:
    """One write of a frame by data source; ``tasks`` and ``commit`` may be left out or repeated, as in a crash."""

    def __init__(self, given: Mapping[str, str], types: StructType = TYPES, *, query: str = "", batch: int = 0) -> None:
        """Plans the write. With ``query`` it is a batch of a streaming query."""
        self._given, self._types, self._batch = given, types, batch
        self.properties = {QUERY_ID: query, BATCH_ID: str(batch)} if query else {}
        sent = _named(types.json(), RESULT.json(), options=given)
        sent += _bools(False, bool(query), True)  # overwrite, streaming, binary as bytes
        answer = _process(write_into_data_source, sent)
        self._function = pickleSer.dumps(pickleSer._read_with_length(answer)[0])
        self._writer = answer.read()

    def tasks(self, *parts: Sequence[pa.RecordBatch], first: int = 0, **properties: str) -> list[bytes]:
        """Runs a task for each part; the pickled messages."""
        return [self.task(index, part, **properties) for index, part in enumerate(parts, first)]

    def task(self, index: int, part: Sequence[pa.RecordBatch], **properties: str) -> bytes:
        """Runs one attempt."""
        with in_task(index, self.properties | properties):
            (found,) = pickle.loads(self._function)(iter(part))
        message: bytes = found.column(0)[0].as_py()
        return message

    def commit(self, messages: Sequence[bytes]) -> None:
        """The commit, in another process."""
        self._end(messages, abort=False)

    def abort(self, messages: Sequence[bytes]) -> None:
        """The abort, in another process."""
        self._end(messages, abort=True)

    def _end(self, messages: Sequence[bytes], *, abort: bool) -> None:
        reported = pack(len(messages)) + b"".join(map(_sized, messages))
        if not self.properties:
            _process(commit_data_source_write, self._writer + reported + _bools(abort))
            return
        made = _process(create_data_source, _named(types=self._types.json(), options=self._given))
        source = _sized(pickleSer.dumps(pickleSer._read_with_length(made)))
        schema = _sized(self._types.json().encode()) + _bools(False)
        batch = self._batch.to_bytes(8, "big")
        _process(python_streaming_sink_runner, source + schema + reported + batch + _bools(abort))


def _process(worker: ModuleType, sent: bytes) -> io.BytesIO:
    """What one of Spark's Python processes answers to what the JVM sends."""
    answer = io.BytesIO()
    worker._main(io.BytesIO(sent), answer)
    answer.seek(0)
    return answer


def _named(*texts: str, types: str | None = None, options: Mapping[str, str]) -> bytes:
    """The class, its name, texts, a schema that the user has given, and options."""
    sent = _sized(pickleSer.dumps(DeephavenSource)) + _sized(b"deephaven")
    sent += b"".join(_sized(text.encode()) for text in texts)
    sent += b"" if types is None else _bools(True) + _sized(types.encode())
    return sent + pack(len(options)) + b"".join(_sized(text.encode()) for pair in options.items() for text in pair)


def pack(number: int) -> bytes:
    """A number as the JVM sends it."""
    return struct.pack("!i", number)


def _sized(data: bytes) -> bytes:
    return pack(len(data)) + data


def _bools(*values: bool) -> bytes:
    return bytes(values)


def write(root: Path, *parts: Sequence[pa.RecordBatch], query: str = "", batch: int = 0, **more: str) -> None:
    """A whole write."""
    types = PLACED if "positions" in more else TYPES
    begun = Write(options(root, **more), types, query=query, batch=batch)
    messages = begun.tasks(*parts)
    try:
        begun.commit(messages)
    except BaseException:
        begun.abort(messages)
        raise
