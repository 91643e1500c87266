"""Writes the generated parts into the pages that hold them: ``python -m tools.docs.pages [--check]``.

A part stands between ``<!-- generated: NAME -->`` and ``<!-- end: NAME -->``, each on a line of its own. A measured
figure stands between ``<!-- figure: NAME -->`` and ``<!-- end -->`` within a line.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tools.docs import GENERATED
from tools.docs.figures import figure

ROOT = Path(__file__).resolve().parents[2]
PART = re.compile(
    r"^<!-- generated: (?P<name>\w+) -->\n(?P<text>.*?)^<!-- end: (?P=name) -->$", re.MULTILINE | re.DOTALL
)
FIGURE = re.compile(r"<!-- figure: (?P<name>[\w.]+) -->(?P<text>[^<\n]*)<!-- end -->")
BEGIN = re.compile(r"<!-- (?:generated|figure): ")


def pages(root: Path = ROOT) -> Iterator[Path]:
    """Pages that may hold generated parts."""
    yield root / "README.md"
    yield from sorted(path for path in (root / "docs").rglob("*.md") if "_build" not in path.parts)


def filled(text: str, parts: Mapping[str, Callable[[], str]] = GENERATED) -> str:
    """The text of a page with its parts as they are now.

    KeyError: a marker names nothing. ValueError: a marker has no end.
    """
    if len(BEGIN.findall(text)) != len(PART.findall(text)) + len(FIGURE.findall(text)):
        raise ValueError(
            "a marker without its end: <!-- generated: NAME --> needs <!-- end: NAME -->, a figure <!-- end -->"
        )
    text = PART.sub(lambda part: _part(part["name"], parts[part["name"]]()), text)
    return FIGURE.sub(lambda part: f"<!-- figure: {part['name']} -->{figure(part['name'])}<!-- end -->", text)


def _part(name: str, text: str) -> str:
    return f"<!-- generated: {name} -->\n\n{text.strip()}\n\n<!-- end: {name} -->"


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """0: every page has what the code says; 1: with ``--check``, a page is stale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, name stale pages")
    check = parser.parse_args(arguments).check
    stale = 0
    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        try:
            now = filled(text)
        except (KeyError, ValueError) as error:
            raise SystemExit(f"{page}: {error}") from error
        if now == text:
            continue
        stale += 1
        if check:
            print(f"{page.relative_to(root)}: generated parts are stale: make reference", file=sys.stderr)
        else:
            page.write_text(now, encoding="utf-8")
            print(page.relative_to(root))
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.exit(main())
