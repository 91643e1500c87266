"""``delete-rows``: any rows of any stream go as an epoch, older epochs have them, and merges leave them out."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import sparkhaven
from sparkhaven.jobs.operations.epoch_changes import open_log
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.removal.row_removal import withdraw_rows
from tests.support.commands import run, run_json
from tests.support.disks.model_fs import Crash, KillingFs
from tests.support.tables.small_tables import SmallTable

DAY, NEXT = "2026-11-20", "2026-11-21"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two streams, three locations, two dates."""
    small = SmallTable(tmp_path / "db")
    for number in range(4):
        first = 10 * number
        small.add("a", DAY, {"Size": [*range(first, first + 10)], "Sym": ["x", None] * 5})
        small.add("b", NEXT, {"Size": [first, None], "Px": [float("nan"), 1.5]})
    small.add("c", DAY, {"Size": [5, 6, 7], "Sym": ["y", "z", "y"]}, stream="t")
    for log in small.logs.values():
        log.close()
    add_partition(small.fs, small.layout, "NS", "0")
    return small.root


def sizes(root: Path, date: str | None = None, **options: object) -> list[int | None]:
    values = open_table(root, "NS.T", **options).to_arrow("Size", dates=date)["Size"].to_pylist()
    return sorted(values, key=lambda value: (value is None, value))


def test_the_rows_that_match_go_whichever_streams_they_are_of(root: Path) -> None:
    code, planned = run_json(root, "delete-rows", "NS.T", "--where", "Size in (5, 6, 17, 38)", "--dry-run")
    assert (code, planned["rows"], planned["epochs"], planned["dates"]) == (0, 6, {}, {DAY: 6})
    before = sizes(root)
    code, done = run_json(root, "delete-rows", "NS.T", "--where", "Size in (5, 6, 17, 38)", "--dates", f"{DAY}..{NEXT}")
    assert (code, done["rows"], done["epoch"], done["epochs"]) == (0, 6, None, {"s": 9, "t": 2})
    gone = [5, 5, 6, 6, 17, 38]
    left = [size for size in before if size not in gone]
    for _ in range(2):
        assert sizes(root) == left
    assert sizes(root, epoch={"s": 8, "t": 1}) == before
    assert run_json(root, "delete-rows", "NS.T", "--where", "Size in (5, 6, 17, 38)")[1]["rows"] == 0
    assert run_json(root, "verify", "NS.T")[0] == 0
    assert run_json(root, "epochs", "list", "NS.T", "s")[1]["epochs"][-1]["withdrawn"] == 4
    code, merged = run_json(root, "merge", "NS.T", "--dates", DAY, "--local")
    assert (code, merged["rows_in"], merged["rows_out"], merged["rows_withdrawn"]) == (0, 43, 37, 6)
    assert run(root, "validate", "NS.T", "--dates", DAY).exit_code == 0
    assert run(root, "truncate", "NS.T", "--dates", DAY).exit_code == 0
    assert sizes(root) == left


@pytest.mark.parametrize("words", [["--upsert", "Size"], ["--rewrite"], []], ids=" ".join)
def test_a_date_whose_rows_are_all_gone_is_merged_and_removed(root: Path, words: list[str]) -> None:
    assert run_json(root, "merge", "NS.T", "--dates", DAY, "--local")[0] == 0 if words else True
    assert run_json(root, "delete-rows", "NS.T", "--where", "true", "--dates", DAY)[0] == 0
    assert run_json(root, "merge", "NS.T", "--dates", DAY, "--local", *words)[0] == 0
    for command in (["validate"], ["truncate"], ["delete", "--grace", "0"]):
        done = run(root, command[0], "NS.T", "--dates", DAY, *command[1:])
        assert done.exit_code == 0, (command, done.stderr)
    assert sizes(root, date=DAY) == []


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("Sym = 'y' and Size < 6", 1),
        ("Sym is null", 28),
        (f"Date = '{NEXT}'", 8),
        ("true", 51),
        ("Px > 1", 8),  # NaN is above all numbers
        ("Size is null or Size >= 30", 15),
        ("Size < 0", 0),
    ],
)
def test_conditions(root: Path, where: str, rows: int) -> None:
    table = open_table(root, "NS.T")
    kept = table.count() - table.count(where=where)
    code, done = run_json(root, "delete-rows", "NS.T", "--where", where)
    assert (code, done["rows"]) == (0, rows)
    assert len(sizes(root)) == kept == 51 - rows
    assert open_table(root, "NS.T").count(where=where) == 0


