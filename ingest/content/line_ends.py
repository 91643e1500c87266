"""Where the lines of a piece of a file begin and end."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sparkhaven.store.native.library import core

Ends = npt.NDArray[np.int32]
_LINE_FEED = 10
_STEP = 1 << 18  # bytes that stay in the processor's cache


def line_ends(data: bytes) -> Ends:
    """0, then the end of each line behind its line feed; the last line needs none. Less than 2 GiB."""
    native = core()
    if native is None:
        return plain_line_ends(data)
    octets = np.frombuffer(data, np.uint8)
    address, size = octets.ctypes.data, len(octets)
    count = native.sh_line_ends(address, size, None, 0)
    open_end = size > 0 and data[-1] != _LINE_FEED
    ends = np.empty(count + 1 + open_end, np.int32)
    ends[0] = 0
    native.sh_line_ends(address, size, ends.ctypes.data + ends.itemsize, count)
    if open_end:
        ends[-1] = size
    return ends


def plain_line_ends(data: bytes) -> Ends:
    """The same without the compiled core."""
    octets = np.frombuffer(data, np.uint8)
    parts: list[Ends] = [np.zeros(1, np.int32)]
    parts.extend(
        (np.flatnonzero(octets[start : start + _STEP] == _LINE_FEED) + (start + 1)).astype(np.int32)
        for start in range(0, len(octets), _STEP)
    )
    if len(data) and data[-1] != _LINE_FEED:
        parts.append(np.array([len(data)], np.int32))
    return np.concatenate(parts)
