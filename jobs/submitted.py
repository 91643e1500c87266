"""Entries for spark-submit take the words of their command: here they become a call of the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from jobs.cli import app


def submit(command: str, words: Sequence[str] | None = None) -> None:
    """Runs ``sparkhaven [--root DIR] COMMAND ...`` with the words given; ``--root`` may stand anywhere among them."""
    app(arrange(command, list(sys.argv[1:] if words is None else words)), prog_name=f"jobs/{command}")


def arrange(command: str, words: list[str]) -> list[str]:
    """The words in the order of the command line: options of the whole, the command, the rest."""
    before: list[str] = []
    rest: list[str] = []
    given = iter(words)
    for word in given:
        if word == "--root":
            before += [word, *[next(given, "")]]
        elif word.startswith("--root="):
            before.append(word)
        else:
            rest.append(word)
    return [*before, command, *(rest[1:] if rest[:1] == [command] else rest)]
