"""Which test files a run without some marks need not import."""

from __future__ import annotations

import pytest

from tests.support.marks import leaves_out

ONE = "import pytest\n\npytestmark = pytest.mark.spark\n\n\ndef test_a() -> None: ...\n"
MANY = "pytestmark = [\n    pytest.mark.kafka,\n    pytest.mark.jvm,\n]\nX = pytest.mark.slow\n"
SOME = "@pytest.mark.spark\ndef test_a() -> None: ...\n\n\ndef test_b() -> None: ...\n"


@pytest.mark.parametrize(
    ("expression", "text", "expected"),
    [
        ("not spark", ONE, True),
        ("not slow and not spark", ONE, True),
        ("not jvm", ONE, False),
        ("spark", ONE, False),
        ("not spark or slow", ONE, False),
        ("not (spark and slow)", ONE, False),
        ("", ONE, False),
        ("not jvm and not slow", MANY, True),
        ("not kafka", MANY, True),
        ("not slow", MANY, False),
        ("not spark", SOME, False),
    ],
)
def test_a_file_is_left_out_where_none_of_its_tests_can_be_taken(expression: str, text: str, expected: bool) -> None:
    assert leaves_out(expression, text) == expected
