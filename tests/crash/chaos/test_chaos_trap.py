"""The trap of the chaos campaign is sprung once, at the place that it names, by the process that gets there."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

from tests.crash.chaos.job import TrapFs
from tests.crash.kills.kill_steps import in_child


def _appends(fs: TrapFs, path: Path) -> None:
    with fs.during("append"):
        fs.write_at(path, 0, b"0123456789")


def test_a_step_kills_who_reaches_it_and_nobody_after(tmp_path: Path) -> None:
    fs = TrapFs(tmp_path / "trap")
    for place, left in {"append:before": None, "half-append": 5, "append:after": 10}.items():
        (tmp_path / "trap").write_text(place)
        path = tmp_path / f"{place}.dat"
        assert in_child(partial(_appends, fs, path)) == -signal.SIGKILL
        assert (path.stat().st_size if path.exists() else None) == left
        _appends(fs, path)
        assert path.read_bytes() == b"0123456789"
    assert not (tmp_path / "trap").exists()


def test_half_a_record_is_of_the_log_alone(tmp_path: Path) -> None:
    fs = TrapFs(tmp_path / "trap")
    (tmp_path / "trap").write_text("half-record")
    _appends(fs, tmp_path / "Id.dat")
    assert in_child(lambda: _appends(fs, tmp_path / "ticks.log")) == -signal.SIGKILL
    assert (tmp_path / "ticks.log").stat().st_size == 5
