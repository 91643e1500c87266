"""Bytes at offsets as a stream, as Arrow reads files."""

from __future__ import annotations

import io
from typing import Any


class Seekable(io.RawIOBase):
    """A stream of ``size`` bytes that ``read_at`` gives; position and end are kept here."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self._offset = size, 0

    def read_at(self, offset: int, size: int) -> bytes:
        """So many bytes, one at least and none of them behind the end."""
        raise io.UnsupportedOperation("read_at")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._offset

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._offset, io.SEEK_END: self.size}[whence]
        self._offset = max(base + offset, 0)
        return self._offset

    def read(self, size: int = -1) -> bytes:
        """The next ``size`` bytes, fewer only at the end."""
        left = max(self.size - self._offset, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        data = self.read_at(self._offset, wanted) if wanted else b""
        self._offset += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
