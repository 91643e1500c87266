"""``merge --closed``: which dates are over, in the time zone that the streams of the table record."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from rich.console import Console

from sparkhaven.jobs.dataframes.frame_writer import deephaven_writer
from sparkhaven.jobs.date_choice import recorded_zone
from sparkhaven.jobs.operations.epoch_changes import open_log
from sparkhaven.jobs.settings.stream_file import load_stream_file
from sparkhaven.jobs.streams import stream as ingest_run
from sparkhaven.jobs.streams.progress import Progress
from sparkhaven.store.epochs.reading.stream_state import load_stream, newest_states
from sparkhaven.store.epochs.state.log_values import Batch
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from tests.support.commands import run_json
from tests.support.ingest.stream_files import write_stream
from tests.support.tables.small_tables import SmallTable

NAME = "NS.T"
FLIGHTS = TableName("Nyc13", "Flight")
EAST, WEST = "Pacific/Kiritimati", "Etc/GMT+12"  # 26 hours apart


def today_in_the_west() -> str:
    """A date that is never over in the west, and always is in the east."""
    return datetime.now(ZoneInfo(WEST)).strftime("%Y-%m-%d")


def table(root: Path, *zones: str | None) -> SmallTable:
    """A date of rows from each of several streams, which record these zones."""
    small = SmallTable(root)
    for number, zone in enumerate(zones):
        name = f"s{number}"
        small.log(name, zone=zone)
        small.add(str(number), today_in_the_west(), {"Size": [number]}, stream=name)
        small.logs.pop(name).close()
    return small


def closed(root: Path, *words: str) -> tuple[int, dict[str, Any]]:
    return run_json(root, "merge", NAME, "--closed", "--dry-run", *words)


def test_closed_dates_are_those_of_the_recorded_zone(tmp_path: Path) -> None:
    table(tmp_path / "east", EAST, EAST)
    table(tmp_path / "west", WEST)
    code, value = closed(tmp_path / "east")
    assert (code, value["date"], value["rows_in"]) == (0, today_in_the_west(), 2)
    code, value = closed(tmp_path / "west")
    assert (code, value["error"]["what"]) == (2, "no such dates")
    assert value["error"]["expected"].endswith(f"in {WEST}")
    assert closed(tmp_path / "west", "--zone", EAST)[0] == 0  # what is asked for counts
    assert closed(tmp_path / "east", "--zone", WEST)[0] == 2


@pytest.mark.parametrize(
    ("zones", "found"),
    [
        ((EAST, WEST), f"s0: {EAST}, s1: {WEST}"),
        ((EAST, None), f"s0: {EAST}, s1: not recorded"),
        ((None,), "s0: not recorded"),
        (("", ""), "s0: a fixed date, s1: a fixed date"),
    ],
)
def test_zones_that_differ_or_are_missing_must_be_given(
    tmp_path: Path, zones: tuple[str | None, ...], found: str
) -> None:
    table(tmp_path, *zones)
    code, value = closed(tmp_path)
    assert (code, value["error"]["found"]) == (2, found)
    assert "--zone" in value["error"]["hint"] and value["error"]["where"] == NAME
    assert closed(tmp_path, "--zone", EAST)[0] == 0


def test_streams_with_fixed_dates_or_none_have_no_say(tmp_path: Path) -> None:
    small = table(tmp_path, EAST, "")
    small.log("empty", zone=WEST).close()
    assert closed(tmp_path)[0] == 0
    SmallTable(tmp_path / "new")
    assert closed(tmp_path / "new", "--allow-empty")[1]["outcome"] == "nothing"


def test_a_zone_that_this_machine_does_not_know_is_reported(tmp_path: Path) -> None:
    table(tmp_path, "Mars/Base")
    code, value = closed(tmp_path)
    assert (code, value["error"]["found"], value["error"]["where"]) == (2, "'Mars/Base'", NAME)


def test_the_zone_outlives_compaction_rollback_and_maintenance(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    log = small.log("s", zone=EAST, keep_epochs=1, compact_bytes=0)
    for number in range(4):
        small.add("a", "2026-11-20", {"Size": [number]})
    assert log.compact_if_due(now=True)
    head = small.layout.stream_head(small.table, "s")
    assert head.exists() or log.write_head()
    log.rollback(log.state.floor)
    zones = {load_stream(small.place.of_stream("s"), cached=cached).zone for cached in (True, False)}
    assert (zones, log.state.zone) == ({EAST}, EAST)
    log.close()
    with open_log(small.place.of_stream("s")) as again:
        assert again.state.zone == EAST
        again.compact_if_due(now=True)
    assert recorded_zone(small.table, newest_states(small.place)) == EAST
    log = small.logs["s"] = SmallTable(tmp_path).log("s", zone=WEST)
    assert load_stream(small.place.of_stream("s")).zone == WEST
    log.close()


def test_the_zone_outlives_a_rebuilt_log(tmp_path: Path) -> None:
    small = table(tmp_path, EAST)
    streams = small.layout.streams(small.table)
    shutil.copytree(streams, tmp_path / "copy")
    small.log("s0").commit(Batch("q", 7, (), (small.append("1", "2026-11-20", {"Size": [9]}, stream="s0"),), 1, 1))
    small.log("s0").publish()
    small.logs.pop("s0").close()
    shutil.rmtree(streams)
    shutil.move(tmp_path / "copy", streams)
    assert run_json(tmp_path, "recover", NAME, "s0", "--from-locations", "--accept-positions")[0] == 0
    assert load_stream(small.place.of_stream("s0")).zone == EAST


def test_a_stream_file_and_a_writer_of_frames_record_their_zone(tmp_path: Path) -> None:
    file, root = write_stream(tmp_path), tmp_path / "db"
    root.mkdir()
    text = file.read_text()
    rule = next(line for line in text.splitlines() if line.startswith("value "))
    for line, zone in ((rule, "America/New_York"), ('value = { fixed = "2026-11-20" }', "")):
        file.write_text(text.replace(rule, line))
        settings = load_stream_file(Fs(), file, {})
        with ExitStack() as opened:
            ingest_run.open_stream(Fs(), Layout(root), settings, opened, Progress(console=Console(quiet=True)))
        assert load_stream(StreamPlace(Fs(), Layout(root), FLIGHTS, "flights")).zone == zone
    value = {"column": "time_hour", "zone": EAST}
    with deephaven_writer(root, str(FLIGHTS), "frames", internal="origin", value=value) as writer:
        writer._open("q", None)
        assert load_stream(StreamPlace(Fs(), Layout(root), FLIGHTS, "frames")).zone == EAST


def test_an_error_of_several_zones_is_one_of_settings(tmp_path: Path) -> None:
    small = table(tmp_path, EAST, WEST)
    with pytest.raises(SettingsError, match="have not recorded one time zone"):
        recorded_zone(small.table, newest_states(small.place))
