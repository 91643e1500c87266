"""Where the lines of a piece of a file begin and end."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sparkhaven.store.native.library import core

Ends = npt.NDArray[np.int32]
_LINE_FEED = 10
_SAMPLE = 1 << 16  # bytes whose lines tell how much room all lines are likely to need
_SHORT = 16  # bytes: room for lines that are shorter is made once they are counted


def line_ends(data: bytes) -> Ends:
    """0, then the end of each line behind its line feed; the last line needs none. Less than 2 GiB."""
    native = core()
    octets = np.frombuffer(data, np.uint8)
    address, size = octets.ctypes.data, len(octets)
    sample = min(size, _SAMPLE)
    of_sample = native.sh_line_ends(address, sample, None, 0)
    room = min(of_sample * (size + sample) // max(sample, 1), of_sample + size // _SHORT)
    while True:
        ends = np.empty(room + 2, np.int32)
        count = native.sh_line_ends(address, size, ends.ctypes.data + ends.itemsize, room)
        if count <= room:
            break
        room = count
    ends[0] = 0
    if size > 0 and data[-1] != _LINE_FEED:
        count += 1
        ends[count] = size
    return ends[: count + 1]
