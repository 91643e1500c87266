"""Translates errors of the operating system: permissions, space, limits, devices."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sparkhaven.store.errors import NotPermittedError, RetryableStorageError, SparkhavenError, StorageError, phase_of

_HINTS = {
    errno.ENOSPC: "free space on the disk, then run it again. Committed data stays, the rest is repeated",
    errno.EDQUOT: "raise the quota, then run it again. Committed data stays, the rest is repeated",
    errno.EMFILE: "raise the limit of open files (ulimit -n), then run it again",
    errno.EACCES: "check owner and permissions",
    errno.EPERM: "check owner and permissions",
    errno.EROFS: "the file system is mounted read-only",
}
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


def as_ours(error: SparkhavenError | OSError) -> SparkhavenError:
    """A sparkhaven error unchanged; an OSError as a StorageError with file, hint and exit code."""
    if isinstance(error, SparkhavenError):
        return error
    number = error.errno or 0
    kind = NotPermittedError if number in _FORBIDDEN else RetryableStorageError if number in _HINTS else StorageError
    return kind(error.strerror or str(error), where=error.filename, hint=_HINTS.get(number), phase=phase_of(error))


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
