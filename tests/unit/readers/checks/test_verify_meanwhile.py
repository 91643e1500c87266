"""``verify`` beside commands that change the table: only damage, which stays, is an error."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.readers.checks.committed import intraday_locations
from sparkhaven.readers.checks.location import LaterEpochs, check_record
from sparkhaven.readers.checks.verify import UNCONFIRMED, verify
from sparkhaven.store.epochs.files.published_size import record_bytes
from sparkhaven.store.layout import LocationKey
from tests.support.disks.contents import flip
from tests.support.disks.model_fs import QuickFs
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.export_cases import NEXT
from tests.support.writers.extended_cases import add
from tests.support.writers.merge_cases import DAY, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS, make, merge
from tests.support.writers.removals import empty, unlink


class Meanwhile(QuickFs):
    """Does something once, when the check of a location begins: the state is loaded by then."""

    def __init__(self, place: Path, act: Callable[[], object]) -> None:
        self.place, self.waiting = place, [act]

    def names(self, path: Path) -> list[str]:
        if path == self.place and self.waiting:
            self.waiting.pop()()
        return super().names(path)


def remove(db: IntradayRows) -> None:
    empty(db)
    unlink(db)


@pytest.mark.parametrize("act", [empty, remove])
def test_a_removal_beside_it_is_no_damage(tmp_path: Path, act: Callable[[IntradayRows], object]) -> None:
    db, _ = make(tmp_path, 20)
    merge(db.layout)
    fs = Meanwhile(db.layout.intraday_location(TABLE, LocationKey("a", DAY)), lambda: act(db))
    report = verify(fs, db.layout, TABLE, deep=True)
    assert not fs.waiting and report.findings == []
    assert (report.tables, report.streams) == (1, 1), "counted once, not by look"


def test_damage_is_found_beside_a_removal(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 20)
    merge(db.layout)
    add(db, [], NEXT, 9)
    damaged = min(path for path in db.layout.intraday(TABLE).rglob("*.dat") if NEXT in path.parts)
    flip(damaged, damaged.stat().st_size - 1)
    place = db.layout.intraday_location(TABLE, LocationKey("a", DAY))
    fs, seen = Meanwhile(place, lambda: empty(db)), list[str]()
    report = verify(fs, db.layout, TABLE, deep=True, progress=seen.append)
    assert not fs.waiting and {each.path for each in report.findings} == {str(damaged)}
    same = [each for each in seen if not Path(each).is_relative_to(db.layout.intraday(TABLE)) or NEXT in each]
    assert str(damaged.parent) in same and len(same) == len(set(same)), "in one state each is read once"


def test_an_error_that_is_met_once_is_reported(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 20)
    place = db.layout.intraday_location(TABLE, LocationKey("a", DAY))
    waiting = [OSError(5, "bad block")]

    class Failing(QuickFs):
        def read(self, path: Path) -> bytes:
            if path == place / "table.tbl" and waiting:
                raise waiting.pop()
            return super().read(path)

    (found,) = verify(Failing(), db.layout, TABLE).findings
    assert found.severity == "error" and not waiting
    assert verify(FS, db.layout, TABLE).findings == []


class Restless(QuickFs):
    """Does something whenever a check of a location begins, in each look: the loaded state is always an older one."""

    def __init__(self, place: Path, act: Callable[[], object]) -> None:
        self.place, self.act, self.times = place, act, 0

    def names(self, path: Path) -> list[str]:
        if path == self.place:
            self.times += 1
            self.act()
        return super().names(path)


def appending(db: IntradayRows, times: int = 1) -> Restless:
    """A stream that commits ``times`` epochs to both locations whenever one of them is looked at."""
    more = as_table([random_row(random.Random(3))])
    both = {("a", DAY): more, ("b", DAY): more}
    place = db.layout.intraday_location(TABLE, LocationKey("a", DAY))
    return Restless(place, lambda: [db.commit(both) for _ in range(times)])


@pytest.mark.parametrize("deep", [False, True])
def test_a_record_ahead_of_the_state_is_checked_at_its_epoch(tmp_path: Path, deep: bool) -> None:
    db, _ = make(tmp_path, 20)
    fs = appending(db)
    report = verify(fs, db.layout, TABLE, deep=deep)
    assert fs.times == 1, "nothing is in doubt, so one look is enough"
    assert {(each.severity, each.what.partition(":")[0]) for each in report.findings} == {
        ("warning", "uncommitted tail")
    }


def test_damage_is_found_beside_a_stream_that_never_rests(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 20)
    place = db.layout.intraday_location(TABLE, LocationKey("b", DAY))
    flip(place / "L.dat", 4096 + 3)
    report = verify(appending(db), db.layout, TABLE, deep=True)
    assert {each.path for each in report.findings if each.severity == "error"} == {str(place / "L.dat")}


def test_a_record_of_other_content_is_found_beside_a_stream_that_never_rests(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 20)
    path = db.layout.intraday_location(TABLE, LocationKey("b", DAY)) / "table.size"
    more = as_table([random_row(random.Random(3))])

    def act() -> None:
        db.commit({("a", DAY): more, ("b", DAY): more})
        location = db.log.state.locations[LocationKey("b", DAY)]
        path.write_bytes(record_bytes("rows", replace(location, rows=location.rows + 1)))

    place = db.layout.intraday_location(TABLE, LocationKey("a", DAY))
    report = verify(Restless(place, act), db.layout, TABLE)
    errors = [each for each in report.findings if each.severity == "error"]
    assert [(each.path, each.what) for each in errors] == [(str(path), "record differs from what was committed")]


def test_what_each_look_finds_in_another_state_is_a_warning(tmp_path: Path) -> None:
    """A rollback in each look: files are shorter than the state that was loaded, and never twice for one reason."""
    db, _ = make(tmp_path, 20)
    more = as_table([random_row(random.Random(3))])
    targets = [db.commit({("b", DAY): more}) for _ in range(9)][:-1]

    def act() -> None:
        db.log.rollback(targets.pop())

    place = db.layout.intraday_location(TABLE, LocationKey("a", DAY))
    report = verify(Restless(place, act), db.layout, TABLE, deep=True)
    assert report.errors == 0 and verify(FS, db.layout, TABLE, deep=True).findings == []


def test_an_error_that_one_look_found_is_told_as_a_warning(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 20)
    inner, place = appending(db), db.layout.intraday_location(TABLE, LocationKey("b", DAY))
    numbers = iter(range(100))

    class Failing(Restless):
        def read(self, path: Path) -> bytes:
            if path == place / "table.tbl":
                raise OSError(5, f"bad block {next(numbers)}")
            return super().read(path)

    report = verify(Failing(inner.place, inner.act), db.layout, TABLE)
    assert {(each.code, each.hint) for each in report.findings if "bad block" in each.what} == {("W291", UNCONFIRMED)}


class Folded(LaterEpochs):
    """Each epoch is folded away whenever it is asked for."""

    def has(self, epoch: int) -> bool:
        return True

    def record(self, key: LocationKey, epoch: int) -> bytes | None:
        return None


def test_a_record_of_an_epoch_that_is_no_longer_kept_is_not_compared(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 20)
    state = db.log.state
    (_, expected) = next(pair for pair in intraday_locations(db.place, state) if pair[0].key.internal == "b")
    later = Folded(db.place, state)
    db.commit({("b", DAY): as_table([random_row(random.Random(3))])})
    found = list(check_record(FS, expected, ["table.size"], later))
    assert [(each.code, each.found) for each in found] == [("N225", f"epoch {db.log.state.epoch}")]
