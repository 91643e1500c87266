"""Runs in this process and runs with Spark's tasks take turns, killed at each step: every row once, the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.io.fs import Fs
from tests.crash.kills.test_stream_crashes import STEPS
from tests.support.disks.model_fs import Crash, CrashingFs
from tests.support.streams.stream_kit import file_sizes_are_exact, numbers, place_in, tree_bytes
from tests.support.streams.two_ways import FILES, WAYS, write_feed


def steps_of(root: Path, feed: Path, way: str) -> list[tuple[str, int]]:
    """Each step that a whole run passes, with how often."""
    fs = CrashingFs()
    WAYS[way](fs, feed, root)
    return [(name, fs.steps.count(name)) for name in dict.fromkeys(fs.steps)]


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [("here", "as-spark"), ("as-spark", "here"), ("here", "here")])
def test_the_other_way_goes_on_where_one_was_killed(tmp_path: Path, first: str, second: str) -> None:
    feed, plain = tmp_path / "feed", tmp_path / "plain"
    expected = write_feed(feed)
    steps = steps_of(plain, feed, second)
    assert {name.partition(":")[0] for name, _ in steps_of(tmp_path / "other", feed, first)} >= {*STEPS} - {
        "write-head"
    }
    whole = tree_bytes(plain)
    for number, (step, count) in enumerate(steps_of(tmp_path / "counted", feed, first)):
        root, occurrence = tmp_path / f"db{number}", 1 + number % count
        root.mkdir()
        with pytest.raises(Crash):
            WAYS[first](CrashingFs(crash_at=step, occurrence=occurrence), feed, root)
        WAYS[second](Fs(), feed, root)
        state = load_stream(place_in(root, Fs()))
        assert numbers(root, state) == expected, (step, occurrence)
        assert file_sizes_are_exact(root, state) and tree_bytes(root) == whole, (step, occurrence)
    assert steps


@pytest.mark.slow
def test_turns_take_what_is_new_and_nothing_else(tmp_path: Path) -> None:
    feed, root = tmp_path / "feed", tmp_path / "db"
    expected: list[int] = []
    for turn, way in enumerate(["here", "as-spark", "here", "here", "as-spark", "as-spark", "here"]):
        expected += write_feed(feed, range(FILES * turn, FILES * (turn + 1)))
        assert sum(WAYS[way](Fs(), feed, root)) == 4 * FILES
        assert sum(WAYS["here" if turn % 2 else "as-spark"](Fs(), feed, root)) == 0
        assert numbers(root, load_stream(place_in(root, Fs()))) == expected
