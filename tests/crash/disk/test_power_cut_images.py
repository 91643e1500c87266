"""A few power cuts on real file systems; ``make power-cut`` does hundreds. Skipped where nothing can be mounted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.disk.images import missing
from tests.support.examples import share_of
from tests.support.places import REPOSITORY

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=f"no power cuts on real file systems: {missing()}"),
]


def cut(tmp_path: Path, *options: str, program: str = "power_cuts") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"tests.crash.disk.{program}", *options],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        check=False,
        timeout=240,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )


@pytest.mark.parametrize(("kind", "modes"), [("ext4", ["fsync", "periodic"]), ("xfs", ["fsync"])])
def test_what_a_mode_promises_survives(tmp_path: Path, kind: str, modes: list[str]) -> None:
    rounds = share_of(3, 1)
    done = cut(tmp_path, "--rounds", f"{rounds}", "--kinds", kind, "--modes", *modes)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"rounds={rounds}") == len(modes)
    assert "acknowledged=0" not in done.stdout
    assert str(tmp_path) not in Path("/proc/mounts").read_text(encoding="utf-8")


@pytest.mark.parametrize("sabotage", ["file", "log"])
def test_a_sync_that_is_left_out_is_found(tmp_path: Path, sabotage: str) -> None:
    done = cut(tmp_path, "--rounds", "6", "--kinds", "xfs", "--modes", "fsync", "--sabotage", sabotage)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Tally(" in done.stdout


def test_rejected_rows_survive_as_their_epochs_do(tmp_path: Path) -> None:
    rounds = share_of(4, 1)
    done = cut(tmp_path, "--rounds", f"{rounds}", "--kinds", "ext4", program="quarantine_cuts")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"rounds={rounds}" in done.stdout and "acknowledged=0" not in done.stdout
    done = cut(tmp_path, "--rounds", "6", "--kinds", "ext4", "--sabotage", program="quarantine_cuts")
    assert done.returncode == 1, done.stdout + done.stderr
