"""Locks around a deployment: that of the schemas, and those of running streams, which write by the version before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sparkhaven.store.errors import LockLostError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import TablePlace

_TRIES, _PAUSE_S = 250, 0.02


@contextmanager
def locked_schemas(fs: Fs, layout: Layout, pause: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Holds the lock of the deployed schemas; LockLostError: another process has it for too long."""
    for _ in range(_TRIES):
        lock = fs.lock(layout.schemas())
        if lock is not None:
            with lock:
                yield
            return
        pause(_PAUSE_S)
    raise LockLostError(
        "another process holds the schema lock for too long",
        where=layout.schemas(),
        expected=f"the lock within {_TRIES * _PAUSE_S:.0f} s",
        hint="look for a stopped process that has the directory open, then try again",
    )


def running_streams(place: TablePlace) -> list[str]:
    """Streams of a table that a process has open now, sorted."""
    running = []
    for name in sorted(place.fs.names(place.streams)):
        stream, dot, suffix = name.rpartition(".")
        if dot and suffix == "lock":
            lock = place.fs.lock(place.of_stream(stream).stream_lock, make=False)
            if lock is None:
                running.append(stream)
            else:
                lock.release()
    return running
