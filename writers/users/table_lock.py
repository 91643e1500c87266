"""The lock of a user table: ``.<Table>-LOCKFILE`` by ``fcntl``, held through the whole of a save."""

from __future__ import annotations

import time
from collections.abc import Callable

from sparkhaven.store.errors import LockLostError
from sparkhaven.store.io.fs import Lock
from sparkhaven.store.places import TablePlace

PAUSE_S = 0.01


def lock_user_table(
    place: TablePlace,
    wait_s: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Lock:
    """Takes the lock, and waits ``wait_s`` seconds for it; the file is made where there is none.

    LockLostError: another process held it all the time.
    """
    fs, path = place.fs, place.user_lock
    fs.keep_dirs(path.parent, place.layout.root)
    if fs.create(path):
        fs.sync_dirs([path.parent])
    until = clock() + wait_s
    while (lock := fs.record_lock(path)) is None:
        if clock() >= until:
            raise LockLostError(
                "another process is saving the user table",
                where=path,
                expected=f"free within {wait_s:g} seconds",
                found="still locked",
                hint="wait until it ends. `fuser` on the file names the process",
            )
        pause(PAUSE_S)
    return lock
