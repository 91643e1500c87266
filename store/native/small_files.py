"""Many small files read at once: by the compiled core, else one by one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.buffers import address
from sparkhaven.store.native.library import core

Octets = npt.NDArray[np.uint8]


def read_files(fs: Fs, paths: Sequence[str], head: bytes, sizes: Sequence[int], out: Octets) -> npt.NDArray[np.bool_]:
    """Of each file the bytes behind ``head``, as many as ``sizes`` says, one file's behind the other's in ``out``.

    Returns which files were read; others do not begin with ``head``, are shorter, or cannot be read, and what stands
    in their place is not theirs. ValueError: ``out`` is too small.
    """
    if len(sizes) != len(paths) or min(sizes, default=0) < 0 or sum(sizes) > len(out):
        raise ValueError(f"{sum(sizes)} bytes of {len(paths)} files do not fit into {len(out)}")
    library = core()
    if library is None:
        return plain_read_files(fs, paths, head, sizes, out)
    names, lengths = os.fsencode("".join(f"{path}\0" for path in paths)), np.array(sizes, np.int64)
    errors, scratch = np.empty(len(paths), np.int32), np.empty(len(head), np.uint8)
    begin = head, len(head), address(scratch), address(lengths), address(out), len(out), address(errors)
    fs.read_together(paths, lambda: library.sh_read_files(names, len(names), len(paths), *begin))
    read: npt.NDArray[np.bool_] = errors == 0
    return read


def plain_read_files(
    fs: Fs, paths: Sequence[str], head: bytes, sizes: Sequence[int], out: Octets
) -> npt.NDArray[np.bool_]:
    read = np.zeros(len(paths), np.bool_)
    for index, (path, size, stop) in enumerate(zip(paths, sizes, accumulate(sizes), strict=True)):
        try:
            data = fs.read_range(Path(path), 0, len(head) + size)
        except (CorruptFileError, OSError):  # whoever opens the file by itself says why
            continue
        read[index] = data.startswith(head)
        out[stop - size : stop] = np.frombuffer(data, np.uint8, size, len(head))
    return read
