"""A column file that is not that of its column stops whatever would take its rows for nulls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sparkhaven.readers import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.removal.removal_proof import States, prove
from sparkhaven.writers.removal.row_removal import truncate
from sparkhaven.writers.validation.date_validation import validate_date
from tests.support.disks.contents import flip
from tests.support.writers.merge_cases import DAY, TABLE
from tests.support.writers.merge_runs import FS, make, merge

NOW = 1_700_000_000.0


def other_id(path: Path) -> None:
    """Flips the lowest bit of the column's id in a prefix."""
    flip(path, path.read_bytes().index(b"columnId") + 8 + 6 + 3)


def read(layout: Layout) -> object:
    return open_table(layout.root, str(TABLE)).to_arrow("I")


def validate(layout: Layout) -> object:
    return validate_date(TablePlace(FS, layout, TABLE), DAY)


def remove(layout: Layout) -> object:
    place = TablePlace(FS, layout, TABLE)
    return truncate(States(place), proof=prove(place, DAY), clock=lambda: NOW)


def location(layout: Layout, tier: str) -> Path:
    if tier == "intraday":
        return layout.intraday_location(TABLE, LocationKey("b", DAY))
    record = newest(TablePlace(FS, layout, TABLE), DAY)
    assert record is not None
    return layout.history_location(TABLE, LocationKey(record.outputs[0].internal, DAY))


@pytest.mark.parametrize("act", [read, merge])
def test_before_the_merge(tmp_path: Path, act: Callable[[Layout], object]) -> None:
    db, _ = make(tmp_path, 30)
    other_id(location(db.layout, "intraday") / "I.dat")
    with pytest.raises(CorruptFileError, match="says that it belongs to another column"):
        act(db.layout)
    assert newest(db.place, DAY) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "tier"), [(read, "history"), (validate, "history"), (validate, "intraday"), (remove, "history")]
)
def test_after_the_merge(tmp_path: Path, act: Callable[[Layout], object], tier: str) -> None:
    db, _ = make(tmp_path, 30)
    merge(db.layout)
    other_id(location(db.layout, tier) / "I.dat")
    with pytest.raises(CorruptFileError, match="says that it belongs to another column"):
        act(db.layout)
    (found,) = [f for f in verify(Fs(), db.layout).findings if f.severity == "error"]
    assert found.path.endswith("I.dat")


def test_intraday_is_kept_while_its_files_are_not_those_that_were_merged(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 30)
    merge(db.layout)
    proof = prove(db.place, DAY)
    other_id(location(db.layout, "intraday") / "I.dat")
    with pytest.raises(CorruptFileError, match="says that it belongs to another column"):
        truncate(States(db.place), proof=proof, clock=lambda: NOW)
    other_id(location(db.layout, "intraday") / "I.dat")
    assert open_table(db.root, str(TABLE)).count(tier="intraday") == len(rows)


def test_a_copy_of_another_column_of_the_same_type(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 30)
    place = location(db.layout, "intraday")
    (place / "L.dat").write_bytes((place / "I.dat").read_bytes().ljust((place / "L.dat").stat().st_size, b"\0"))
    with pytest.raises(CorruptFileError, match="says that it belongs to another column"):
        open_table(db.root, str(TABLE)).to_arrow("L")
    assert open_table(db.root, str(TABLE)).to_arrow("I").num_rows == 30
