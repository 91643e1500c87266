"""Decoders that a stream keeps from one small batch to the next: making one takes longer than decoding few rows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

SMALL_BYTES, SMALL_ROWS = 1 << 18, 2_000  # of a split; what a decoder holds grows with what it has read
MOST = 8  # of a thread

Made = TypeVar("Made")


class DecoderCache(Generic[Made]):
    """What was made of some parts, for the same parts in the same thread.

    Parts are frozen, and compared by identity: comparing settings and schemas takes longer than making the decoder.
    """

    def __init__(self, make: Callable[..., Made]) -> None:
        self._make, self._of_thread = make, threading.local()

    def of(self, *parts: object, small: bool) -> Made:
        """The decoder of these parts; a new one where the split is not ``small``. Raises what making it raises."""
        if not small:
            return self._make(*parts)
        kept: dict[tuple[int, ...], tuple[tuple[object, ...], Made]] = self._of_thread.__dict__.setdefault("kept", {})
        key = tuple(map(id, parts))  # the parts are held, so that their numbers stay theirs
        if key not in kept:
            while len(kept) >= MOST:
                del kept[next(iter(kept))]
            kept[key] = parts, self._make(*parts)
        return kept[key][1]
