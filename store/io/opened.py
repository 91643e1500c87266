"""A file that is open for reading."""

from __future__ import annotations

import os
from pathlib import Path


class Opened:
    """Bytes of one inode, even if another file is renamed over its name. Closed when it is garbage-collected.

    ``size`` is that of the file when it was opened.
    """

    __slots__ = ("_descriptor", "path", "size")

    def __init__(self, path: Path) -> None:
        self._descriptor = -1
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._descriptor).st_size

    def read(self, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``, fewer where the file ends before."""
        parts: list[bytes] = []
        while length > 0 and (part := os.pread(self._descriptor, length, offset)):
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
