"""What a machine lacks is named and installed, and a run that skips tests fails where it is told to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SKIPS
from tests.support.machine import PACKAGES, commands, missing

REPOSITORY = Path(__file__).parents[2]


def test_one_program_of_a_package_is_enough() -> None:
    assert missing(lambda name: name) == []
    assert missing(lambda name: None) == list(PACKAGES)
    assert missing(lambda name: None if name in {"chromium", "gcc"} else name) == []
    assert missing(lambda name: None if name in {"xfs_io", "losetup"} else name) == ["xfsprogs", "mount"]


def test_packages_are_installed_by_whoever_may() -> None:
    assert commands(["strace"], root=True, which=lambda name: name)[1][-1] == "strace"
    assert commands(["strace"], root=False, which=lambda name: name)[0][:2] == ["sudo", "--non-interactive"]
    assert commands(["strace"], root=False, which=lambda name: None if name == "sudo" else name) == []
    assert commands(["strace"], root=True, which=lambda name: None) == []


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "policy", "code"), [("0", "fail", 1), ("1", "fail", 1), ("0", "", 0)])
def test_a_skipped_test_fails_a_run_that_may_skip_nothing(tmp_path: Path, workers: str, policy: str, code: int) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_sessionfinish\n")
    (tmp_path / "test_it.py").write_text("import pytest\ndef test_it():\n    pytest.skip('no such machine')\n")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            workers,
            "-c",
            os.devnull,
            "--rootdir",
            str(tmp_path),
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, SKIPS: policy, "PYTHONPATH": str(REPOSITORY)},
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "1 skipped" in done.stdout


@pytest.mark.slow
def test_set_up_starts_no_jvm_for_a_class_archive(tmp_path: Path) -> None:
    """It took five minutes of a slow machine. Whoever wants the archive calls the command that set-up names."""
    words = ["make", "--dry-run", "--no-print-directory", "setup", f"VENV={tmp_path / 'venv'}"]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert any("pip install" in line for line in lines)
    assert [line for line in lines if "class-archive" in line and not line.startswith("echo ")] == []
    assert [line for line in lines if "class-archive" in line] != []
