"""Every change of a schema at every moment, with a night after it: ``python -m tests.crash.results "schema changes"``.

``--full`` tells each cell, with a night into column files or Parquet in turns, and for each change kills the commands
of one more night before the changes of the disk that they make. Without it each change meets one moment.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.crash.results_page import Line
from tests.support.schemas.changes import CHANGES
from tests.support.schemas.moments import FORMS, MOMENTS, tell

KILL_EVERY = 3  # changes of the disk between the kills of a command; each kill finds the tree that the one before left


SHOWN = (("add", "deleted", "deephaven"), ("symbols to texts", "unstarted", "parquet"))  # each has shown a defect


def sampled() -> list[tuple[str, str, str]]:
    """``SHOWN``; each change that is possible, and every third other one, at one moment: moments and forms in turns."""
    moments, refused = [*MOMENTS], [name for name, change in CHANGES.items() if not change.effective]
    chosen = [name for name in CHANGES if name not in refused or refused.index(name) % 3 == 0]
    return [*SHOWN, *((change, moments[n % len(moments)], FORMS[n % len(FORMS)]) for n, change in enumerate(chosen))]


def changed_schemas(base: Path, *, every: bool) -> Iterator[Line]:
    """A line for each moment, and one for the killed nights of each change."""
    whole = [(change, moment) for moment in MOMENTS for change in CHANGES]
    cells = [(*cell, FORMS[(n + n // len(CHANGES)) % 2]) for n, cell in enumerate(whole)] if every else sampled()
    lines: dict[str, Line] = {}
    for change, moment, form in cells:
        line = lines.setdefault(moment, Line(f"change of schema, {moment}", _FAULTS.get(moment, "none"), "fsync"))
        line.try_(partial(_told, base, change, moment, form))
    killed = Line("night after a change of schema", f"SIGKILL before each {KILL_EVERY}rd change of the disk", "fsync")
    kills: list[int] = []
    for number, change in enumerate([*CHANGES] if every else [*CHANGES][:2]):
        form, moment = FORMS[number % len(FORMS)], ("between", "merged")[number % 2]
        killed.try_(lambda c=change, m=moment, f=form: kills.append(_told(base, c, m, f, KILL_EVERY)))
    killed.remark = f"{sum(kills)} kills"
    yield from lines.values()
    yield killed


_FAULTS = {"killed": "SIGKILL at each step of each deployment and start"}


def _told(base: Path, change: str, moment: str, form: str, kill_every: int = 0) -> int:
    cell = base / "cell"
    cell.mkdir()
    try:
        return tell(cell, change, moment, form, kill_every=kill_every)
    except AssertionError as error:
        raise AssertionError(f"{error} ({change}, {moment}, {form})") from error
    finally:
        shutil.rmtree(cell)
