"""Commands that pages show exist, with the options that they are shown with."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.support.docs.pages import PAGES, shown_commands
from tests.support.places import REPOSITORY
from tools.docs.commands import commands

OF_ALL = {"--root", "--version", "--help"}


@cache
def known() -> dict[str, set[str]]:
    """Options of each command."""
    found = {}
    for words, command in commands():
        shown = [one for one in command.params if not getattr(one, "hidden", False)]
        options = {name for one in shown for name in (*one.opts, *one.secondary_opts) if name.startswith("-")}
        found[words.removeprefix("sparkhaven ")] = options | OF_ALL
    return found


def faults(words: list[str]) -> list[str]:
    """What is wrong with a call, as sentences."""
    rest = list(words)
    if rest[0] == "--root":
        rest = rest[2:]
    if rest[0] in OF_ALL or "COMMAND" in rest:
        return []
    name = next((" ".join(rest[:count]) for count in (2, 1) if " ".join(rest[:count]) in known()), None)
    if name is None:
        groups = {one.partition(" ")[0] for one in known()}
        return [] if rest[0] in groups and len(rest) == 1 else [f"no command {' '.join(rest[:2])}"]
    options = {word.partition("=")[0] for word in rest if word.startswith("-") and word != "-"}
    return [f"{name} has no option {option}" for option in sorted(options - known()[name])]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_commands_of_a_page_exist(page: Path) -> None:
    assert [fault for words in shown_commands(page) for fault in faults(words)] == []


def test_wrong_calls_are_seen() -> None:
    assert faults(["merge", "NS.T", "--closd"]) == ["merge has no option --closd"]
    assert faults(["epoch", "list"]) == ["no command epoch list"]
    assert sum(len(list(shown_commands(page))) for page in PAGES) > 50
    assert len(known()) > 15
