"""The page ``docs/evidence/histories.md``: what campaigns have run, and when past faults were seen."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.crash.results_page import renewed, written_by
from tests.support.places import REPOSITORY

PAGE = REPOSITORY / "docs" / "evidence" / "histories.md"
RUN, COUNTS, FAULTS = "Histories that were run", "What they did, asked and drew", "Past faults, put back"
INTRODUCTION = """# Random histories

A history draws tables, feeds and commands, and compares every reader with a model in plain Python after each command.
`python -m tests.crash.histories.campaign --help` says what is drawn. This page has what was run, and no more.
"""
Row = Sequence[str]


def write_section(name: str, command: str, said: str, header: Row, rows: Sequence[Row], end: str = "") -> None:
    """Writes one section of the page anew; the other stays."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    lines = [f"## {name}", "", f"{said} {written_by(command)}", "", *map(_line, (header, ["---"] * len(header), *rows))]
    text = "\n".join([*lines, *(["", end] if end else [])]) + "\n"
    PAGE.write_text(renewed(page, {name: text}, [RUN, COUNTS, FAULTS], INTRODUCTION), encoding="utf-8")


def rows_of(name: str) -> dict[str, list[str]]:
    """The rows of a section by their first cell, as the page has them."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    section = next((part for part in re.split(r"^## ", page, flags=re.M) if part.startswith(name)), "")
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in section.splitlines() if line.startswith("| ")][2:]
    return {row[0].strip(): [cell.strip() for cell in row] for row in cells}


def _line(cells: Row) -> str:
    return f"| {' | '.join(cells)} |"
