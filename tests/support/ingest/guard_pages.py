"""Bytes with a page behind them that cannot be read, so that a process ends that reads too far."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


@contextmanager
def guarded(data: bytes) -> Iterator[memoryview]:
    """The bytes in memory of their own, with a page behind them that cannot be read."""
    size = mmap.PAGESIZE * (len(data) // mmap.PAGESIZE + 2)
    area = mmap.mmap(-1, size)
    start = size - mmap.PAGESIZE - len(data)
    area[start : start + len(data)] = data
    address = np.frombuffer(area, np.uint8).ctypes.data
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert (
        protect(address + size - mmap.PAGESIZE, mmap.PAGESIZE, mmap.PROT_NONE if hasattr(mmap, "PROT_NONE") else 0) == 0
    )
    try:
        yield memoryview(area)[start : start + len(data)]
    finally:
        protect(address + size - mmap.PAGESIZE, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE)
