"""One location at a time: types, statistics, later columns, locations that take no more, symbol tables in memory."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven.store.epochs.files.published_size import TABLE_SIZE
from sparkhaven.store.epochs.recovery.directory_plan import Settlement
from sparkhaven.store.epochs.recovery.recover import apply
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.errors import CommitError, CorruptFileError, LockLostError, SchemaMismatchError
from sparkhaven.store.format.column.symbols import FEW
from sparkhaven.store.format.table.table_size import TableSize
from sparkhaven.store.format.table.table_size import decode as decode_size
from sparkhaven.store.format.table.table_size import encode as encode_size
from sparkhaven.store.io.fs import Fs, Lock
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.scan.column_file import read_column
from sparkhaven.store.types.committed_columns import FileState, RangeStats
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage
from sparkhaven.writers.append.append import LocationAppender
from sparkhaven.writers.append.column_files import column_values, range_stats
from sparkhaven.writers.append.worker_cache import SymbolCache, SymbolKey, WorkerCache
from sparkhaven.writers.batch.task import bytes_of
from sparkhaven.writers.task import LateRows, SplitNotes
from tests.support.streams.locations import A
from tests.support.streams.stream_kit import (
    COLUMNS,
    SCHEMA,
    STREAM,
    TABLE,
    ingest,
    open_log,
    put_file,
    record,
    run_alone,
    target_of,
)

FS = Fs()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([3, None, -1], pa.int32()), RangeStats(5, 8, 1, 0, -1, 3)),
        (pa.array([None, None], pa.int32()), RangeStats(5, 7, 2)),
        (pa.array([True, False]), RangeStats(5, 7, 0, 0, False, True)),
        (pa.array([nan, 2.5, None, -inf]), RangeStats(5, 9, 1, 1, -inf, 2.5)),
        (pa.array([nan, None]), RangeStats(5, 7, 1, 1)),
        (pa.array(["b", "a", None]), RangeStats(5, 8, 1, 0, "a", "b")),
        (pa.array(["b", "x" * 65]), RangeStats(5, 7, 0, 0, "b", "x" * 23 + "y")),
        (pa.array([1000, 2000], pa.timestamp("ns", "UTC")), RangeStats(5, 7, 0, 0, 1000, 2000)),
        (pa.array([1000, 2001], pa.timestamp("ns", "UTC")), RangeStats(5, 7, 0, 0, 1000, 2001, exact_us=False)),
    ],
)
def test_statistics_of_appended_rows(values: pa.Array, expected: RangeStats) -> None:
    assert range_stats(values, 5) == expected
    many = range_stats(pa.concat_arrays([values] * FEW), 5)
    stop, nulls, nans = 5 + FEW * len(values), FEW * expected.nulls, FEW * expected.nans
    assert many == replace(expected, stop=stop, nulls=nulls, nans=nans)


def test_statistics_look_only_at_values_that_a_dictionary_uses() -> None:
    unused = pa.DictionaryArray.from_arrays(pa.array([1, None, 2], pa.int32()), pa.array(["a", "c", "b", "d"]))
    assert range_stats(unused, 0) == RangeStats(0, 3, 1, 0, "b", "c")
    assert range_stats(pa.concat_arrays([unused] * FEW), 0) == RangeStats(0, 3 * FEW, FEW, 0, "b", "c")
    empty = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array([None], pa.string()))
    assert range_stats(empty, 0) == RangeStats(0, 2, 0)


def test_columns_of_several_batches_become_one_array() -> None:
    text = COLUMNS[3]
    batches = [
        pa.RecordBatch.from_pydict({"Sym": pa.array(["a", None]).dictionary_encode()}),
        pa.RecordBatch.from_pydict({"N": pa.array([1])}),
        pa.RecordBatch.from_pydict({"Sym": pa.array(["b"], pa.large_string())}),
    ]
    assert column_values(text, batches).to_pylist() == ["a", None, None, "b"]
    assert column_values(text, batches[:2]).to_pylist() == ["a", None, None]
    with pytest.raises(SchemaMismatchError, match="another type") as caught:
        column_values(COLUMNS[2], [pa.RecordBatch.from_pydict({"N": pa.array(["1"])})])
    assert caught.value.where == "column N"


def test_blocks_without_texts_take_the_dictionary_of_another_block() -> None:
    """Arrow looks up indices below nulls too when it joins dictionaries: none may be without entries."""
    coded, none = pa.array(["a", None]).dictionary_encode(), pa.nulls(2, pa.string())
    found = column_values(COLUMNS[3], [pa.RecordBatch.from_pydict({"Sym": one}) for one in (none, coded, none)])
    assert found.type == coded.type and found.to_pylist() == [None, None, "a", None, None, None]
    found = column_values(COLUMNS[3], [pa.RecordBatch.from_pydict({"Sym": none})] * FEW)
    assert pa.types.is_dictionary(found.type) and found.to_pylist() == [None] * 2 * FEW


def test_a_dictionary_is_counted_once_among_what_a_task_holds() -> None:
    entries = pa.array(["x" * 1000, "y" * 1000])
    one = pa.RecordBatch.from_pydict({"Sym": pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), entries)})
    known: set[int] = set()
    assert bytes_of(one, known) >= 2008
    assert bytes_of(one.slice(0, 1), known) < 100 and bytes_of(one.take(pa.array([1, 1])), known) < 100
    assert bytes_of(one, set()) >= 2008 and bytes_of(pa.RecordBatch.from_pydict({"N": pa.array([1])}), known) == 8


# --- later columns -----------------------------------------------------------------------------------------


def test_a_new_column_is_null_in_the_rows_before_it(tmp_path: Path) -> None:
    added = (
        Column("Tag", data_type("String"), Kind.NORMAL, Storage.SYMBOL, 7, "UTF_8"),
        Column("X", data_type("double"), Kind.NORMAL, Storage.FIXED, 8),
        Column("Long", data_type("String"), Kind.NORMAL, Storage.BLOB, 9, "UTF_8"),
    )
    schema = replace(SCHEMA, columns=(*COLUMNS, *added), version=2)
    one = put_file(tmp_path / "feed", "1", [record(1), record(2)], 1)
    with open_log(FS, tmp_path) as log:
        ingest(FS, tmp_path, log, [[one]])
        target = replace(target_of(tmp_path, log), schema=schema)
        appender = LocationAppender(FS, target, A, WorkerCache(), may_write=lambda: None)
        values = {"N": [3], "Tag": ["t"], "X": [1.5], "Long": ["long"]}
        appender.append([pa.RecordBatch.from_pydict(values)])
        report = appender.report()
    sizes = {name: state.size for name, state in report.files.items()}
    for column, value in zip(added, ("t", 1.5, "long"), strict=True):
        found = read_column(FS, appender.directory, column, sizes, 3)
        assert found.to_pylist() == [None, None, value]
        assert (report.stats[column.name].start, report.stats[column.name].stop) == (2, 3)
    assert appender.directory / "table.tbl" in appender.touched
    assert appender.directory in appender.directories


def test_a_column_that_was_made_anew_under_its_name_is_not_appended_to(tmp_path: Path) -> None:
    one = put_file(tmp_path / "feed", "1", [record(1)], 1)
    changed = tuple(replace(column, id=40) if column.name == "N" else column for column in COLUMNS)
    with open_log(FS, tmp_path) as log:
        ingest(FS, tmp_path, log, [[one]])
        target = replace(target_of(tmp_path, log), schema=replace(SCHEMA, columns=changed, version=2))
        with pytest.raises(SchemaMismatchError, match="another definition") as caught:
            LocationAppender(FS, target, A, WorkerCache(), may_write=lambda: None)
    assert str(caught.value.where).endswith("N.dat")


# --- locations that cannot be written ----------------------------------------------------------------------


def test_a_file_shorter_than_committed_is_reported_and_nothing_is_touched(tmp_path: Path) -> None:
    one = put_file(tmp_path / "feed", "1", [record(1), record(2)], 1)
    with open_log(FS, tmp_path) as log:
        ingest(FS, tmp_path, log, [[one]])
        target = target_of(tmp_path, log)
        path = target.location(A) / "N.dat"
        FS.truncate(path, 4100)
        FS.write_at(target.location(A) / "Sym.dat", 4104, b"tail")
        with pytest.raises(CorruptFileError) as caught:
            LocationAppender(FS, target, A, WorkerCache(), may_write=lambda: None)
        assert (caught.value.where, caught.value.expected, caught.value.found) == (
            str(path),
            "4112 bytes",
            "4100 bytes",
        )
        assert (target.location(A) / "Sym.dat").stat().st_size == 4108


def test_rows_for_a_truncated_location_are_late(tmp_path: Path) -> None:
    one = put_file(tmp_path / "feed", "1", [record(1), record(2)], 1)
    two = put_file(tmp_path / "feed", "2", [record(3), record(4)], 2)
    with open_log(FS, tmp_path) as log:
        ingest(FS, tmp_path, log, [[one]])
        target = target_of(tmp_path, log)
        path = target.location(A) / TABLE_SIZE
        FS.replace(path, encode_size(replace(decode_size(FS.read(path), path), truncated=True)))
        result = run_alone(FS, target, "1-1", [two])
    assert result.error is None
    assert result.appended == ()
    assert (result.notes.rejected, result.notes.rejected_rows) == ([LateRows(A, 2, two.path)], 2)


def test_a_locked_location_is_waited_for_and_then_reported(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        target = target_of(tmp_path, log)
    directory = target.location(A)
    FS.mkdirs(directory)
    held = FS.lock(directory)
    assert held is not None
    waited: list[float] = []

    def release_late(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            held.release()

    LocationAppender(FS, target, A, WorkerCache(), may_write=lambda: None, sleep=release_late)
    assert len(waited) == 3
    again = FS.lock(directory)
    with pytest.raises(LockLostError, match="locked by another process"):
        LocationAppender(FS, target, A, WorkerCache(), may_write=lambda: None, sleep=waited.append)
    assert again is not None
    again.release()
    assert 10 < sum(waited) < 11


# --- symbol tables in memory -------------------------------------------------------------------------------


def state(size: int, crc: int = 1) -> tuple[FileState, FileState]:
    return FileState(size, crc), FileState(size, crc)


def test_the_cache_gives_a_table_only_for_the_very_bytes_it_was_made_of() -> None:
    cache = SymbolCache()
    key = SymbolKey(Path("/x"), "Sym", 3)
    assert cache.take(key, state(0), lambda: pytest.fail("nothing to read")) == {}
    cache.give(key, state(16), {"a": 0, "b": 1})
    assert cache.take(key, state(16), lambda: pytest.fail("it is in memory")) == {"a": 0, "b": 1}
    assert len(cache) == 0
    for other in (state(8), state(16, crc=2)):
        cache.give(key, state(16), {"a": 0, "b": 1})
        assert cache.take(key, other, lambda: ["c"]) == {"c": 0}
    cache.give(key, state(16), {"a": 0})
    assert cache.take(SymbolKey(Path("/x"), "Sym", 4), state(16), lambda: ["d"]) == {"d": 0}


def test_the_cache_is_bounded_and_drops_what_was_used_longest_ago() -> None:
    cache = SymbolCache(max_symbols=5)
    keys = [SymbolKey(Path("/x"), name, 1) for name in "abc"]
    for key in keys:
        cache.give(key, state(16), {"p": 0, "q": 1})
    assert len(cache) == 2
    assert cache.take(keys[0], state(16), lambda: ["r"]) == {"r": 0}
    assert cache.take(keys[2], state(16), lambda: ["r"]) == {"p": 0, "q": 1}


def test_a_symbol_that_stands_twice_is_damage() -> None:
    with pytest.raises(CorruptFileError, match="twice") as caught:
        SymbolCache().take(SymbolKey(Path("/x"), "Sym", 1), state(24), lambda: ["a", "b", "a"])
    assert caught.value.where == "/x/Sym.sym, symbol 2"


# --- other durability --------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["fsync", "periodic", "none"])
def test_without_fsync_tasks_sync_nothing_and_the_log_does_later(tmp_path: Path, durability: str) -> None:
    synced: list[Path] = []

    class Watching(Fs):
        def _sync_file(self, path: Path) -> None:
            synced.append(path)

    fs = Watching()
    one = put_file(tmp_path / "feed", "1", [record(1)], 1)
    with open_log(fs, tmp_path, durability=durability) as log:
        synced.clear()
        target = replace(target_of(tmp_path, log), policy=CommitPolicy(durability))  # type: ignore[arg-type]
        result = run_alone(fs, target, "1-0", [one])
        assert result.error is None
        assert (".dat" in {path.suffix for path in synced}) == (durability == "fsync")
    assert Layout(tmp_path).intraday_location(TABLE, A).is_dir()


def test_notes_of_tasks_add_up_and_keep_a_bounded_sample() -> None:
    notes, other = SplitNotes(), SplitNotes()
    notes.reject(list(range(900)), 5_000)
    notes.count("ignored", 2)
    other.reject(list(range(900)), 900)
    other.count("ignored", 3)
    notes.merge(other)
    assert (len(notes.rejected), notes.rejected_rows, notes.counts) == (20, 5_900, {"ignored": 5})


@pytest.mark.parametrize("owner", [b"\0\0\0\0", b"fe", b"\xff\xfe"])
def test_an_owner_that_a_power_cut_tore_bars_nobody(tmp_path: Path, owner: bytes) -> None:
    one = put_file(tmp_path / "feed", "1", [record(1)], 1)
    with open_log(FS, tmp_path) as log:
        target = target_of(tmp_path, log)
        FS.mkdirs(target.location(A))
        FS.write_new(target.location(A) / ".stream", owner)
        assert run_alone(FS, target, "1-0", [one]).error is None
        assert FS.read(target.location(A) / ".stream") == b"feed\n1\n"


def test_a_recovery_leaves_the_locations_of_a_stream_that_came_since_its_plan(tmp_path: Path) -> None:
    one = put_file(tmp_path / "feed", "1", [record(1)], 1)
    with open_log(FS, tmp_path) as log:
        target = target_of(tmp_path, log)
        run_alone(FS, target, "1-0", [one])  # a batch that failed
    theirs = [target.location(LocationKey(name, A.value)) for name in ("begun", "committed")]
    FS.write_new(target.layout.stream_lock(TABLE, "other"), b"")
    for directory in theirs:
        FS.mkdirs(directory)
        FS.write_new(directory / ".stream", b"other")
    FS.write_new(theirs[1] / TABLE_SIZE, encode_size(TableSize(1, 0, {}, stream="other", epoch=1)))
    plan = Settlement(stray_locations=[target.location(A), *theirs])
    apply(StreamPlace(FS, target.layout, TABLE, STREAM), plan)
    assert [path.exists() for path in plan.stray_locations] == [False, True, True]


def test_a_location_that_was_taken_away_is_not_replaced_by_a_lock_file(tmp_path: Path) -> None:
    one = put_file(tmp_path / "feed", "1", [record(1)], 1)

    class Taken(Fs):
        def lock(self, path: Path, *, wait: bool = False, make: bool = True) -> Lock | None:
            if path == directory:
                super().remove_tree(path)
            return super().lock(path, wait=wait, make=make)

    with open_log(FS, tmp_path) as log:
        target = target_of(tmp_path, log)
        directory = target.location(A)
        assert isinstance(run_alone(Taken(), target, "1-0", [one]).error, CommitError)
        assert not directory.exists()
        ingest(FS, tmp_path, log, [[one]])
