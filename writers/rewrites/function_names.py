"""By what a function of a rewrite is known: its name, its code, and the plain values that it uses.

A rewrite that is repeated leaves dates as they are, so two functions must not be taken for one. What a function uses
is found as Python finds it: default values, cells, and globals of its module. A list, a frame or any other object may
have changed since, which no checksum of today tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from zlib import crc32

_PLAIN = (type(None), bool, int, float, str, bytes, Decimal, date, time, timedelta)
_BY_NAME = (ModuleType, BuiltinFunctionType, type)


@dataclass(frozen=True, slots=True)
class FunctionName:
    """The name of a function, with a checksum of what it does.

    ``whole``: it uses nothing else, so functions of the same name give the same values.
    """

    name: str
    checksum: int
    whole: bool

    @property
    def text(self) -> str:
        """As records have it."""
        return f"{self.name}#{self.checksum:08x}"


def function_name(function: Callable[..., Any]) -> FunctionName:
    """What a function is known by."""
    said = _Said(getattr(function, "__module__", None))
    checksum = crc32(said.value(function).encode())
    return FunctionName(_named(function), checksum, said.whole)


def _named(value: Any) -> str:
    inner = value.func if isinstance(value, partial) else value
    kind = type(inner)
    return f"{getattr(inner, '__module__', kind.__module__)}:{getattr(inner, '__qualname__', kind.__qualname__)}"


class _Said:
    """Says what a function is, as a text. ``whole``: all of it was said."""

    def __init__(self, module: str | None) -> None:
        self.whole, self._module = True, module
        self._seen: set[int] = set()

    def value(self, value: Any) -> str:
        if isinstance(value, _PLAIN):
            return repr(value)
        if isinstance(value, tuple):
            return f"({','.join(map(self.value, value))})"
        if isinstance(value, _BY_NAME):
            return getattr(value, "__name__", "")
        if isinstance(value, partial):
            return self.value((value.func, value.args, *sorted(value.keywords.items())))
        if isinstance(value, MethodType):
            return self.value((value.__func__, value.__self__))
        if isinstance(value, FunctionType):
            return self._function(value)
        self.whole = False
        return _named(value)

    def _function(self, function: FunctionType) -> str:
        if id(function) in self._seen:
            return _named(function)
        self._seen.add(id(function))
        used = self.value((function.__defaults__, *sorted((function.__kwdefaults__ or {}).items())))
        cells = ",".join(self.value(cell.cell_contents) for cell in function.__closure__ or ())
        names = {name for code in _codes(function.__code__) for name in code.co_names}
        scope = function.__globals__
        globals_ = ",".join(f"{name}={self._global(scope[name])}" for name in sorted(names & scope.keys()))
        code = ";".join(map(_code, _codes(function.__code__)))
        return f"{code}|{used}|{cells}|{globals_}"

    def _global(self, value: Any) -> str:
        """A function of another module goes by its name: a library's, as it is installed."""
        of_others = isinstance(value, FunctionType) and value.__module__ != self._module
        return _named(value) if of_others else self.value(value)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of those inside of it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _code(code: CodeType) -> str:
    constants = [repr(constant) for constant in code.co_consts if not isinstance(constant, CodeType)]
    return f"{code.co_code.hex()} {code.co_names} {constants}"
