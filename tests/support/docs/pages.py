"""The pages that people read, and what is written in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tests.support.docs.console import blocks
from tests.support.places import REPOSITORY

PAGES = (
    *(REPOSITORY / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted(path for path in (REPOSITORY / "docs").rglob("*.md") if "_build" not in path.parts),
)
RUN_IN_ORDER = (  # one place for all: each page sees what those before it have left
    "README.md",
    "docs/howto/sql.md",
    "docs/howto/quarantine.md",
    "docs/howto/streams.md",
    "docs/howto/rollback.md",
    "docs/howto/merge.md",
    "docs/howto/volumes.md",
    "docs/howto/infer.md",
    "docs/tutorial/own-topic.md",
    "docs/tutorial/flights.md",
)
RUN_ALONE = tuple(
    f"docs/howto/{name}.md" for name in ("validate", "duplicates", "corrections", "late-rows", "snapshots", "compare")
)
"""Pages that begin in a copy of ``examples/trades``, and need no Spark."""
SHELL = ("console", "sh", "")
PROGRAM = "sparkhaven"
INLINE = re.compile(r"`(sparkhaven [^`]+)`")


def shown_commands(page: Path) -> Iterator[list[str]]:
    """The words of each call of the command line that a page shows, in a block or in a sentence."""
    text = page.read_text(encoding="utf-8")
    for block in blocks(text):
        if block.language in SHELL:
            for line in block.lines:
                yield from _calls(line.removeprefix("$ "))
    for found in INLINE.findall(text):
        yield from _calls(found)


def _calls(line: str) -> Iterator[list[str]]:
    """Words after the name of the program, up to what the shell takes for itself."""
    if not line.startswith(f"{PROGRAM} "):
        return
    words = shlex.split(line, comments=True)[1:]
    end = next((place for place, word in enumerate(words) if word[0] in "|>&;"), len(words))
    yield words[:end]
