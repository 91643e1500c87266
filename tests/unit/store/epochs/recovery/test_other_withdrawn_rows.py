"""A log put back that has as many rows withdrawn as there were, but others: nobody takes them for the newest."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.epochs.undo import plan_undo
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.table.table_size import MOST_RANGES
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.writers.partitions import add_partition
from tests.support.commands import run, run_json
from tests.support.tables.small_tables import SmallTable

DAY = "2026-11-20"
STREAMS = "Intraday/NS/T/.streams"
RECOVER = "recover", "NS.T", "s", "--from-locations", "--accept-positions"


class Site:
    """Four epochs of three rows each, of which one can be undone, and one more after a rollback."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for epoch in range(1, 5):
            self.add(epoch)
        add_partition(Fs(), Layout(root), "NS", "0")

    def add(self, epoch: int, rows: int = 3) -> None:
        small = SmallTable(self.root, batches=epoch)
        small.add("a", DAY, {"Size": [epoch * 10 + row for row in range(rows)]})
        self._close(small)

    def delete(self, where: str) -> None:
        assert run(self.root, "delete-rows", "NS.T", "--where", where).exit_code == 0

    def _close(self, small: SmallTable) -> None:
        for log in small.logs.values():
            log.close()

    def undo(self, epoch: int) -> None:
        small = SmallTable(self.root)
        small.log().withdraw(partial(plan_undo, small.place.of_stream("s"), [epoch]))
        self._close(small)

    def rollback(self, epoch: int) -> None:
        assert run(self.root, "epochs", "rollback", "NS.T", "s", "--to", epoch).exit_code == 0

    def keep(self, name: str) -> None:
        shutil.copytree(self.root / "Intraday", self.root.parent / name / "Intraday")

    def put_back(self, name: str, what: str = STREAMS) -> None:
        shutil.rmtree(self.root / what)
        shutil.copytree(self.root.parent / name / what, self.root / what)

    def sizes(self) -> list[Any]:
        return sorted(open_table(self.root, "NS.T").to_arrow("Size")["Size"].to_pylist())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "db")


def test_an_older_copy_rebuilds_no_other_rows(site: Site, tmp_path: Path) -> None:
    site.undo(2)
    site.keep("older")
    site.rollback(4)
    site.undo(3)
    shown = site.sizes()
    assert shown == [10, 11, 12, 20, 21, 22, 40, 41, 42]
    site.put_back("older")
    assert run_json(site.root, *RECOVER)[0] == 0
    assert site.sizes() == shown
    assert run_json(site.root, "verify", "--deep")[0] == 0


def test_without_a_log_the_location_tells_which_rows_are_withdrawn(site: Site) -> None:
    site.undo(3)
    shown = site.sizes()
    shutil.rmtree(site.root / STREAMS)
    assert run_json(site.root, *RECOVER)[0] == 0
    assert site.sizes() == shown


def test_more_ranges_than_a_location_names_are_known_by_their_checksum(site: Site) -> None:
    """So they are told apart from others, and not rebuilt without a log that knows them."""
    site.add(5, rows=2 * MOST_RANGES + 4)
    site.keep("before")
    site.delete("Size % 2 = 1")
    site.keep("older")
    site.put_back("before", "Intraday")
    site.delete("Size % 2 = 0")
    shown = site.sizes()
    site.keep("newest")
    site.put_back("older")
    done = run(site.root, *RECOVER)
    assert done.exit_code == 1 and f"of its {2 * MOST_RANGES + 16} rows are withdrawn" in done.stderr, done.stderr
    with pytest.raises(CorruptFileError, match="has other withdrawn rows than the location"):
        site.sizes()
    site.put_back("newest")
    assert site.sizes() == shown


def test_an_older_copy_that_knows_the_rows_rebuilds_them(site: Site) -> None:
    site.undo(3)
    site.keep("older")
    site.add(5)
    site.put_back("older")
    assert run_json(site.root, *RECOVER)[0] == 0
    assert site.sizes() == [10, 11, 12, 20, 21, 22, 40, 41, 42, 50, 51, 52]
    assert run_json(site.root, "verify", "--deep")[0] == 0


def test_a_log_of_the_same_epochs_with_other_rows_is_not_read(site: Site, tmp_path: Path) -> None:
    """Two copies went on from one: the numbers of their epochs are the same."""
    site.keep("common")
    site.undo(2)
    site.keep("other")
    site.put_back("common", "Intraday")
    site.undo(3)
    shown = site.sizes()
    site.keep("newest")
    site.put_back("other")
    with pytest.raises(CorruptFileError, match="has other withdrawn rows than the location"):
        site.sizes()
    for command in ("verify", "recover"):
        done = run(site.root, command)
        assert done.exit_code == 1 and "withdrawn" in done.stdout + done.stderr, (command, done.stderr)
    assert run_json(site.root, *RECOVER)[0] == 0
    assert site.sizes() == shown
    site.put_back("newest", "Intraday")
    assert site.sizes() == shown
    assert run_json(site.root, "verify", "--deep")[0] == 0


def test_a_merge_is_of_the_withdrawn_rows_that_it_left_out(site: Site) -> None:
    site.keep("common")
    site.undo(2)
    site.keep("other")
    site.put_back("common", "Intraday")
    site.undo(3)
    shown = site.sizes()
    assert run_json(site.root, "merge", "NS.T", "--dates", DAY, "--local")[0] == 0
    site.keep("newest")
    location = site.root / "Intraday/NS/T/a" / DAY / "T" / "table.size"
    newest, _ = location.read_bytes(), location.unlink()  # the merge record tells it alone
    site.put_back("other")
    for command in (["verify"], ["truncate", "NS.T", "--dates", DAY]):
        done = run(site.root, *command)
        assert done.exit_code == 1 and "withdrawn" in done.stdout + done.stderr, (command, done.stderr, done.stdout)
    site.put_back("newest")
    location.write_bytes(newest)
    assert site.sizes() == shown
    for command in (["validate"], ["truncate"]):
        assert run(site.root, *command, "NS.T", "--dates", DAY).exit_code == 0
    assert site.sizes() == shown
    assert run_json(site.root, "verify", "--deep")[0] == 0
