"""Files that are open for reading."""

from __future__ import annotations

import os
from pathlib import Path

from store.errors import CorruptFileError


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


class Window(Opened):
    """The same through one buffer of ``room`` bytes, which stays in the processor's cache."""

    __slots__ = ("_buffer",)

    def __init__(self, path: Path, room: int) -> None:
        super().__init__(path)
        self._buffer = memoryview(bytearray(min(room, max(self.size, 1))))

    def view(self, offset: int, length: int) -> memoryview:
        """``length`` bytes from ``offset``, until the next call. CorruptFileError: the file ends before."""
        found, done = self._buffer[:length], 0
        while done < length:
            more = os.preadv(self._descriptor, [found[done:]], offset + done)
            if not more:
                raise shorter(self.path, offset + length, offset + done)
            done += more
        return found


def shorter(path: Path, expected: int, found: int) -> CorruptFileError:
    """The error for a file of ``found`` bytes that should have more."""
    return CorruptFileError(
        "file is shorter than its committed length",
        where=path,
        expected=f"{expected} bytes",
        found=f"{found} bytes",
        hint="run `sparkhaven verify --deep`, then restore the file or roll back",
    )
