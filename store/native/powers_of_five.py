"""Powers of five as the compiled scanners multiply by them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

LOWEST_POWER, HIGHEST_POWER = -342, 308
_EXACT_FROM = -27  # below, the inverse of a power of five has more than 64 bits that matter


@lru_cache(maxsize=1)
def powers_of_five() -> npt.NDArray[np.uint64]:
    """The first 128 bits of 5^q for q from -342 to 308, the upper half first; those of inverses are rounded up."""
    halves = []
    for power in range(LOWEST_POWER, HIGHEST_POWER + 1):
        five = 5 ** abs(power)
        if power >= 0:
            shift = 128 - five.bit_length()
            bits = five << shift if shift >= 0 else five >> -shift
        else:
            width = (five - 1).bit_length()
            bits = (1 << (width + 127 if power >= _EXACT_FROM else 2 * width + 128)) // five + 1
            bits >>= bits.bit_length() - 128
        halves += [bits >> 64, bits & (2**64 - 1)]
    return np.array(halves, np.uint64)
