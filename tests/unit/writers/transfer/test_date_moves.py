"""Dates that move to another storage partition: byte for byte, proved, and under readers, kills and full disks."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.errors import (
    CorruptFileError,
    MergeError,
    NotPermittedError,
    RetryableStorageError,
    SparkhavenError,
    TableNotFoundError,
    as_ours,
)
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import generations
from sparkhaven.store.merges.validations import binding, load_validation, store_validation
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.publish.publish_phase import clean
from sparkhaven.writers.merge.write.phases import Failure
from sparkhaven.writers.removal.history_removal import drop_history
from sparkhaven.writers.transfer.date_copies import DateCopies, move_dates
from sparkhaven.writers.validation.date_validation import validate_date
from tests.support.disks.contents import flip, hidden
from tests.support.disks.model_fs import Crash, FaultFs, KillingFs, QuickFs
from tests.support.examples import some_of
from tests.support.writers.merge_cases import DAY, TABLE, as_table, comparable, random_row
from tests.support.writers.merge_runs import FS, merge
from tests.support.writers.relocated_dates import (
    ARCHIVE,
    NOW,
    files_of,
    merged,
    move,
    record_of,
    require_sound,
    rows_of,
)

STEPS = [f"copy-{step}:{when}" for step in ("plan", "files", "sync", "check") for when in ("before", "after")]
STEPS += [f"merge-{step}:{when}" for step in ("publish", "index", "record", "clean") for when in ("before", "after")]


def shown(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{name: comparable(value) for name, value in row.items()} for row in rows]


@pytest.mark.parametrize("format_", ["deephaven", "parquet", "both"])
def test_a_moved_date_has_the_same_bytes_and_a_pinned_reader_goes_on(tmp_path: Path, format_: str) -> None:
    db = merged(tmp_path, format=format_)
    before = record_of(db.layout)
    old = [output.internal for output in before.outputs]
    files, rows, pinned = files_of(db.layout, old), rows_of(db.layout), open_table(db.layout.root, str(TABLE))
    assert old == ["0", "1"] and all(files)
    (planned,) = move(db.layout, dry_run=True)
    assert record_of(db.layout) == before
    (moved,) = move(db.layout)
    assert planned == moved
    assert (moved.rows, moved.size) == (60, sum(len(data) for one in files for data in one.values()))
    record = record_of(db.layout)
    new = [output.internal for output in record.outputs]
    assert new == ["archive.g2.s0", "archive.g2.s1"]
    assert files_of(db.layout, new) == files
    assert [output.files for output in record.outputs] == [output.files for output in before.outputs]
    assert all((tmp_path / "volume" / "Test" / name / DAY).is_dir() for name in new)
    assert shown(rows_of(db.layout)) == shown(pinned.to_arrow().to_pylist()) == shown(rows)
    require_sound(db, tmp_path)
    (again,) = move(db.layout)
    assert (again.generation, again.rows, again.size) == (0, 60, 0)
    removed, _ = clean(TablePlace(FS, db.layout, TABLE), lambda: NOW + 3601)
    assert sorted(one.internal for one in removed) == old
    assert shown(rows_of(db.layout)) == shown(rows)
    require_sound(db, tmp_path)


def test_later_merges_write_where_the_date_was_moved_to(tmp_path: Path) -> None:
    db = merged(tmp_path)
    move(db.layout)
    db.commit({("a", DAY): as_table([random_row(random.Random(2))])})
    merge(db.layout)
    assert [output.internal for output in record_of(db.layout).outputs][-1] == "archive.s3"
    merge(db.layout, rewrite=True)
    assert [output.internal for output in record_of(db.layout).outputs] == ["archive.g4"]
    (moved,) = move(db.layout, to="0")
    assert (moved.origin, moved.rows) == ((ARCHIVE,), 61)
    assert [output.internal for output in record_of(db.layout).outputs] == ["0.g5"]
    assert len(rows_of(db.layout)) == 61
    require_sound(db, tmp_path)


def test_a_validation_holds_for_the_moved_date(tmp_path: Path) -> None:
    db = merged(tmp_path)
    place = TablePlace(FS, db.layout, TABLE)
    validation = validate_date(place, DAY)
    store_validation(place, validation)
    move(db.layout)
    record = record_of(db.layout)
    carried = load_validation(place, record)
    assert carried is not None and carried.passed and carried.results == validation.results
    assert carried.binding == binding(record, db.schema.rules) != validation.binding
    assert validate_date(place, DAY).passed


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.parametrize("step", STEPS)
def test_a_move_killed_at_a_step_ends_well_when_run_again(tmp_path: Path, step: str) -> None:
    db = merged(tmp_path)
    rows = shown(rows_of(db.layout))
    with pytest.raises(Crash):
        move(db.layout, fs=KillingFs(crash_at=step))
    assert shown(rows_of(db.layout)) == rows
    move(db.layout)
    assert [output.internal for output in record_of(db.layout).outputs] == ["archive.g2.s0", "archive.g2.s1"]
    assert shown(rows_of(db.layout)) == rows
    require_sound(db, tmp_path)


@pytest.mark.slow
def test_a_move_killed_at_any_change_of_the_disk_ends_well_or_is_undone(tmp_path: Path) -> None:
    """By the move itself, by a merge of the date, and by dropping it."""
    counting = KillingFs()
    (tmp_path / "count").mkdir()
    move(merged(tmp_path / "count", 9).layout, fs=counting)
    calls = random.Random(3).sample(range(1, counting.changes + 1), 9)
    for number, call in enumerate(some_of(sorted({*calls, *range(counting.changes - 9, counting.changes + 1)}))):
        base = tmp_path / str(call)
        base.mkdir()
        db = merged(base, 9)
        rows = shown(rows_of(db.layout))
        with pytest.raises(Crash):
            move(db.layout, fs=KillingFs(crash_after=call - 1))
        assert shown(rows_of(db.layout)) == rows
        moved = True
        if number % 2:
            merge(db.layout)
            moved = len(generations(TablePlace(FS, db.layout, TABLE), DAY)) == 2
        else:
            move(db.layout)
        names = ["archive.g2.s0", "archive.g2.s1"] if moved else ["0", "1"]
        assert [output.internal for output in record_of(db.layout).outputs] == names, call
        assert shown(rows_of(db.layout)) == rows
        require_sound(db, base)


def test_dropping_a_date_undoes_a_move_that_was_killed(tmp_path: Path) -> None:
    db = merged(tmp_path)
    place = TablePlace(FS, db.layout, TABLE)
    with pytest.raises(Crash):
        move(db.layout, fs=KillingFs(crash_at="copy-sync:before"))
    assert hidden(tmp_path / "volume" / "Test") != []
    (failed,) = drop_history(place, [DAY], "test", clock=lambda: NOW)
    assert isinstance(failed, Failure) and "intraday still has the date" in str(failed.error)
    assert generations(place, DAY) == [1]
    require_sound(db, tmp_path)


@pytest.mark.parametrize(
    ("kind", "name", "nth"), [("write", "Sym.dat", 1), ("sync", "Sym.dat", 2), ("write", "2.json", 1)]
)
def test_a_full_volume_leaves_nothing(tmp_path: Path, kind: str, name: str, nth: int) -> None:
    db = merged(tmp_path)
    with pytest.raises((SparkhavenError, OSError)) as caught:
        move(db.layout, fs=FaultFs(kind, name=name, nth=nth, code=errno.ENOSPC))
    error = as_ours(caught.value)  # type: ignore[arg-type]
    assert isinstance(error, RetryableStorageError) and error.exit_code == 3
    assert generations(TablePlace(FS, db.layout, TABLE), DAY) == [1]
    assert list((db.layout.merges(TABLE) / DAY).glob("2.*")) == []
    require_sound(db, tmp_path)


class Small(QuickFs):
    """A disk with as many bytes free, of another user than the process."""

    def __init__(self, free: int = 1 << 40, user: int = 0) -> None:
        self.free, self.as_user = free, user

    def free_bytes(self, path: Path) -> int:
        return self.free

    def user(self) -> int:
        return super().user() + self.as_user


def test_what_cannot_be_moved_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    db = merged(tmp_path)
    (planned,) = move(db.layout, dry_run=True)
    with pytest.raises(RetryableStorageError, match="not enough space for the copy"):
        move(db.layout, fs=Small(planned.size - 1))
    with pytest.raises(NotPermittedError, match="belongs to another user"):
        move(db.layout, fs=Small(user=1))
    with pytest.raises(TableNotFoundError, match="no storage partition 7"):
        move(db.layout, to="7")
    with pytest.raises(MergeError, match="no history to move"):
        move(db.layout, "2031-01-01")
    assert generations(TablePlace(FS, db.layout, TABLE), DAY) == [1]
    require_sound(db, tmp_path)
    (tmp_path / "volume").rename(tmp_path / "away")
    with pytest.raises(RetryableStorageError, match="volume of storage partition archive is not mounted"):
        move(db.layout)


def test_a_damaged_date_is_refused_and_does_not_stop_the_others(tmp_path: Path) -> None:
    db = merged(tmp_path)
    days = [DAY, "2024-03-06", "2024-03-07"]
    for day in days[1:]:
        db.commit({("a", day): as_table([random_row(random.Random(5)) for _ in range(4)])})
    merge(db.layout, *days[1:])
    place = TablePlace(FS, db.layout, TABLE)
    output = record_of(db.layout, days[1]).outputs[0].internal
    flip(place.history_location(LocationKey(output, days[1])) / "L.dat", -1)
    copies = DateCopies(place, lambda: NOW)
    for stop, count in ((True, 2), (False, 3)):
        results = list(move_dates(copies, days, ARCHIVE, workers=2, stop_on_error=stop))
        assert len(results) == count
        assert isinstance(results[1], Failure) and isinstance(results[1].error, CorruptFileError)
    assert [record_of(db.layout, day).generation for day in days] == [2, 1, 2]
    assert generations(place, days[1]) == [1]
    assert hidden(tmp_path / "volume" / "Test") == []


def test_several_dates_share_the_room_of_a_volume(tmp_path: Path) -> None:
    db = merged(tmp_path)
    db.commit({("a", "2024-03-06"): as_table([random_row(random.Random(5)) for _ in range(4)])})
    merge(db.layout, "2024-03-06")
    one, other = move(db.layout, DAY, "2024-03-06", dry_run=True)
    place = TablePlace(Small(one.size + other.size - 1), db.layout, TABLE)
    results = list(move_dates(DateCopies(place, lambda: NOW), [DAY, "2024-03-06"], ARCHIVE, workers=2))
    assert not isinstance(results[0], Failure) and isinstance(results[1], Failure)
