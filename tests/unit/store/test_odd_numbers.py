"""Records in JSON with a number that no record has: a decoder reports damage, whatever the number stands for."""

from __future__ import annotations

import re

import pytest

from tests.support.fuzzing.parsers import parsers, try_one

IN_JSON = ("log-record", "removal", "merge-record", "validation", "history", "manifest", "footer")
NUMBER = re.compile(rb"(?<=[:,\[\s])-?[0-9]+(?=\s*[,}\]])")


@pytest.mark.parametrize("name", IN_JSON)
@pytest.mark.parametrize("odd", [b"1e999", b"-1e999", b"1" * 5000, b"null", b'"x"', b"[]", b"{}"])
def test_each_number_of_a_record_by_another(name: str, odd: bytes) -> None:
    """Accepted, or an error of ours: ``try_one`` lets any other error through."""
    tried = 0
    for seed in parsers()[name].seeds:
        for found in NUMBER.finditer(seed):
            try_one(name, seed[: found.start()] + odd + seed[found.end() :])
            tried += 1
    assert tried or name == "footer"
