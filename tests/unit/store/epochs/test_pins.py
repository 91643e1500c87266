"""Readers that opened a table before its rows went: the pinned rows or an error, never other rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.epochs.files.removals import write_removals
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.removed_locations import Removal, RemovalPhase
from sparkhaven.store.epochs.state.replay import MAX_PAIRS, fold, restored
from sparkhaven.store.errors import SnapshotMovedError
from sparkhaven.store.io.fs import Stat
from sparkhaven.store.layout import LocationKey
from tests.support.disks.model_fs import QuickFs
from tests.support.tables.small_tables import SmallTable

D1, D2 = "2026-11-20", "2026-11-21"
ROLLED = "the pinned epoch has been rolled back"
LEFT = "rows of this snapshot were merged and deleted"


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    """Epoch 1: two rows of source a; epoch 2: two more, and source b; epoch 3: another date."""
    made = SmallTable(tmp_path)
    made.add("a", D1, {"Sym": ["X", "Y"], "Size": [1, 2]})
    made.commit(
        made.append("a", D1, {"Sym": ["Z", "X"], "Size": [3, 4]}), made.append("b", D1, {"Sym": ["P"], "Size": [5]})
    )
    made.add("a", D2, {"Sym": ["Q"], "Size": [6]})
    return made


def roll_back(made: SmallTable, to: int, *, stream: str = "s") -> None:
    """Rolls back, and forgets the symbols that went."""
    made.log(stream).rollback(to)
    made._symbols.clear()


def others(made: SmallTable, *, count: int = 3) -> None:
    """Other rows, to the length that the locations had and more."""
    made.add("b", D1, {"Sym": ["R"] * count, "Size": [70 + n for n in range(count)]})
    at = made.log().state.locations.get(LocationKey("a", D1))
    if at is None:
        made.add("a", D1, {"Sym": ["R"] * (count + 2), "Size": [80 + n for n in range(count + 2)]})
    else:
        made._symbols[(at.key, "Sym")] = {"X": 0, "Y": 1}
        made.add("a", D1, {"Sym": ["R"] * count, "Size": [80 + n for n in range(count)]})


@pytest.mark.parametrize("columns", ["Size", "Sym", "Note"])
def test_a_rollback_and_other_rows_are_an_error(small: SmallTable, columns: str) -> None:
    opened = open_table(small.root, "NS.T")
    roll_back(small, 1)
    others(small)
    with pytest.raises(SnapshotMovedError, match=ROLLED) as caught:
        opened.to_arrow(columns)
    assert caught.value.retryable and caught.value.hint == "open the table again"
    with pytest.raises(SnapshotMovedError, match=ROLLED):
        opened.count()
    assert open_table(small.root, "NS.T").count() == 8


def test_what_was_not_rolled_back_can_be_read(small: SmallTable) -> None:
    opened, first = open_table(small.root, "NS.T"), open_table(small.root, "NS.T", epoch=1)
    roll_back(small, 2)
    small.add("a", D2, {"Sym": ["R"], "Size": [60]})
    assert opened.to_arrow("Size", dates=D1)["Size"].to_pylist() == [1, 2, 3, 4, 5]
    with pytest.raises(SnapshotMovedError, match=ROLLED):
        opened.to_arrow("Size", dates=D2)
    assert first.to_arrow("Size")["Size"].to_pylist() == [1, 2]
    assert open_table(small.root, "NS.T").to_arrow("Size")["Size"].to_pylist() == [1, 2, 3, 4, 5, 60]


def test_rows_that_were_handed_out_before_stay(small: SmallTable) -> None:
    opened = open_table(small.root, "NS.T")
    held, batches = opened.to_arrow(["Size", "Sym"]), iter(opened.to_batches("Size", batch_rows=1))
    assert next(batches).to_pylist() == [{"Size": 1}]
    roll_back(small, 1)
    others(small)
    assert held["Size"].to_pylist() == [1, 2, 3, 4, 5, 6]
    assert [next(batches).to_pylist()[0]["Size"] for _ in range(3)] == [2, 3, 4]  # of files that it has open
    with pytest.raises(SnapshotMovedError, match=ROLLED):
        next(batches)


def test_a_rollback_is_seen_in_any_log_that_came_since(small: SmallTable) -> None:
    """Appended to, replaced by a new generation, and compacted so far that only the checkpoint knows."""
    small.logs.pop("s").close()
    opened = open_table(small.root, "NS.T")
    log = small.log("s", keep_epochs=1)
    roll_back(small, 1)
    others(small)
    for number in range(4):
        small.add("c", D1, {"Size": [number]})
    assert log.compact_if_due(now=True)
    assert load_stream(small.place.of_stream("s")).floor > opened.epochs["s"]
    with pytest.raises(SnapshotMovedError, match=ROLLED):
        opened.to_arrow("Size")


def test_a_reader_stays_through_commits_generations_and_compactions(small: SmallTable) -> None:
    opened = open_table(small.root, "NS.T")
    for number in range(4):
        small.add("a", D1, {"Size": [number]})
        assert opened.to_arrow("Size")["Size"].to_pylist() == [1, 2, 3, 4, 5, 6]
    small.logs.pop("s").close()
    log = small.log("s", keep_epochs=1)
    assert opened.count() == 6
    assert log.compact_if_due(now=True)
    assert opened.to_arrow("Size")["Size"].to_pylist() == [1, 2, 3, 4, 5, 6]


def test_history_that_took_other_rows_in_is_not_taken_for_the_pinned_ones(small: SmallTable) -> None:
    opened = open_table(small.root, "NS.T")
    roll_back(small, 1)
    others(small, count=1)
    small.merge_by_hand(D1)  # of both locations no more rows than the reader has pinned
    for read in (opened.count, lambda: opened.to_arrow("Size"), lambda: opened.to_arrow("Size", tier="history")):
        with pytest.raises(SnapshotMovedError, match=ROLLED):
            read()


class Meanwhile(QuickFs):
    """Does something when a path with the given name has been opened for the first time, or just before."""

    def __init__(self, name: str, act: Callable[[], None], *, before: bool) -> None:
        self.name, self.act, self.before, self.done = name, act, before, False

    def map(self, path: Path, length: int) -> pa.Buffer:
        mine = path.name == self.name and not self.done
        self.done = self.done or mine
        if mine and self.before:
            self.act()
        found = super().map(path, length)
        if mine and not self.before:
            self.act()
        return found


@pytest.mark.slow
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("options", [{}, {"where": "Size > 0"}, {"where": "Sym = 'X' or Size > 4"}])
def test_a_rollback_between_two_columns_of_a_read(
    small: SmallTable, whole: bool, before: bool, options: dict[str, Any]
) -> None:
    def act() -> None:
        roll_back(small, 1)
        others(small)

    opened = open_table(small.root, "NS.T", fs=Meanwhile("Size.dat", act, before=before))
    with pytest.raises(SnapshotMovedError, match=ROLLED):
        if whole:
            opened.to_arrow(["Size", "Px", "Sym"], dates=D1, **options)
        else:
            list(opened.to_batches(["Size", "Px", "Sym"], dates=D1, batch_rows=2, **options))


def test_a_look_costs_two_stats_while_nothing_happens(small: SmallTable) -> None:
    class Counting(QuickFs):
        stats, reads = 0, 0

        def stat(self, path: Path, *, follow: bool = True) -> Stat | None:
            self.stats += ".streams" in path.parts
            return super().stat(path, follow=follow)

        def read(self, path: Path) -> bytes:
            self.reads += ".streams" in path.parts
            return super().read(path)

    fs = Counting()
    opened = open_table(small.root, "NS.T", fs=fs)
    fs.stats = fs.reads = 0
    opened.to_arrow()
    assert (fs.stats, fs.reads) == (2 * 2, 0)  # for the plan, and for all locations with all their columns
    fs.stats = 0
    list(opened.to_batches(batch_rows=1))
    assert (fs.stats, fs.reads) == (2 * (1 + 3), 0)  # for the plan, and for each location


# --- removals ----------------------------------------------------------------------------------------------


def removed(made: SmallTable, internal: str, phase: RemovalPhase) -> None:
    """What maintenance records; the proof is not our matter here."""
    at = made.log().state.locations[LocationKey(internal, D1)]
    write_removals(made.place.of_stream("s"), [Removal(at.key, at.since, at.rows, phase, made.log().state.epoch)])
    if phase == "delete":
        made._symbols.clear()
    made.log().refresh()


def move_away(made: SmallTable) -> None:
    """The first step of a delete."""
    directory = made.location("b", D1)
    made.fs.rename(directory, directory.with_name(".doomed-T"))


def test_a_location_that_was_deleted_and_made_anew_is_an_error(small: SmallTable) -> None:
    opened = open_table(small.root, "NS.T")
    removed(small, "b", "truncate")
    assert opened.to_arrow("Size")["Size"].to_pylist() == [1, 2, 3, 4, 5, 6]  # within the grace
    move_away(small)
    with pytest.raises(SnapshotMovedError, match=LEFT):
        opened.to_arrow("Size")
    removed(small, "b", "delete")
    small.add("b", D1, {"Sym": ["R"], "Size": [70]})
    with pytest.raises(SnapshotMovedError, match=LEFT):
        opened.to_arrow("Size")
    assert opened.to_arrow("Size", sources="a")["Size"].to_pylist() == [1, 2, 3, 4, 6]
    assert open_table(small.root, "NS.T").to_arrow("Size")["Size"].to_pylist() == [1, 2, 3, 4, 70, 6]


def test_rows_that_nobody_has_committed_yet_are_not_read_in_place_of_deleted_ones(small: SmallTable) -> None:
    """Between the first step of a delete and its record a task may already write to a new directory of that name."""
    opened = open_table(small.root, "NS.T")
    removed(small, "b", "truncate")
    move_away(small)
    other = SmallTable(small.root / "elsewhere")
    other.append("b", D1, {"Sym": ["R"], "Size": [70]})
    other.fs.rename(other.location("b", D1), small.location("b", D1))
    with pytest.raises(SnapshotMovedError, match=LEFT):
        opened.to_arrow("Size")


def test_a_delete_between_two_columns_of_a_read(small: SmallTable) -> None:
    def act() -> None:
        removed(small, "b", "truncate")
        move_away(small)
        removed(small, "b", "delete")
        small.add("b", D1, {"Sym": ["R"], "Size": [70]})

    opened = open_table(small.root, "NS.T", fs=Meanwhile("Size.dat", act, before=False))
    with pytest.raises(SnapshotMovedError, match=LEFT):
        opened.to_arrow(["Size", "Px", "Sym"])


def test_rows_in_history_need_no_intraday(small: SmallTable) -> None:
    opened = open_table(small.root, "NS.T")
    small.merge_by_hand(D1)
    for internal in ("a", "b"):
        removed(small, internal, "truncate")
    for internal in ("a", "b"):
        small.fs.remove_tree(small.location(internal, D1))
        removed(small, internal, "delete")
    assert opened.to_arrow("Size")["Size"].to_pylist() == [1, 2, 3, 4, 5, 6]


# --- which epochs stand ------------------------------------------------------------------------------------


def test_rollbacks_fold() -> None:
    pairs = fold(fold((), 3, 6), 7, 9)
    assert pairs == ((3, 6), (7, 9))
    assert [restored(pairs, epoch) for epoch in (3, 4, 5, 6, 7, 8, 9)] == [None, 3, 3, None, None, 7, None]
    assert fold(pairs, 7, 12) == ((3, 6), (7, 12))
    assert fold(pairs, 2, 12) == ((2, 12),)


def test_rollbacks_stay_few_and_err_to_the_safe_side() -> None:
    pairs = ()
    for number in range(MAX_PAIRS + 1):
        pairs = fold(pairs, 10 * number, 10 * number + 5)  # type: ignore[assignment]
    assert len(pairs) == MAX_PAIRS
    assert restored(pairs, 7) == 0 and restored(pairs, 17) is None and restored(pairs, 22) == 20
