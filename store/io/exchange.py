"""Swaps two directory entries in one step, by Linux's ``renameat2``."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_UNKNOWN = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)  # the kernel, or the file system, has no such call


def exchanged(one: Path, other: Path) -> bool:
    """Whether the two names now lead to each other's file; False where the system cannot. OSError: it refused."""
    rename = getattr(_LIBC, "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), ctypes.c_uint(_RENAME_EXCHANGE)) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNKNOWN:
        return False
    raise OSError(code, os.strerror(code), str(one), None, str(other))
