"""Plans of reads: tiers, merged rows once, pruning, and what is refused. No data file exists here at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sparkhaven.store.epochs.state.locations import Locations
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.errors import SettingsError, TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.merges.merge_records import MergeInput, MergeOutput, MergeRecord, store_record
from sparkhaven.store.merges.merge_run import MergePhase
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.narrowing import Filter
from sparkhaven.store.scan.ranges import ReadPlan, Snapshot, make_plan
from sparkhaven.store.scan.selection import Selection, Tier
from sparkhaven.store.types.committed_columns import RangeStats
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage, TableSchema

TABLE = TableName("NS", "T")
SCHEMA = TableSchema(
    "NS",
    "T",
    (
        Column("Date", data_type("String"), Kind.PARTITIONING, Storage.NONE, 0),
        Column("A", data_type("int"), Kind.NORMAL, Storage.FIXED, 1),
        Column("B", data_type("long"), Kind.NORMAL, Storage.FIXED, 2),
    ),
)


@dataclass(frozen=True)
class State:
    """The least that a scan asks of a stream."""

    stream: str
    epoch: int
    locations: Locations = field(default_factory=Locations)


def location(internal: str, value: str, rows: int, since: int = 1, **changes: object) -> LocationState:
    return LocationState(LocationKey(internal, value), since, since, rows, {}, **changes)  # type: ignore[arg-type]


def snapshot(*locations: LocationState, epoch: int = 9, stream: str = "s") -> Snapshot:
    return Snapshot(TABLE, SCHEMA, (State(stream, epoch, Locations({at.key: at for at in locations})),))


def record(
    value: str,
    generation: int,
    inputs: list[MergeInput],
    outputs: list[MergeOutput],
    phase: MergePhase = MergePhase.RECORD,
) -> MergeRecord:
    return MergeRecord("NS.T", value, generation, phase, tuple(inputs), tuple(outputs))


class Tree:
    """A database root with merge records, and empty directories for their outputs."""

    def __init__(self, root: Path) -> None:
        self.fs, self.layout = Fs(), Layout(root)

    def merged(self, value: str, generation: int, *args: object, **more: object) -> None:
        stored = record(value, generation, *args, **more)  # type: ignore[arg-type]
        store_record(TablePlace(self.fs, self.layout, TABLE), stored)
        for output in stored.outputs:
            location = self.layout.history_location(TABLE, LocationKey(output.internal, value))
            location.mkdir(parents=True, exist_ok=True)

    def plan(
        self,
        at: Snapshot,
        tier: Tier = "all",
        values: object = None,
        sources: object = None,
        where: Filter | None = None,
    ) -> ReadPlan:
        selection = Selection.of(values, sources)  # type: ignore[arg-type]
        return make_plan(TablePlace(self.fs, self.layout, TABLE), at, tier=tier, selection=selection, where=where)

    def rows(self, at: Snapshot, *args: object, **more: object) -> list[tuple[str, str, str, int, int]]:
        plan = self.plan(at, *args, **more)  # type: ignore[arg-type]
        return [(s.tier, s.key.value, s.key.internal, s.start, s.stop) for s in plan.slices]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_intraday_comes_by_date_then_source(tree: Tree) -> None:
    at = snapshot(location("b", "2026-01-02", 3), location("a", "2026-01-02", 2), location("b", "2026-01-01", 1))
    assert tree.rows(at) == [
        ("intraday", "2026-01-01", "b", 0, 1),
        ("intraday", "2026-01-02", "a", 0, 2),
        ("intraday", "2026-01-02", "b", 0, 3),
    ]
    assert tree.plan(at).slices[0].directory == tree.layout.intraday(TABLE) / "b" / "2026-01-01" / "T"


def test_merged_rows_come_once_and_later_rows_follow(tree: Tree) -> None:
    at = snapshot(location("a", "d", 10), location("b", "d", 4))
    tree.merged("d", 0, [MergeInput("s", "a", 1, 5, 7), MergeInput("s", "b", 1, 5, 4)], [MergeOutput("0", 11)])
    assert tree.rows(at) == [("history", "d", "0", 0, 11), ("intraday", "d", "a", 7, 10)]
    assert tree.rows(at, "history") == [("history", "d", "0", 0, 11)]
    assert tree.rows(at, "intraday") == [("intraday", "d", "a", 0, 10), ("intraday", "d", "b", 0, 4)]


def test_an_unfinished_merge_changes_nothing(tree: Tree) -> None:
    at = snapshot(location("a", "d", 10))
    tree.merged("d", 0, [MergeInput("s", "a", 1, 5, 10)], [MergeOutput("0", 10)], phase=MergePhase.INDEX)
    assert tree.rows(at) == [("intraday", "d", "a", 0, 10)]
    assert tree.rows(at, "history") == []


def test_the_newest_generation_decides(tree: Tree) -> None:
    at = snapshot(location("a", "d", 10))
    tree.merged("d", 0, [MergeInput("s", "a", 1, 5, 7)], [MergeOutput("0", 7)])
    tree.merged("d", 1, [MergeInput("s", "a", 1, 8, 10)], [MergeOutput("0.g1", 10)])
    assert tree.rows(at) == [("history", "d", "0.g1", 0, 10)]


def test_a_snapshot_older_than_the_merge_uses_an_older_record_or_intraday(tree: Tree) -> None:
    tree.merged("d", 0, [MergeInput("s", "a", 1, 5, 7)], [MergeOutput("0", 7)])
    tree.merged("d", 1, [MergeInput("s", "a", 1, 8, 10)], [MergeOutput("0.g1", 10)])
    tree.layout.history_location(TABLE, LocationKey("0", "d")).mkdir(parents=True, exist_ok=True)
    assert tree.rows(snapshot(location("a", "d", 8), epoch=6)) == [
        ("history", "d", "0", 0, 7),
        ("intraday", "d", "a", 7, 8),
    ]
    assert tree.rows(snapshot(location("a", "d", 3), epoch=2)) == [("intraday", "d", "a", 0, 3)]
    assert tree.rows(snapshot(epoch=0), "history") == []  # before the location was there at all


def test_rows_of_a_location_made_again_after_delete_are_new(tree: Tree) -> None:
    tree.merged("d", 0, [MergeInput("s", "a", 1, 5, 7)], [MergeOutput("0", 7)])
    assert tree.rows(snapshot(location("a", "d", 2, since=8))) == [
        ("history", "d", "0", 0, 7),
        ("intraday", "d", "a", 0, 2),
    ]


def test_truncated_and_deleted_intraday_leaves_history(tree: Tree) -> None:
    tree.merged("d", 0, [MergeInput("s", "a", 1, 5, 7)], [MergeOutput("0", 7)])
    only = [("history", "d", "0", 0, 7)]
    assert tree.rows(snapshot(location("a", "d", 0, truncated=True))) == only
    assert tree.rows(snapshot()) == only
    assert tree.rows(Snapshot(TABLE, SCHEMA, ())) == only


def test_an_epoch_whose_rows_have_left_intraday_is_refused(tree: Tree) -> None:
    tree.merged("d", 0, [MergeInput("s", "a", 1, 5, 7)], [MergeOutput("0", 7)])
    with pytest.raises(SettingsError) as caught:
        tree.rows(snapshot(location("a", "d", 0, truncated=True), epoch=3))
    assert "can no longer be read" in caught.value.what
    assert caught.value.found == "epochs {'s': 3}"


def test_a_deleted_location_is_no_silent_hole_for_an_old_epoch(tree: Tree) -> None:
    tree.merged("d", 0, [MergeInput("s", "a", 2, 5, 7)], [MergeOutput("0", 7)])
    with pytest.raises(SettingsError, match="can no longer be read"):
        tree.rows(snapshot(epoch=3))
    with pytest.raises(SettingsError, match="can no longer be read"):
        tree.rows(snapshot(location("a", "d", 2, since=4), epoch=4))
    assert tree.rows(snapshot(epoch=1), "all") == []  # the location did not exist yet
    assert tree.rows(snapshot(epoch=5)) == [("history", "d", "0", 0, 7)]


def test_a_replaced_record_is_used_while_its_locations_stand(tree: Tree) -> None:
    tree.merged("d", 0, [MergeInput("s", "a", 1, 5, 7)], [MergeOutput("0", 7)])
    tree.merged("d", 1, [MergeInput("s", "a", 1, 8, 10)], [MergeOutput("0.g1", 10)])
    at = snapshot(location("a", "d", 8), epoch=6)
    standing = tree.layout.history_location(TABLE, LocationKey("0", "d"))
    standing.mkdir(parents=True, exist_ok=True)
    assert tree.rows(at) == [("history", "d", "0", 0, 7), ("intraday", "d", "a", 7, 8)]
    standing.rmdir()
    assert tree.rows(at) == [("intraday", "d", "a", 0, 8)]


def test_dates_and_ranges_of_dates(tree: Tree) -> None:
    at = snapshot(*(location("a", f"2026-01-0{day}", day) for day in range(1, 6)))
    assert [row[1] for row in tree.rows(at, values="2026-01-03")] == ["2026-01-03"]
    assert [row[1][-1] for row in tree.rows(at, values=["2026-01-01", "2026-01-04..2026-12-31"])] == ["1", "4", "5"]
    assert tree.rows(at, values="2027-01-01..2027-12-31") == []


def test_an_unknown_date_names_near_ones(tree: Tree) -> None:
    at = snapshot(location("a", "2026-01-01", 1), location("a", "2026-01-02", 1))
    with pytest.raises(TableNotFoundError) as caught:
        tree.rows(at, values="2026-01-03")
    assert caught.value.what == "NS.T has no partition '2026-01-03'"
    assert "2026-01-02" in str(caught.value.expected)


def test_a_date_of_the_other_tier_says_so(tree: Tree) -> None:
    with pytest.raises(TableNotFoundError, match="no partition") as caught:
        tree.rows(snapshot(location("a", "d", 1)), "history", values="d")
    assert "another tier has" in str(caught.value.hint)


def test_sources_are_selected_and_unknown_ones_refused(tree: Tree) -> None:
    at = snapshot(location("EWR", "d", 1), location("JFK", "d", 2), location("LGA", "e", 2))
    assert tree.rows(at, sources="JFK") == [("intraday", "d", "JFK", 0, 2)]
    assert tree.rows(at, values="d", sources="LGA") == []  # the source exists, on another date
    with pytest.raises(TableNotFoundError) as caught:
        tree.rows(at, sources=["JFK", "JFX"])
    assert caught.value.what == "NS.T has no source 'JFX'"
    assert caught.value.expected == "one of JFK"


def test_a_source_whose_rows_are_merged_is_refused_rather_than_cut(tree: Tree) -> None:
    at = snapshot(location("EWR", "d", 9), location("EWR", "e", 5))
    tree.merged("d", 0, [MergeInput("s", "EWR", 1, 5, 7)], [MergeOutput("0", 7)])
    with pytest.raises(SettingsError, match="cannot be distinguished: d is merged"):
        tree.rows(at, sources="EWR")
    assert tree.rows(at, values="e", sources="EWR") == [("intraday", "e", "EWR", 0, 5)]
    assert tree.rows(at, "intraday", sources="EWR")[0] == ("intraday", "d", "EWR", 0, 9)
    assert tree.rows(at, "history", sources="0") == [("history", "d", "0", 0, 7)]


def test_statistics_cut_ranges_and_join_neighbours(tree: Tree) -> None:
    stats = {
        "A": tuple(RangeStats(i * 10, i * 10 + 10, 0, 0, i, i) for i in range(6)),
        "B": (RangeStats(0, 25, 0, 0, 0, 1), RangeStats(25, 60, 0, 0, 5, 9)),
    }
    at = snapshot(location("a", "d", 60, stats=stats))

    def low(stats: Mapping[str, RangeStats]) -> bool:
        return int(stats["A"].high or 0) >= 2 and int(stats["B"].low or 0) < 5

    plan = tree.plan(at, where=Filter(frozenset({"A", "B"}), lambda s: "A" not in s or low(s)))
    assert [(s.start, s.stop) for s in plan.slices] == [(20, 25)]
    assert plan.rows == 5
    joined = tree.plan(at, where=Filter(frozenset({"A"}), lambda s: "A" not in s or int(s["A"].low or 0) in (1, 2, 4)))
    assert [(s.start, s.stop) for s in joined.slices] == [(10, 30), (40, 50)]


def test_a_date_that_cannot_match_is_not_even_looked_up(tree: Tree) -> None:
    tree.merged("d", 0, [], [MergeOutput("0", 7)])
    (tree.layout.merges(TABLE) / "d" / "0.json").write_bytes(b"damaged: opening it would fail")
    where = Filter(frozenset({"Date"}), lambda s: s["Date"].low == "e")
    plan = tree.plan(snapshot(location("a", "e", 3)), where=where)
    assert [(s.key.value, s.rows) for s in plan.slices] == [("e", 3)]


def test_whether_a_slice_has_nulls(tree: Tree) -> None:
    stats = {"A": (RangeStats(0, 10, 0), RangeStats(10, 20, 3)), "B": (RangeStats(5, 20, 0),)}
    at = snapshot(location("a", "d", 20, stats=stats))
    (whole,) = tree.plan(at).slices
    assert whole.has_nulls("A") is True
    assert whole.has_nulls("B") is None
    assert whole.has_nulls("C") is None
    (part,) = tree.plan(at, where=Filter(frozenset({"A"}), lambda s: "A" not in s or s["A"].nulls == 0)).slices
    assert (part.start, part.stop, part.has_nulls("A"), part.has_nulls("B")) == (0, 10, False, None)


def test_opening_no_history_for_intraday(tree: Tree) -> None:
    class Counting(Fs):
        def names(self, path: Path) -> list[str]:
            raise AssertionError(f"listed {path}")

    plan = make_plan(TablePlace(Counting(), tree.layout, TABLE), snapshot(location("a", "d", 1)), tier="intraday")
    assert plan.rows == 1
