"""Names of the environment in a settings file: filled in after the TOML is parsed, and put back into messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

SHORT = 3  # characters of a value below which it is only hidden as a whole text
_NAME = re.compile(r"\$\$\{|\$\{([^}]*)\}")  # the first is no name
_NAME_FORM = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def fill_environment(node: Any, environ: Mapping[str, str]) -> Any:
    """The same tree with ``${NAME}`` in text values replaced; ``$${`` stands for ``${``. Keys stay as they are.

    A name that is not set, or that is no name, is a KeyError with that name.
    """
    if isinstance(node, str):
        return _NAME.sub(lambda match: _filled(match, environ), node)
    if isinstance(node, dict):
        return {key: fill_environment(child, environ) for key, child in node.items()}
    if isinstance(node, list):
        return [fill_environment(child, environ) for child in node]
    return node


def named_in(node: Any) -> set[str]:
    """The names of the environment that text values of a tree take."""
    if isinstance(node, str):
        return {match[1] for match in _NAME.finditer(node) if match[1] is not None}
    if isinstance(node, dict):
        return set().union(*map(named_in, node.values()))
    return set().union(*map(named_in, node)) if isinstance(node, list) else set()


def as_written(text: str | None, environ: Mapping[str, str], names: set[str]) -> str | None:
    """A message with ``${NAME}`` in place of the value of that name."""
    for name in sorted(names, key=lambda name: -len(environ.get(name, ""))):
        value = environ.get(name, "")
        if text is not None and value and (text == value or len(value) >= SHORT):
            text = text.replace(value, f"${{{name}}}")
    return text


def _filled(match: re.Match[str], environ: Mapping[str, str]) -> str:
    name = match[1]
    if name is None:
        return "${"
    if not _NAME_FORM.match(name):
        raise KeyError(name)
    return environ[name]
