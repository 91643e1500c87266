"""The tree of an extended layout follows history: date by date, once, and through kills."""

from __future__ import annotations

import errno
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.date_merges import DateMerges
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.rewrites.row_deletion import DeletionPlanner
from tests.support.commands import run
from tests.support.disks.model_fs import Crash, KillingFs
from tests.support.examples import some_of
from tests.support.tables import naive_reader
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.export_cases import NEXT, by_pyarrow, files, found, wanted
from tests.support.writers.extended_cases import KINDS, Rows, add, follow, table
from tests.support.writers.merge_cases import DAY, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS, merge


def crash(*_: object) -> None:
    raise Crash


def rows_of(db: IntradayRows, kind: str) -> list[Any]:
    return found(by_pyarrow(db.layout.extended(TABLE), KINDS[kind]))


@pytest.mark.parametrize("kind", KINDS)
def test_only_changed_dates_are_written(tmp_path: Path, kind: str) -> None:
    db, rows = table(tmp_path, kind), Rows()
    assert follow(db).written == ()
    add(db, rows, DAY, 20)
    add(db, rows, NEXT, 9)
    merge(db.layout, DAY, NEXT)
    assert follow(db).written == (DAY, NEXT)
    assert rows_of(db, kind) == wanted(rows)
    tree = db.layout.extended(TABLE)
    before = {path.stat().st_ino for path in tree.rglob("*.parquet")}
    assert (follow(db).written, {path.stat().st_ino for path in tree.rglob("*.parquet")}) == ((), before)
    add(db, rows, NEXT, 5)
    merge(db.layout, NEXT)
    assert follow(db).written == (NEXT,)
    assert rows_of(db, kind) == wanted(rows)
    after = {path.stat().st_ino for path in tree.rglob("*.parquet")}
    assert (len(after), len(after & before)) == (2, 1)
    assert sorted(path.name for path in tree.parent.iterdir()) == ["Every"]
    if kind == "coreplus:hive":
        place = tree / ".locations_table"
        names = naive_reader.read(place, "Filename", "blob", 2)
        assert sorted(names) == sorted(str(path.relative_to(tree)) for path in tree.rglob("*.parquet"))
        assert naive_reader.read(place, "Size", "long", 2) == [20, 14]


ADOPTED = "2024-04-01"


@pytest.mark.filterwarnings("ignore::sparkhaven.store.errors.HistoryWarning")
@pytest.mark.parametrize(
    "words",
    [("adopt",), ("adopt", "--dates", ADOPTED), ("move", "--dates", ADOPTED, "--to", "0")],
    ids=["adopt", "adopt of a date", "move"],
)
@pytest.mark.parametrize("killed", [False, True], ids=["", "killed before the tree"])
def test_history_without_a_record_comes_into_the_tree_once_it_is_adopted(
    tmp_path: Path, words: tuple[str, ...], killed: bool
) -> None:
    kind = "parquet:kv"
    db, rows = table(tmp_path, kind), Rows()
    for day, number in ((DAY, 12), (NEXT, 7)):
        add(db, rows, day, number)
    db.log.close()
    merge(db.layout, DAY)
    there = db.layout.partitions("Test") / "0" / DAY
    shutil.copytree(there, there.parents[1] / "1" / ADOPTED)
    merged = run(tmp_path, "merge", str(TABLE), "--dates", NEXT, "--local")
    assert merged.exit_code == 0, merged.output
    assert "1 location of history without merge record left out of the tree" in merged.stderr
    assert rows_of(db, kind) == wanted(rows)
    command = ("dates", words[0], str(TABLE), *words[1:])
    if killed:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sparkhaven.jobs.operations.history_dates.follow", crash)
            assert run(tmp_path, *command).exit_code == 1
        assert rows_of(db, kind) == wanted(rows)
    assert run(tmp_path, *command).exit_code == 0
    assert rows_of(db, kind) == wanted([*rows, *((ADOPTED, row) for day, row in rows if day == DAY)])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_were_deleted_leave_the_tree(tmp_path: Path, kind: str) -> None:
    """Also where no date has rows any more, and where a killed run had deleted them."""
    db, rows = table(tmp_path, kind), Rows()
    for day, number in ((DAY, 12), (NEXT, 7)):
        add(db, rows, day, number)
    merge(db.layout, DAY, NEXT)
    follow(db)
    tree = db.layout.extended(TABLE)

    def delete(where: str) -> None:
        assert run(db.root, "delete-rows", str(TABLE), "--where", where).exit_code == 0

    delete(f"Date = '{DAY}'")
    assert rows_of(db, kind) == wanted(rows[12:])
    with LocalExecutor(1) as executor:
        merges = DateMerges(
            TablePlace(FS, db.layout, TABLE), MergeOptions(), executor, lambda: 2e9, planner=DeletionPlanner("true")
        )
        assert [result.error for result in merges.locked([NEXT])] == [None]
    assert rows_of(db, kind) == wanted(rows[12:])
    delete("true")
    assert [path for path in tree.rglob("*.parquet") if "metadata" not in path.name] == []
    if kind == "coreplus:hive":
        assert naive_reader.read(tree / ".locations_table", "Filename", "blob", 0) == []
    elif kind == "parquet:metadata":
        assert pq.read_metadata(tree / "_metadata").num_row_groups == 0
    assert run(db.root, "verify", str(TABLE), "--deep").stdout.count("not in step") == 0
    before = files(tree)
    delete("true")
    assert files(tree) == before
    add(db, rows, NEXT, 5)
    merge(db.layout, NEXT)
    assert follow(db).written == (NEXT,)
    assert rows_of(db, kind) == wanted(rows[19:])


