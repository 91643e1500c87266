"""A storage partition whose volume is not mounted is named as such by everything that looks for its dates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from readers.table import open_table
from readers.verify import verify
from store.errors import RetryableStorageError
from store.layout import Layout
from tests.merge_cases import DAY, TABLE
from tests.merge_runs import FS, make, merge
from writers.partitions import add_partition
from writers.removal_proof import prove
from writers.validation.dates import validate_date

TOLD = "the volume of storage partition 0 is not there"


def read(layout: Layout) -> object:
    return open_table(layout.root, str(TABLE)).to_arrow()


def again(layout: Layout) -> object:
    return merge(layout, rewrite=True)


def truncation(layout: Layout) -> object:
    return prove(FS, layout, TABLE, DAY)


def validation(layout: Layout) -> object:
    return validate_date(FS, layout, TABLE, DAY)


@pytest.mark.parametrize("empty", [False, True])
def test_a_volume_that_is_away_is_told_as_such(tmp_path: Path, empty: bool) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    house, _ = make(tmp_path / "db", 30, partitions=0)
    add_partition(FS, house.layout, "Test", "0", volume=volume)
    merge(house.layout)
    link = house.layout.partitions("Test") / "0"
    place = link.resolve()
    away = place if empty else volume
    away.rename(tmp_path / "away")
    if empty:
        place.mkdir()
    uses: list[Callable[[Layout], object]] = [read, truncation, validation]
    for use in uses if empty else [*uses, again]:
        with pytest.raises(RetryableStorageError, match=TOLD) as told:
            use(house.layout)
        assert f"{link.name} -> {place}" in str(told.value), use
        assert "mount the volume" in str(told.value)
    found = [each.what for each in verify(FS, house.layout, TABLE, deep=True).findings]
    assert any(TOLD in what for what in found), found
    assert not any("lost" in what or "deleted" in what for what in found)
    if empty:
        place.rmdir()
    (tmp_path / "away").rename(away)
    read(house.layout)
