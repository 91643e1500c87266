"""A bounded sample of the fuzzing of every parser: mutated inputs are read or refused, soon and in little memory.

``make fuzz-parsers`` tries many more, guided by coverage.
"""

from __future__ import annotations

import random
import time
import tracemalloc

import pytest

from tests.support.fuzzing.parsers import parsers, try_one
from tests.support.fuzzing.run import SECONDS

INPUTS = 150
ODD = [b"", b"\xff" * 8, bytes(8), b"\x7f\xff\xff\xff"]
MOST = 10  # bytes of memory for a byte of input
FREE = 1 << 20  # beside it: caches, classes, the error


def mutated(rng: random.Random, seed: bytes, other: bytes) -> bytes:
    """An input with some bytes changed, cut, repeated, or of another input."""
    data = bytearray(seed)
    for _ in range(rng.choice([1, 1, 2, 5])):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0 if place < len(data):
                data[place] ^= 1 << rng.randrange(8)
            case 1:
                data[place : place + rng.randrange(1, 9)] = rng.choice(ODD)
            case 2:
                del data[place:]
            case 3:
                data[place:place] = data[place : place + 40]
            case _:
                start = rng.randrange(len(other) + 1)
                data[place:] = other[start:]
    return bytes(data)


@pytest.mark.parametrize("name", parsers())
def test_seeds_are_accepted(name: str) -> None:
    seeds = parsers()[name].seeds
    assert seeds
    assert all(try_one(name, seed) for seed in seeds)


@pytest.mark.slow
@pytest.mark.parametrize("name", parsers())
def test_mutated_inputs_are_read_or_refused(name: str) -> None:
    rng, seeds = random.Random(name), parsers()[name].seeds
    refused = 0
    for seed in seeds:  # imports and tables take memory once
        try_one(name, seed)
    for number in range(INPUTS):
        data = mutated(rng, rng.choice(seeds), rng.choice(seeds))
        measured = number % 10 == 0
        if measured:
            tracemalloc.start()
        begun = time.thread_time()
        try:
            refused += not try_one(name, data)
            assert time.thread_time() - begun < SECONDS * (5 if measured else 1), data.hex()
            if measured:
                assert tracemalloc.get_traced_memory()[1] < MOST * len(data) + FREE, data.hex()
        finally:
            tracemalloc.stop()
    assert refused > INPUTS // 20 or name == "frames"  # which end at the first that is not sound