def test_without_room_for_the_tree_what_is_committed_is_told_and_a_repeat_ends_it(tmp_path: Path) -> None:
    db, rows = table(tmp_path, "parquet:kv"), Rows()
    add(db, rows, DAY, 12)
    merge(db.layout, DAY)
    follow(db)
    words = "delete-rows", str(TABLE), "--where", "true"

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sparkhaven.writers.transfer.extended.follow_history", full)
        found = run(db.root, *words)
    assert found.exit_code == 3 and "history is committed, and its parquet:kv tree is not in step" in found.stderr
    assert open_table(db.root, str(TABLE)).count() == 0 and len(rows_of(db, "parquet:kv")) == 12
    assert run(db.root, *words).exit_code == 0
    assert list(db.layout.extended(TABLE).rglob("*.parquet")) == []


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_exchange_values_are_written(tmp_path: Path, kind: str) -> None:
    db, rows = table(tmp_path, kind), Rows()
    chance = random.Random(5)
    rows += ((DAY, random_row(chance) | {"I": number}) for number in range(9))
    db.commit({("a", DAY): as_table([row for _, row in rows])})
    merge(db.layout, DAY)
    follow(db)
    db.log.close()
    done = run(db.root, "rewrite-column", str(TABLE), "--dates", DAY, "--set", "I = 8 - I", "--local")
    assert done.exit_code == 0, done.output
    assert rows_of(db, kind) == wanted([(day, row | {"I": 8 - row["I"]}) for day, row in rows])
    assert "not in step" not in run(db.root, "verify", str(TABLE), "--deep").stdout
    assert follow(db).written == ()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_each_step_the_next_one_ends_it(tmp_path: Path, kind: str) -> None:
    db, rows = table(tmp_path / "db", kind), Rows()
    whole = table(tmp_path / "whole", kind)
    for day, number in ((DAY, 12), (NEXT, 7)):
        add(db, rows, day, number)
        add(whole, Rows(), day, number)
    merge(whole.layout, DAY, NEXT)
    follow(whole)
    merge(db.layout, DAY)
    follow(db)
    merge(db.layout, NEXT)
    tree = db.layout.extended(TABLE)
    phases = ("stage", "publish", "describe", "record", "clean")
    for step in some_of([f"{phase}:{when}" for phase in phases for when in ("before", "after")], len(phases)):
        manifest = tree / "_manifest.json"
        kept = manifest.read_bytes()
        with pytest.raises(Crash):
            follow(db, KillingFs(crash_at=f"extended-{step}"))
        follow(db)
        assert rows_of(db, kind) == wanted(rows)
        assert files(tree).keys() == files(whole.layout.extended(TABLE)).keys()
        assert sorted(path.name for path in tree.parent.iterdir()) == ["Every"]
        manifest.write_bytes(kept)  # so that the next one has as much to do
