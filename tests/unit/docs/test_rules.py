"""Rules that the code cites are on the page of rules."""

from __future__ import annotations

import re

import pytest

from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.epochs.state.offsets import Offsets
from sparkhaven.store.epochs.state.resume_rules import PAGE, ResumeRule
from sparkhaven.store.errors import PositionGapError
from sparkhaven.store.schema.findings import VIOLATIONS
from tests.support.places import REPOSITORY
from tools.docs.tables import resume_rule_table, schema_code_table

PACKAGES = ("store", "ingest", "readers", "writers", "jobs")
CODE = re.compile(r"(?<![\w.#])[EW]1\d\d\b|(?<=[(\s])R[1-9](?=[),;:\s])")


def test_each_code_that_is_cited_is_on_the_page() -> None:
    page = schema_code_table() + resume_rule_table()
    assert (REPOSITORY / PAGE).is_file()
    assert page.count("\n") == len(VIOLATIONS) + len(ResumeRule) + 4
    listed = {*VIOLATIONS, *ResumeRule}
    cited = {
        code: path
        for package in PACKAGES
        for path in (REPOSITORY / package).rglob("*.py")
        for code in CODE.findall(path.read_text())
    }
    assert {"E161", "R3"} <= set(cited)
    assert {code: path for code, path in cited.items() if code not in listed} == {}


def a_range(start: int, stop: int, **parts: str) -> OffsetRange:
    return OffsetRange("t", 0, start, stop, **parts)


@pytest.mark.parametrize(
    ("again", "rule"),
    [
        (a_range(0, 5, digest="b"), ResumeRule.CHANGED),
        (a_range(6, 9), ResumeRule.GAP),
        (a_range(0, 5, topic_id="other"), ResumeRule.GAP),
    ],
)
def test_an_error_cites_its_rule_and_the_page(again: OffsetRange, rule: ResumeRule) -> None:
    offsets = Offsets()
    offsets.take([a_range(0, 5, digest="a", topic_id="first")])
    with pytest.raises(PositionGapError) as caught:
        offsets.classify([again])
    assert f"  rule: {rule}, see {PAGE}\n" in str(caught.value)
