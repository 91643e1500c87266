"""Environments and launchers in the user's cache: those that nobody needs go when another one is made."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sparkhaven.jobs.session.fast_start import KEPT_S, note_use, python_launcher
from sparkhaven.store.io.fs import Fs
from tools.environments import READY, remove_environments

FS = Fs()
NOW = time.time()


def environment(path: Path, *, days: float = 0, python: str = sys.executable, ready: bool = True) -> Path:
    (path / "bin").mkdir(parents=True)
    (path / "bin" / "python").symlink_to(python)
    if ready:
        (path / READY).touch()
        os.utime(path / READY, (NOW - days * 86_400, NOW - days * 86_400))
    return path


def test_environments_without_a_python_or_unused_for_a_month_go(tmp_path: Path) -> None:
    gone = environment(tmp_path / "airflow-gone", python="/no/such/python")
    old = environment(tmp_path / "airflow-old", days=31)
    kept = [
        environment(tmp_path / "airflow-used", days=29),
        environment(tmp_path / "airflow-half-made", ready=False),
        environment(tmp_path / "other-old", days=99),
        environment(tmp_path / "airflow-new", days=99),
    ]
    taken = environment(tmp_path / "airflow-taken", days=31)
    (tmp_path / "airflow-file").touch()
    lock = FS.lock(tmp_path / "airflow-taken.lock")
    assert lock is not None
    with lock:
        assert remove_environments(FS, tmp_path / "airflow-new", NOW) == [gone, old]
    assert [path for path in (gone, old) if path.exists()] == []
    assert [path for path in (*kept, taken) if not path.exists()] == []


@pytest.mark.slow
def test_the_command_of_make_says_what_it_removes(tmp_path: Path) -> None:
    old, new = environment(tmp_path / "airflow-old", days=31), environment(tmp_path / "airflow-new")
    line = [sys.executable, "-m", "tools.environments", str(new)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stdout == f"removed {old}: its Python is gone, or it was not used for a month\n"
    assert (old.exists(), new.exists()) == (False, True)


def test_a_use_is_noted_once_a_day(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    note_use(FS, mark, NOW)
    assert not mark.exists()
    mark.write_text("owner")
    for age, noted in ((3_600, False), (KEPT_S, True)):
        os.utime(mark, (NOW - age, NOW - age))
        note_use(FS, mark, NOW)
        assert (mark.stat().st_mtime >= NOW - 1, mark.read_text()) == (noted, "owner")


@pytest.mark.parametrize("changed", [False, True])
def test_launchers_of_a_python_that_is_gone_go_when_another_one_is_made(tmp_path: Path, changed: bool) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    cache = tmp_path / "sparkhaven"
    cache.mkdir()
    texts = {"gone": "exec '/no such/python' \"$@\"", "there": f'exec {sys.executable} "$@"', "odd": "#!/bin/sh"}
    for name, text in texts.items():
        (cache / f"python-{name}").write_text(f"#!/bin/sh\n{text}\n")
    (cache / "python-elsewhere").write_text((cache / "python-gone").read_text())  # of a machine with the same home
    (cache / "python-empty").touch()
    for name in ("gone", "there", "odd", "empty"):
        os.utime(cache / f"python-{name}", (NOW - KEPT_S - 60, NOW - KEPT_S - 60))
    launcher = python_launcher(FS, environ)
    assert launcher != sys.executable
    kept = {"python-elsewhere", "python-there", "python-odd", "python-empty", Path(launcher).name}
    assert {path.name for path in cache.iterdir()} == kept
    (cache / "python-gone").write_text(f"#!/bin/sh\n{texts['gone']}\n")
    if changed:
        Path(launcher).write_text("#!/bin/sh\n")
    assert python_launcher(FS, environ) == launcher
    assert (cache / "python-gone").exists()  # nothing new was made
