"""``verify`` beside commands that change the table: only damage, which stays, is an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from readers.checks.verify import verify
from store.layout import LocationKey
from tests.support.disks.contents import flip
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.export_cases import NEXT
from tests.support.writers.extended_cases import add
from tests.support.writers.merge_cases import DAY, TABLE
from tests.support.writers.merge_runs import FS, QuickFs, make, merge
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
