"""Values of codecs, sound and damaged, by the decoders of the Spark reader in Java: as Python's readers take them.

``python -m tests.support.spark.decoded_values`` tries more.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from java.build import JAR, build
from tests.support.spark.decoded_values import by_python, cases, differences
from tests.support.spark.java_rows import run_java

pytestmark = pytest.mark.jvm


def test_java_gives_the_same_value_or_refuses_as_python_does(tmp_path: Path) -> None:
    build(JAR)
    tried = list(cases(40, seed=3))
    verdicts = Counter(text.partition(":")[0] for case in tried for text in by_python(case))
    assert verdicts["damaged"] > 200 and verdicts["refused"] and len(verdicts) > 400
    assert differences(tried, tmp_path) == []


def test_the_checksum_of_two_runs_of_bytes_is_that_of_both() -> None:
    rng = random.Random(9)
    runs = [
        (rng.randbytes(first), rng.randbytes(second)) for first, second in product((0, 1, 5000), (0, 1, 77, 1 << 16))
    ]
    words = [number for one, two in runs for number in (zlib.crc32(one), zlib.crc32(two), len(two))]
    assert run_java("crcs", *words) == [str(zlib.crc32(one + two)) for one, two in runs]
