"""The whole way of a batch, broken at every point: killed, powered off, out of space. No row is lost or doubled."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.errors import CommitError, SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace, TablePlace
from tests.support.disks.model_fs import Crash, CrashingFs, FaultFs
from tests.support.disks.power_cut_fs import PowerCutFs
from tests.support.examples import some_of
from tests.support.places import REPOSITORY
from tests.support.streams.after_a_crash import EXACT, goes_on
from tests.support.streams.stream_kit import STREAM, TABLE, numbers, place_in
from tests.support.streams.stream_story import STORIES, Groups, tell

pytestmark = pytest.mark.slow
STEPS = (
    "check-lease",
    "cut-tails",
    "append",
    "sync-files",
    "sync-dirs",
    "collect",
    "quarantine",
    "commit-record",
    "publish",
    "notify",
    "write-head",
)


@pytest.fixture(scope="module", params=sorted(STORIES))
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Groups]:
    return STORIES[request.param](tmp_path_factory.mktemp("feed"))


def committed_rows(root: Path) -> list[int]:
    """What a reader of the log sees, before any recovery."""
    layout, fs = Layout(root), Fs()
    if STREAM not in list_streams(TablePlace(fs, layout, TABLE)):
        return []
    return numbers(root, load_stream(StreamPlace(fs, layout, TABLE, STREAM)))


@pytest.mark.parametrize("name", sorted(STORIES))
def test_killed_before_and_after_every_step(tmp_path: Path, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.kills.kill_steps", name],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    line = done.stdout.strip().splitlines()[-1]
    print(line)
    assert set(STEPS) <= set(line.split())


def test_stopped_before_any_change_of_the_disk(tmp_path: Path, story: list[Groups]) -> None:
    plain = CrashingFs()
    (tmp_path / "plain").mkdir()
    tell(plain, tmp_path / "plain", story)
    for change in some_of(random.Random(3).sample(range(plain.changes), 30)):
        root = tmp_path / f"db{change}"
        root.mkdir()
        acknowledged: list[int] = []
        with pytest.raises(Crash):
            tell(CrashingFs(crash_after=change), root, story, acknowledged.append)
        before = committed_rows(root)
        state = load_stream(place_in(root, Fs())) if before else None
        assert len(acknowledged) <= (state.epoch if state else 0)
        assert set(before) <= set(EXACT)
        assert goes_on(root, story) == EXACT, f"change {change}"


def power_cut(root: Path, story: list[Groups], change: int, seed: int, sabotage: str | None = None) -> None:
    """Cuts the power at a change; acknowledged epochs must be there, and going on must lead to exactly the input."""
    root.mkdir()
    fs = PowerCutFs(root, sabotage=sabotage, crash_after=change)
    acknowledged: list[int] = []
    with pytest.raises(Crash):
        tell(fs, root, story, acknowledged.append)
    fs.cut(seed)
    if acknowledged:
        assert load_stream(place_in(root, Fs())).epoch >= acknowledged[-1]
    committed_rows(root)
    assert goes_on(root, story, boot="boot-2") == EXACT


def total_changes(root: Path, story: list[Groups]) -> int:
    root.mkdir()
    fs = PowerCutFs(root)
    tell(fs, root, story)
    return fs.changes


def test_powered_off_at_any_change_loses_nothing_acknowledged(tmp_path: Path, story: list[Groups]) -> None:
    total = total_changes(tmp_path / "plain", story)
    chance = random.Random(11)
    for seed, change in enumerate(some_of(chance.sample(range(total), 30))):
        power_cut(tmp_path / f"db{seed}", story, change, seed)


@pytest.mark.parametrize("sabotage", ["file", "dir"])
def test_the_power_cuts_do_find_a_sync_that_is_left_out(tmp_path: Path, story: list[Groups], sabotage: str) -> None:
    total = total_changes(tmp_path / "plain", story)
    chance = random.Random(12)
    with pytest.raises((AssertionError, SparkhavenError, OSError)):
        for seed, change in enumerate(chance.sample(range(total // 2, total), 40)):
            power_cut(tmp_path / f"db{seed}", story, change, seed, sabotage)


def test_killed_twice_and_then_powered_off(tmp_path: Path, story: list[Groups]) -> None:
    total = total_changes(tmp_path / "plain", story)
    chance = random.Random(13)
    for seed in some_of(range(20)):
        root = tmp_path / f"db{seed}"
        root.mkdir()
        fs = PowerCutFs(root)
        acknowledged: list[int] = []
        for crash in (chance.randrange(total), chance.randrange(total)):
            fs.crash_after, fs.changes, fs.dead = crash, 0, False
            try:
                tell(fs, root, story, acknowledged.append)
            except Crash:
                continue
        fs.dead = False
        fs.cut(seed)
        if acknowledged:
            assert load_stream(place_in(root, Fs())).epoch >= acknowledged[-1]
        assert goes_on(root, story, boot="boot-2") == EXACT, f"seed {seed}"


def calls_of(root: Path, story: list[Groups], kind: str, half: bool) -> int:
    """How many calls of a kind there are after the first batch, at most 400."""
    root.mkdir()
    tell(Fs(), root, story[:1])
    fs = FaultFs(kind, nth=400, code=errno.ENOSPC, half=half)
    with suppress(SparkhavenError, OSError):
        tell(fs, root, story[1:])
    return fs._calls


@pytest.mark.parametrize(
    ("kind", "half", "step"),
    [
        ("write", False, 7),
        ("write", True, 5),
        ("mkdir", False, 2),
        ("create", False, 1),
        ("rename", False, 2),
        ("sync", False, 9),
    ],
)
def test_a_full_disk_commits_nothing_and_says_so(
    tmp_path: Path, story: list[Groups], kind: str, half: bool, step: int
) -> None:
    failed, calls = 0, calls_of(tmp_path / "plain", story, kind, half)
    for nth in some_of(range(1, calls + 1, step), least=6):
        root = tmp_path / f"db{nth}"
        root.mkdir()
        tell(Fs(), root, story[:1])
        fs = FaultFs(kind, nth=nth, code=errno.ENOSPC, half=half)
        acknowledged: list[int] = []
        try:
            tell(fs, root, story[1:], acknowledged.append)
        except (SparkhavenError, OSError) as error:
            reported = str(error)
            assert "No space left on device" in reported
            # opening the log is not a batch; all that happens in a batch says what it means for the rows
            if "check-lease:before" in fs.steps:
                assert isinstance(error, CommitError)
                assert "to do: free space" in reported or "recover" in reported, reported
        failed += fs.failed
        epoch = load_stream(place_in(root, Fs())).epoch
        assert epoch >= max(acknowledged, default=1)
        rows = committed_rows(root)
        assert rows == EXACT[: len(rows)], f"{kind} {nth}"
        assert goes_on(root, story) == EXACT, f"{kind} {nth}"
    assert failed > 1
