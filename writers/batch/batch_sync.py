"""Makes what a batch has written durable."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sparkhaven.store.errors import CommitError, phase_of
from sparkhaven.store.io.fs import Fs, SyncGuard


def make_durable(fs: Fs, guard: SyncGuard, files: Iterable[Path], directories: Iterable[Path]) -> None:
    """Step 4: file content, then directory entries; in parallel, or by one ``syncfs`` (``store.io.sync`` decides).

    CommitError: a sync failed. It is not retried, because the kernel may have dropped the pages.
    """
    try:
        with fs.during("sync-files"):
            guard.sync(files)
        with fs.during("sync-dirs"):
            guard.sync((), directories)
    except OSError as error:
        raise CommitError(
            f"written files cannot be synced: {error.strerror or error}",
            where=error.filename,
            hint="free space or repair the disk, then restart the stream. Nothing of this batch was committed",
            phase=phase_of(error),
        ) from error
