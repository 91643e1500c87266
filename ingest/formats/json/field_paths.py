"""Fields inside objects: ``a.b`` is field ``b`` of the object in field ``a``, at any depth; a dot in a name is ``\\.``.

A null, or a missing object, makes all that is in it null; any other value in its place is a bad row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sparkhaven.ingest.values.typed_rows import Refusal
from sparkhaven.store.quarantine.rejected_rows import Reason

Path = tuple[str, ...]
Tree = dict[str, "Tree"]

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
            return Refusal(Reason.NO_OBJECT, "an object or null", ".".join(path[:depth]))
        value = value.get(name)
    return value


def is_there(record: Mapping[str, object], path: Path) -> bool:
    """Whether a record has a field at a path, be it null."""
    value: object = record
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True


def tree_of(paths: Sequence[Path]) -> Tree:
    """The wanted names, each with those inside its object."""
    tree: Tree = {}
    for path in paths:
        inner = tree
        for name in path:
            inner = inner.setdefault(name, {})
    return tree


def unknown_names(record: dict[str, Any], tree: Tree, prefix: str = "") -> list[str]:
    """Dotted names of the fields that no path leads to, inside the objects that paths lead through."""
    unknown = [prefix + name for name in record if name not in tree]
    for name, deeper in tree.items():
        if deeper and isinstance(inner := record.get(name), dict):
            unknown += unknown_names(inner, deeper, f"{prefix}{name}.")
    return unknown
