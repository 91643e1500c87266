"""A storage partition whose volume is not mounted is named as such by everything that looks for its dates."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.errors import HistoryWarning, RetryableStorageError
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.publish.publish_phase import clean
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.removal.removal_proof import prove
from sparkhaven.writers.validation.date_validation import validate_date
from tests.support.writers.merge_cases import DAY, TABLE, as_table
from tests.support.writers.merge_runs import FS, make, merge

OTHER = "2024-03-06"
REPORTED = "the volume of storage partition 0 is not mounted"


def read(layout: Layout) -> object:
    return open_table(layout.root, str(TABLE)).to_arrow()


def again(layout: Layout) -> object:
    return merge(layout, rewrite=True)


def another(layout: Layout) -> object:
    return merge(layout, OTHER)


def truncation(layout: Layout) -> object:
    return prove(TablePlace(FS, layout, TABLE), DAY)


def validation(layout: Layout) -> object:
    return validate_date(TablePlace(FS, layout, TABLE), DAY)


@pytest.mark.parametrize("empty", [False, True])
def test_a_volume_that_is_away_is_reported_as_such(tmp_path: Path, empty: bool) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    db, rows = make(tmp_path / "db", 30, partitions=0)
    db.commit({("a", OTHER): as_table(rows)})
    add_partition(FS, db.layout, "Test", "0", volume=volume)
    merge(db.layout)
    link = db.layout.partitions("Test") / "0"
    place = link.resolve()
    away = place if empty else volume
    away.rename(tmp_path / "away")
    if empty:
        place.mkdir()
    uses: list[Callable[[Layout], object]] = [read, truncation, validation]
    for use in [*uses, again, another]:
        with pytest.raises(RetryableStorageError, match=REPORTED) as reported:
            use(db.layout)
        assert f"{link.name} -> {place}" in str(reported.value), use
        assert "mount the volume" in str(reported.value)
        assert not any(place.iterdir()) if empty else not place.exists(), use
    found = [each.what for each in verify(FS, db.layout, TABLE, deep=True).findings]
    assert any(REPORTED in what for what in found), found
    codes = {each.code for each in verify(FS, db.layout, TABLE).findings if REPORTED in each.what}
    assert codes == {"E235"}
    assert not any("lost" in what or "deleted" in what for what in found)
    if empty:
        place.rmdir()
    (tmp_path / "away").rename(away)
    read(db.layout)
    another(db.layout)


def emptied(base: Path, volume: Path | None) -> Layout:
    """A merged date of which the only location was removed by hand, in a storage partition that has nothing else."""
    db, rows = make(base / "db", 30, partitions=0)
    db.commit({("a", OTHER): as_table(rows)})
    add_partition(FS, db.layout, "Test", "0", volume=volume)
    merge(db.layout)
    (date,) = (db.layout.partitions("Test") / "0").iterdir()
    shutil.rmtree(date)
    return db.layout


@pytest.fixture
def other_volume(tmp_path: Path) -> Iterator[Path]:
    """A directory on another file system than that of ``tmp_path``."""
    device = tmp_path.stat().st_dev
    bases = [path for path in map(Path, ("/dev/shm", "/tmp", "/var/tmp")) if path.stat().st_dev != device]
    if not bases:
        pytest.skip("there is one file system only")
    with TemporaryDirectory(dir=bases[0]) as directory:
        yield Path(directory)


def test_a_partition_that_was_emptied_by_hand_is_no_volume_that_is_away(tmp_path: Path, other_volume: Path) -> None:
    """On the volume of the root, and on another one that is mounted."""
    for layout in (emptied(tmp_path / "own", None), emptied(tmp_path / "other", other_volume)):
        with pytest.warns(HistoryWarning, match="were removed by hand"):
            assert open_table(layout.root, str(TABLE)).count(dates=DAY) == 0
        (result,) = merge(layout, OTHER)
        assert result.outcome == "merged"
        found = [each.what for each in verify(FS, layout, TABLE, deep=True).findings]
        assert found and not any("not mounted" in what for what in found)


def test_an_empty_partition_that_no_record_names_is_filled(tmp_path: Path) -> None:
    db, rows = make(tmp_path / "db", 30, partitions=1)
    merge(db.layout)
    db.commit({("a", OTHER): as_table(rows)})
    add_partition(FS, db.layout, "Test", "1")
    merge(db.layout, rewrite=True)
    clean(db.place, lambda: 1_700_000_000.0 + 3601)
    assert not any((db.layout.partitions("Test") / "0").iterdir())  # its dates lie in 0.g2 and 1.g2 now
    (result,) = merge(db.layout, OTHER)
    assert result.outcome == "merged"
