"""Pages name modules and files that exist, and ARCHITECTURE.md the modules that know Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.docs.pages import PAGES
from tests.support.places import REPOSITORY

PLACES = "store|ingest|writers|readers|jobs|sparkhaven|tests|benchmarks|docs|conf"
NAMED = re.compile(rf"`((?:{PLACES})/[\w/.-]+)`")
LISTED = re.compile(r"`([\w/]+)` \(((?:`\w+`[,\s]*)+)\)")
"""A package, and those of its modules that are meant."""
IMPORTS = re.compile(r"^\s*(?:from|import) pyspark\b", re.MULTILINE)


def missing(names: Iterable[str]) -> list[str]:
    """Those that are neither a file, a directory, nor a module."""
    return [name for name in names if not any((REPOSITORY / f"{name}{end}").exists() for end in ("", ".py"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_files_that_a_page_names_are_there(page: Path) -> None:
    assert missing(NAMED.findall(page.read_text(encoding="utf-8"))) == []


def test_pages_name_files() -> None:
    assert sum(len(NAMED.findall(page.read_text(encoding="utf-8"))) for page in PAGES) > 50


def test_the_modules_that_know_spark_are_named() -> None:
    text = (REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = text.partition("What knows Spark:")[2].partition("Everything else")[0]
    named = set(NAMED.findall(section))
    for package, names in LISTED.findall(section):
        named |= {f"{package}/{name}" for name in re.findall(r"`(\w+)`", names)}
    knowing = {
        str(path.relative_to(REPOSITORY).with_suffix(""))
        for package in ("store", "ingest", "writers", "readers")
        for path in (REPOSITORY / package).rglob("*.py")
        if IMPORTS.search(path.read_text(encoding="utf-8"))
    }
    assert len(knowing) > 5
    assert sorted(knowing - named) == []
    assert missing(sorted(named)) == []
