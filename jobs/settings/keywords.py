"""Keywords of calls that take many: declared once, as a ``TypedDict``, and checked as Python checks parameters.

Messages that commands and methods share name options of commands. A method names its keywords in their place.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar

from sparkhaven.store.argument_types import refuse_type
from sparkhaven.store.errors import SparkhavenError, meant

C = TypeVar("C", bound=type)
OTHERS = {"date": "dates", "all": "everything"}  # options that a keyword has another name for
_OPTION = re.compile(r"(`[^`]*`)|(?<![\w/'-])--([a-z][a-z-]*)")

Names = str | Iterable[str]


def refuse_keywords(call: str, given: Mapping[str, Any], known: type, *, types: bool = True) -> None:
    """TypeError for a keyword that is not declared, or a required one that is missing. SettingsError: a wrong type.

    ``known``: a ``TypedDict``; ``call`` names what is called. ``types``: whether values are looked at.
    """
    names: Mapping[str, Any] = known.__annotations__
    for name in given:
        if name not in names:
            hint = meant(name, names)
            raise TypeError(f"{call} got an unexpected keyword argument {name!r}" + (f": {hint}" if hint else ""))
        if types:
            refuse_type(call, name, given[name], getattr(names[name], "__forward_arg__", names[name]))
    required: frozenset[str] = getattr(known, "__required_keys__", frozenset())
    if missing := sorted(name for name in required if name not in given):
        raise TypeError(f"{call} is missing the keyword arguments {', '.join(missing)}")


def as_names(names: Names | None) -> tuple[str, ...] | None:
    """One name, or several, as a tuple; None: no choice."""
    return None if names is None else (names,) if isinstance(names, str) else tuple(names)


def keyword_calls(cls: C) -> C:
    """A class whose public methods name keywords, ``replace=``, where an error names the option of a command."""
    for name, member in list(vars(cls).items()):
        if inspect.isfunction(member) and name[0] != "_":
            setattr(cls, name, _naming_keywords(member))
    return cls


def by_keywords(text: str) -> str:
    """A text with keywords in place of options; commands, which are quoted, stay as they are."""
    return _OPTION.sub(lambda match: match[1] or f"{OTHERS.get(match[2], match[2].replace('-', '_'))}=", text)


def _naming_keywords(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except SparkhavenError as error:
            for part in ("what", "expected", "found", "hint"):
                text = getattr(error, part)
                setattr(error, part, None if text is None else by_keywords(text))
            error.args = (error.what,)
            raise

    return call
