"""Links between pages lead to files and headings that are there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.support.docs.pages import PAGES
from tests.support.places import REPOSITORY

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.*?)\s*$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def test_there_are_pages_with_links() -> None:
    assert sum(len(LINK.findall(page.read_text(encoding="utf-8"))) for page in PAGES) > 100


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    broken = [link for link in LINK.findall(text) if "://" not in link and not leads(page, link)]
    assert broken == []


def leads(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    return target.exists() and (not anchor or anchor in anchors(target))


@cache
def anchors(page: Path) -> frozenset[str]:
    """Headings as links name them: lower case, blanks as dashes, no punctuation."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    return frozenset(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in HEADING.findall(text))


def test_the_first_page_leads_to_the_how_to_index_and_that_to_every_how_to_page() -> None:
    docs = REPOSITORY / "docs"
    assert "(howto/index.md)" in (docs / "index.md").read_text(encoding="utf-8")
    text = (docs / "howto" / "index.md").read_text(encoding="utf-8")
    pages = {path.stem for path in (docs / "howto").glob("*.md")} - {"index"}
    assert {stem for stem in pages if f"({stem}.md)" not in text} == set()
