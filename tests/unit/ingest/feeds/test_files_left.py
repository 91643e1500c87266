"""Feed files that are not taken, or not yet: half written, by their names, by a wrong clock; each reported by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.ingest.feeds.files.listing import HIDDEN, NO_FILE, OTHER, UNFINISHED
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.feeds.files.planner import COUNT_AS_TAKEN, FilePlanner
from sparkhaven.ingest.spec import Format
from sparkhaven.store.epochs.state.file_positions import FileWindow
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.errors import FeedError, PositionGapError, RetryableFeedError
from sparkhaven.store.io.fs import Fs, Stat

NOW, DAY = 1_400_000_000.0, 86_400


class Time:
    """A clock that stands until somebody waits."""

    def __init__(self) -> None:
        self.now, self.steady, self.waited = NOW, 0.0, 0.0
        self.meanwhile: Callable[[], None] = lambda: None

    def pause(self, seconds: float) -> None:
        self.now += seconds
        self.steady += seconds
        self.waited += seconds
        self.meanwhile()


def put(path: Path, content: bytes = b"{}\n", age: float = 0.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (NOW - age, NOW - age))
    return path


def planner(path: Path, time: Time, taken: FileWindow | None = None, **feed: object) -> FilePlanner:
    spec = FilesOptions(str(path), **feed)  # type: ignore[arg-type]
    window = FileWindow() if taken is None else taken
    return FilePlanner(Fs(), spec, window, lambda: time.now, steady=lambda: time.steady, pause=time.pause)


def names(files: tuple[FileId, ...]) -> list[str]:
    return [Path(file.path).name for file in files]


@pytest.mark.parametrize("content", [b'{"a":1}\n{"a":12', b""])
def test_text_without_its_last_line_end_is_left_until_it_rests(tmp_path: Path, content: bytes) -> None:
    time = Time()
    put(tmp_path / "cut.json", content)
    put(tmp_path / "whole.json", age=-1)
    plans = planner(tmp_path, time)
    assert names(plans.plan().files) == ["whole.json"]
    time.now += 9
    assert plans.plan().files == ()
    put(tmp_path / "cut.json", b'{"a":1}\n{"a":123}', age=-9)  # the producer goes on
    time.now += 9
    assert plans.plan().growing == (FileId(str(tmp_path / "cut.json"), 17, round((NOW + 9) * 1e9)),)
    time.now += 2
    assert [file.size for file in plans.plan().files] == [17]


def test_a_file_with_a_time_in_the_future_rests_when_it_was_watched_long_enough(tmp_path: Path) -> None:
    time = Time()
    put(tmp_path / "cut.json", b"{}", age=-365 * DAY)
    plans = planner(tmp_path, time)
    assert plans.plan().files == ()
    time.now += 11
    assert names(plans.plan().files) == ["cut.json"]


def _parquet(path: Path) -> bytes:
    pq.write_table(pa.table({"a": [1]}), path)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("name", "form", "whole"),
    [("a.json", "json", True), ("a.parquet", "parquet", True), ("b.parquet", "parquet", False), ("a.gz", "json", True)],
)
def test_what_ends_as_complete_files_do_is_taken_at_once(tmp_path: Path, name: str, form: Format, whole: bool) -> None:
    content = {"a.json": b"{}\r\n", "a.gz": b"\x1f\x8b packed"}.get(name) or _parquet(tmp_path.parent / "x")
    put(tmp_path / name, content if whole else content[:-1])
    assert names(planner(tmp_path, Time(), format=form).plan().files) == ([name] if whole else [])
    assert names(planner(tmp_path, Time(), format=form, settle_s=0.0).plan().files) == [name]


@pytest.mark.parametrize(
    ("encoding", "content", "whole"),
    [
        ("utf-16le", "é\n".encode("utf-16-le"), True),
        ("utf-16be", "é\r\n".encode("utf-16-be"), True),
        ("utf-16", "\ufeffé\n".encode("utf-16-le"), True),
        ("utf-16", "\ufeffé\n".encode("utf-16-be"), True),
        ("latin-1", "é\n".encode("latin-1"), True),
        ("utf-16le", "a\u0a00".encode("utf-16-le"), False),  # its last byte is a line feed, its last character none
        ("utf-16be", "\u0a00".encode("utf-16-be"), False),
        ("utf-16", "\ufeff\u0a00".encode("utf-16-be"), False),
        ("utf-16", "\ufeff\u0a00".encode("utf-16-le"), False),
        ("utf-16le", "\u0a61b".encode("utf-16-le")[:-1], False),
        ("utf-16le", "\u0a61\u0a00".encode("utf-16-le")[1:], False),  # half a character more
        ("utf-16le", b"\n", False),
        ("utf-16be", b"\x1f\x8b packed", True),
    ],
)
def test_the_last_line_feed_is_that_of_the_encoding(tmp_path: Path, encoding: str, content: bytes, whole: bool) -> None:
    put(tmp_path / "a.csv", content)
    assert names(planner(tmp_path, Time(), format="csv", encoding=encoding).plan().files) == ["a.csv"] * whole


def test_a_frozen_planner_waits_for_what_may_rest_and_no_longer(tmp_path: Path) -> None:
    time = Time()
    put(tmp_path / "rests.json", b"{}")
    put(tmp_path / "grows.json", b"{}")
    put(tmp_path / "whole.json")
    plans = planner(tmp_path, time)
    plans.freeze()

    def grow() -> None:
        with (tmp_path / "grows.json").open("ab") as file:
            file.write(b"x")

    time.meanwhile = grow
    assert (names(plans.plan().files), time.waited) == (["whole.json"], 0.0)
    assert names(plans.plan().files) == ["rests.json"]
    plan = plans.plan()
    assert (plan.files, names(plan.growing)) == ((), ["grows.json"])
    assert time.waited < 21


def test_names_that_are_passed_over_are_reported_by_reason(tmp_path: Path) -> None:
    for name in (".a.json", "_b.json", "c.json.tmp", "d.JSON.PART", "e.json~", ".f.swp", "g.csv", "h.json"):
        put(tmp_path / name)
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.json")
    plans = planner(tmp_path / "*.json*", Time())
    assert names(plans.plan().files) == ["h.json"]
    passed = plans.passed()
    assert passed.counts == {HIDDEN: 3, UNFINISHED: 3, OTHER: 1, NO_FILE: 2}
    assert passed.names[UNFINISHED] == [str(tmp_path / name) for name in ("c.json.tmp", "d.JSON.PART", "e.json~")]
    assert names(planner(tmp_path / "*.tmp", Time()).plan().files) == ["c.json.tmp"]
    assert len(planner(tmp_path, Time(), unfinished=()).plan().files) == 5


def test_files_that_came_while_the_clock_was_behind_are_reported(tmp_path: Path) -> None:
    time = Time()
    put(tmp_path / "old.json", age=20 * DAY)
    put(tmp_path / "new.json")
    horizon = round((NOW - 7 * DAY) * 1e9)

    class Kernel(Fs):
        """The clock of the kernel was behind as well, so the inode does not tell either."""

        def stat(self, path: Path, *, follow: bool = True) -> Stat | None:
            found = super().stat(path, follow=follow)
            return replace(found, ctime_ns=found.mtime_ns) if found else None

    spec = FilesOptions(str(tmp_path))
    plans = FilePlanner(Kernel(), spec, FileWindow([], horizon), lambda: time.now)
    first = plans.plan()
    assert (names(first.files), first.older, plans.passed().counts) == (["new.json"], (), {COUNT_AS_TAKEN: 1})
    put(tmp_path / "late.json", age=8 * DAY)
    os.utime(tmp_path, (NOW + 1, NOW + 1))
    assert names(plans.plan().older) == ["late.json"]
    os.utime(tmp_path, (NOW + 2, NOW + 2))
    assert plans.plan().older == ()
    assert plans.passed().names == {COUNT_AS_TAKEN: [str(tmp_path / "old.json")]}


def test_a_file_whose_time_is_set_back_while_it_waits_is_reported(tmp_path: Path) -> None:
    put(tmp_path / "a.json")
    put(tmp_path / "b.json", b"{}")
    plans = planner(tmp_path, Time())
    assert names(plans.plan().files) == ["a.json"]
    put(tmp_path / "b.json", age=30 * DAY)
    plan = plans.plan()
    assert (plan.files, names(plan.older)) == ((), ["b.json"])


def test_a_horizon_in_the_future_stops_the_plan(tmp_path: Path) -> None:
    put(tmp_path / "a.json")
    taken = FileWindow([], round((NOW + 5000 * DAY) * 1e9))
    with pytest.raises(PositionGapError, match="files from the future"):
        planner(tmp_path, Time(), taken).plan()


def test_a_file_of_2040_hides_no_other(tmp_path: Path) -> None:
    time = Time()
    put(tmp_path / "month.json", age=40 * DAY)
    put(tmp_path / "future.json", age=-9000 * DAY)
    plans = planner(tmp_path, time)
    assert len(plans.plan().files) == 2
    put(tmp_path / "weeks.json", age=39 * DAY)
    assert names(plans.plan().files) == ["weeks.json"]


def test_a_clock_that_is_set_forward_stops_the_plan(tmp_path: Path) -> None:
    time = Time()
    put(tmp_path / "a.json")
    plans = planner(tmp_path, time)
    time.now += 5000 * DAY
    with pytest.raises(FeedError, match="set forward") as caught:
        plans.plan()
    assert caught.value.expected == "about 2014-05-13 16:53:20+00:00"
    time.steady += 5000 * DAY  # the process was asleep
    assert names(plans.plan().files) == ["a.json"]


def test_a_directory_that_is_away_is_tried_again_or_waited_for(tmp_path: Path) -> None:
    with pytest.raises(RetryableFeedError, match="does not exist"):
        planner(tmp_path / "nowhere" / "*.json", Time()).plan()
    plans = planner(tmp_path / "later" / "*.json", Time(), missing_directory="wait")
    assert plans.plan().files == ()
    put(tmp_path / "later" / "a.json")
    assert names(plans.plan().files) == ["a.json"]
