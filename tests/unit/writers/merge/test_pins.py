"""The states of a table's streams that a merge, a removal or a status reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.store.epochs.files.removals import write_removals
from sparkhaven.store.epochs.state.removed_locations import Removal, RemovalPhase
from sparkhaven.store.io.fs import Fs, Stat
from sparkhaven.store.io.open_files import Opened
from sparkhaven.store.layout import Layout, LocationKey, TableName
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


class CountedLogs(Fs):
    """Counts how often a log is opened."""

    def __init__(self) -> None:
        self.opened = 0

    def open(self, path: Path) -> Opened:
        self.opened += path.suffix == ".log"
        return super().open(path)


def test_removals_that_were_appended_are_applied_without_reading_the_log_again(tmp_path: Path) -> None:
    table, values = SmallTable(tmp_path), ["2026-01-01", "2026-01-02", "2026-01-03"]
    for value in values:
        table.add("a", value, {"Size": [1, 2]})
    table.log().close()
    fs = CountedLogs()
    place = TablePlace(fs, Layout(tmp_path), TableName.parse("NS.T"))
    pins = Pins(place)
    (state,) = pins.states()
    stream = place.of_stream(state.stream)
    locations = dict(state.locations)

    def remove(value: str, phase: RemovalPhase) -> None:
        location = locations[LocationKey("a", value)]
        if phase == RemovalPhase.DELETE:
            fs.remove_tree(place.intraday_location(location.key))
        write_removals(stream, [Removal(location.key, location.since, 2, phase, state.epoch)])

    def same_as_read_anew() -> None:
        fresh = Pins(place)
        assert [pins.locations(value) for value in values] == [fresh.locations(value) for value in values]
        assert pins.states() == fresh.states()

    remove(values[0], RemovalPhase.TRUNCATE)
    assert pins.values() == values[1:]
    before = fs.opened
    remove(values[1], RemovalPhase.TRUNCATE)
    assert pins.locations(values[1]) == []
    remove(values[0], RemovalPhase.DELETE)
    assert pins.values() == values[2:]
    assert fs.opened == before
    same_as_read_anew()
    copy = stream.stream_removals.read_bytes()
    remove(values[2], RemovalPhase.TRUNCATE)
    assert pins.values() == []
    stream.stream_removals.write_bytes(copy)  # an older copy of the file
    assert pins.values() == values[2:]
    assert fs.opened > before
    same_as_read_anew()
