"""Rows of history are deleted: what readers see, proof, later merges, removal, copies, and what stays as it is."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sparkhaven
from sparkhaven.jobs.operations.epoch_changes import open_log
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.errors import (
    HistoryWarning,
    LockLostError,
    SettingsError,
    TableNotFoundError,
    ValidationFailedError,
)
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.merge_records import MergeRecord, lock_table, newest
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.types.row_ranges import RowRanges
from sparkhaven.writers.merge.date_merges import DateMerges
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.date_plan import PlannedMerge
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.merge.publish.publish_phase import clean
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.rewrites.row_deletion import DeletionPlanner
from tests.support.commands import run, run_json
from tests.support.tables.small_tables import SCHEMA, SmallTable

XML = SCHEMA.replace("autobalance_single", "autobalance_by_first_grouping_column")
DAY, NEXT = "2026-11-20", "2026-11-21"
FORMATS = pytest.mark.parametrize("form", ["deephaven", "parquet", "both"])
Row = tuple[Any, ...]


class Deleted:
    """A table of two dates, and its rows beside it."""

    def __init__(self, base: Path, xml: str = XML) -> None:
        self.root, self.kept = base / "db", list[Row]()
        self.small = SmallTable(self.root, xml)
        for name in ("0", "1"):
            add_partition(self.small.fs, self.small.layout, "NS", name)

    @property
    def place(self) -> TablePlace:
        return TablePlace(Fs(), Layout(self.root), TableName.parse("NS.T"))

    def add(self, date: str, *sizes: int | None, source: str = "a") -> None:
        self.small.add(source, date, {"Size": list(sizes), "Sym": [s and "xyz"[s % 3] for s in sizes]})
        self.kept += [(date, size, size and "xyz"[size % 3]) for size in sizes]
        self.small.logs.pop("s").close()

    def do(self, *words: str, code: int = 0) -> dict[str, Any]:
        ended, done = run_json(self.root, *words)
        assert ended == code, run(self.root, *words).stderr
        return done

    def merge(self, *words: str, date: str = DAY) -> dict[str, Any]:
        return self.do("merge", "NS.T", "--dates", date, "--local", *words)

    def delete(self, where: str, *words: str) -> dict[str, Any]:
        return self.do("delete-rows", "NS.T", "--where", where, *words)

    def without(self, *sizes: int | None) -> None:
        gone = set(sizes)
        self.kept = [row for row in self.kept if row[1] not in gone]

    def record(self, date: str = DAY) -> MergeRecord:
        record = newest(self.place, date)
        assert record is not None
        return record

    def shown(self, root: Path | None = None) -> list[Row]:
        table = open_table(root or self.root, "NS.T").to_arrow(["Date", "Size", "Sym"])
        return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)

    def check(self) -> None:
        for _ in range(2):
            assert self.shown() == sorted(self.kept, key=repr)
        verified = run(self.root, "verify", "NS.T", "--deep")
        assert verified.exit_code == 0, verified.stdout

    def end_of_day(self, date: str = DAY) -> None:
        self.do("validate", "NS.T", "--dates", date)
        self.do("truncate", "NS.T", "--dates", date)
        self.check()
        self.do("delete", "NS.T", "--dates", date, "--grace", "0")
        self.check()


@pytest.fixture
def table(tmp_path: Path) -> Deleted:
    table = Deleted(tmp_path)
    table.add(DAY, 1, 2, None, 3, 3)
    table.add(DAY, 4, 3, None, source="b")
    table.add(NEXT, 7, 8)
    return table


@FORMATS
def test_rows_of_history_go_with_proof(table: Deleted, form: str) -> None:
    table.merge("--format", form)
    table.merge("--format", form, date=NEXT)
    planned = table.delete("Size = 3 or Size is null", "--dry-run")
    assert (planned["rows"], planned["merged"], planned["generations"]) == (5, {DAY: 5}, {})
    table.check()
    done = table.delete("Size = 3 or Size is null")
    assert (done["rows"], done["epochs"], done["generations"], done["dates"]) == (5, {}, {DAY: 2}, {DAY: 5})
    table.without(3, None)
    table.check()
    record = table.record()
    assert record.proof is not None and record.proof.holds and record.run.format == form
    left_out = record.proof.left_out
    assert (left_out.rows, left_out.withdrawn, left_out.identical, record.proof.rows_in) == (5, 5, 0, 8)
    assert [(d.where, d.generation, d.rows) for d in record.deletions] == [("Size = 3 or Size is null", 2, 5)]
    assert table.record(NEXT).generation == 1
    again = table.delete("Size = 3 or Size is null")
    assert (again["rows"], again["generations"], table.record()) == (0, {}, record)
    table.end_of_day()
    done = table.delete("Size = 4")  # which intraday no longer has
    assert (done["rows"], done["generations"]) == (1, {DAY: 3})
    table.without(4)
    table.check()
    table.do("validate", "NS.T", "--dates", DAY)
    facts = table.do("inspect", str(table.place.merges / DAY / "3.json"))
    assert [entry["rows"] for entry in facts["facts"]["deletions"]] == [5, 1]


@FORMATS
@pytest.mark.parametrize(
    ("where", "goes"),
    [
        ("Sym in ('x', 'z')", lambda size: size % 3 != 1),
        ("Size < 1000 or Size > 17000", lambda size: size < 1000 or size > 17000),
        ("Sym != 'y' and Size % 2 = 0", lambda size: size % 3 != 1 and size % 2 == 0),
    ],
)
def test_all_rows_go_wherever_they_lie_in_a_location(
    tmp_path: Path, form: str, where: str, goes: Callable[[int], bool]
) -> None:
    """Of one location with groups of 6,000 rows, of which a read opens several ranges."""
    table = Deleted(tmp_path, SCHEMA)
    table.add(DAY, *range(1, 18_001))
    table.merge("--format", form)
    gone = [size for size in range(1, 18_001) if goes(size)]
    done = table.delete(where)
    table.without(*gone)
    assert (done["rows"], done["dates"], done["merged"]) == (len(gone), {DAY: len(gone)}, {DAY: len(gone)})
    assert table.shown() == sorted(table.kept, key=repr)
    assert [d.rows for d in table.record().deletions] == [len(gone)]
    assert table.delete(where)["rows"] == 0
    table.end_of_day()


class SomeOnly(DeletionPlanner):
    """Finds the rows of the last range of a location alone."""

    def _matching(self, place: TablePlace, base: MergeRecord) -> dict[str, RowRanges]:
        found = super()._matching(place, base)
        return {internal: RowRanges(rows.starts[-1:], rows.stops[-1:]) for internal, rows in found.items()}


@FORMATS
def test_a_deletion_that_leaves_rows_is_not_published(tmp_path: Path, form: str) -> None:
    table = Deleted(tmp_path, SCHEMA)
    table.add(DAY, 1, 2, 3, 4, 5, 6)
    table.merge("--format", form)
    record = table.record()
    with LocalExecutor(1) as executor:
        merges = DateMerges(
            table.place, MergeOptions(), executor, lambda: 2e9, planner=SomeOnly("Size < 3 or Size = 5")
        )
        (result,) = merges.locked([DAY])
    assert isinstance(result.error, ValidationFailedError)
    assert (result.error.expected, result.error.found) == (
        "4 rows, none of which matches, and 2 left out",
        f"4 rows, of which {2 if form == 'both' else 1} match, and 2 left out",
    )
    assert table.record() == record
    assert not list(tmp_path.rglob(".stage-*"))
    table.check()
    assert table.delete("Size < 3 or Size = 5")["rows"] == 3
    table.without(1, 2, 5)
    table.end_of_day()


class OtherRows(DeletionPlanner):
    """Expects the rows of another date."""

    def plan(self, *given: Any, **options: Any) -> PlannedMerge:
        return replace(super().plan(*given, **options), row_digest="1" * 32)


def test_a_deletion_whose_values_stand_in_other_rows_is_not_published(table: Deleted) -> None:
    table.merge()
    record = table.record()
    with LocalExecutor(1) as executor:
        merges = DateMerges(table.place, MergeOptions(), executor, lambda: 2e9, planner=OtherRows("Size = 3"))
        (result,) = merges.locked([DAY])
    assert isinstance(result.error, ValidationFailedError) and "other rows" in result.error.what
    assert table.record() == record
    table.check()


@pytest.mark.parametrize("form", ["deephaven", "parquet"])
def test_late_rows_go_by_an_epoch_of_the_same_command(table: Deleted, form: str) -> None:
    table.merge("--format", form)
    table.add(DAY, 3, 9, 3)
    table.add(NEXT, 3, 7)
    before = load_stream(StreamPlace(Fs(), Layout(table.root), TableName.parse("NS.T"), "s")).epoch
    done = table.delete("Size = 3", "--dates", f"{DAY}..{NEXT}")
    assert (done["rows"], done["epochs"], done["generations"]) == (6, {"s": before + 1}, {DAY: 2})
    assert (done["dates"], done["merged"]) == ({DAY: 5, NEXT: 1}, {DAY: 3})
    table.without(3)
    table.check()
    assert table.merge()["outcome"] == "supplement"
    table.check()
    assert [d.rows for d in table.record().deletions] == [3]
    table.end_of_day()


def test_a_date_whose_history_was_removed_by_hand_keeps_its_late_rows(tmp_path: Path) -> None:
    """Nothing is done: the deletion of the date could not be proved."""
    table = Deleted(tmp_path)
    table.add(DAY, 1, 2, 3)
    table.merge()
    table.add(DAY, 1, 4)
    for output in table.record().outputs:
        shutil.rmtree(table.root / "Systems" / "NS" / "Partitions" / output.internal / DAY)
    table.do("delete-rows", "NS.T", "--where", "Size = 1", code=1)
    with pytest.warns(HistoryWarning):
        found = open_table(table.root, "NS.T").to_arrow(["Size"])["Size"].to_pylist()
    assert sorted(found) == [1, 4]


def test_an_older_epoch_never_shows_rows_that_were_deleted(tmp_path: Path) -> None:
    """Intraday still has them. Once the files of the deletion are gone, the epoch is refused."""
    table = Deleted(tmp_path)
    table.add(DAY, 1, 2, 3)
    table.merge()
    table.delete("Size = 1")
    table.add(DAY, 4)
    table.merge("--rewrite")
    assert shown_at(table, 1) == [2, 3]
    [*clean(table.place, lambda: time.time() + 1e9)]
    with pytest.raises(SettingsError, match="epoch can no longer be read"):
        shown_at(table, 1)
    assert shown_at(table, 2) == [2, 3, 4]


def shown_at(table: Deleted, epoch: int) -> list[int]:
    opened = open_table(table.root, "NS.T", epoch={"s": epoch})
    return sorted(opened.to_arrow(["Size"])["Size"].to_pylist())


@FORMATS
def test_later_merges_do_not_bring_them_back(table: Deleted, form: str) -> None:
    table.merge("--format", form)
    table.delete("Size = 3")
    table.without(3)
    merged = table.merge("--rewrite")
    assert (merged["rows_in"], merged["rows_out"], table.record().source) == (8, 5, "history")
    table.check()
    table.add(DAY, 3, 5)  # rows of later are others
    table.merge()
    table.check()
    table.merge("--rewrite", "--sort", "Size")
    table.check()
    table.do("rewrite-column", "NS.T", "--dates", DAY, "--local", "--set", "Size=coalesce(Size, 0) * 10")
    table.kept = [(d, (s or 0) * 10 if d == DAY else s, sym) for d, s, sym in table.kept]
    table.check()
    assert table.delete("Size = 50 or Size = 40")["rows"] == 2
    table.without(50, 40)
    table.check()
    assert len(table.record().deletions) == 2 and len(table.record().corrections) == 1
    table.end_of_day()


def test_they_come_back_by_name_while_intraday_has_them(table: Deleted) -> None:
    kept = list(table.kept)
    table.merge()
    table.delete("Size = 3")
    table.merge("--discard-corrections")
    assert (table.kept, table.record().deletions, table.record().source) == (kept, (), "intraday")
    table.check()
    table.delete("Size = 3")
    table.without(3)
    table.end_of_day()
    refused = run(table.root, "merge", "NS.T", "--dates", DAY, "--local", "--discard-corrections")
    assert refused.exit_code != 0 and "cannot be discarded" in refused.stderr
    table.check()


@pytest.mark.parametrize("form", ["deephaven", "parquet"])
def test_rules_of_duplicates_before_and_after(table: Deleted, form: str) -> None:
    table.merge("--format", form, "--dedupe", "Size")
    table.kept = sorted({row for row in table.kept if row[0] == DAY}, key=repr) + [
        r for r in table.kept if r[0] == NEXT
    ]
    table.check()
    assert table.delete("Size = 2")["rows"] == 1
    table.without(2)
    table.check()
    table.add(DAY, 1, 2, 6)
    table.kept.remove((DAY, 1, "y"))
    table.merge()
    table.check()
    record = table.record()
    assert record.proof is not None
    assert (record.proof.left_out.rows, record.proof.left_out.withdrawn) == (5, 1)
    table.merge("--dedupe", "none")
    table.check()
    table.end_of_day()


@pytest.mark.parametrize("words", [(), ("--dedupe", "Size")])
@pytest.mark.parametrize("form", ["deephaven", "both"])
def test_all_rows_of_a_date(table: Deleted, form: str, words: tuple[str, ...]) -> None:
    table.merge("--format", form, *words)
    assert table.delete("true", "--dates", DAY)["generations"] == {DAY: 2}
    table.kept = [row for row in table.kept if row[0] != DAY]
    table.check()
    table.do("validate", "NS.T", "--dates", DAY)
    assert table.delete("true", "--dates", DAY)["rows"] == 0
    assert table.merge("--rewrite")["rows_out"] == 0
    table.check()
    table.add(DAY, 1)
    table.merge()
    table.check()
    assert table.delete("Size = 1", "--dates", DAY)["rows"] == 1
    table.kept = [row for row in table.kept if row[0] != DAY]
    table.end_of_day()


def test_a_column_that_is_newer_than_a_deletion(table: Deleted) -> None:
    table.merge()
    table.delete("Size = 3")
    table.without(3)
    xml = table.root.parent / "NS.T.schema"
    more = '<Column name="More" dataType="long"/>\n</Table>'
    xml.write_text(XML.replace("</Table>", more))
    assert run(table.root, "schema", "deploy", str(xml)).exit_code == 0
    assert table.delete("Size = 4 and More is null")["rows"] == 1
    table.without(4)
    table.check()
    table.merge("--rewrite")
    table.end_of_day()


def test_a_date_is_moved_copied_and_dropped_with_its_deletion(table: Deleted, tmp_path: Path) -> None:
    table.merge()
    table.delete("Size = 3")
    table.without(3)
    assert run(table.root, "dates", "move", "NS.T", "--dates", DAY, "--to", "1").exit_code == 0
    table.check()
    run(table.root, "snapshot", "--out", tmp_path / "copy")
    assert run(tmp_path / "restored", "restore", tmp_path / "copy").exit_code == 0
    assert table.shown(tmp_path / "restored") == sorted(table.kept, key=repr)
    assert run(tmp_path / "restored", "validate", "NS.T", "--dates", DAY).exit_code == 0
    table.end_of_day()
    assert [d.rows for d in table.record().deletions] == [3]
    assert run(table.root, "dates", "drop", "NS.T", "--dates", DAY).exit_code == 0
    table.kept = [row for row in table.kept if row[0] != DAY]
    table.check()


def test_a_merge_that_runs_keeps_history_as_it_is(table: Deleted) -> None:
    table.merge()
    with lock_table(table.place):
        assert run(table.root, "delete-rows", "NS.T", "--where", "Size = 3").exit_code == 3
    table.check()
    with open_log(table.place.of_stream("s")):  # a stream may run: it has no such rows
        assert table.delete("Size = 3")["rows"] == 3


@pytest.mark.parametrize("words", [(), ("--dedupe", "Size")])
def test_a_date_is_detached_and_attached_with_its_deletion(
    table: Deleted, tmp_path: Path, words: tuple[str, ...]
) -> None:
    table.merge(*words)
    if words:
        table.kept = sorted({row for row in table.kept if row[0] == DAY}, key=repr) + table.kept[-2:]
    table.delete("Size = 2")
    table.without(2)
    table.end_of_day()
    left_out = table.record().proof
    assert run(table.root, "dates", "detach", "NS.T", "--dates", DAY, "--out", tmp_path / "away").exit_code == 0
    assert {row[0] for row in table.shown()} == {NEXT}
    assert table.record().emptied
    attached = run(table.root, "dates", "attach", "NS.T", tmp_path / "away")
    assert attached.exit_code == 0, attached.stderr
    table.check()
    record = table.record()
    assert record.proof is not None and left_out is not None and record.proof.left_out == left_out.left_out
    assert table.delete("Size = 4")["rows"] == 1
    table.without(4)
    table.check()
    table.do("validate", "NS.T", "--dates", DAY)


def test_python_deletes_what_the_command_does(tmp_path: Path) -> None:
    site = Deleted(tmp_path)
    site.add(DAY, 1, 2, 3)
    site.add(NEXT, 2, 4, 6)
    site.merge()
    table = sparkhaven.Database(site.root).table("NS.T")
    assert table.delete_rows("Size = 2", dry_run=True).dates == {DAY: 1, NEXT: 1}
    assert open_table(site.root, "NS.T").count() == 6
    deleted = table.delete_rows("Size = 2", dates=[DAY, NEXT])
    assert (deleted.rows, deleted.dates, deleted.generations) == (2, {DAY: 1, NEXT: 1}, {DAY: 2})
    assert len(deleted.epochs) == 1
    assert sorted(open_table(site.root, "NS.T").to_arrow("Size")["Size"].to_pylist()) == [1, 3, 4, 6]
    again = table.delete_rows("Size = 2")
    assert (again.rows, again.epochs, again.generations) == (0, {}, {})
    with pytest.raises(TableNotFoundError):
        sparkhaven.Database(site.root).table("NS.Other")
    with pytest.raises(TableNotFoundError):
        table.delete_rows("Size = 2", dates="2020-01-01")


def test_python_raises_what_one_date_failed_with(tmp_path: Path) -> None:
    site = Deleted(tmp_path)
    site.add(DAY, 1, 2)
    site.merge()
    with lock_table(site.place), pytest.raises(LockLostError):
        sparkhaven.Database(site.root).table("NS.T").delete_rows("Size = 2", dates=DAY)
    assert open_table(site.root, "NS.T").count() == 2
