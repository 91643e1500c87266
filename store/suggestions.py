"""Suggests the known names closest to an unknown one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
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


def near(wanted: str, names: Collection[str]) -> str:
    """Names close to a wanted one for a message; else the first and last of what there is."""
    close = get_close_matches(wanted, sorted(names), n=5, cutoff=0.5)
    if close:
        return "one of " + ", ".join(close)
    ordered = sorted(names)
    if len(ordered) > 6:
        return f"one of {len(ordered)}: {', '.join(ordered[:3])} ... {', '.join(ordered[-3:])}"
    return "one of " + ", ".join(ordered) if ordered else "no name: there are none yet"
