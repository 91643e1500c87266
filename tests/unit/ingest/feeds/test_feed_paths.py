"""Links and odd names in the directories of a feed: a directory is walked once, and a name is taken literally."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparkhaven.ingest.feeds.files.listing import NO_FILE, NO_MATCH, SAME, UNFINISHED
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.feeds.files.planner import FilePlanner
from sparkhaven.store.epochs.state.file_positions import FileWindow
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from tests.support.ingest.stream_files import parse

NOW = 1_800_000_000


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"{}\n")
    os.utime(path, (NOW - 1000, NOW - 1000))
    return path


def planner(path: Path, taken: FileWindow | None = None) -> FilePlanner:
    return FilePlanner(Fs(), FilesOptions(str(path)), taken or FileWindow(), lambda: NOW)


def taken(found: FilePlanner, base: Path) -> list[str]:
    return sorted(str(Path(file.path).relative_to(base)) for file in found.plan().files)


LINKS: dict[str, tuple[dict[str, str], list[str]]] = {
    "to itself": ({"d/latest": "."}, ["d/a.json"]),
    "to the root": ({"d/up": ".."}, ["d/a.json"]),
    "to the root, by a full path": ({"d/up": "{base}/feed"}, ["d/a.json"]),
    "to each other": ({"x": "y", "y": "x"}, ["d/a.json"]),
    "to one that comes later": ({"current": "d"}, ["d/a.json"]),
    "to one that comes before": ({"zz": "d"}, ["d/a.json"]),
    "two to one outside": ({"o1": "../outside", "o2": "../outside"}, ["d/a.json", "o1/b.json"]),
    "outside and back": ({"o": "../outside", "../outside/back": "../feed"}, ["d/a.json", "o/b.json"]),
    "a loop outside": ({"o": "../outside", "../outside/self": "."}, ["d/a.json", "o/b.json"]),
    "to a file of the feed": ({"latest.json": "d/a.json"}, ["d/a.json"]),
    "to a file outside": ({"b.json": "../outside/b.json"}, ["b.json", "d/a.json"]),
    "to nothing": ({"gone.json": "nowhere"}, ["d/a.json"]),
    "to a hidden directory": ({"o": ".hidden"}, ["d/a.json", "o/c.json"]),
}


@pytest.mark.parametrize("case", LINKS)
def test_links(tmp_path: Path, case: str) -> None:
    base = tmp_path / "feed"
    put(base / "d" / "a.json"), put(tmp_path / "outside" / "b.json"), put(base / ".hidden" / "c.json")
    links, expected = LINKS[case]
    for name, target in links.items():
        (base / name).symlink_to(target.format(base=tmp_path))
    found = planner(base / "**" / "*.json")
    assert taken(found, base) == expected
    assert taken(found, base) == [], "nor at the next look"
    assert found.passed().counts[SAME] + found.passed().counts[NO_FILE] > 0 or len(expected) > 1
    again = planner(base / "**")
    assert sorted(path for path in taken(again, base) if path.endswith(".json")) == expected


def test_current_beside_dated_directories(tmp_path: Path) -> None:
    for day in ("2026-11-20", "2026-11-21"):
        put(tmp_path / day / "a.json")
    (tmp_path / "current").symlink_to("2026-11-20")
    found = planner(tmp_path / "*" / "*.json")
    assert taken(found, tmp_path) == ["2026-11-20/a.json", "2026-11-21/a.json"]
    (tmp_path / "current").unlink()
    (tmp_path / "current").symlink_to("2026-11-21")
    assert taken(found, tmp_path) == []
    assert found.passed().names[SAME] == [str(tmp_path / "current")]
    assert taken(planner(tmp_path / "current"), tmp_path) == ["current/a.json"], "asked for by its name"
    assert taken(planner(tmp_path / "cur*" / "*"), tmp_path) == ["current/a.json"]


NAMES = [
    "feed[1]",
    "feed*",
    "feed?",
    "f[a",
    "fe{ed}",
    "~feed",
    "a b",
    "#feed",
    "feed[[]1]",
    "[!x]",
    "fe\\ed",
    "$feed",
    "%41",
]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_there_is_taken_by_its_name(tmp_path: Path, name: str) -> None:
    put(tmp_path / name / "a.json"), put(tmp_path / "feed1" / "other.json"), put(tmp_path / name / "sub" / name)
    assert taken(planner(tmp_path / name), tmp_path) == [f"{name}/a.json"]
    assert taken(planner(tmp_path / name / "*.json"), tmp_path) == [f"{name}/a.json"]
    assert taken(planner(tmp_path / name / "a.json"), tmp_path) == [f"{name}/a.json"]
    assert taken(planner(tmp_path / "*" / "sub" / name), tmp_path) == [f"{name}/sub/{name}"]
    assert NO_MATCH not in planner(tmp_path / name).passed().counts


def test_a_stream_file_names_such_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("feed[1]", "~feed", "feed{a,b}"):
        assert parse(('"feed/*.json"', f'"{name}"')).feed.options.path == f"/etc/streams/{name}"


def test_a_pattern_that_matches_nothing_is_told_until_it_does(tmp_path: Path) -> None:
    put(tmp_path / "other.csv")
    found = planner(tmp_path / "feed[1]")
    assert taken(found, tmp_path) == []
    assert found.passed().to_json()[NO_MATCH] == {"count": 0, "first": [str(tmp_path / "feed[1]")]}
    put(tmp_path / "feed1")
    os.utime(tmp_path, (NOW - 1, NOW - 1))
    assert taken(found, tmp_path) == ["feed1"] and NO_MATCH not in found.passed().counts
    put(tmp_path / "feed[1]" / "a.json")
    os.utime(tmp_path, (NOW - 1, NOW - 1))
    assert taken(found, tmp_path) == ["feed[1]/a.json"]


def test_a_pattern_whose_files_were_all_taken_matches(tmp_path: Path) -> None:
    put(tmp_path / "a.json")
    first = planner(tmp_path / "*.json")
    files = first.plan().files
    window = FileWindow()
    window.take(files, 0)
    again = planner(tmp_path / "*.json", window)
    assert again.plan().files == () and NO_MATCH not in again.passed().counts
    put(tmp_path / "b.json.tmp")
    unfinished = planner(tmp_path / "b*")
    assert unfinished.plan().files == () and {NO_MATCH, UNFINISHED} <= unfinished.passed().counts.keys()


def test_braces_are_told_to_be_no_pattern(tmp_path: Path) -> None:
    settings = parse(('"feed/*.json"', f'"{tmp_path}/{{a,b}}/*.json"'))
    with pytest.raises(SettingsError, match="does not exist") as caught:
        settings.feed.check(Fs())
    assert "{a,b} is not a pattern" in str(caught.value.hint)
