"""Fields inside objects: ``a.b`` is field ``b`` of the object in field ``a``, at any depth; a dot in a name is ``\\.``.

A null, or a missing object, makes all that is in it null; any other value in its place is a bad row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ingest.values.refusals import Refusal

Path = tuple[str, ...]

_DOT = re.compile(r"(?<!\\)\.")


def path_of(source: str) -> Path:
    """The names on the way to a field."""
    return tuple(name.replace("\\.", ".") for name in _DOT.split(source))


def value_at(record: dict[str, Any], path: Path) -> Any:
    """The value at a path, None where there is none; a Refusal where something else stands in an object's place."""
    value: Any = record
    for depth, name in enumerate(path):
        if value is None:
            return None
        if not isinstance(value, dict):
            return Refusal(f"no object ({'.'.join(path[:depth])})", "an object or null")
        value = value.get(name)
    return value


def unknown_names(record: dict[str, Any], paths: Sequence[Path], prefix: Path = ()) -> list[str]:
    """Dotted names of the fields that no path leads to, inside the objects that paths lead through."""
    heads = {path[0] for path in paths}
    found = [".".join((*prefix, name)) for name in record if name not in heads]
    for head in sorted(heads):
        deeper = [path[1:] for path in paths if path[0] == head and len(path) > 1]
        inner = record.get(head)
        if deeper and isinstance(inner, dict):
            found += unknown_names(inner, deeper, (*prefix, head))
    return found
