"""Pages name modules and files that exist, and ARCHITECTURE.md the modules that know Spark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.docs.pages import PAGES
from tests.support.places import REPOSITORY

PLACES = "store|ingest|writers|readers|jobs|sparkhaven|tests|benchmarks|docs|conf"
NAMED = re.compile(rf"`((?:{PLACES})/[\w/.-]+)`")
IMPORTS = re.compile(r"^\s*(?:from|import) pyspark\b", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_files_that_a_page_names_are_there(page: Path) -> None:
    named = NAMED.findall(page.read_text(encoding="utf-8"))
    missing = [name for name in named if not any((REPOSITORY / f"{name}{end}").exists() for end in ("", ".py"))]
    assert missing == []


def test_pages_name_files() -> None:
    assert sum(len(NAMED.findall(page.read_text(encoding="utf-8"))) for page in PAGES) > 50


def test_the_modules_that_know_spark_are_named() -> None:
    text = (REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8")
    reported = text.partition("What knows Spark:")[2].partition("Everything else")[0]
    knowing = {
        path
        for package in ("store", "ingest", "writers", "readers")
        for path in (REPOSITORY / package).rglob("*.py")
        if IMPORTS.search(path.read_text(encoding="utf-8"))
    }
    assert knowing
    missing = [str(path.relative_to(REPOSITORY)) for path in knowing if not re.search(rf"\b{path.stem}\b", reported)]
    assert sorted(missing) == []
