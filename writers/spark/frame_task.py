"""What one Spark task does with its rows of a data frame: drop committed rows, decode, append, report.

The source positions of the rows are in columns of theirs (``PositionColumns``), or unknown. With positions the task
reports the offsets it wrote, as ranges without gaps; without them it reports a digest of its rows.

Rows of a frame stay in the scratch directory of their batch, until it is known that their location has room. Spark
hands the rows of a task over once. That a location has no room for a row is seen when it is appended, by the task or,
where several tasks meet, by the driver. The row is then rejected, with a payload made of what was kept. Tables without
columns of sets or widened columns keep nothing.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from sparkhaven.store.digest import add, digest_array
from sparkhaven.store.epochs.state.log_values import OffsetRange, Split
from sparkhaven.store.epochs.state.offsets import TopicPartition
from sparkhaven.store.errors import PositionGapError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.source_rows import SourceRows
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.append.append import may_lack_room, writing
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.rejects import LeftOut
from sparkhaven.writers.batch.task import Task, TaskResult, run_task
from sparkhaven.writers.spark.spark_tasks import task_number
from sparkhaven.writers.task import Decode, SplitNotes, StreamTarget

_ORIGIN, _UNIT = b"origin", b"unit"


@dataclass(frozen=True, slots=True)
class SpilledPart:
    """Rows as a decoder of frames gets them."""

    rows: pa.RecordBatch
    origin: str
    numbers: npt.NDArray[np.int64]
    unit: Literal["row", "offset"]


@runtime_checkable
class RejectsParts(Protocol):
    """A decoder of frames that can reject single rows."""

    def reject_rows(self, parts: Iterable[SpilledPart], left: LeftOut, notes: SplitNotes) -> int:
        """Rejects rows of these parts into ``notes``, by their numbers in each location; returns how many."""
        ...


def keeps_rows(schema: TableSchema, decode: object) -> bool:
    return isinstance(decode, RejectsParts) and may_lack_room(schema)


@dataclass(slots=True)
class SpilledRows:
    """The file of one task: for each part its length in eight bytes, and a stream of Arrow."""

    fs: Fs
    path: Path
    size: int = field(init=False, default=0)

    def add(self, part: SpilledPart) -> None:
        """CommitError: the disk is full."""
        numbers = pa.array(part.numbers, pa.int64())
        fields = [*part.rows.schema, pa.field("", pa.int64())]
        schema = pa.schema(fields, {_ORIGIN: part.origin.encode(), _UNIT: part.unit.encode()})
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_batch(pa.RecordBatch.from_arrays([*part.rows.columns, numbers], schema=schema))
        data = sink.getvalue()
        with writing(self.path.parent, "spill"):
            if not self.size:
                self.fs.write_new(self.path, b"")
            self.fs.write_at(self.path, self.size, len(data).to_bytes(8, "big") + data)
        self.size += 8 + len(data)


def kept_parts(fs: Fs, path: Path) -> Iterator[SpilledPart]:
    """The parts of a file, in the order in which they were added."""
    stat, offset = fs.stat(path), 0
    while stat is not None and offset < stat.size:
        length = int.from_bytes(fs.read_range(path, offset, 8), "big")
        batch = pa.ipc.open_stream(fs.read_range(path, offset + 8, length)).read_next_batch()
        meta: Mapping[bytes, bytes] = batch.schema.metadata
        rows = pa.RecordBatch.from_arrays(batch.columns[:-1], schema=pa.schema([*batch.schema][:-1]))
        unit: Any = meta[_UNIT].decode()
        yield SpilledPart(rows, meta[_ORIGIN].decode(), batch.columns[-1].to_numpy(), unit)
        offset += 8 + length


@dataclass(frozen=True, slots=True)
class SpilledFrames:
    """What tasks have kept, by their numbers, for the driver: each task is one split."""

    fs: Fs
    decode: Any
    paths: Mapping[int, Path]

    def __call__(self, split: Split, notes: SplitNotes) -> Iterator[tuple[LocationKey, pa.RecordBatch]]:
        """The rows of a task again."""
        for part in self._parts(split):
            yield from self.decode(part.rows, part.origin, part.numbers, part.unit, notes)

    def reject_rows(self, split: Split, left: LeftOut, notes: SplitNotes) -> int:
        """Rejects rows for which their location has no room; returns their number."""
        rejected: int = self.decode.reject_rows(self._parts(split), left, notes)
        return rejected

    def _parts(self, split: Split) -> Iterator[SpilledPart]:
        assert isinstance(split, OffsetRange)  # noqa: S101  as every task of a frame has
        return kept_parts(self.fs, self.paths[split.partition])


Ints = npt.NDArray[np.int64]
MAX_RANGES = 10_000  # that a task may report of one source partition


@dataclass(frozen=True, slots=True)
class PositionColumns:
    """Columns with the source position of a row; without ``topic`` all rows are of one topic, named ``source``."""

    partition: str
    offset: str
    topic: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return (self.partition, self.offset, *([self.topic] if self.topic else []))


class DecodeRows(Protocol):
    """Decodes a batch of a frame to routed rows; rejected rows go into ``notes``. Must pickle."""

    def __call__(
        self, batch: pa.RecordBatch, origin: str, numbers: Ints, unit: Literal["row", "offset"], notes: SplitNotes
    ) -> Iterable[tuple[LocationKey, pa.RecordBatch]]:
        """``numbers``: positions of the rows in ``origin``, offsets or counted from 1."""
        ...


@dataclass(frozen=True, slots=True)
class FrameWork:
    """The work of all tasks of a batch. ``ends``: offsets below are committed. ``dense``: gaps are reported.

    ``only_look``: only compute the digest. ``origin`` names the source of rows without positions: with task and row
    number it identifies a rejected row.
    """

    decode: DecodeRows
    positions: PositionColumns | None
    ends: Mapping[TopicPartition, int]
    dense: bool = True
    only_look: bool = False
    origin: str = ""


@dataclass(frozen=True, slots=True)
class FrameResult:
    """A task's result with the offsets it wrote, the number of dropped rows, and the digest of the others.

    ``looked``: the task only computed the digest. ``kept``: the file of its rows, if a location may lack room.
    """

    result: TaskResult
    ranges: tuple[OffsetRange, ...] = ()
    dropped: int = 0
    digest: int = 0
    looked: bool = False
    kept: Path | None = None


def frame_task(
    fs: Fs, memory: WorkerCache, target: StreamTarget, work: FrameWork, scratch: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The function of ``mapInArrow``: rows in, one row with the pickled result out; none without rows."""
    result = write_rows(fs, memory, target, work, scratch, batches)
    if result is not None:
        yield pa.RecordBatch.from_pydict({"result": pa.array([pickle.dumps(result)], pa.binary())})


