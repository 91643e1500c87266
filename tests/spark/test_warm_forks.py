"""Processes of Spark's Python that tests fork: each is as if it were started, and ends with who handed it on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.spark import warm_forks

pytestmark = pytest.mark.spark

HAND_ON = [sys.executable, "-I", "-S", str(Path(warm_forks.__file__).with_name("hand_on.py"))]
TELLS = "import os, sys\nprint(sys.argv[1:], os.environ['WORD'], os.getcwd(), 'pandas' in sys.modules)\nsys.exit(7)\n"
WAITS = "import os, sys, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n"


def test_words_environment_directory_and_exit_code_are_handed_on(tmp_path: Path) -> None:
    warm_forks.start_forks()
    (tmp_path / "tells.py").write_text(TELLS, encoding="utf-8")
    environ = {**os.environ, "WORD": "é"}
    done = subprocess.run([*HAND_ON, "tells", "a b"], cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, f"['a b'] é {tmp_path} True\n"), done.stderr


def test_it_ends_with_the_process_that_handed_it_on(tmp_path: Path) -> None:
    warm_forks.start_forks()
    (tmp_path / "waits.py").write_text(WAITS, encoding="utf-8")
    with subprocess.Popen([*HAND_ON, "waits"], cwd=tmp_path, stdout=subprocess.PIPE) as handing:
        assert handing.stdout is not None
        number = int(handing.stdout.readline())
        assert Path(f"/proc/{number}").exists()
        handing.kill()
    end = time.monotonic() + 60
    while Path(f"/proc/{number}").exists():
        assert time.monotonic() < end, "it has gone on"
        time.sleep(0.02)
