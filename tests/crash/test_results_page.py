"""The page of results: a part that is run again renews its own section."""

from __future__ import annotations

from tests.crash import results
from tests.crash.results_page import Line, renewed, section
from tests.support.places import REPOSITORY

ORDER = ("first", "second")


def test_a_section_is_renewed_alone() -> None:
    lines = [Line("here", "kill", "fsync", 3, lost=1), Line("there", "kill", "default", 2, lost=9, ours=False)]
    text = section("second", "What", lines, "make it")
    assert text.endswith("\n3 rounds, 1 bad.\n")
    assert (lines[0].bad, lines[1].bad) == (True, False)
    page = renewed("", {"second": text}, ORDER)
    page = renewed(page, {"first": section("first", "Before", [], "make it", "Not possible.")}, ORDER)
    page = renewed(page, {"second": section("second", "Again", lines, "make it")}, ORDER)
    assert [line for line in page.splitlines() if line.startswith("## ")] == ["## first", "## second"]
    assert "Not possible." in page
    assert "What." not in page
    assert renewed(page, {}, ORDER) == page


def test_the_page_that_is_kept_has_the_parts_in_their_order() -> None:
    page = (REPOSITORY / "docs" / "evidence" / "crash-results.md").read_text(encoding="utf-8")
    assert renewed(page, {}, [*results.PARTS]) == page
