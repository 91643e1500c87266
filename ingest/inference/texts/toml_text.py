"""Values of a stream file as TOML: what ``tomllib`` reads back as the same value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def toml_value(value: Any) -> str:
    """A value, tables inline. TypeError for what TOML has no form for."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + "".join(_character(c) for c in value) + '"'
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{toml_key(k)} = {toml_value(v)}' for k, v in value.items())} }}" if value else "{}"
    raise TypeError(f"no TOML value: {type(value).__name__}")


def toml_key(name: str) -> str:
    """A key, in quotes where it needs them."""
    return name if _BARE.match(name) else toml_value(name)


def literal(text: str) -> str:
    """A text in which ``${`` means itself, not a name of the environment."""
    return text.replace("${", "$${")


def _character(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    return character if character.isprintable() or ord(character) > 0x9F else f"\\u{ord(character):04X}"
