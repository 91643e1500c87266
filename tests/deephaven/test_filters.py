"""What the page of conditions says about filters of a Deephaven engine, asked of one."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.support.docs.where_table import VALUES, engine_filter, kept_values
from tests.support.places import REPOSITORY
from tests.support.served import PYTHON, require_engine

pytestmark = pytest.mark.deephaven
READER = REPOSITORY / "tests" / "deephaven" / "filter_reader.py"


def test_a_filter_of_an_engine_keeps_what_the_page_says() -> None:
    require_engine()
    said = {engine_filter(condition): kept for condition, kept in kept_values().items()}
    values = [None if value == "null" else value for value in VALUES]
    words = [str(PYTHON), "-P", str(READER), json.dumps(values), json.dumps(list(said))]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    kept = json.loads(done.stdout.splitlines()[-1])
    assert {text: [VALUES[row] for row in rows] for text, rows in kept.items()} == {
        text: engine for text, (_, engine) in said.items()
    }
