"""Translates errors of the operating system: permissions, space, limits, devices."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sparkhaven.store.errors import NotPermittedError, RetryableStorageError, SparkhavenError, StorageError, phase_of

MEMORY = "give the machine more memory or processes, use fewer --workers or less --memory, then run it again"
_HINTS = {
    errno.ENOSPC: "free space on the disk, then run it again. Committed data stays, the rest is repeated",
    errno.EDQUOT: "raise the quota, then run it again. Committed data stays, the rest is repeated",
    errno.EMFILE: "raise the limit of open files (ulimit -n), then run it again",
    errno.ENFILE: "close other programs, or raise fs.file-max, then run it again",
    errno.ENOMEM: MEMORY,
    errno.EAGAIN: MEMORY,
    errno.EACCES: "check owner and permissions",
    errno.EPERM: "check owner and permissions",
    errno.EROFS: "the file system is mounted read-only",
}
NO_THREAD = "can't start new thread"  # what Python says where the memory or the limit of processes is reached
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


def ours(error: BaseException) -> SparkhavenError | None:
    """The error of the tree that an exception is: one of ours, of the system, of memory. None: it is unexpected."""
    if isinstance(error, SparkhavenError):
        return error
    if isinstance(error, OSError):
        hint = _HINTS.get(error.errno or 0)
        kind = NotPermittedError if error.errno in _FORBIDDEN else RetryableStorageError if hint else StorageError
        return kind(error.strerror or str(error), where=error.filename, hint=hint, phase=phase_of(error))
    if isinstance(error, MemoryError):
        return RetryableStorageError("out of memory", found=str(error) or None, hint=MEMORY)
    if isinstance(error, RuntimeError) and str(error) == NO_THREAD:
        return RetryableStorageError("the system starts no further thread", found=NO_THREAD, hint=MEMORY)
    return None


def as_ours(error: BaseException) -> SparkhavenError:
    """An exception as an error of the tree; of an unexpected one an error with its class and text."""
    return ours(error) or SparkhavenError(f"{type(error).__name__}: {error}")


@contextmanager
def as_storage_errors() -> Iterator[None]:
    """Turns an OSError of the body into a StorageError."""
    try:
        yield
    except OSError as error:
        raise as_ours(error) from error


@contextmanager
def in_phase(name: str) -> Iterator[None]:
    """Adds the phase to a disk error, or to the sparkhaven error that it caused; the innermost phase stays."""
    try:
        yield
    except OSError as error:
        error.__dict__.setdefault("phase", name.removeprefix("merge-"))
        raise
    except SparkhavenError as error:
        if isinstance(error.__cause__, OSError) and error.extra.get("phase") is None:
            error.extra["phase"] = phase_of(error.__cause__) or name.removeprefix("merge-")
        raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Adds the path to an OSError of the body that has none, as errors of calls on open files do."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