def write_rows(
    fs: Fs, memory: WorkerCache, target: StreamTarget, work: FrameWork, scratch: str, batches: Iterator[pa.RecordBatch]
) -> FrameResult | None:
    """Runs one task of a frame; None without rows. Errors of rows and disk are in the result."""
    index, attempt = task_number()
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return None
    seen = _Seen(work, target.schema, index, first, batches)
    kept = None
    if work.only_look:
        result = TaskResult(index)
        for _ in seen(_STAND_IN, result.notes):
            pass
    else:
        # rows of a location are in task order: without positions only the task number is stable
        split = OffsetRange("task", index, 0, 0)
        decode: Decode = seen
        if keeps_rows(target.schema, work.decode):
            kept = target.scratch(scratch) / f"frame.{index}.{attempt}.rows"
            seen.kept = SpilledRows(fs, kept)
            decode = _Again(seen, SpilledFrames(fs, work.decode, {index: kept}))
        result = run_task(fs, memory, target, decode, Task(index, attempt, scratch, [split]))
    return FrameResult(result, seen.ranges(), seen.dropped, seen.digest, work.only_look, kept)


_STAND_IN = OffsetRange("task", 0, 0, 0)


@dataclass(frozen=True, slots=True)
class _Again:
    """The decoder of a task that can reject rows which it has decoded."""

    seen: _Seen
    kept: SpilledFrames

    def __call__(self, split: Split, notes: SplitNotes) -> Iterator[tuple[LocationKey, pa.RecordBatch]]:
        return self.seen(split, notes)

    def reject_rows(self, split: Split, left: LeftOut, notes: SplitNotes) -> int:
        return self.kept.reject_rows(split, left, notes)


