"""Memory for one column that threads use again."""

from __future__ import annotations

from threading import local
from typing import Any

import numpy as np
import numpy.typing as npt


class ColumnRoom(local):
    """Memory for one column, which a thread uses again for its next one: the first touch of new memory takes long."""

    _held = np.empty(0, np.uint8)

    def empty(self, rows: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        size = rows * dtype.itemsize
        if len(self._held) < size:
            self._held = np.empty(size, np.uint8)
        return self._held[:size].view(dtype)
