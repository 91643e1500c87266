"""Rows of a frame in the scratch directory of their batch, until it is known that their location has room for them.

Spark hands the rows of a task over once. That a location has no room for a row is seen when it is appended, by the
task or, where several tasks meet, by the driver. The row is then rejected, with a payload made of what was kept.
Tables without columns of sets or widened columns keep nothing.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.epochs.state.log_values import OffsetRange, Split
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.append.append import writing
from sparkhaven.writers.append.location_room import may_lack_room
from sparkhaven.writers.batch.left_rows import LeftOut
from sparkhaven.writers.task.decoding import SplitNotes

_ORIGIN, _UNIT = b"origin", b"unit"


@dataclass(frozen=True, slots=True)
class KeptPart:
    """Rows as a decoder of frames gets them."""

    rows: pa.RecordBatch
    origin: str
    numbers: npt.NDArray[np.int64]
    unit: Literal["row", "offset"]


@runtime_checkable
class RejectsParts(Protocol):
    """A decoder of frames that can reject single rows."""

    def reject_rows(self, parts: Iterable[KeptPart], left: LeftOut, notes: SplitNotes) -> int:
        """Rejects rows of these parts into ``notes``, by their numbers in each location; returns how many."""
        ...


def keeps_rows(schema: TableSchema, decode: object) -> bool:
    return isinstance(decode, RejectsParts) and may_lack_room(schema)


@dataclass(slots=True)
class KeptRows:
    """The file of one task: for each part its length in eight bytes, and a stream of Arrow."""

    fs: Fs
    path: Path
    size: int = field(init=False, default=0)

    def add(self, part: KeptPart) -> None:
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


def kept_parts(fs: Fs, path: Path) -> Iterator[KeptPart]:
    """The parts of a file, in the order in which they were added."""
    stat, offset = fs.stat(path), 0
    while stat is not None and offset < stat.size:
        length = int.from_bytes(fs.read_range(path, offset, 8), "big")
        batch = pa.ipc.open_stream(fs.read_range(path, offset + 8, length)).read_next_batch()
        meta: Mapping[bytes, bytes] = batch.schema.metadata
        rows = pa.RecordBatch.from_arrays(batch.columns[:-1], schema=pa.schema([*batch.schema][:-1]))
        unit: Any = meta[_UNIT].decode()
        yield KeptPart(rows, meta[_ORIGIN].decode(), batch.columns[-1].to_numpy(), unit)
        offset += 8 + length


@dataclass(frozen=True, slots=True)
class KeptFrames:
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

    def _parts(self, split: Split) -> Iterator[KeptPart]:
        assert isinstance(split, OffsetRange)  # noqa: S101  as every task of a frame has
        return kept_parts(self.fs, self.paths[split.partition])
