"""The states of a table's streams that a merge, a removal or a status reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.store.io.fs import Fs, Stat
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.plan.merge_pins import Pins
from tests.support.tables.small_tables import SmallTable


class BusyStream(Fs):
    """A log that another process has written to whenever it is looked at; looking on and on is an error."""

    def __init__(self) -> None:
        self.looks = 0

    def stat(self, path: Path, *, follow: bool = True) -> Stat | None:
        stat = super().stat(path, follow=follow)
        if stat is None or path.suffix != ".log":
            return stat
        self.looks += 1
        if self.looks > 100:
            pytest.fail("looks until the stream rests")
        return replace(stat, mtime_ns=stat.mtime_ns + self.looks)


def test_a_stream_that_commits_at_every_look_is_read_once_a_call(tmp_path: Path) -> None:
    table = SmallTable(tmp_path)
    table.add("a", "2026-01-01", {"Size": [1]})
    table.log().close()
    pins = Pins(TablePlace(BusyStream(), Layout(tmp_path), TableName.parse("NS.T")))
    assert [state.epoch for state in pins.states()] == [1]
    table.add("a", "2026-01-01", {"Size": [2]})
    assert [state.epoch for state in pins.states()] == [2]