def test_what_is_refused_changes_nothing(root: Path) -> None:
    before = sizes(root)
    assert run(root, "delete-rows", "NS.T", "--where", "Sise = 5").exit_code == 2
    assert run(root, "delete-rows", "NS.T").exit_code == 2
    assert run(root, "delete-rows", "NS.T", "--where", "Size = 10", "--dates", "2026-01-01").exit_code == 2
    assert sizes(root) == before
    code, done = run_json(root, "delete-rows", "NS.T", "--where", "Size = 10", "--dates", NEXT)
    assert (code, done["rows"], done["epoch"]) == (0, 1, 9)


def test_a_running_stream_keeps_all_streams_as_they_are(root: Path) -> None:
    place = TablePlace(SmallTable(root.parent / "other").fs, SmallTable(root).layout, SmallTable(root).table)
    before = sizes(root)
    with open_log(place.of_stream("t")):
        assert run(root, "delete-rows", "NS.T", "--where", "Size = 5").exit_code == 3
    assert sizes(root) == before
    assert run_json(root, "delete-rows", "NS.T", "--where", "Size = 5")[1]["epochs"] == {"s": 9, "t": 2}


@pytest.mark.parametrize("change", range(0, 40, 3))
def test_a_run_that_is_killed_leaves_whole_epochs_and_the_next_one_ends_it(root: Path, change: int) -> None:
    small = SmallTable(root)
    before, place = sizes(root), TablePlace(KillingFs(crash_after=change), small.layout, small.table)
    try:
        withdraw_rows(place, "Size = 5", None, open_log)
    except Crash:
        of_streams = ([5], [5])
        assert sizes(root) in (before, [v for v in before if v != 5], sorted_without(before, of_streams))
    run(root, "delete-rows", "NS.T", "--where", "Size = 5")
    assert sizes(root) == [value for value in before if value != 5]
    assert run_json(root, "verify", "NS.T")[0] == 0


def sorted_without(values: list[int | None], of_streams: tuple[list[int], list[int]]) -> list[int | None]:
    """The values without those of the first stream."""
    left = list(values)
    for value in of_streams[0]:
        left.remove(value)
    return left


def test_random_deletions_against_a_list(tmp_path: Path) -> None:
    rng, small = random.Random(11), SmallTable(tmp_path / "db")
    values: list[int] = []
    for _ in range(5):
        some = [rng.randrange(1000) for _ in range(300)]
        small.add("a", DAY, {"Size": some})
        values += some
        low = rng.randrange(1000)
        where = f"Size >= {low} AND Size < {low + 150}"
        small.logs.pop("s").close()
        assert run(small.root, "delete-rows", "NS.T", "--where", where).exit_code == 0
        values = [value for value in values if not low <= value < low + 150]
        table = open_table(small.root, "NS.T")
        assert table.to_arrow("Size")["Size"].to_pylist() == values
        assert table.count(where="Size < 500") == sum(value < 500 for value in values)


@pytest.mark.parametrize("by", [None, "Date"])
@pytest.mark.parametrize(
    "words",
    [
        ("delete-rows", "U.R", "--where", "x = 1"),
        ("delete-rows", "U.R", "--where", "x = 1", "--dry-run"),
        ("delete-rows", "U.R", "--where", "x = 9"),
        ("rewrite-column", "U.R", "--dates", "2026-11-20", "--set", "x=x+1", "--local"),
        ("merge", "U.R", "--dates", "2026-11-20", "--local"),
    ],
)
def test_a_user_table_is_named_as_one(tmp_path: Path, by: str | None, words: tuple[str, ...]) -> None:
    """Its rows are saved as a whole: no command changes some, and a dry run does not say that one would."""
    rows = pa.table({"x": [1, 2], "Date": ["2026-11-20", "2026-11-21"]})
    sparkhaven.save_table(tmp_path, "U.R", rows, partition_by=by)
    found = run(tmp_path, *words)
    assert found.exit_code == 2 and "U.R is a user table, whose rows are saved as a whole" in found.stderr
    assert sorted(open_table(tmp_path, "U.R").to_arrow()["x"].to_pylist()) == [1, 2]
