"""Suggests the known name closest to an unknown one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MANY = 500  # with more names no suggestion is made: a hostile schema must not cost minutes


def meant(name: str, choices: Iterable[str]) -> str | None:
    """A hint when ``name`` is one of ``choices`` apart from case or a typo, else None."""
    known = list(choices)
    if len(known) > MANY:
        return None
    for choice in known:
        if choice.lower() == name.lower():
            return f"names and values are case-sensitive: write {choice}"
    near = get_close_matches(name, known, 1, 0.75)
    return f"did you mean {near[0]}?" if near else None