@dataclass(slots=True)
class _Seen:
    """The decoder of a task, whose one split is all that Spark gives to it."""

    work: FrameWork
    schema: TableSchema
    index: int
    first: pa.RecordBatch
    rest: Iterator[pa.RecordBatch]
    dropped: int = 0
    digest: int = 0
    rows: int = 0
    offsets: dict[TopicPartition, list[Ints]] = field(default_factory=dict)
    kept: SpilledRows | None = None

    def __call__(self, split: Split, notes: SplitNotes) -> Iterator[tuple[LocationKey, pa.RecordBatch]]:
        del split
        sink = notes.sink
        if not self.work.positions:
            notes.sink = self._digested(sink)
        batch: pa.RecordBatch | None = self.first
        notes.source.count(0)  # all rows may have been committed before
        while batch is not None:
            rows_of_batch, dropped, given = SourceRows(batch.num_rows), self.dropped, 0
            for part, origin, numbers in self._placed(batch) if self.work.positions else self._counted(batch):
                given += part.num_rows
                unit: Literal["row", "offset"] = "offset" if self.work.positions else "row"
                if self.kept is not None:
                    self.kept.add(SpilledPart(part, origin, numbers, unit))
                for key, rows in self.work.decode(part, origin, numbers, unit, notes):
                    if not self.work.positions:
                        self.digest = add(self.digest, content_digest(self.schema, key, rows))
                    yield key, rows
            rows_of_batch.leave(self.dropped - dropped)
            rows_of_batch.require(given, 0, f"{self.work.origin}, task {self.index}")
            batch = next(self.rest, None)
        notes.sink = sink

    def ranges(self) -> tuple[OffsetRange, ...]:
        """The offsets seen, as ranges without gaps if ``dense``."""
        ranges: list[OffsetRange] = []
        for (topic, partition), parts in self.offsets.items():
            starts, stops = spans(np.unique(np.concatenate(parts)), dense=self.work.dense)
            if len(starts) > MAX_RANGES:
                raise _scattered(f"{topic}/{partition}", len(starts))
            pairs = zip(starts.tolist(), stops.tolist(), strict=True)
            ranges.extend(OffsetRange(topic, partition, start, stop) for start, stop in pairs)
        return tuple(ranges)

    def _digested(self, sink: Callable[[pa.RecordBatch], None] | None) -> Callable[[pa.RecordBatch], None]:
        def add_rejected(rows: pa.RecordBatch) -> None:
            payloads = rows.column("Payload").to_pylist()
            digests = (xxhash.xxh3_128_intdigest(b"\0" + (payload or b"")) for payload in payloads)
            self.digest = add(self.digest, *digests)
            if sink is not None:
                sink(rows)

        return add_rejected

    def _counted(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, str, Ints]]:
        numbers = np.arange(self.rows + 1, self.rows + 1 + batch.num_rows, dtype=np.int64)
        self.rows += batch.num_rows
        yield batch, "/".join(filter(None, (self.work.origin, f"task {self.index}"))), numbers

    def _placed(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, str, Ints]]:
        """Rows above the committed ends, by source partition."""
        columns = self.work.positions
        assert columns is not None  # noqa: S101 asked before
        partitions, offsets = (_whole(batch, name) for name in (columns.partition, columns.offset))
        topics = batch.column(columns.topic) if columns.topic else pa.repeat("source", batch.num_rows)
        if topics.null_count:
            raise _no_position(columns.topic or "")
        encoded = pc.dictionary_encode(topics.cast(pa.string()))
        names = encoded.dictionary.to_pylist()
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        pairs, place_of = np.unique(np.stack([codes, partitions], axis=1), axis=0, return_inverse=True)
        for number, (code, partition) in enumerate(pairs.tolist()):
            source_partition = (names[code], partition)
            mine = place_of.reshape(-1) == number
            fresh = mine & (offsets >= self.work.ends.get(source_partition, 0))
            self.dropped += int(mine.sum() - fresh.sum())
            if fresh.any():
                self.offsets.setdefault(source_partition, []).append(np.unique(offsets[fresh]))
                part = batch if fresh.all() else batch.filter(pa.array(fresh))
                yield part, f"{source_partition[0]}/{partition}", offsets[fresh]


def spans(offsets: Ints, *, dense: bool) -> tuple[Ints, Ints]:
    """Starts and stops of runs of ascending offsets; one run over all gaps unless ``dense``."""
    if not dense:
        return offsets[:1], offsets[-1:] + 1
    breaks = np.flatnonzero(np.diff(offsets) > 1)
    return offsets[np.concatenate([[0], breaks + 1])], offsets[np.append(breaks, len(offsets) - 1)] + 1


def content_digest(schema: TableSchema, key: LocationKey, rows: pa.RecordBatch) -> int:
    """A digest of the rows of a location, independent of their order and their division into batches."""
    location = xxhash.xxh3_128_intdigest(f"{key.internal}\0{key.value}".encode())
    columns = (digest_array(column, rows.column(column.name)) for column in schema.stored)
    return add(location * rows.num_rows, *columns)


def _whole(batch: pa.RecordBatch, name: str) -> Ints:
    column = batch.column(name)
    if column.null_count:
        raise _no_position(name)
    values: Ints = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    if len(values) and values.min() < 0:
        raise PositionGapError("a row has a negative position", where=f"column {name}", found=int(values.min()))
    return values


def _no_position(name: str) -> PositionGapError:
    return PositionGapError(
        "a row has no position",
        where=f"column {name}",
        expected="a value in every row",
        found="null",
        hint="write the frame before it is joined or padded, or leave `positions` out",
    )


def _scattered(partition: str, count: int) -> PositionGapError:
    return PositionGapError(
        "the offsets of one task are scattered",
        where=partition,
        expected=f"at most {MAX_RANGES:,} runs of offsets without a hole",
        found=f"{count:,}",
        hint="write the frame before it is filtered or repartitioned, or set allow_gap",
    )
