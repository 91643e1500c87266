"""Frames without Spark: offsets of a task as ranges, ranges of tasks as one, digests, columns that must fit."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.ingest.bad_rows import as_batch, bad_row
from sparkhaven.ingest.values.typed_rows import Refusal
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.errors import PositionGapError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.quarantine.rejected_rows import Reason, decode_rejected
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.scratch import make_scratch
from sparkhaven.writers.spark.frame_task import (
    MAX_RANGES,
    FrameResult,
    FrameWork,
    PositionColumns,
    content_digest,
    frame_task,
    spans,
)
from sparkhaven.writers.spark.frame_writes import joined
from sparkhaven.writers.task import SplitNotes
from tests.support.streams.stream_kit import SCHEMA, open_log, record, target_of

FS = Fs()
COLUMNS = PositionColumns("part", "off")
KEY = LocationKey("a", "2026-11-20")


def test_offsets_as_runs() -> None:
    offsets = np.array([3, 4, 5, 9, 11, 12])
    assert [part.tolist() for part in spans(offsets, dense=True)] == [[3, 9, 11], [6, 10, 13]]
    assert [part.tolist() for part in spans(offsets, dense=False)] == [[3], [13]]
    assert [part.tolist() for part in spans(offsets[:1], dense=True)] == [[3], [4]]


def part(start: int, stop: int, partition: int = 0) -> OffsetRange:
    return OffsetRange("t", partition, start, stop)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 20), st.integers(1, 6)), max_size=6))
def test_ranges_of_tasks_are_joined_and_holes_reported(pieces: list[tuple[int, int, int]]) -> None:
    ranges = [part(start, start + length, partition) for partition, start, length in pieces]
    covered = {place: {o for p in ranges if p.partition == place for o in range(p.start, p.stop)} for place in (0, 1)}
    whole = tuple(part(min(held), max(held) + 1, place) for place, held in covered.items() if held)
    assert joined(ranges, dense=False) == whole
    if all(len(held) == (max(held) + 1 - min(held)) for held in covered.values() if held):
        assert joined(ranges, dense=True) == whole
    else:
        with pytest.raises(PositionGapError, match="offsets are missing"):
            joined(ranges, dense=True)


def frame(numbers: range, **columns: Any) -> pa.RecordBatch:
    rows = [record(number) for number in numbers]
    stored = {c.name: pa.array([row[c.name] for row in rows], c.type.arrow) for c in SCHEMA.stored}
    return pa.RecordBatch.from_pydict(stored | columns)


def decode(
    batch: pa.RecordBatch, origin: str, numbers: Any, unit: str, notes: SplitNotes
) -> Iterator[tuple[LocationKey, pa.RecordBatch]]:
    """All rows go to one location; says where they come from."""
    notes.count(f"{origin} {unit} {numbers.tolist()}", 1)
    notes.source.count(batch.num_rows)
    yield KEY, batch.select([column.name for column in SCHEMA.stored])


def run(root: Path, work: FrameWork, *batches: pa.RecordBatch) -> FrameResult:
    with open_log(FS, root) as log:
        target = target_of(root, log)
        make_scratch(FS, target.scratch("1-0"))
        (made,) = frame_task(FS, WorkerCache(), target, work, "1-0", iter(batches))
    found: FrameResult = pickle.loads(made.column(0)[0].as_py())
    return found


def test_a_task_drops_committed_rows_and_tells_its_ranges(tmp_path: Path) -> None:
    batch = frame(range(6), part=pa.array([0, 1, 0, 1, 0, 0]), off=pa.array([4, 7, 5, 8, 6, 6]))
    work = FrameWork(decode, COLUMNS, {("source", 0): 5, ("other", 1): 99})
    found = run(tmp_path, work, frame(range(0), part=pa.array([], pa.int32()), off=pa.array([], pa.int64())), batch)
    assert found.result.error is None
    assert (found.dropped, found.digest) == (1, 0)
    assert set(found.ranges) == {OffsetRange("source", 0, 5, 7), OffsetRange("source", 1, 7, 9)}
    assert sorted(found.result.notes.counts) == ["source/0 offset [5, 6, 6]", "source/1 offset [7, 8]"]
    assert sum(appended.report.rows for appended in found.result.appended) == 5


def test_a_task_without_positions_tells_a_digest_and_may_only_look(tmp_path: Path) -> None:
    one = run(tmp_path / "1", FrameWork(decode, None, {}), frame(range(4)), frame(range(4, 9)))
    assert sorted(one.result.notes.counts) == ["task 0 row [1, 2, 3, 4]", "task 0 row [5, 6, 7, 8, 9]"]
    look = run(tmp_path / "2", FrameWork(decode, None, {}, only_look=True), frame(range(9)))
    assert (look.digest, look.result.appended, look.ranges) == (one.digest, (), ())
    assert list((tmp_path / "2").rglob("*.dat")) == []
    other = run(tmp_path / "3", FrameWork(decode, None, {}, only_look=True), frame(range(1, 10)))
    assert other.digest != one.digest


def test_rejected_rows_belong_to_what_a_batch_is_known_by(tmp_path: Path) -> None:
    def rejecting(
        batch: pa.RecordBatch, origin: str, numbers: Any, unit: Literal["row", "offset"], notes: SplitNotes
    ) -> Iterator[tuple[LocationKey, pa.RecordBatch]]:
        """Every second row is bad; its payload is its number."""
        odd = Refusal(Reason.OVERFLOW, "even")
        notes.source.count(batch.num_rows)
        rows = [bad_row(origin, n, None, odd, "", b"%d" % n, unit=unit) for n in numbers.tolist() if n % 2]
        notes.keep_rejected(as_batch(rows))
        notes.reject(rows, len(rows))
        yield KEY, batch.select([column.name for column in SCHEMA.stored]).filter(pa.array(numbers % 2 == 0))

    first = run(tmp_path / "1", FrameWork(rejecting, None, {}, origin="@query q/3"), frame(range(6)))
    assert sum(file.rows for file in first.result.notes.rejected_files) == first.result.notes.rejected_rows == 3
    quarantined = decode_rejected(first.result.notes.rejected_files[0].path.read_bytes())
    assert quarantined["SourcePartition"].to_pylist() == ["@query q/3/task 0"] * 3
    assert quarantined["Position"].to_pylist() == [1, 3, 5]
    look = FrameWork(rejecting, None, {}, only_look=True)
    assert run(tmp_path / "2", look, frame(range(2)), frame(range(2, 6))).digest == first.digest
    assert run(tmp_path / "3", look, frame(range(5))).digest != first.digest  # one bad row less


def test_the_digest_is_of_rows_and_their_location_alone() -> None:
    rows = frame(range(20))
    whole = content_digest(SCHEMA, KEY, rows)
    shuffled = rows.take(pa.array(np.random.default_rng(1).permutation(20)))
    assert content_digest(SCHEMA, KEY, shuffled) == whole
    parts = content_digest(SCHEMA, KEY, rows.slice(0, 7)) + content_digest(SCHEMA, KEY, rows.slice(7))
    assert parts % 2**128 == whole
    assert content_digest(SCHEMA, KEY._replace(internal="b"), rows) != whole
    assert content_digest(SCHEMA, KEY, rows.slice(1)) != whole


def test_positions_that_are_none(tmp_path: Path) -> None:
    for off, reported in (([1, None], "no position"), ([-1, 0], "negative position")):
        batch = frame(range(2), part=pa.array([0, 0]), off=pa.array(off, pa.int64()))
        found = run(tmp_path / reported.split()[0], FrameWork(decode, COLUMNS, {}), batch)
        assert isinstance(found.result.error, PositionGapError) and reported in found.result.error.what


def test_scattered_offsets_are_reported_where_holes_matter(tmp_path: Path) -> None:
    count = MAX_RANGES + 1
    batch = frame(range(count), part=pa.array([0] * count), off=pa.array(range(0, 2 * count, 2)))
    with pytest.raises(PositionGapError, match="scattered"):
        run(tmp_path / "dense", FrameWork(decode, COLUMNS, {}), batch)
    (found,) = run(tmp_path / "loose", FrameWork(decode, COLUMNS, {}, dense=False), batch).ranges
    assert (found.start, found.stop) == (0, 2 * count - 1)
