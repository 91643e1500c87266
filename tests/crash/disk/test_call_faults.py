"""One call after the other fails, comes up short, or is interrupted, over the whole life of a table.

A sample of what ``python -m tests.crash.disk.call_faults --every`` tries in full.
"""

from __future__ import annotations

import errno
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

import sparkhaven.store.io.fs
import sparkhaven.store.io.open_files
from sparkhaven.store.io.fs import Fs
from tests.crash.disk.call_faults import calls_of_a_life, chosen, survive
from tests.crash.disk.call_sites import SYNCS, CallSiteFs, Fault, Site, faults_of
from tests.support.examples import some_of
from tests.support.streams.stream_story import Groups
from tests.support.streams.whole_story import Watch, check_end, live, write_feed

OTHERS = 10


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory) -> list[Groups]:
    return write_feed(tmp_path_factory.mktemp("life") / "feed")


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory, batches: list[Groups]) -> list[Site]:
    return calls_of_a_life(tmp_path_factory.mktemp("calls") / "plain", batches)


def test_the_life_meets_every_room_that_writes(calls: list[Site]) -> None:
    rooms = {site.place.split(":")[0] for site in calls if site.kind in SYNCS}
    assert {
        "sparkhaven/store/epochs/files/logfile.py",
        "sparkhaven/store/epochs/compaction.py",
        "sparkhaven/store/epochs/files/removals.py",
        "sparkhaven/store/schema/deployed/deploy.py",
        "sparkhaven/writers/batch/task.py",
    } <= rooms
    assert len(set(calls)) > 150


@pytest.mark.slow
def test_a_failed_sync_is_never_believed(tmp_path: Path, batches: list[Groups], calls: list[Site]) -> None:
    syncs = [fault for fault in faults_of(calls) if fault.site.kind in SYNCS and fault.code == errno.EIO]
    for number, fault in enumerate(some_of(chosen(syncs, 5))):
        survive(tmp_path / f"db{number}", batches, fault)


@pytest.mark.slow
def test_calls_that_fail_lose_and_double_nothing(tmp_path: Path, batches: list[Groups], calls: list[Site]) -> None:
    faults = [fault for fault in faults_of(calls) if fault.site.kind not in SYNCS]
    removing = [fault for fault in chosen(faults, 1) if "remov" in fault.site.place and fault.site.kind != "stat"]
    some = random.Random(2).sample(chosen(faults, 2), OTHERS)
    for number, fault in enumerate([*some_of(removing), *some_of(some)]):
        survive(tmp_path / f"db{number}", batches, fault)


def test_the_harness_sees_a_sync_that_is_tried_again(tmp_path: Path) -> None:
    """Its own eyes are tested: the second sync succeeds, as a kernel lets it, and the bytes are gone all the same."""
    site = Site("outside", "sync")
    fs = CallSiteFs(tmp_path, Fault(site, 1, errno.EIO))
    path = tmp_path / "file"
    fs.calls.clear()
    fs.write_new(path, b"content")
    fs.sync_dirs([tmp_path])
    fs.fault = Fault(Site(_place_of(fs, path), "sync"), 1, errno.EIO)
    fs._left = 1
    with pytest.raises(OSError, match="Input/output error"):
        _sync(fs, path)
    _sync(fs, path)
    assert fs.retried == [path]
    fs.cut(0)
    assert path.read_bytes() == b""


def _sync(fs: CallSiteFs, path: Path) -> None:
    fs.sync([path])


def _place_of(fs: CallSiteFs, path: Path) -> str:
    twin = CallSiteFs(path.parent)
    _sync(twin, path)
    return twin.calls[-1].place


@pytest.fixture
def short_calls(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """``pwrite`` and ``pread`` take a few bytes at a time and say so."""
    counts = {"pwrite": 0, "pread": 0}

    def pwrite(descriptor: int, data: memoryview, offset: int) -> int:
        counts["pwrite"] += 1
        return os.pwrite(descriptor, data[: 1 + counts["pwrite"] % 61], offset)

    def pread(descriptor: int, length: int, offset: int) -> bytes:
        counts["pread"] += 1
        return os.pread(descriptor, min(length, 1 + counts["pread"] % 61), offset)

    own: dict[str, Any] = {**vars(os), "pwrite": pwrite, "pread": pread}
    for module in (sparkhaven.store.io.fs, sparkhaven.store.io.open_files):
        monkeypatch.setattr(module, "os", SimpleNamespace(**own))
    return counts


@pytest.mark.slow
def test_writes_and_reads_that_come_up_short_are_finished(
    tmp_path: Path, batches: list[Groups], short_calls: dict[str, int]
) -> None:
    live(Fs(), tmp_path, batches, Watch(), back=True)
    check_end(tmp_path)
    assert min(short_calls.values()) > 100


@pytest.fixture
def storm() -> Iterator[list[int]]:
    """A signal every 300 microseconds, which interrupts any call that waits."""
    seen: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        seen.append(number)

    before = signal.signal(signal.SIGALRM, note)
    signal.siginterrupt(signal.SIGALRM, True)
    signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
    try:
        yield seen
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
def test_calls_that_a_signal_interrupts_are_finished(tmp_path: Path, batches: list[Groups], storm: list[int]) -> None:
    live(Fs(), tmp_path, batches, Watch(), back=True)
    check_end(tmp_path)
    assert len(storm) > 50
