"""A merged date and a second storage partition on another volume, for tests of moves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.merges.merge_records import MergeRecord, newest
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.write.phases import Failure
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.transfer.date_copies import DateCopies, RelocatedDate, move_dates
from sparkhaven.writers.transfer.detached_dates import attach_dates, detach_dates, detached_below
from tests.support.disks.contents import contents, hidden
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, TABLE
from tests.support.writers.merge_runs import FS, make, merge
from tests.support.writers.removals import empty, unlink

NOW = 1_700_000_100.0
ARCHIVE = "archive"


def merged(base: Path, number: int = 60, **options: Any) -> IntradayRows:
    """A date in two storage partitions, and a volume with one more that merges do not write to."""
    db, _ = make(base / "db", number)
    merge(db.layout, **options)
    (base / "volume").mkdir()
    add_partition(FS, db.layout, "Test", ARCHIVE, volume=base / "volume")
    (db.layout.writable_partitions("Test") / ARCHIVE).unlink()
    return db


def over(base: Path, number: int = 40, **options: Any) -> IntradayRows:
    """The same once intraday no longer has the date."""
    db = merged(base, number, **options)
    gone(db)
    return db


def gone(db: IntradayRows) -> None:
    """Validates a merged date, and removes it from intraday."""
    empty(db)
    unlink(db)


def detach(layout: Layout, out: Path, *values: str, fs: Fs = FS, **options: Any) -> RelocatedDate:
    """Detaches one date; raises its error."""
    copies = DateCopies(TablePlace(fs, layout, TABLE), lambda: NOW, link=True, **options)
    (result,) = detach_dates(copies, values or (DAY,), out)
    if isinstance(result, Failure):
        raise result.error
    return result


def attach(
    layout: Layout, directory: Path, *, partition: str | None = None, fs: Fs = FS, **options: Any
) -> RelocatedDate:
    """Attaches one date; raises its error."""
    place = TablePlace(fs, layout, TABLE)
    copies = DateCopies(place, lambda: NOW, link=True, **options)
    (result,) = attach_dates(copies, detached_below(place, directory), partition)
    if isinstance(result, Failure):
        raise result.error
    return result


def move(layout: Layout, *values: str, to: str = ARCHIVE, fs: Fs = FS, **options: Any) -> list[RelocatedDate]:
    """Moves dates; raises the error of the first that fails."""
    results = []
    copies = DateCopies(TablePlace(fs, layout, TABLE), lambda: NOW, **options)
    for result in move_dates(copies, values or (DAY,), to):
        if isinstance(result, Failure):
            raise result.error
        results.append(result)
    return results


def record_of(layout: Layout, value: str = DAY) -> MergeRecord:
    record = newest(TablePlace(FS, layout, TABLE), value)
    assert record is not None
    return record


def files_of(layout: Layout, names: Sequence[str]) -> list[dict[str, bytes]]:
    """Files of locations of the date, by their path below the location."""
    below = [layout.history_location(TABLE, LocationKey(name, DAY)) for name in names]
    return [{str(path.relative_to(top)): data for path, data in contents(top).items()} for top in below]


def rows_of(layout: Layout) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = open_table(layout.root, str(TABLE)).to_arrow().to_pylist()
    return rows


def require_sound(db: IntradayRows, base: Path) -> None:
    """A deep verification finds nothing but replaced locations; no staging is left on either volume."""
    found = [one for one in verify(FS, db.layout, deep=True).findings if "replaced by a newer merge" not in one.what]
    assert found == []
    assert hidden(db.layout.system("Test")) == hidden(base / "volume" / "Test") == []
