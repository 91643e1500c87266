"""Parts of a file: together they are its rows, in order and by number, wherever it is cut; an epoch takes them all."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.ingest.content.raw_file import PlannedFile, is_cuttable, part_lines
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.spec import Clock, ColumnSpec, Format
from sparkhaven.store.epochs.state.file_positions import FileWindow, Resolution
from sparkhaven.store.epochs.state.log_values import FileId, FilePart, Split
from sparkhaven.store.errors import EpochConflictError, PositionGapError
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.batch.collect import by_position, classified, split_order
from tests.support.ingest.ingest_cases import PLENTY, decode, file_id, schema, stream, values, write
from tests.support.streams.stream_kit import open_log, put_file, record, tree_bytes
from tests.support.writers.quarantine_cases import Shelf, bad, spec, take

FS = Fs()


def cut(file: FileId, *places: int) -> list[FilePart]:
    return [FilePart(file.path, file.size, file.mtime_ns, *span) for span in pairwise((0, *sorted(places), file.size))]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_lines_of_all_parts_are_those_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = data.draw(st.lists(st.sampled_from([b"", b"a", b"bcd", b"\r", b"x" * 9]), max_size=9).map(b"\n".join))
    if not content:
        return
    file = write(tmp_path_factory.mktemp("parts") / "a", content)
    places = data.draw(st.lists(st.integers(1, max(file.size - 1, 1)), max_size=4, unique=True))
    chunk = data.draw(st.sampled_from([1, 2, 1 << 20]))
    found: list[tuple[int, bytes]] = []
    for part in cut(file, *[place for place in places if place < file.size]):
        number, pieces = part_lines(PlannedFile(FS, part), chunk, chunk)
        found += list(enumerate(_lines(b"".join(pieces)), number))
    assert found == list(enumerate(_lines(content), 1))


def _lines(content: bytes) -> list[bytes]:
    lines = [line + b"\n" for line in content.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_rows_numbers_and_bad_rows_of_all_parts_are_those_of_the_file(tmp_path: Path, form: Format) -> None:
    rows = [n if n % 37 else 2**40 for n in range(1000)]
    if form == "json":
        text = "".join(json.dumps({"v": v, "pad": "x" * (v % 90)}) + "\n" * (1 + v % 3 // 2) for v in rows)
        file = write(tmp_path / "a.json", "\ufeff" + text)
    else:
        pq.write_table(pa.table({"v": rows, "pad": ["x"] * 1000}), tmp_path / "a", row_group_size=90)
        file = file_id(tmp_path / "a")
    spec, table = stream(ColumnSpec("at", meta="line"), form=form), schema(v="int", at="long")
    routed, rejects = decode(file, spec, table)
    for count in (2, 3, 11):
        pieces = cut(file, *(file.size * n // count for n in range(1, count)))
        found = [decode(part, spec, table) for part in pieces]
        for name in ("v", "at"):
            assert [v for batches, _ in found for v in values(batches, name)] == values(routed, name)
        bad = [row for _, rejected in found for row in rejected.rows]
        assert bad == rejects.rows and len(bad) == 28
        assert sum(rejected.read for _, rejected in found) == rejects.read


def test_what_is_cut(tmp_path: Path) -> None:
    plain, wall, batch = FilesOptions("/feed"), Clock(), Clock("batch")
    for form in ("json", "csv", "parquet"):
        options = replace(plain, format=form)
        assert options.can_be_cut(wall) and not options.can_be_cut(batch)
    assert not replace(plain, format="csv", encoding="latin-1").can_be_cut(wall)
    assert is_cuttable(FS, write(tmp_path / "a.json", b"{}\n"))
    assert not is_cuttable(FS, write(tmp_path / "a.json.gz", b"{}\n"))
    assert not is_cuttable(FS, write(tmp_path / "b.json", b"\x1f\x8b..."))


FILE, OTHER = FileId("/f/a", 100, 5), FileId("/f/b", 7, 6)


def test_the_log_classifies_whole_files() -> None:
    first, second = cut(FILE, 40)
    splits: list[Split] = [first, second, OTHER]

    def resolve(window: FileWindow) -> Resolution:
        return classified(splits, lambda given: window.classify(g for g in given if isinstance(g, FileId)))

    assert resolve(FileWindow()).fresh == (first, second, OTHER)
    resolution = resolve(FileWindow([FILE]))
    assert (resolution.fresh, resolution.taken) == ((OTHER,), (first, second))
    assert resolution.instead == {first: None, second: None}
    assert resolve(FileWindow([], 6)).below == (first, second)
    with pytest.raises(PositionGapError):
        resolve(FileWindow([FileId("/f/a", 99, 5)]))


def test_a_file_of_which_a_part_is_missing_is_no_position() -> None:
    first, second, third = cut(FILE, 40, 60)
    assert list(by_position([third, OTHER, first, second])) == [FILE, OTHER]
    some: list[list[Split]] = [[first, third], [first, second], [second, third], [first, second, third, third]]
    for splits in [*some, [first, FILE], [FILE, third], [first, second, third, FILE]]:
        with pytest.raises(EpochConflictError, match="do not cover it exactly once"):
            by_position(splits)


def test_parts_stand_in_the_order_of_the_file() -> None:
    first, second = cut(FILE, 40)
    assert sorted([OTHER, second, first], key=split_order) == [first, second, OTHER]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_tasks_that_share_a_file_write_the_bytes_that_one_task_writes(tmp_path: Path, order: tuple[int, ...]) -> None:
    first = put_file(tmp_path / "feed", "0", [record(n, "ab"[n % 2]) for n in range(60)], 1)
    rows = [record(n, "ab"[n % 2]) if n % 20 else bad(n) for n in range(60, 300)]
    file = put_file(tmp_path / "feed", "1", rows, 2)
    pieces = cut(file, file.size // 3, file.size // 2)
    with open_log(FS, tmp_path / "whole") as log:
        take(FS, tmp_path / "whole", log, [[first, file]], Shelf(), given=spec(PLENTY))
    shelf = Shelf()
    with open_log(FS, tmp_path / "parts") as log:
        groups = [[first, pieces[0]], [pieces[1]], [pieces[2]]]
        done = take(FS, tmp_path / "parts", log, groups, shelf, given=spec(PLENTY), order=order)
        assert (done.splits, done.rows, done.rejected, done.bytes) == (2, 288, 12, first.size + file.size)
        assert list(log.state.files) == [first, file]
        assert take(FS, tmp_path / "parts", log, groups, shelf, 1, given=spec(PLENTY)).replayed == 2
        changed = [[FilePart(file.path, file.size, file.mtime_ns + 1, 0, file.size)]]
        with pytest.raises(PositionGapError, match="changed after it was taken"):
            take(FS, tmp_path / "parts", log, changed, shelf, 2, given=spec(PLENTY))
    assert tree_bytes(tmp_path / "parts") == tree_bytes(tmp_path / "whole")
    assert shelf.places == [("1", line) for line in range(1, 240, 20)]


def test_a_batch_without_a_part_of_its_file_is_refused(tmp_path: Path) -> None:
    file = put_file(tmp_path / "feed", "1", [record(n) for n in range(60)], 2)
    with open_log(FS, tmp_path) as log:
        with pytest.raises(EpochConflictError, match="do not cover it exactly once"):
            take(FS, tmp_path, log, [[part] for part in cut(file, file.size // 2)[:1]], Shelf(), given=spec(PLENTY))
        assert log.state.epoch == 0
