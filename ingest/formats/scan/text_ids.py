"""Ids of the texts of one column and block: a dictionary of the texts in the order in which they are first met.

The compiled scanners give them in the pass over the bytes, so that no later step looks at each text again. A column
with more texts than are worth a dictionary gets plain texts: its block from the scanner itself, those that follow
because it is not asked again.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.native.abi import ColumnLayout, SlotLayout

SLOT = np.dtype(SlotLayout)


@dataclass(frozen=True, slots=True)
class TextRoom:
    """How many texts a block may have to get ids: ``few``, or one for ``share`` lines; ``spare`` bytes follow them."""

    few: int = 256
    share: int = 8
    spare: int = 16  # so that short ones can be moved by one move of 16

    def most(self, lines: int) -> int:
        """How many texts a block of so many lines may have to get ids."""
        return max(self.few, lines // self.share)


ROOM = TextRoom()


@dataclass(slots=True)
class TextIds:
    """The buffers of one column; ``ids`` are new for each block, since Arrow arrays keep them."""

    ids: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    ends: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(1, np.int32))
    text: npt.NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    slots: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(0, SLOT))
    seed: int = field(default_factory=lambda: secrets.randbits(64))
    room: TextRoom = ROOM

    def prepare(self, layout: ColumnLayout, lines: int, size: int) -> None:
        """Room for so many lines of so many bytes in all, and no texts yet."""
        most = self.room.most(lines)
        slots = 1 << (2 * most).bit_length()
        if len(self.slots) < slots:
            self.slots = np.zeros(slots, SLOT)
            self.ends = np.zeros(slots, np.int32)
        else:
            self.slots[:slots] = 0
        if len(self.text) < size:
            self.text = np.empty(size, np.uint8)
        self.ids = np.empty(lines, np.int32)
        layout.ids, layout.slots, layout.slot_mask = self.ids.ctypes.data, self.slots.ctypes.data, slots - 1
        layout.text_ends, layout.text_bytes = self.ends.ctypes.data, self.text.ctypes.data
        layout.texts, layout.most, layout.seed = 0, most, self.seed

    def array(self, layout: ColumnLayout, rows: int, bitmap: pa.Buffer | None, missing: int) -> pa.DictionaryArray:
        """The first so many rows, of which ``missing`` are null."""
        count = layout.texts
        ends = self.ends[: count + 1].copy()
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(self.text[: ends[-1]].tobytes())]
        texts = pa.Array.from_buffers(pa.string(), count, buffers, 0)
        ids = pa.Array.from_buffers(pa.int32(), rows, [bitmap, pa.py_buffer(self.ids[:rows])], missing)
        return pa.DictionaryArray.from_arrays(ids, texts, safe=False)
