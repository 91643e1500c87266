"""The C library's heap, kept from one block of rows to the next.

What was freed is otherwise given back to the system, which hands it out again page by page, each filled with zeros:
8 to 10 % of the time of a task that decodes JSON.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

KEPT = 64 << 20  # bytes at the end of the heap that are free and not given back
LARGE = 32 << 20  # bytes from which on a piece of memory is not of the heap; the most that glibc takes
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


@lru_cache(maxsize=1)
def keep_heap() -> bool:
    """Has this process keep its heap; False where the C library is not glibc, and nothing changes."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    return bool(library.mallopt(_MMAP_THRESHOLD, LARGE) and library.mallopt(_TRIM_THRESHOLD, KEPT))
