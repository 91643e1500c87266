"""What docs/howto/full-disk.md shows, on volumes that are full: ENOSPC at a merge, a roll, and the merge goes on."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.errors import NotPermittedError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.testing import make_table
from sparkhaven.writers.partitions import add_partition, list_partitions
from tests.crash.disk.small_volume import mountable, small_volume
from tests.support.commands import run, run_json
from tests.support.disks.contents import hidden
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import SCHEMA, as_table, random_row

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(mountable()), reason=mountable())]
DAYS = ["2024-03-04", "2024-03-05", "2024-03-06"]
KIB = 240  # a merged day takes about 110, a page a file
MERGE = ("merge", "Test.Every", "--local", "--dates")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[IntradayRows]:
    """Three days of rows, and one storage partition on a volume that has room for the first."""
    rng = random.Random(1)
    with small_volume(tmp_path / "second", KIB) as volume:
        db = IntradayRows(tmp_path / "db", SCHEMA)
        db.commit({("a", day): as_table([random_row(rng) for _ in range(20)]) for day in DAYS})
        add_partition(Fs(), db.layout, "Test", "0", volume=volume)
        yield db
        db.log.close()


def outputs(db: IntradayRows, day: str) -> list[str]:
    record = newest(db.place, day)
    assert record is not None
    return [output.internal for output in record.outputs]


def days_read(db: IntradayRows) -> int:
    return int(open_table(db.root, "Test.Every").to_arrow(["L"]).num_rows)


def test_a_merge_without_space_changes_nothing_and_goes_on_after_a_roll(db: IntradayRows, tmp_path: Path) -> None:
    volume, third = tmp_path / "second", tmp_path / "third"
    assert run(db.root, *MERGE, DAYS[0]).exit_code == 0
    pinned = open_table(db.root, "Test.Every")
    code, failed = run_json(db.root, *MERGE, DAYS[1])
    assert (code, failed["outcome"], failed["error"]["what"]) == (3, "failed", "No space left on device")
    assert newest(db.place, DAYS[1]) is None
    assert hidden(volume) == [] and days_read(db) == 60
    with small_volume(third, 2048):
        code, rolled = run_json(db.root, "partitions", "roll", "Test", "--volume", third)
        assert (code, [(one["name"], one["new"]) for one in rolled["partitions"]]) == (0, [("0", "1")])
        assert run(db.root, *MERGE, f"{DAYS[1]}..{DAYS[2]}").exit_code == 0
        assert [outputs(db, day) for day in DAYS] == [["0"], ["1"], ["1"]]
        assert days_read(db) == 60 and pinned.to_arrow(["L"]).num_rows == 60
        _, counted = run_json(db.root, "sql", "SELECT count(*) AS n, count(DISTINCT Date) AS d FROM Test.Every")
        assert counted["first"] == [{"n": 60, "d": 3}]
        assert run(db.root, "verify", "Test.Every", "--deep").exit_code == 0
        assert [(p.name, p.writable) for p in list_partitions(Fs(), db.layout, "Test")] == [("0", False), ("1", True)]


def test_a_merge_rolls_by_itself_and_a_rolled_date_goes_to_the_new_volume(db: IntradayRows, tmp_path: Path) -> None:
    assert run(db.root, *MERGE, DAYS[0]).exit_code == 0
    limit = ("--roll-above", "30%", "--roll-to", tmp_path / "third")
    with small_volume(tmp_path / "third", 2048):
        merged = run(db.root, *MERGE, DAYS[1], *limit)
        assert merged.exit_code == 0 and "instead of 0" in merged.stderr
        assert outputs(db, DAYS[1]) == ["1"]
        assert run(db.root, *MERGE, DAYS[0], "--rewrite", *limit).exit_code == 0
        assert outputs(db, DAYS[0]) == ["1.g2"]
        assert days_read(db) == 60


def test_no_emptier_volume_is_a_line_and_the_merge_tries(db: IntradayRows, tmp_path: Path) -> None:
    assert run(db.root, *MERGE, DAYS[0]).exit_code == 0
    with small_volume(tmp_path / "third", KIB // 4):
        tried = run(db.root, *MERGE, DAYS[1], "--roll-above", "30%", "--roll-to", tmp_path / "second")
        assert tried.exit_code == 3 and "were not rolled" in tried.stderr and "No space left" in tried.stderr
        refused = run(db.root, "partitions", "roll", "Test", "--volume", tmp_path / "third")
        assert refused.exit_code == 3 and "has less free space than that of storage partition 0" in refused.stderr
        assert days_read(db) == 60


def test_a_root_that_is_mounted_read_only_is_read_and_not_written(tmp_path: Path) -> None:
    with small_volume(tmp_path / "volume", 4096) as volume:
        root = volume / "db"
        make_table(root, "New.One", {"A": [9]})
        subprocess.run(["mount", "-o", "remount,ro", volume], check=True)
        for words in (["partitions", "add", "New", "0"], ["drop", "New.One", "--yes", "--dry-run"]):
            code, refused = run_json(root, *words)
            assert (code, refused["error"]["what"]) == (2, "the root is mounted without write access")
            assert refused["error"]["hint"] and refused["error"]["where"] == str(root)
        with pytest.raises(NotPermittedError):
            make_table(root, "New.One", {"A": [10]})
        for words in (["read", "New.One"], ["verify", "--deep"], ["scrub", "--rate", "1GB"], ["doctor"]):
            found = run(root, *words)
            assert found.exit_code in (0, 1) and "write access" not in found.output, found.output
