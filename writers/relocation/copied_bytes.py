"""Progress of copies: the bytes of each date, reported after each GiB."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

TELL_EACH = 1 << 30  # bytes


class CopiedBytes:
    """Counts what was copied of each date; dates may be copied by threads."""

    def __init__(self, on_progress: Callable[[str], object]) -> None:
        self._on_progress, self._lock = on_progress, Lock()
        self._copied: dict[str, int] = {}

    def count(self, value: str, copied: int) -> None:
        """So many more bytes of a date."""
        with self._lock:
            before = self._copied.get(value, 0)
            self._copied[value] = before + copied
            if (before + copied) // TELL_EACH > before // TELL_EACH:
                self._on_progress(f"{value}: {before + copied:,} bytes copied")
