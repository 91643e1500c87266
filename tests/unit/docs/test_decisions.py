"""A decision has what a reader of it needs, and the list has each one once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.places import REPOSITORY

DECISIONS = sorted((REPOSITORY / "docs" / "decisions").glob("0*.md"))
STANDING = r"(?:Accepted|Proposed|Replaced by \[\d{4}\]\(\S+\))"
STATUS = re.compile(rf"^\*\*Status\.\*\* {STANDING}, 20\d\d-\d\d-\d\d\.$", re.MULTILINE)
PARTS = ("Context", "Decision", "Alternatives", "Consequences")


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_has_all_parts(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# {page.name[:4]} ")
    assert len(STATUS.findall(text)) == 1
    assert [part for part in PARTS if text.count(f"**{part}.** ") != 1] == []


def test_the_list_names_each_once_by_its_title() -> None:
    listed = re.findall(r"^\* \[(\d{4})\]\((\S+)\) (.*)$", (DECISIONS[0].parent / "index.md").read_text(), re.MULTILINE)
    titles = [(page.name[:4], page.name, page.read_text().splitlines()[0].split(" ", 2)[2]) for page in DECISIONS]
    assert sorted(listed) == titles
