"""Stream files that pages show, whole or in part, are stream files."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.jobs.settings.stream_file import parse_stream, parse_tables
from sparkhaven.store.errors import SettingsError
from tests.support.docs.console import blocks
from tests.support.docs.pages import PAGES
from tests.support.places import REPOSITORY

WHOLE: dict[str, Any] = {
    "name": "s",
    "table": "NS.T",
    "schema": "NS.T.schema",
    "feed": {"type": "files", "path": "feed"},
    "partition": {"internal": {"fixed": "a"}, "value": {"column": "At"}},
}
ENVIRON = dict.fromkeys(("FLIGHTS_FEED", "KAFKA", "PASSWORD", "SCHEMAS"), "x")


def shown(page: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Each block in TOML, but the configuration of the DAGs; what a part leaves out is filled in.

    With the path that others in it start from: of a file of an example, where that lies.
    """
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language == "toml":
            read = tomllib.loads("\n".join(block.lines))
            if "calendars" not in read and not isinstance(read.get("tables"), dict):
                shipped = REPOSITORY.glob(f"examples/*/{block.file}") if block.file else iter(())
                lacking = {key: WHOLE[key] for key in ("name", "feed")} if "tables" in read else WHOLE
                yield next(shipped, page), {**lacking, **read}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_stream_files_of_a_page_are_accepted(page: Path) -> None:
    for path, raw in shown(page):
        parse_tables(raw, path, ENVIRON)


def test_there_are_stream_files_and_a_wrong_key_is_seen() -> None:
    assert sum(1 for page in PAGES for _ in shown(page)) > 8
    with pytest.raises(SettingsError):
        parse_stream({**WHOLE, "fed": {}}, Path("page"), ENVIRON)
