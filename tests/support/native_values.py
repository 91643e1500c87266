"""Values for tests of the compiled core, and every way that it has for a processor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from sparkhaven.store.native.library import core

NULLS: dict[str, float] = {"i1": -128, "i2": -(2**15), "i4": -(2**31), "i8": -(2**63), "u2": 0xFFFF}
NULLS |= {"f4": -3.4028234663852886e38, "f8": -1.7976931348623157e308}
LANES = (64, 32, 16, 0)  # bytes that a processor takes at once


def fixed_values(kind: str, size: int) -> np.ndarray[Any, Any]:
    """Numbers from 0 to 99, with nulls, NaN and infinity."""
    chance = np.random.default_rng(size)
    values = chance.integers(0, 100, size).astype(kind)
    values[chance.random(size) < 0.3] = NULLS[kind]
    if kind[0] == "f":
        values[chance.random(size) < 0.2] = math.nan
        values[chance.random(size) < 0.1] = math.inf
    return values


@contextmanager
def limited(lane: int) -> Iterator[None]:
    """As if the processor took no more than so many bytes at once."""
    library = core()
    assert library is not None
    library.sh_limit(lane)
    try:
        yield
    finally:
        library.sh_limit(max(LANES))
