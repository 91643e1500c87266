"""Arrays in memory of their own, with a page behind them that ends the process when it is touched."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

_NONE, _ALL = 0, mmap.PROT_READ | mmap.PROT_WRITE


@contextmanager
def guarded(array: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """A copy of the array that ends where the page begins."""
    size = mmap.PAGESIZE * (array.nbytes // mmap.PAGESIZE + 2)
    area = mmap.mmap(-1, size)
    start = size - mmap.PAGESIZE - array.nbytes
    area[start : start + array.nbytes] = array.tobytes()
    octets = np.frombuffer(area, np.uint8)
    guard = octets.ctypes.data + size - mmap.PAGESIZE
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert protect(guard, mmap.PAGESIZE, _NONE) == 0
    try:
        yield octets[start : start + array.nbytes].view(array.dtype)
    finally:
        protect(guard, mmap.PAGESIZE, _ALL)
