"""``@frozen``: the class that ``@dataclass(frozen=True, slots=True)`` makes, in a fraction of the time.

A command imports some two hundred such classes before it does anything, and the standard library compiles six methods
for each of them. Here a class has one of its own, ``__init__``, and shares the others. ``field``, ``fields``,
``replace``, ``asdict`` and pickles work as with ``dataclass``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from functools import cache
from operator import attrgetter
from types import CodeType, FunctionType
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")
_ABSENT = object()  # a default that a call makes
FIELDS = "__dataclass_fields__"
_MADE_ANEW = frozenset(("__dict__", "__weakref__"))


@dataclass(init=False, repr=False, eq=False)
class _Example:
    member: int


_PARAMETERS: Any = vars(_Example)["__dataclass_params__"]
_KIND: Any = vars(_Example)[FIELDS]["member"]._field_type


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Makes a class with annotated fields one of immutable values, which are compared, hashed and shown by them."""
    own, known = _own_fields(cls), _known_fields(cls)
    all_fields = known | own
    members = tuple(all_fields.values())
    compared = [member.name for member in members if member.compare]
    content = {name: value for name, value in cls.__dict__.items() if name not in own and name not in _MADE_ANEW}
    methods = {"__init__": _init_of(cls, members), "_compared": attrgetter(*compared) if compared else type}
    for name, method in {**_SHARED, **methods}.items():
        if content.get(name) is None:
            content[name] = method
    content["__slots__"] = tuple(name for name in own if name not in known)
    content[FIELDS], content["__dataclass_params__"] = all_fields, _PARAMETERS
    content["__match_args__"] = tuple(member.name for member in members if member.init)
    metaclass: Any = type(cls)
    frozen_class: Any = metaclass(cls.__name__, cls.__bases__, content)
    frozen_class.__qualname__ = cls.__qualname__
    _name_class(cls, frozen_class)
    return frozen_class  # type: ignore[no-any-return]


def _known_fields(cls: type) -> dict[str, Field[Any]]:
    """The fields of the classes that it is derived from."""
    known: dict[str, Field[Any]] = {}
    for base in cls.__mro__[:0:-1]:
        known |= base.__dict__.get(FIELDS, {})
    return known


def _own_fields(cls: type) -> dict[str, Field[Any]]:
    """The fields that a class itself annotates."""
    own: dict[str, Field[Any]] = {}
    for name, annotation in cls.__annotations__.items():
        if str(annotation).startswith(("ClassVar", "typing.ClassVar")):
            continue
        default = cls.__dict__.get(name, MISSING)
        member: Any = default if isinstance(default, Field) else field(default=default)
        if member.default.__class__.__hash__ is None:
            raise ValueError(f"{cls.__qualname__}: values would share the default of {name}, use default_factory")
        member.name, member.type, member.kw_only, member._field_type = name, annotation, False, _KIND
        own[name] = member
    return own


def _name_class(cls: type, frozen_class: type) -> None:
    """Has ``super()`` in methods of the class mean the new one, which takes its place because of the slots."""
    for member in vars(cls).values():
        method: Any = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        names = getattr(getattr(method, "__code__", None), "co_freevars", ())
        if "__class__" in names:
            method.__closure__[names.index("__class__")].cell_contents = frozen_class
            return  # all methods of a class share the cell


def _init_of(cls: type, members: Sequence[Field[Any]]) -> Callable[..., None]:
    """``__init__`` with a parameter a field: the code for so many fields, with their names."""
    parameters = [member for member in members if member.init]
    factories = [member.default_factory is not MISSING for member in parameters]
    values = [_ABSENT if by_call else member.default for member, by_call in zip(parameters, factories, strict=True)]
    defaults = [value for value in values if value is not MISSING]
    if MISSING in values[len(values) - len(defaults) :]:
        raise TypeError(f"{cls.__qualname__}: a field without a default comes after one with a default")
    code = _code_for(tuple(factories), hasattr(cls, "__post_init__"))
    names = {f"f{number}": member.name for number, member in enumerate(parameters)}
    code = code.replace(
        co_varnames=tuple(names.get(name, name) for name in code.co_varnames),
        co_consts=tuple(names.get(value, value) for value in code.co_consts),
    )
    makers = {f"make_f{number}": member.default_factory for number, member in enumerate(parameters)}
    init = FunctionType(code, {"_set": object.__setattr__, "_ABSENT": _ABSENT, **makers}, "__init__", tuple(defaults))
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


@cache
def _code_for(factories: Sequence[bool], checked: bool) -> CodeType:
    """``__init__`` of fields f0, f1 and so on; ``factories``: whether a call makes the default of each."""
    body = ["pass"]
    for number, by_call in enumerate(factories):
        value = f"make_f{number}() if f{number} is _ABSENT else f{number}" if by_call else f"f{number}"
        body.append(f"_set(self, 'f{number}', {value})")
    if checked:
        body.append("self.__post_init__()")
    parameters = ", ".join(["self", *(f"f{number}" for number in range(len(factories)))])
    names: dict[str, Any] = {}
    exec(f"def __init__({parameters}):\n " + "\n ".join(body), names)  # noqa: S102  no text from outside
    code: CodeType = names["__init__"].__code__
    return code


def _eq(self: Any, other: Any) -> Any:
    return self._compared(self) == self._compared(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(self._compared(self))


def _repr(self: Any) -> str:
    shown = ", ".join(f"{member.name}={getattr(self, member.name)!r}" for member in fields(self) if member.repr)
    return f"{self.__class__.__qualname__}({shown})"


def _setattr(self: Any, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, member.name) for member in fields(self)]


def _setstate(self: Any, state: Sequence[Any]) -> None:
    for member, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, member.name, value)


_SHARED = {
    "__eq__": _eq,
    "__hash__": _hash,
    "__repr__": _repr,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
    "__getstate__": _getstate,
    "__setstate__": _setstate,
}
