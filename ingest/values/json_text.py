"""The JSON text of a value that was parsed exactly: compact, with the digits of numbers as they were written."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any


def json_text(value: Any) -> str:
    """The text of what ``strict_object`` makes of a value; fields keep their order, numbers their digits."""
    parts: list[str] = []
    _write(value, parts)
    return "".join(parts)


def _write(value: Any, parts: list[str]) -> None:
    if isinstance(value, dict):
        parts.append("{")
        for place, (name, inner) in enumerate(value.items()):
            parts.append(f"{',' if place else ''}{json.dumps(name, ensure_ascii=False)}:")
            _write(inner, parts)
        parts.append("}")
    elif isinstance(value, list):
        parts.append("[")
        for place, inner in enumerate(value):
            if place:
                parts.append(",")
            _write(inner, parts)
        parts.append("]")
    else:
        parts.append(str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False, default=str))
