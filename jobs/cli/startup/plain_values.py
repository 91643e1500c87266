"""Values of the command line that need no pydantic, whose import takes a sixth of the time of a short command.

Typer makes a pydantic adapter for each parameter of a command. Texts, small numbers, paths and switches, as the
shell gives them, become the same values without one. Everything else, and every value that is wrong, goes to Typer's
adapter.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin

from typer import core

from sparkhaven.store.io.local_path import local_path

BUILD = "build_runtime_param"  # what Typer calls for a parameter that has a value
_FORMS = {int: re.compile(r"[0-9]{1,9}\Z"), float: re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?\Z")}
_SWITCHES = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
_NOT_PLAIN = object()


def plain_values() -> None:
    """Lets commands read plain values without an adapter; idempotent. Another Typer goes on as it does."""
    build = vars(core).get(BUILD)
    if build is not None and not isinstance(build, _Builder):
        vars(core)[BUILD] = _Builder(build)


class _Builder:
    """What Typer calls for a parameter when it has its first value."""

    def __init__(self, build: Callable[[Any], Any]) -> None:
        self._build = build

    def __call__(self, descriptor: Any) -> _Value:
        return _Value(descriptor, self._build)


class _Value:
    """Reads the values of one parameter."""

    def __init__(self, descriptor: Any, build: Callable[[Any], Any]) -> None:
        self._descriptor, self._build = descriptor, build

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        plain = _plain(self._descriptor.annotation, self._descriptor.parameter_info, value)
        if plain is not _NOT_PLAIN and isinstance(plain, list) == several:
            return plain
        return self._build(self._descriptor).coerce(value, param=param, ctx=ctx)


def _plain(annotation: Any, info: Any, value: Any) -> Any:
    """The value as Typer would read it, or ``_NOT_PLAIN``."""
    if get_origin(annotation) is list and isinstance(value, list | tuple):
        elements = [_plain(get_args(annotation)[0], info, element) for element in value]
        return _NOT_PLAIN if any(element is _NOT_PLAIN for element in elements) else elements
    if info.parser is not None:
        return local_path(value) if info.parser is local_path and type(value) is str else _NOT_PLAIN
    if annotation is str and type(value) is str:
        return value
    if annotation is bool and type(value) is str and value in _SWITCHES:  # of a variable of the environment
        return _SWITCHES[value]
    if annotation in _FORMS and _number(value, annotation) and _within(annotation(value), info):
        return annotation(value)
    if annotation is Path and type(value) is str and _any_path(info) and _readable(value):
        return Path(value)
    return _NOT_PLAIN


def _number(value: object, kind: type) -> bool:
    return type(value) is kind or (type(value) is str and _FORMS[kind].match(value) is not None)


def _within(number: float, info: Any) -> bool:
    return (info.min is None or number >= info.min) and (info.max is None or number <= info.max)


def _any_path(info: Any) -> bool:
    checked = info.exists or info.writable or info.resolve_path or info.allow_dash or info.path_type is not None
    return bool(info.file_okay and info.dir_okay and not checked)


def _readable(path: str) -> bool:
    return not os.path.lexists(path) or os.access(path, os.R_OK)
