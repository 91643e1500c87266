"""Scratch directories of batches; the file ``OPEN`` in one is the fencing token of its task attempts.

The driver makes the directory when a batch begins, removes the file when it has every task's report, and the directory
when the batch ends. Spark may still run an attempt whose report it discards; that attempt checks the file under the
lock of a location before it changes anything there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from sparkhaven.store.errors import CommitError, LockLostError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.places import StreamPlace
from sparkhaven.writers.append.append import writing
from sparkhaven.writers.task.target import StreamTarget

OPEN = "open"
_RUNS = count()


def scratch_name(target: StreamTarget, batch_id: int) -> str:
    """A unique name for the scratch directory of one run of a batch; attempts of another run never use it."""
    return f"{target.generation}-{batch_id}-{next(_RUNS)}"


def make_scratch(fs: Fs, scratch: Path) -> None:
    """Makes a scratch directory in which tasks may write."""
    fs.mkdirs(scratch)
    fs.write_new(scratch / OPEN, b"")


def close_scratch(fs: Fs, scratch: Path) -> None:
    """Fences off the tasks: from now on only the driver writes."""
    with writing(scratch, "scratch"):
        fs.unlink(scratch / OPEN)


def check_open(fs: Fs, scratch: Path, attempt: str) -> None:
    """LockLostError if the tasks of this batch are fenced off; called under the lock of a location."""
    if fs.stat(scratch / OPEN) is None:
        raise LockLostError(
            "another attempt has finished this task",
            where=attempt,
            expected=scratch / OPEN,
            found="no such file",
            hint="nothing to do. Another attempt wrote the same rows, or the batch is retried",
        )


def remove_scratch(fs: Fs, scratch: Path) -> None:
    """Removes a scratch directory, or a parent of several; atomic for an attempt that still runs."""
    ended = scratch.with_name(f".{scratch.name}")
    fs.remove_tree(ended)
    if fs.stat(scratch) is not None:
        fs.rename(scratch, ended)
        fs.remove_tree(ended)


def remove_stale_scratch(place: StreamPlace) -> None:
    """Removes what batches of a process that was killed have left. The caller has the lock of the stream."""
    remove_scratch(place.fs, place.scratch)


@contextmanager
def running(fs: Fs, scratch: Path) -> Iterator[None]:
    begin_scratch(fs, scratch)
    with ending(fs, scratch):
        yield


def begin_scratch(fs: Fs, scratch: Path) -> None:
    with writing(scratch, "scratch"):
        remove_scratch(fs, scratch)
        make_scratch(fs, scratch)


@contextmanager
def ending(fs: Fs, scratch: Path) -> Iterator[None]:
    """Removes the scratch directory of a batch at the end of the body, which commits the batch."""
    try:
        yield
    except Exception:
        with suppress(OSError):  # the first error counts
            remove_scratch(fs, scratch)
        raise
    try:
        remove_scratch(fs, scratch)
    except OSError as error:
        raise CommitError(
            f"the batch is committed, but its scratch directory cannot be removed: {error.strerror or error}",
            where=scratch,
            hint="free space or repair the disk, then restart. No row is lost or doubled",
            phase="scratch",
        ) from error
