"""When a writer of many files syncs them: each by itself, each beside the writing, or all of them at the end."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Literal, get_args

from sparkhaven.store.io.sync import Durability

SyncMode = Literal["final", "immediate", "concurrent"]
SYNC_MODES: tuple[SyncMode, ...] = get_args(SyncMode)
THREADS = 2  # that sync while others write
WRITEBACK_BYTES = 1 << 20  # smaller files are written faster together, by the sync


class EarlySync:
    """Syncs written files ahead of the sync at the end, which its caller does in any case.

    ``immediate``: the thread that has written a file syncs it. ``concurrent``: other threads do, and the end of the
    block waits for them. ``final``: none of them is synced, but the kernel is asked to begin with the larger ones.
    """

    def __init__(self, fs: Durability, mode: SyncMode, *, writeback_bytes: int = WRITEBACK_BYTES) -> None:
        self._fs, self._mode, self._least = fs, mode, writeback_bytes
        self._pool: ThreadPoolExecutor | None = None
        self._syncs: list[Future[None]] = []

    def written(self, path: Path, size: int) -> None:
        """So many bytes of a file are written. OSError: the sync of this thread failed."""
        if self._mode == "immediate":
            self._fs.sync([path])
        elif self._mode == "concurrent":
            if self._pool is None:
                self._pool = ThreadPoolExecutor(THREADS)
            self._syncs.append(self._pool.submit(self._fs.sync, [path]))
        elif size >= self._least:
            self._fs.start_writeback(path)

    def __enter__(self) -> EarlySync:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Waits for the other threads. OSError: one of their syncs failed, unless the block has failed already."""
        if self._pool is None:
            return
        self._pool.shutdown(wait=True, cancel_futures=kind is not None)
        for sync in self._syncs if kind is None else ():
            sync.result()
