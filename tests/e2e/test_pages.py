"""What README and the documentation show is what happens: their commands are run, their output is compared."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.docs.console import PROGRAM, Block, Session, blocks, matches, rewrite, steps
from tests.support.docs.pages import PAGES, RUN_ALONE, RUN_IN_ORDER
from tests.support.places import REPOSITORY
from tests.support.spark.forked_python import forked_program

ALL = "SPARKHAVEN_ALL_PAGES"  # `make pages` sets it; README alone takes a third of the time


def test_every_page_with_a_session_is_run() -> None:
    with_session = {
        str(page.relative_to(REPOSITORY))
        for page in PAGES
        if any(True for block in blocks(page.read_text(encoding="utf-8")) for _ in steps(block))
    }
    assert with_session == {*RUN_IN_ORDER, *RUN_ALONE}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN_ALONE)
def test_a_page_about_a_night_shows_what_happens(name: str, tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "examples/trades", tmp_path / "trades")
    program = PROGRAM if os.environ.get(ALL) else forked_program()  # the pages in order run the real one
    differs = Session(tmp_path / "trades", program=program).follow(REPOSITORY / name)
    assert not differs, "\n".join(differs)


@pytest.mark.spark
def test_pages_show_what_happens(tmp_path: Path) -> None:
    session = Session(tmp_path / "scratch")
    chosen = RUN_IN_ORDER if os.environ.get(ALL) else RUN_IN_ORDER[:1]
    differs = [difference for name in chosen for difference in session.follow(REPOSITORY / name)]
    assert not differs, "\n".join(differs)


def test_output_that_differs_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo one; echo two\none\nthree\n$ false\n```\n", encoding="utf-8")
    first, second = Session(tmp_path / "scratch").follow(page)
    assert "page.md:2: $ echo one; echo two" in first and "page.md:5: $ false" in second


def test_what_varies_is_left_out(tmp_path: Path) -> None:
    assert matches(["a … c", "…", "z"], ["a b c", "1", "2", "z"])
    assert not matches(["a … c", "…", "z"], ["a b d", "z"]) and not matches([], ["z"]) and not matches(["z"], [])
    block = Block("console", ("$ export A=1", "$ echo $A", "1"), 1)
    session = Session(tmp_path / "scratch")
    assert [session.output(step) for step in steps(block)] == [[], ["1"]]


def test_a_page_is_rewritten_where_it_differs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo a 1 c; echo new\na … c\nold\n$ echo same\nsame\n```\n", encoding="utf-8")
    assert rewrite(Session(tmp_path / "scratch"), page) == 1
    shown = "```console\n$ echo a 1 c; echo new\na … c\nnew\n$ echo same\nsame\n```\n"
    assert page.read_text(encoding="utf-8") == shown
