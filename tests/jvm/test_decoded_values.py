"""Values of codecs, sound and damaged, by the decoders of the Spark reader in Java: as Python's readers take them.

``python -m tests.support.spark.decoded_values`` tries more.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from java.build import JAR, build
from tests.support.spark.decoded_values import by_python, cases, differences

pytestmark = pytest.mark.jvm


def test_java_gives_the_same_value_or_refuses_as_python_does(tmp_path: Path) -> None:
    build(JAR)
    tried = list(cases(40, seed=3))
    verdicts = Counter(text.partition(":")[0] for case in tried for text in by_python(case))
    assert verdicts["damaged"] > 200 and verdicts["refused"] and len(verdicts) > 400
    assert differences(tried, tmp_path) == []
