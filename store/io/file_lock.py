"""An advisory lock that a process holds on a file or directory: of the open file, not of its name."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType


class Lock:
    """An exclusive advisory lock on an open file or directory; released by ``release``, the end of a ``with``, or
    process death.
    """

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptors = [descriptor]
        self.path = path

    @property
    def held(self) -> bool:
        return bool(self._descriptors)

    @property
    def inode(self) -> int:
        """The locked inode; the name may lead to another one if the file was replaced."""
        return os.fstat(self._descriptors[-1]).st_ino

    def add(self, other: Lock) -> None:
        """Holds ``other`` too, as the newest; both are released together. ``other`` holds nothing from then on."""
        self._descriptors += other._descriptors
        other._descriptors = []

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Releases the lock; idempotent."""
        while self._descriptors:
            os.close(self._descriptors.pop())
