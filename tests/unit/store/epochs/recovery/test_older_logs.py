"""A commit log that was restored from an older copy beside removals that are newer, and removals older than the log."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.epochs.files.removals import read_removals, write_removals
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.removed_locations import Removal, RemovalPhase
from sparkhaven.store.errors import CorruptFileError
from tests.support.commands import run_json
from tests.support.disks.contents import contents
from tests.support.streams.locations import DAY, B
from tests.support.tables.small_tables import SmallTable

COMMANDS = (
    ("read", "NS.T"),
    ("stats", "NS.T"),
    ("verify",),
    ("recover", "--dry-run"),
    ("epochs", "list", "NS.T", "s"),
    ("merge", "NS.T", "--date", DAY, "--local"),
)


def _close(small: SmallTable) -> None:
    for log in small.logs.values():
        log.close()
    small.logs.clear()


def _again(root: Path, batches: int) -> SmallTable:
    """The table some batches and hours later."""
    small = SmallTable(root)
    small.now += 3600 * batches
    small._batches = batches
    return small


def _remove(small: SmallTable, phase: RemovalPhase = RemovalPhase.DELETE) -> Removal:
    """Records that the location of the second source was removed, as maintenance does it."""
    state = load_stream(small.place.of_stream("s"))
    at = state.locations[B]
    removal = Removal(B, at.since, at.rows, phase, state.epoch, {}, 1, at.made_ms, state.generation)
    write_removals(small.place.of_stream("s"), [removal])
    if phase == "delete":
        shutil.rmtree(small.location("b", DAY))
    return removal


def _restore(small: SmallTable, copy: Path, *, but: tuple[str, ...]) -> None:
    """Puts the files of a copy in place of those of the stream, all but those with these suffixes."""
    streams = small.layout.streams(small.table)
    for path in streams.iterdir():
        if path.suffix not in but:
            path.unlink()
    for path in copy.iterdir():
        if path.suffix not in but:
            shutil.copy(path, streams / path.name)


@pytest.mark.parametrize("cached", [True, False])
def test_old_removals_leave_alone_what_a_restored_log_makes_anew(tmp_path: Path, cached: bool) -> None:
    small = SmallTable(tmp_path)
    streams = small.layout.streams(small.table)
    small.log(keep_epochs=0)
    small.add("a", DAY, {"Size": [1]})
    assert small.logs["s"].compact_if_due(now=True)  # a checkpoint and a head
    copy = tmp_path / "copy"
    shutil.copytree(streams, copy)
    small.add("b", DAY, {"Size": [2, 3]})
    old = _remove(small)
    _close(small)
    removals = (streams / "s.removals").read_bytes()
    _restore(small, copy, but=())
    (streams / "s.removals").unlink()
    small = _again(tmp_path, 10)
    small.add("b", DAY, {"Size": [4]})
    assert small.logs["s"].state.locations[B].since == old.since  # the epoch has come again
    if cached:
        small.logs["s"].write_head()
    (streams / "s.removals").write_bytes(removals)

    found = open_table(tmp_path, "NS.T").to_arrow(["Size"])
    assert sorted(found["Size"].to_pylist()) == [1, 4]
    findings = verify(small.fs, small.layout, small.table).findings
    assert [(f.severity, Path(f.path).name) for f in findings] == [("warning", "s.removals")]
    assert findings[0].code == "W306" and "restored from an older copy" in findings[0].what
    small.add("b", DAY, {"Size": [5]})
    _close(small)
    small = _again(tmp_path, 20)
    small.add("b", DAY, {"Size": [6]})
    found = open_table(tmp_path, "NS.T").to_arrow(["Size"], dates=DAY)
    assert sorted(found["Size"].to_pylist()) == [1, 4, 5, 6]


def test_every_command_tells_of_a_log_of_an_older_generation_than_a_removal(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    small.add("a", DAY, {"Size": [1]})
    small.add("b", DAY, {"Size": [2]})
    _close(small)
    copy = tmp_path / "copy"
    shutil.copytree(small.layout.streams(small.table), copy)
    small = SmallTable(tmp_path)
    small.log()  # a generation without an epoch
    assert _remove(small, "truncate").generation == 2
    _close(small)
    _restore(small, copy, but=(".removals",))
    before = contents(tmp_path)
    for words in COMMANDS:
        code, result = run_json(tmp_path, *words)
        assert code == 1, (words, result)
        assert "older than a removal" in str(result), (words, result)
        assert "generation 2" in str(result), (words, result)
    with pytest.raises(CorruptFileError, match="older than a removal"):
        SmallTable(tmp_path).log()
    assert {path: path.read_bytes() for path in before if path.suffix != ".lock"} == {
        path: data for path, data in before.items() if path.suffix != ".lock"
    }


def test_every_command_tells_of_removals_that_end_before_what_a_checkpoint_has_folded_in(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    log = small.log(keep_epochs=0)
    small.add("a", DAY, {"Size": [1]})
    small.add("b", DAY, {"Size": [2]})
    path = small.layout.stream_removals(small.table, "s")
    older = path.read_bytes()
    _remove(small)
    small.add("a", DAY, {"Size": [3]})
    assert log.compact_if_due(now=True)
    _close(small)
    assert read_removals(small.place.of_stream("s")).end > len(older)
    path.write_bytes(older)
    for head in (True, False):
        if not head:
            small.place.of_stream("s").stream_head.unlink(missing_ok=True)
        for words in COMMANDS if head else COMMANDS[:1]:
            code, result = run_json(tmp_path, *words)
            assert code == 1, (words, result)
            assert "removals that the stream has applied are missing" in str(result), (words, result)
        with pytest.raises(CorruptFileError, match="has applied are missing"):
            SmallTable(tmp_path).log()
