"""Making what a batch has written durable, before anybody may count on it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from store.errors import CommitError, phase_of
from store.io.fs import Fs, SyncGuard


def make_durable(fs: Fs, guard: SyncGuard, files: Iterable[Path], directories: Iterable[Path]) -> None:
    """Step 4: content first, then the names of what is new; many at once, or one ``syncfs`` (``store.io.fs`` decides).

    A sync that fails is a CommitError and is not tried again: the pages may be gone, only writing again helps.
    """
    try:
        with fs.during("sync-files"):
            guard.sync(files)
        with fs.during("sync-dirs"):
            guard.sync((), directories)
    except OSError as error:
        raise CommitError(
            f"what was written could not be synced: {error.strerror or error}",
            where=error.filename,
            hint="make room or mend the disk, then start the stream again; nothing of this batch was committed",
            phase=phase_of(error),
        ) from error
