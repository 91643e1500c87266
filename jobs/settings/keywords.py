"""Keywords of calls that take many: declared once, as a ``TypedDict``, and checked as Python checks parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sparkhaven.store.errors import meant

Names = str | Iterable[str]


def refuse_keywords(call: str, given: Mapping[str, Any], known: type) -> None:
    """TypeError for a keyword that is not declared, or a required one that is missing.

    ``known``: a ``TypedDict``; ``call`` names what is called.
    """
    names: Mapping[str, Any] = known.__annotations__
    for name in given:
        if name not in names:
            hint = meant(name, names)
            raise TypeError(f"{call} got an unexpected keyword argument {name!r}" + (f": {hint}" if hint else ""))
    required: frozenset[str] = getattr(known, "__required_keys__", frozenset())
    if missing := sorted(name for name in required if name not in given):
        raise TypeError(f"{call} is missing the keyword arguments {', '.join(missing)}")


def as_names(names: Names | None) -> tuple[str, ...] | None:
    """One name, or several, as a tuple; None: no choice."""
    return None if names is None else (names,) if isinstance(names, str) else tuple(names)
