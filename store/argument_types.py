"""Types of arguments at the public calls, checked by their annotations before anything else looks at them.

An annotation is a text here: alternatives with ``|``. One of a type that the table does not have is not checked, as are
the elements of what can be read once only. A text is no list of texts, and True is no number.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, wraps
from os import PathLike
from typing import Any, TypeVar

from sparkhaven.store.errors import SettingsError

SHOWN = 100  # characters of a value in a message
C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])


def _whole(value: object) -> bool:
    return hasattr(value, "__index__") and not _truth(value)


def _truth(value: object) -> bool:
    return type(value).__name__ in ("bool", "bool_")  # also that of NumPy


def _number(value: object) -> bool:
    return hasattr(value, "__float__") and not _truth(value)


def _texts(value: object) -> bool:
    if isinstance(value, Mapping | bytes) or not isinstance(value, Iterable):
        return False
    return not isinstance(value, Collection) or all(isinstance(name, str) for name in value)


def _names(value: object) -> bool:
    return isinstance(value, str) or _texts(value)


def _dict(value: object, of: Callable[[object], bool]) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) and of(value[name]) for name in value)


def _text(value: object) -> bool:
    return isinstance(value, str)


def _expression(value: object) -> bool:
    return isinstance(value, str) or callable(value)


TYPES: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "None": ("None", lambda value: value is None),
    "bool": ("True or False", lambda value: _truth(value) or (_whole(value) and value in (0, 1))),
    "int": ("a whole number", _whole),
    "float": ("a number", _number),
    "str": ("a text", _text),
    "bytes": ("bytes", lambda value: isinstance(value, bytes | bytearray | memoryview)),
    "Path": ("a path", lambda value: isinstance(value, PathLike)),
    "datetime": ("a datetime", lambda value: isinstance(value, datetime)),
    "Predicate": ("a parsed condition", lambda value: hasattr(value, "may_match")),
    "Tier": ("a text", _text),
    "Names": ("a text, or several", _names),
    "Iterable[str]": ("several texts", _texts),
    "Sequence[str]": ("several texts", lambda value: _texts(value) and not isinstance(value, str)),
    "Sequence[int]": ("whole numbers", lambda value: isinstance(value, Sequence) and all(map(_whole, value))),
    "Mapping[str, int]": ("a dict from texts to whole numbers", lambda value: _dict(value, _whole)),
    "Mapping[str, str]": ("a dict from texts to texts", lambda value: _dict(value, _text)),
    "Mapping[str, Value]": ("a dict from texts to expressions or functions", lambda value: _dict(value, _expression)),
    "Mapping[str, Any]": ("a dict from texts", lambda value: _dict(value, lambda _: True)),
}


def refuse_type(call: str, name: str, value: object, annotation: object) -> None:
    """SettingsError: an argument of a public call is of none of the types that it is annotated with."""
    accepted = _accepted(str(annotation))
    if accepted and not any(TYPES[kind][1](value) for kind in accepted):
        words = [TYPES[kind][0] for kind in accepted]
        raise SettingsError(
            f"{name} has a value of a wrong type",
            where=call,
            expected=" or ".join(dict.fromkeys(words)),
            found=f"{_short(repr(value))}, of type {type(value).__name__}",
            hint="str(date) writes a date of Python as a text" if name == "dates" else None,
        )


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


@cache
def _accepted(annotation: str) -> tuple[str, ...]:
    """The types of the table; none where one of the alternatives is not of it."""
    kinds = tuple(kind.strip() for kind in annotation.split("|"))
    return kinds if all(kind in TYPES for kind in kinds) else ()


def checked(function: F) -> F:
    """A function or method that refuses arguments of wrong types."""
    signature = inspect.signature(function)
    annotations = {name: str(parameter.annotation) for name, parameter in signature.parameters.items()}
    annotations = {name: annotation for name, annotation in annotations.items() if _accepted(annotation)}
    call = f"{function.__qualname__}()"
    if not annotations:
        return function

    @wraps(function)
    def call_checked(*args: Any, **kwargs: Any) -> Any:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if name in annotations:
                refuse_type(call, name, value, annotations[name])
        return function(*args, **kwargs)

    return call_checked  # type: ignore[return-value]


def checked_calls(cls: C) -> C:
    """A class whose public methods, and whose making, refuse arguments of wrong types."""
    for name, member in list(vars(cls).items()):
        if inspect.isfunction(member) and (name[0] != "_" or name == "__init__"):
            setattr(cls, name, checked(member))
    return cls
