"""``epochs undo``: what it takes out, what it leaves, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.inspect.any_file import inspect_file
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.io.fs import Fs
from tests.support.commands import run, run_json
from tests.support.tables.small_tables import SmallTable

DAY, NEXT = "2026-11-20", "2026-11-21"
STREAM = ("NS.T", "s")


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    """Three epochs: rows in two dates, a bad one in the middle, and one after it."""
    small = SmallTable(tmp_path / "db")
    small.commit(small.append("a", DAY, {"Size": [1, 2]}), small.append("b", NEXT, {"Size": [3]}))
    small.commit(small.append("a", DAY, {"Size": [90, 91, 92]}), small.append("c", NEXT, {"Size": [93]}))
    small.add("a", DAY, {"Size": [4]})
    return small


def closed(small: SmallTable) -> Path:
    for log in small.logs.values():
        log.close()
    small.logs.clear()
    return small.root


def sizes(root: Path, **options: object) -> list[int]:
    return sorted(open_table(root, "NS.T", **options).to_arrow("Size")["Size"].to_pylist())


def inspected(path: Path) -> dict[str, Any]:
    return inspect_file(Fs(), path).facts


def test_an_epoch_in_the_middle_goes_and_older_epochs_still_have_it(small: SmallTable) -> None:
    root = closed(small)
    code, planned = run_json(root, "epochs", "undo", *STREAM, "--epoch", "2", "--dry-run")
    assert (code, planned["rows"], planned["epoch"], planned["dry_run"]) == (0, 4, None, True)
    assert sizes(root) == [1, 2, 3, 4, 90, 91, 92, 93]
    code, done = run_json(root, "epochs", "undo", *STREAM, "--epoch", "2")
    assert (code, done["rows"], done["epoch"], done["undone"]) == (0, 4, 4, [2])
    assert done["locations"] == [["a", DAY, 3], ["c", NEXT, 1]]
    for _ in range(2):
        assert sizes(root) == [1, 2, 3, 4]
    for epoch, expected in ((1, [1, 2, 3]), (2, [1, 2, 3, 90, 91, 92, 93]), (3, [1, 2, 3, 4, 90, 91, 92, 93])):
        assert sizes(root, epoch={"s": epoch}) == expected
    assert run_json(root, "verify", "NS.T")[0] == 0
    code, listed = run_json(root, "epochs", "list", *STREAM)
    last = listed["epochs"][-1]
    assert (last["kind"], last["undoes"], last["withdrawn"], last["live"]) == ("withdraw", [2], 4, True)
    code, shown = run_json(root, "epochs", "show", *STREAM)
    assert [(row["source"], row["rows"], row["withdrawn"]) for row in shown["locations"]] == [
        ("a", 3, 3),
        ("b", 1, 0),
        ("c", 0, 1),
    ]
    assert shown["rows"] == 4
    assert run_json(root, "stats", "NS.T")[1]["rows"] == 4
    record = inspected(small.layout.stream_log(small.table, "s"))["records"][-1]
    assert (record["kind"], record["undoes"], record["rows"]) == ("withdraw", [2], 4)
    assert small.add("a", DAY, {"Size": [5]}) == 5
    assert sizes(closed(small)) == [1, 2, 3, 4, 5]
    assert run_json(root, "epochs", "rollback", *STREAM, "--to", "3")[0] == 0
    assert sizes(root) == [1, 2, 3, 4, 90, 91, 92, 93]
    code, again = run_json(root, "epochs", "undo", *STREAM, "--epoch", "2")
    assert (code, again["epoch"]) == (0, 7)
    assert sizes(root) == [1, 2, 3, 4]


def test_what_was_undone_before_is_left_as_it_is(small: SmallTable) -> None:
    root = closed(small)
    assert run_json(root, "epochs", "undo", *STREAM, "--epoch", "2")[0] == 0
    before = small.layout.stream_log(small.table, "s").read_bytes()
    for words in (["--epoch", "2"], ["--source-file", "2.json"]):
        code, again = run_json(root, "epochs", "undo", *STREAM, *words)
        assert (code, again["undone"], again["rows"], again["epoch"]) == (0, [2], 0, None)
    assert "undone before, by epoch 4" in run(root, "epochs", "undo", *STREAM, "--epoch", "2").stdout
    assert small.layout.stream_log(small.table, "s").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--epoch 9", "does not exist"),
        ("--epoch 4", "is a withdrawal of rows"),
        ("--epoch 6", "was rolled back"),
        ("--epoch 7", "is a rollback"),
        ("--source-file 9.json", "no kept epoch took file 9.json"),
        ("--offsets t:0:1-2", "no kept epoch took offsets"),
        ("--offsets t:0:2-2", "--offsets is no range"),
        ("", "no epoch was given"),
        ("--epoch 1 --source-file 1.json", "named in two ways"),
    ],
)
def test_what_cannot_be_undone_is_refused_with_the_reason(small: SmallTable, words: str, problem: str) -> None:
    root = closed(small)
    assert run(root, "epochs", "undo", *STREAM, "--epoch", "2").exit_code == 0
    small.add("a", DAY, {"Size": [5]})
    small.add("a", DAY, {"Size": [6]})
    small.log().rollback(5)
    before = small.layout.stream_log(small.table, "s").read_bytes()
    closed(small)
    refused = run(root, "epochs", "undo", *STREAM, *words.split())
    assert refused.exit_code == 2
    assert problem in refused.stderr
    assert sizes(root) == [1, 2, 3, 4, 5]
    assert small.layout.stream_log(small.table, "s").read_bytes() == before


def test_a_running_stream_is_not_touched(small: SmallTable) -> None:
    assert run(small.root, "epochs", "undo", *STREAM, "--epoch", "2").exit_code == 3
    assert len(sizes(small.root)) == 8


def test_what_an_operator_knows_names_the_epochs(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "db")
    small.add("a", DAY, {"Size": [1]})
    for start, stop in ((0, 10), (10, 30), (30, 40)):
        small.commit(small.append("a", DAY, {"Size": [start]}), ranges=(OffsetRange("t", 0, start, stop, "id"),))
    root = closed(small)
    more = run(root, "epochs", "undo", *STREAM, "--offsets", "t:0:10-25")
    assert more.exit_code == 2
    assert "epoch 3, with t/0 [10, 30)" in more.stderr
    code, done = run_json(root, "epochs", "undo", *STREAM, "--offsets", "t:0:10-40")
    assert (code, done["undone"], done["rows"], done["epoch"]) == (0, [3, 4], 2, 5)
    code, done = run_json(root, "epochs", "undo", *STREAM, "--source-file", "feed/1.json")
    assert (code, done["undone"]) == (0, [1])
    assert sizes(root) == [0]
    assert small.log().state.offsets.positions() == {"t/0": 40}


def test_it_survives_the_floor_and_a_floor_above_it_refuses(small: SmallTable) -> None:
    root = closed(small)
    assert run(root, "epochs", "undo", *STREAM, "--epoch", "2").exit_code == 0
    log = small.log(keep_epochs=1)
    small.add("a", DAY, {"Size": [5]})
    assert log.compact_if_due(now=True)
    small.add("a", DAY, {"Size": [6]})
    log.write_head()
    checkpoint, head = (small.layout.stream_log(small.table, "s").with_suffix(end) for end in (".checkpoint", ".head"))
    assert (checkpoint.read_bytes()[:7], head.read_bytes()[:7]) == (b"SHVCKP3", b"SHVHED3")
    assert inspected(checkpoint)["rows"] == 4
    for _ in range(2):
        assert sizes(root) == [1, 2, 3, 4, 5, 6]
        closed(small)
    refused = run(root, "epochs", "undo", *STREAM, "--epoch", "1")
    assert refused.exit_code == 2
    assert "is at or below the rollback floor" in refused.stderr
    head.unlink()
    assert sizes(root) == [1, 2, 3, 4, 5, 6]
    assert run_json(root, "verify", "NS.T")[0] == 0
