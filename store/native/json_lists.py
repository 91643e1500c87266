"""JSON texts that are read as lists by the compiled core: where they lie, and the lists that become of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.native.buffers import address, bitmap

Octets = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class JsonLists:
    """Text i is ``octets`` from ``starts[i]`` to ``starts[i + 1]`` where ``wanted``; the core writes the rest.

    ``list_ends`` are 0 and the end of each list in all elements, ``doubt`` is 1 for a text that is none.
    """

    octets: Octets
    starts: npt.NDArray[np.int32]
    wanted: Octets
    list_ends: npt.NDArray[np.int32]
    doubt: Octets

    @staticmethod
    def of(tokens: pa.StringArray) -> JsonLists:
        """For each text one list."""
        count, (_, ends, data) = len(tokens), tokens.buffers()
        return JsonLists(
            np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8),
            np.frombuffer(ends, np.int32, count + 1, 4 * tokens.offset),
            np.asarray(tokens.is_valid()).view(np.uint8),
            np.empty(count + 1, np.int32),
            np.empty(count, np.uint8),
        )

    @property
    def size(self) -> int:
        """Bytes of all texts."""
        return int(self.starts[-1] - self.starts[0])

    @property
    def arguments(self) -> tuple[int, int, int, int]:
        """The texts, as functions of the core take them."""
        return address(self.octets), address(self.starts), address(self.wanted), len(self.wanted)

    def lists(self, elements: pa.Array, kind: pa.DataType | None = None) -> tuple[pa.Array, Mask | None]:
        """The lists, null where a text is null or in doubt; and which are in doubt, None: none is.

        ``kind`` is the type of the lists, if they are not plain ones.
        """
        bits, missing = bitmap(self.wanted & ~self.doubt)
        buffers = [bits, pa.py_buffer(self.list_ends)]
        kind = kind or pa.list_(elements.type)
        return pa.Array.from_buffers(kind, len(self.wanted), buffers, missing, children=[elements]), self._doubt()

    def blobs(self, octets: Octets) -> tuple[pa.BinaryArray, Mask | None]:
        """The same of lists of bytes as binary."""
        bits, missing = bitmap(self.wanted & ~self.doubt)
        buffers = [bits, pa.py_buffer(self.list_ends), pa.py_buffer(octets)]
        return pa.Array.from_buffers(pa.binary(), len(self.wanted), buffers, missing), self._doubt()

    def _doubt(self) -> Mask | None:
        return self.doubt.view(np.bool_) if self.doubt.any() else None
