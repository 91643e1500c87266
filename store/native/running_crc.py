"""CRC-32 of many bytes, by the compiled core where that is quicker."""

from __future__ import annotations

import zlib

import numpy as np

from sparkhaven.store.native.checked_columns import crc32_each

LEAST = 1 << 16  # bytes; for fewer, to load the core takes longer


def running_crc32(data: bytes | memoryview, before: int = 0) -> int:
    """As ``zlib.crc32``: of ``data``, behind bytes whose CRC-32 is ``before``."""
    if len(data) < LEAST:
        return zlib.crc32(data, before)
    return crc32_each(np.frombuffer(data, np.uint8), [len(data)], [before])[0]
