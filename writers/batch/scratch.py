"""Scratch directories of batches. Which exist, and hold the file ``OPEN``, says which attempts of tasks may write.

The driver makes the directory when a batch begins, removes the file when it has every task's report, and the directory
when the batch has ended. Spark may go on running an attempt whose report it does not want; that attempt looks for the
file under the lock of a location before it changes anything there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from store.errors import CommitError, LockLostError
from store.io.fs import Fs
from writers.append.append import writing
from writers.target import StreamTarget

OPEN = "open"
_RUNS = count()


def scratch_name(target: StreamTarget, batch_id: int) -> str:
    """Names the scratch directory of one run of a batch; no other run has the same, so an attempt that outlives its own
    never meets the next one's.
    """
    return f"{target.generation}-{batch_id}-{next(_RUNS)}"


def make_scratch(fs: Fs, scratch: Path) -> None:
    """Makes a scratch directory in which tasks may write."""
    fs.mkdirs(scratch)
    fs.write_new(scratch / OPEN, b"")


def close_scratch(fs: Fs, scratch: Path) -> None:
    """Ends the writing of tasks: from now on only the driver does."""
    with writing(scratch, "scratch"):
        fs.unlink(scratch / OPEN)


def check_open(fs: Fs, scratch: Path, attempt: str) -> None:
    """LockLostError if tasks of this batch must not write any more; called under the lock of a location."""
    if fs.stat(scratch / OPEN) is None:
        raise LockLostError(
            "the batch of this task has all its reports; this attempt must not write any more",
            where=attempt,
            expected=scratch / OPEN,
            found="no such file",
            hint="nothing to do: another attempt has written the same rows, or the batch is tried again",
        )


def remove_scratch(fs: Fs, scratch: Path) -> None:
    """Removes a scratch directory, or several in one; in one step for an attempt that still runs."""
    ended = scratch.with_name(f".{scratch.name}")
    fs.remove_tree(ended)
    if fs.stat(scratch) is not None:
        fs.rename(scratch, ended)
        fs.remove_tree(ended)


@contextmanager
def running(fs: Fs, scratch: Path) -> Iterator[None]:
    """The scratch directory of a batch, which says to its tasks that they may write: gone at once when it has ended."""

    with writing(scratch, "scratch"):
        remove_scratch(fs, scratch)
        make_scratch(fs, scratch)
    try:
        yield
    except Exception:
        with suppress(OSError):  # what has failed before is what counts
            remove_scratch(fs, scratch)
        raise
    try:
        remove_scratch(fs, scratch)
    except OSError as error:
        raise CommitError(
            f"the batch is committed, but its scratch directory cannot be removed: {error.strerror or error}",
            where=scratch,
            hint="make room or mend the disk, then start again; nothing is lost or doubled",
            phase="scratch",
        ) from error
