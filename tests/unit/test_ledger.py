"""The ledger of a quarantine: which epochs are dead, whatever the log went through."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.errors import CorruptFileError
from store.fs import Fs
from writers.ledger import Ledger, follow, read_ledger, write_ledger

FS = Fs()


@pytest.mark.parametrize(
    ("ledger", "epoch", "rollbacks", "dead", "newest"),
    [
        (Ledger(newest=3), 3, [], (), 3),
        (Ledger(newest=2), 5, [], (), 2),
        (Ledger(newest=4), 3, [], ((3, 4),), 3),  # parked, not committed
        (Ledger(newest=3), 4, [(4, 1)], ((1, 4),), 3),
        (Ledger(newest=3), 6, [(6, 3), (4, 1)], ((1, 4), (3, 6)), 3),
        (Ledger(newest=3, seen=4), 6, [(4, 1), (6, 3)], ((3, 6),), 3),
        (Ledger(newest=4), 4, [(4, 2)], ((2, 4),), 4),  # the number of a batch that failed went to a rollback
        (Ledger(newest=9), 4, [(4, 2)], ((2, 4), (4, 9)), 4),  # a log that lost its tail, unsynced
        (Ledger(newest=3, seen=2, dead=((0, 2),)), 3, [(2, 0)], ((0, 2),), 3),
    ],
)
def test_dead_epochs(
    ledger: Ledger, epoch: int, rollbacks: list[tuple[int, int]], dead: tuple[tuple[int, int], ...], newest: int
) -> None:
    found = follow(ledger, epoch, rollbacks)
    assert (found.dead, found.newest) == (dead, newest)
    assert follow(found, epoch, rollbacks) == found


def test_a_ledger_comes_back_as_it_was_and_damage_is_told(tmp_path: Path) -> None:
    path = tmp_path / "s.quarantine"
    assert read_ledger(FS, path) is None
    ledger = Ledger("/a place", "/streams/s.toml", 7, 3, ((1, 2), (4, 9)))
    write_ledger(FS, path, ledger)
    assert read_ledger(FS, path) == ledger
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CorruptFileError, match="ledger of a quarantine is damaged"):
        read_ledger(FS, path)
