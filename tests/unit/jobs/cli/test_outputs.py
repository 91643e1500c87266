"""Outputs that end early, are closed or take nothing end no command with a wrong exit code."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.places import REPOSITORY


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_is_no_error(unbuffered: str) -> None:
    line = ["bash", "-o", "pipefail", "-c", f"{sys.executable} -m sparkhaven --help | true"]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(line, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(("output", "code", "said"), [(">&-", 0, ""), (">/dev/full", 3, "No space left on device")])
def test_an_output_that_takes_nothing(unbuffered: str, output: str, code: int, said: str) -> None:
    line = ["bash", "-c", f"{sys.executable} -m sparkhaven --help {output}"]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(line, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[:1]) == (code, [f"sparkhaven: {said}"] if said else [])
    assert "Traceback" not in done.stderr and "ignored" not in done.stderr
