"""A table that is opened between the location index and the merge record of a killed change, which others then finish.

At that moment the date has its rows of before. So has the table, however long ago it was opened, or it says that they
are gone.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers import Snapshot, open_table
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store.errors import SnapshotMovedError
from sparkhaven.store.io.fs import Fs
from tests.crash.histories.apart import CHANGES as DISK_CHANGES
from tests.crash.kills.kill_steps import in_child
from tests.support.examples import some_of
from tests.support.readers.changed_history import CHANGES, NAME, Rows, done, filled, merged, rows_of, without_replaced

pytestmark = pytest.mark.slow
BEGIN, END = "merge-index:before", "merge-record:after"
ATTACH = ("dates", "attach", NAME, "{out}")


def prepared(tmp_path: Path, change: str) -> tuple[Path, list[str], Callable[[], None]]:
    """A root with a merged date, the words of the change, and what removes the files that it replaces."""
    root = tmp_path / "db"
    db = merged(root)
    words = filled(ATTACH if change == "attach" else CHANGES[change][0], tmp_path)
    if change == "attach":
        done(root, *filled(CHANGES["detach"][0], tmp_path))
    return root, words, partial(without_replaced, db)


def killed(root: Path, words: list[str], at: int) -> list[str]:
    """Runs a command in a child that dies before the ``at``-th change of the disk from ``BEGIN`` to ``END``; which.

    0: it lives, and all of them are told.
    """
    reading, writing = os.pipe()

    def work() -> None:
        counted, inside = 0, False

        def watched(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **keywords: Any) -> Any:
                nonlocal counted, inside
                inside = arguments[1] == BEGIN or (inside and arguments[1] != END) if name == "step" else inside
                counted += inside
                if inside and at in (0, counted):
                    os.write(writing, f"{name} {arguments[1]}\n".encode())
                if inside and counted == at:
                    os.kill(os.getpid(), signal.SIGKILL)
                return method(*arguments, **keywords)

            return call

        for name in DISK_CHANGES:  # commands make an ``Fs`` of their own
            setattr(Fs, name, watched(name, getattr(Fs, name)))
        done(root, *words)

    code = in_child(work)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        places = pipe.read().splitlines()
    assert code == (-signal.SIGKILL if at else 0)
    return places


def is_as_it_was(table: Snapshot, expected: Rows) -> bool:
    """Whether it has its rows; False: it says that they are gone."""
    try:
        found = rows_of(table)
    except SnapshotMovedError:
        return False
    assert found == expected
    return True


def opened_then_finished(tmp_path: Path, change: str, at: int) -> str:
    """Kills, opens, finishes and reads; where it was killed, an empty text where it was not."""
    root, words, clean = prepared(tmp_path, change)
    before = rows_of(open_table(root, NAME))
    places = killed(root, words, at)
    where = places[0] if at else ""
    table = open_table(root, NAME)
    shipped = pickle.dumps(pinned_of(table).detached())
    expected = rows_of(open_table(root, NAME))
    assert expected == before or where.startswith("rmdir") or not where
    assert in_child(lambda: done(root, *words)) == 0
    assert (rows_of(open_table(root, NAME)) != before) == (change == "attach" or CHANGES[change][1])
    for opened in (table, Snapshot(pickle.loads(shipped)), table):
        assert is_as_it_was(opened, expected)
    clean()
    for opened in (table, Snapshot(pickle.loads(shipped)), table):
        is_as_it_was(opened, expected)
    return where


@pytest.mark.parametrize("change", [*CHANGES, "attach"])
def test_a_table_opened_between_index_and_record_keeps_its_rows(tmp_path: Path, change: str) -> None:
    root, words, _ = prepared(tmp_path / "all", change)
    calls = [place.partition(" ")[0] for place in killed(root, words, 0)]
    assert len(calls) > 7 and calls[-1] == "rmdir"
    for at in [*some_of(range(1, len(calls) + 1)), 0]:
        where = opened_then_finished(tmp_path / str(at), change, at)
        assert where.partition(" ")[0] == (calls[at - 1] if at else "")
