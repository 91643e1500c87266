"""Checksums in the Spark reader in Java: of a file that grew, was cut and grew otherwise, or was changed."""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import pytest

from tests.support.spark.java_rows import run_java

pytestmark = pytest.mark.jvm

DAMAGED = "CorruptFileError: checksum does not match. Committed bytes have changed"


def test_a_file_is_compared_again_when_more_than_an_append_happened(tmp_path: Path) -> None:
    rng = random.Random(9)
    first, second, other = rng.randbytes(100_000), rng.randbytes(300_000), rng.randbytes(300_001)
    torn = second[:-1] + bytes([second[-1] ^ 1])
    steps = [  # the content of the file, what was committed, and what is found
        (first, first, "sound"),
        (first + second, first + second, "sound"),  # only the new bytes are read
        (first + second, first, "sound"),  # an older epoch
        (first + second + other, first + second + other, "sound"),
        (first[:50_000] + other, first[:50_000] + other, "sound"),  # a rollback, then other rows
        (first[:50_000] + other, first[:50_000], "sound"),
        (first + torn, first + second, DAMAGED),
        (first + second, first + second, "sound"),
        (first + second + torn, first + second + second, DAMAGED),
        (first + second + other, first + second + other, "sound"),  # the error is forgotten
    ]
    words: list[object] = []
    for number, (content, committed, _) in enumerate(steps):
        path = tmp_path / str(number)
        path.write_bytes(content)
        words += [path, len(committed), zlib.crc32(committed)]
    assert run_java("checks", tmp_path / "file", *words) == [found for *_, found in steps]
