"""Merges of small dates against a naive sort, and what they leave on disk."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from store.columnfile import read_grouping
from store.epochs.removals import Removal, write_removals
from store.errors import CorruptFileError, LockLostError, MergeError, TableExistsError
from store.format import tablesize
from store.format.tlmi import decode_tlmi
from store.fs import Fs
from store.layout import Layout, LocationKey
from store.merges import lock_table, newest
from tests.intraday_rows import IntradayRows
from tests.merge_cases import DAY, SCHEMA, TABLE, as_table, comparable, naive_order, random_row, read_location
from writers.merge import check, columns, dates, share, source
from writers.merge.dates import DateResult, merge_dates
from writers.merge.executor import LocalExecutor
from writers.merge.keys import SortKey
from writers.merge.plan import MergeOptions, MergePlan
from writers.partitions import add_partition


class QuickFs(Fs):
    """The real file system without waiting for the disk."""

    def sync(self, paths: Any) -> None:
        list(paths)

    def sync_dirs(self, paths: Any) -> None:
        list(paths)

    def _sync_file_system(self, path: Path, descriptor: int | None) -> None:
        pass


FS = QuickFs()


def make(root: Path, number: int, *, seed: int = 1, partitions: int = 2) -> tuple[IntradayRows, list[dict[str, Any]]]:
    """Rows in two sources; returned in tie order."""
    rng = random.Random(seed)
    rows = [random_row(rng) for _ in range(number)]
    cut = number // 3
    house = IntradayRows(root, SCHEMA, fs=FS)
    house.commit({("a", DAY): as_table(rows[: cut // 2]), ("b", DAY): as_table(rows[cut:])})
    house.commit({("a", DAY): as_table(rows[cut // 2 : cut])})
    for name in range(partitions):
        add_partition(FS, house.layout, "Test", str(name))
    return house, rows


def merge(layout: Layout, *values: str, fs: Fs = FS, workers: int = 1, **options: Any) -> list[DateResult]:
    chosen = MergeOptions(**options)
    executor = LocalExecutor(workers, processes=False)
    days = values or (DAY,)
    results = list(merge_dates(fs, layout, TABLE, days, chosen, executor=executor, clock=lambda: 1_700_000_000.0))
    for result in results:
        if result.error is not None:
            raise result.error
    return results


def same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert [{k: comparable(v) for k, v in row.items()} for row in found] == [
        {k: comparable(v) for k, v in row.items()} for row in expected
    ]


SORTS: list[list[tuple[str, bool]]] = [
    [],
    [("D", False)],
    [("D", True), ("L", False)],
    [("Note", False)],
    [("Venue", True), ("F", False)],
    [("Flag", False), ("T", True)],
    [("C", False), ("B", True)],
]


@pytest.mark.parametrize("sort", SORTS, ids=str)
def test_rows_come_out_as_a_naive_sort_puts_them(tmp_path: Path, sort: list[tuple[str, bool]]) -> None:
    house, rows = make(tmp_path, 400)
    (result,) = merge(house.layout, sort=tuple(SortKey(name, descending) for name, descending in sort))
    assert (result.outcome, result.phase, result.rows_in, result.rows_out) == ("merged", "clean", 400, 400)
    parts = [read_location(house.layout, house.schema, LocationKey(name, DAY)) for name, _ in result.destinations]
    groups = [{row["Sym"] for row in part} for part in parts]
    assert len(parts) == 2
    assert not groups[0] & groups[1]
    for part, syms in zip(parts, groups, strict=True):
        same(part, naive_order([row for row in rows if row["Sym"] in syms], sort))
    record = newest(FS, house.layout, TABLE, DAY)
    assert record is not None
    assert record.proof is not None
    assert record.proof.holds


def history_bytes(layout: Layout) -> dict[str, bytes]:
    """Every file of history by its path below the namespace, without times."""
    base = layout.partitions("Test")
    found = {}
    for path in sorted(base.rglob("*")):
        if path.is_file() and path.name != "table.size":
            found[str(path.relative_to(base))] = path.read_bytes()
    return found


def test_same_input_gives_the_same_bytes_however_it_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "BLOCK_ROWS", 64)
    monkeypatch.setattr(check, "BLOCK_ROWS", 64)
    monkeypatch.setattr(columns, "CHUNK_ROWS", 50)
    monkeypatch.setattr(share, "STRETCH_ROWS", 100)
    results: dict[int, dict[str, bytes]] = {}
    for pieces in (1, 2, 7, 40):
        # 7: ordered in pieces, then written column by column, by tasks over all workers
        monkeypatch.setattr(MergePlan, "by_columns", lambda plan, pieces=pieces: pieces == 7)
        root = tmp_path / str(pieces)
        house, _ = make(root, 500, seed=4)
        monkeypatch.setattr(MergePlan, "ranges", lambda plan, pieces=pieces: pieces)
        monkeypatch.setattr(dates, "PARALLEL_ROWS", 1 if pieces == 7 else 1 << 20)  # tasks over all workers
        (result,) = merge(
            house.layout, sort=(SortKey("Venue"), SortKey("D", True), SortKey("Note")), workers=pieces % 3
        )
        assert result.pieces == pieces
        results[pieces] = history_bytes(house.layout)
    assert results[1]
    for pieces in (2, 7, 40):
        assert results[pieces] == results[1]


def test_one_giant_group_is_cut_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "BLOCK_ROWS", 64)
    rng = random.Random(3)
    rows = [random_row(rng) | {"Sym": "one"} for _ in range(600)]
    house = IntradayRows(tmp_path, SCHEMA, fs=FS)
    house.commit({("a", DAY): as_table(rows[:300]), ("b", DAY): as_table(rows[300:])})
    monkeypatch.setattr(MergePlan, "ranges", lambda plan: 9)
    monkeypatch.setattr(MergePlan, "by_columns", lambda plan: False)
    merge(house.layout, sort=(SortKey("L"),))
    same(read_location(house.layout, house.schema, LocationKey("0", DAY)), naive_order(rows, [("L", False)]))


class Killed(BaseException):
    """Stands for SIGKILL: no handler of the code under test may catch it."""


class KillingFs(QuickFs):
    """Dies at the n-th change of the file system, or at a step."""

    def __init__(self, *, call: int = -1, step: str = "") -> None:
        self.call, self.at, self.calls = call, step, 0
        self.steps: list[str] = []

    def step(self, name: str) -> None:
        self.steps.append(name)
        if name == self.at:
            raise Killed(name)

    def _count(self) -> None:
        self.calls += 1
        if self.calls == self.call:
            raise Killed(str(self.calls))

    def write_new(self, *args: Any) -> None:
        self._count()
        super().write_new(*args)

    def write_at(self, *args: Any) -> None:
        self._count()
        super().write_at(*args)

    def rename(self, *args: Any) -> None:
        self._count()
        super().rename(*args)

    def symlink(self, *args: Any) -> None:
        self._count()
        super().symlink(*args)

    def _mkdir(self, path: Path) -> None:
        self._count()
        super()._mkdir(path)

    def remove_tree(self, path: Path) -> None:
        self._count()
        super().remove_tree(path)

    def sync_dirs(self, paths: Any) -> None:
        self._count()
        super().sync_dirs(paths)


PHASE_STEPS = [
    f"merge-{phase}:{when}"
    for phase in ("plan", "stage", "sync", "check", "publish", "index", "record", "clean")
    for when in ("before", "after")
]


def kill_then_run_again(root: Path, fs: KillingFs, **options: Any) -> bool:
    """Whether the kill happened; checks what a reader sees after it, and that a second run ends well."""
    house, rows = make(root, 120, seed=9)
    killed = False
    try:
        merge(house.layout, fs=fs, **options)
    except Killed:
        killed = True
    seen = newest(FS, house.layout, TABLE, DAY)
    if seen is not None:  # the new state: all of it must be there
        found = [
            r for o in seen.outputs for r in read_location(house.layout, house.schema, LocationKey(o.internal, DAY))
        ]
        assert len(found) == 120
    (again,) = merge(house.layout, **options)
    assert again.outcome in ("merged", "resumed", "nothing")
    record = newest(FS, house.layout, TABLE, DAY)
    assert record is not None
    assert record.phase == "clean"
    found = [r for o in record.outputs for r in read_location(house.layout, house.schema, LocationKey(o.internal, DAY))]
    assert len(found) == 120
    by_sym = [row for o in record.outputs for row in _expected(house, o.internal, rows)]
    same(found, by_sym)
    check_tree(house.layout)
    return killed


def _expected(house: IntradayRows, internal: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    syms = {row["Sym"] for row in read_location(house.layout, house.schema, LocationKey(internal, DAY))}
    return naive_order([row for row in rows if row["Sym"] in syms], [])


def check_tree(layout: Layout) -> None:
    """Nothing but complete locations that record and index both name; no staging left."""
    record = newest(FS, layout, TABLE, DAY)
    assert record is not None
    base = layout.partitions("Test")
    tree = sorted(p.parent.parent.parent.name for p in base.glob(f"*/{DAY}/Every/table.size"))
    named = sorted(output.internal for output in record.outputs)
    index = sorted(e.key.internal for e in decode_tlmi(layout.metadata_index(TABLE).read_bytes(), "index"))
    assert tree == named == index
    assert [p for p in base.glob("*/*") if not any(p.iterdir())] == []
    assert [p.name for p in layout.system("Test").iterdir() if p.name.startswith(".stage")] == []


@pytest.mark.parametrize("step", PHASE_STEPS)
def test_killed_at_a_phase_it_ends_well_when_run_again(tmp_path: Path, step: str) -> None:
    assert kill_then_run_again(tmp_path, KillingFs(step=step))


@pytest.mark.slow
def test_killed_at_any_change_of_the_disk(tmp_path: Path) -> None:
    counting = KillingFs()
    kill_then_run_again(tmp_path / "count", counting)
    assert set(PHASE_STEPS) <= set(counting.steps)
    chosen = random.Random(7).sample(range(1, counting.calls + 1), 12)
    for call in sorted({*chosen, *range(counting.calls - 11, counting.calls + 1)}):
        assert kill_then_run_again(tmp_path / str(call), KillingFs(call=call)), call


@pytest.mark.parametrize("step", PHASE_STEPS)
def test_a_killed_re_merge_keeps_the_old_generation_readable(tmp_path: Path, step: str) -> None:
    house, _ = make(tmp_path, 90)
    merge(house.layout)
    before = newest(FS, house.layout, TABLE, DAY)
    with pytest.raises(Killed):
        merge(house.layout, fs=KillingFs(step=step), force=True)
    seen = newest(FS, house.layout, TABLE, DAY)
    assert seen is not None
    assert sum(len(read_location(house.layout, house.schema, LocationKey(o.internal, DAY))) for o in seen.outputs) == 90
    (again,) = merge(house.layout, force=True)
    assert again.outcome in ("merged", "resumed")
    assert before is not None
    last = newest(FS, house.layout, TABLE, DAY)
    assert last is not None
    assert last.generation > before.generation
    assert {o.internal for o in last.outputs}.isdisjoint({o.internal for o in before.outputs})


def test_late_rows_become_a_supplement_and_later_a_re_merge(tmp_path: Path) -> None:
    house, rows = make(tmp_path, 60)
    merge(house.layout)
    assert merge(house.layout)[0].outcome == "nothing"
    rng = random.Random(8)
    for number in range(1, 4):
        more = [random_row(rng) for _ in range(5)]
        house.commit({("a", DAY): as_table(more)})
        rows += more
        (result,) = merge(house.layout, max_supplements=2)
        assert result.outcome == ("supplement" if number <= 2 else "merged"), number
        assert result.rows_in == (5 if number <= 2 else 75)
        record = newest(FS, house.layout, TABLE, DAY)
        assert record is not None
        assert record.proof is not None
        assert record.proof.rows_out == len(rows)
        assert sum(i.rows for i in record.inputs) == len(rows)
    assert [name for name, _ in result.destinations] == ["0.g4", "1.g4"]


def test_an_old_generation_is_retired_after_its_grace(tmp_path: Path) -> None:
    house, _ = make(tmp_path, 60)
    merge(house.layout)
    merge(house.layout, force=True)
    old = house.layout.history_location(TABLE, LocationKey("0", DAY))
    assert old.is_dir()
    later = list(
        merge_dates(
            FS, house.layout, TABLE, [DAY], MergeOptions(), executor=LocalExecutor(), clock=lambda: 1_700_003_601.0
        )
    )
    assert later[0].outcome == "nothing"
    assert not old.exists()
    check_tree(house.layout)


def test_rows_that_come_while_it_merges_wait_for_the_next_run(tmp_path: Path) -> None:
    house, rows = make(tmp_path, 60)
    more = [random_row(random.Random(5)) for _ in range(7)]

    class Meanwhile(QuickFs):
        def step(self, name: str) -> None:
            if name == "merge-sync:before":
                house.commit({("a", DAY): as_table(more)})

    (result,) = merge(house.layout, fs=Meanwhile())
    assert result.rows_out == 60
    (second,) = merge(house.layout)
    assert (second.outcome, second.rows_out) == ("supplement", 7)
    record = newest(FS, house.layout, TABLE, DAY)
    assert record is not None
    found = [r for o in record.outputs for r in read_location(house.layout, house.schema, LocationKey(o.internal, DAY))]
    key = sorted(str([comparable(v) for v in row.values()]) for row in found)
    assert key == sorted(str([comparable(v) for v in row.values()]) for row in rows + more)


def test_a_rollback_while_it_merges_is_refused(tmp_path: Path) -> None:
    house, rows = make(tmp_path, 60)

    class Meanwhile(QuickFs):
        def step(self, name: str) -> None:
            if name == "merge-stage:after":
                with pytest.raises(LockLostError, match="another merge"):
                    house.log.rollback(1)

    assert merge(house.layout, fs=Meanwhile())[0].rows_out == len(rows)
    check_tree(house.layout)


def test_a_rollback_after_a_killed_merge_waits_until_it_has_ended(tmp_path: Path) -> None:
    house, rows = make(tmp_path, 60)
    with pytest.raises(Killed):
        merge(house.layout, fs=KillingFs(step="merge-publish:before"))
    with pytest.raises(TableExistsError, match="to end it"):
        house.log.rollback(1)
    (again,) = merge(house.layout)
    assert (again.outcome, again.rows_out, again.generation) == ("resumed", len(rows), 1)
    check_tree(house.layout)


def test_a_rollback_does_not_take_merged_rows_back(tmp_path: Path) -> None:
    house, _ = make(tmp_path, 60)
    merge(house.layout)
    with pytest.raises(TableExistsError, match="rows that are in history") as refused:
        house.log.rollback(1)
    assert refused.value.expected == f"at least the 20 merged rows of a/{DAY}"
    assert refused.value.found == "10 rows at epoch 1"
    assert house.log.rollback(house.log.state.epoch) == house.log.state.epoch


def test_empty_dates_and_dry_run(tmp_path: Path) -> None:
    house, _ = make(tmp_path, 30)
    with pytest.raises(MergeError, match="no committed rows"):
        merge(house.layout, "2024-01-01")
    assert merge(house.layout, "2024-01-01", allow_empty=True)[0].outcome == "empty"
    (planned,) = merge_dates(
        FS, house.layout, TABLE, [DAY], MergeOptions(), executor=LocalExecutor(), clock=lambda: 0.0, dry_run=True
    )
    assert (planned.outcome, planned.rows_in) == ("planned", 30)
    assert [name for name, _ in planned.destinations] == ["0", "1"]
    assert newest(FS, house.layout, TABLE, DAY, complete=False) is None


def test_a_failing_date_does_not_stop_the_others(tmp_path: Path) -> None:
    house, rows = make(tmp_path, 30)
    house.commit({("a", "2024-03-06"): as_table(rows)})
    broken = house.layout.intraday_location(TABLE, LocationKey("a", DAY)) / "I.dat"
    data = bytearray(broken.read_bytes())
    data[4100] ^= 1
    broken.write_bytes(data)
    first, second = merge_dates(
        FS,
        house.layout,
        TABLE,
        [DAY, "2024-03-06"],
        MergeOptions(),
        executor=LocalExecutor(),
        clock=lambda: 1_700_000_000.0,
    )
    assert first.outcome == "failed"
    assert isinstance(first.error, CorruptFileError)
    assert "I.dat" in str(first.error)
    assert (second.outcome, second.rows_out) == ("merged", 30)
    assert newest(FS, house.layout, TABLE, DAY) is None


def test_a_second_merge_of_the_table_is_refused(tmp_path: Path) -> None:
    house, _ = make(tmp_path, 30)
    lock = lock_table(FS, house.layout, TABLE)
    with pytest.raises(LockLostError, match="another merge"):
        merge(house.layout)
    lock.release()


def test_grouping_lies_in_the_prefix_or_beside_it(tmp_path: Path) -> None:
    house = IntradayRows(tmp_path, SCHEMA, fs=FS)
    rng = random.Random(2)
    rows = [random_row(rng) | {"Sym": f"symbol-{i % 300}"} for i in range(900)]
    house.commit({("a", DAY): as_table(rows), ("b", "2024-03-06"): as_table(rows[:3])})
    merge(house.layout, DAY, "2024-03-06")
    sym = house.schema.column("Sym")
    assert sym is not None
    for day, beside, number, total in ((DAY, True, 300, 900), ("2024-03-06", False, 3, 3)):
        place = house.layout.history_location(TABLE, LocationKey("0", day))
        assert (place / "Sym.ovr").exists() is beside
        ranges = read_grouping(FS, place, sym, total)
        assert ranges is not None
        assert len(ranges) == number
    size = tablesize.load(FS, place)
    assert size is not None
    assert dict(size.sorted_columns) == {"Sym": "Ascending"}
    assert set(size.checksums) == set(size.data_file_sizes)


def test_history_is_the_source_once_intraday_is_gone(tmp_path: Path) -> None:
    house, rows = make(tmp_path, 60)
    merge(house.layout)
    for key in list(house.log.state.locations):
        remove_for_test(house, key)
    more = [random_row(random.Random(3)) for _ in range(4)]
    house.log.close()
    house.log = house.open()
    house.commit({("c", DAY): as_table(more)})
    (result,) = merge(house.layout, force=True)
    assert (result.outcome, result.rows_out) == ("merged", 64)
    record = newest(FS, house.layout, TABLE, DAY)
    assert record is not None
    assert record.source == "history"
    assert sum(i.rows for i in record.inputs) == 64
    found = [r for o in record.outputs for r in read_location(house.layout, house.schema, LocationKey(o.internal, DAY))]
    key_of = sorted(str([comparable(v) for v in row.values()]) for row in found)
    assert key_of == sorted(str([comparable(v) for v in row.values()]) for row in rows + more)


def remove_for_test(house: IntradayRows, key: LocationKey) -> None:
    """Records a location as emptied, as truncate does."""
    location = house.log.state.locations[key]
    removal = Removal(key, location.since, location.rows, "truncate", location.epoch)
    write_removals(FS, house.layout, TABLE, house.stream, [removal])
