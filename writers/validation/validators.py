"""Validators of users: Python functions over the Arrow batches of a date, loaded from ``module:function``.

This runs code: only the command line can name it.

The module is imported from Python's own path, or from a directory that ``--validator-path`` names. No file below the
database root is ever executed: whoever can write there is trusted with rows, not with code. Each package on the way to
the module is looked up, and its files are compared with the root, before it is imported.

What they declare about themselves is read here. Errors of users' code name the line that raised them.
"""

from __future__ import annotations

import importlib
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import pyarrow as pa

from sparkhaven.store.errors import SettingsError, SparkhavenError, ValidationFailedError
from sparkhaven.store.schema.document.validator_rules import MODES

Check = Callable[[Iterator[pa.RecordBatch]], Iterable[str]]
C = TypeVar("C", bound=Check)
_ATTRIBUTE = "__sparkhaven_validator__"


@dataclass(frozen=True, slots=True)
class Declaration:
    """The columns that a function reads; ``modes`` empty: those that are chosen for the validation."""

    columns: tuple[str, ...]
    modes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Validator:
    """A function to run as a rule; ``name`` is ``module:function``, ``file`` has its source."""

    name: str
    file: str
    declared: Declaration
    check: Check


def validator(columns: Sequence[str], *, modes: Sequence[str] = ()) -> Callable[[C], C]:
    """Declares a function as a validator of merged dates, which ``validate --validator MODULE:FUNCTION`` runs.

    The function takes an iterator of Arrow record batches, which have these ``columns`` in this order, with the types
    of ``to_arrow``. The batches of all rows follow each other: location by location, and in each in its order. It
    returns, or yields, one text for each finding; without a finding the date passes. ``modes`` of ``FULL_DATABASE``
    (default), ``FULL_INTRADAY`` and ``SIMPLE_TABLE`` say over which rows it runs. SettingsError: no columns, or other
    modes.
    """
    if isinstance(columns, str) or isinstance(modes, str):
        raise _undeclared("columns and modes are lists of names", repr(columns if isinstance(columns, str) else modes))
    if not columns or not all(isinstance(name, str) and name for name in columns):
        raise _undeclared("at least one column, by name", repr(columns))
    if unknown := [mode for mode in modes if mode not in MODES]:
        raise _undeclared(f"modes of {', '.join(MODES)}", ", ".join(map(repr, unknown)))
    declaration = Declaration(tuple(dict.fromkeys(columns)), tuple(dict.fromkeys(modes)))

    def declare(check: C) -> C:
        setattr(check, _ATTRIBUTE, declaration)
        return check

    return declare


def declaration_of(check: object) -> Declaration | None:
    """What a function declares; None for one that is no validator."""
    declaration = getattr(check, _ATTRIBUTE, None)
    return declaration if isinstance(declaration, Declaration) else None


def _undeclared(expected: str, found: str) -> SettingsError:
    hint = 'write @sparkhaven.validator(columns=["Price"]) above the function'
    return SettingsError("a validator is declared wrongly", expected=expected, found=found, hint=hint)


_OWN = str(Path(__file__).parents[2])
USERS = (Exception, SystemExit)  # what code of users may raise; the end of the process is not theirs to choose


def line_of(error: BaseException, file: str | None = None) -> str | None:
    """``file:line in function`` of the innermost frame of ``file``, else of the innermost that is not ours."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    users = [f for f in frames if f.filename == file] or [f for f in frames if _of_user(f.filename)]
    return f"{users[-1].filename}:{users[-1].lineno} in {users[-1].name}" if users else None


def _of_user(file: str) -> bool:
    return not file.startswith(("<frozen", _OWN))


def words_of(error: BaseException) -> str:
    """The class and the first line of an error."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


@contextmanager
def failed_in(what: str, file: str | None = None) -> Iterator[None]:
    """Raises an error of users' code as ValidationFailedError with its line. Errors of ours pass."""
    try:
        yield
    except SparkhavenError:
        raise
    except USERS as error:
        raise ValidationFailedError(
            f"an error was raised by {what}",
            where=line_of(error, file),
            expected="no error",
            found=words_of(error),
            hint="mend the code. -v shows the traceback",
            phase="validate",
        ) from error


_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*\Z", re.ASCII)
_FORM = 'MODULE:FUNCTION, of a function below @sparkhaven.validator(columns=["Price"])'


def load_validators(names: list[str], paths: list[Path], root: Path) -> tuple[Validator, ...]:
    """The validators by their names, which ``paths`` are searched for first; ``root``: the database.

    SettingsError: a name has no such form, its module or function is missing, the function declares nothing, or a file
    lies below the root. ValidationFailedError: the code of the module raised an error.
    """
    for path in paths:
        if not path.is_dir():
            raise SettingsError("no such directory of validators", where=path, hint="check --validator-path")
        _require_outside(path, root, str(path))
    sys.path[:0] = [text for path in paths if (text := str(path.absolute())) not in sys.path]
    importlib.invalidate_caches()
    return tuple(_load(name, root) for name in dict.fromkeys(names))


def _load(name: str, root: Path) -> Validator:
    if not _NAME.match(name):
        raise SettingsError("--validator is no name of a function", expected=_FORM, found=repr(name))
    path, _, attribute = name.partition(":")
    module = _imported(path, name, root)
    check = getattr(module, attribute, None)
    if not callable(check):
        words = "nothing of that name" if check is None else f"{type(check).__name__} {attribute}"
        raise SettingsError("the module has no such validator", where=module.__file__, expected=_FORM, found=words)
    declaration = declaration_of(check)
    if declaration is None:
        raise SettingsError(
            "the function declares no columns",
            where=f"{module.__file__}, {attribute}",
            expected=_FORM,
            found="no declaration",
            hint='write @sparkhaven.validator(columns=["Price"]) above the function',
        )
    return Validator(name, str(module.__file__), declaration, check)


def _imported(path: str, name: str, root: Path) -> ModuleType:
    parts = path.split(".")
    for count in range(1, len(parts) + 1):
        package = ".".join(parts[:count])
        with failed_in(f"the validator {name}, while its module was imported"):
            spec = find_spec(package) if count == 1 or _is_package(parts[: count - 1]) else None
        if spec is None:
            raise SettingsError(
                "the module of a validator cannot be imported",
                where=f"--validator {name}",
                expected="a module on Python's path, or in a directory of --validator-path",
                found=f"no module {package}",
                hint="install it, or name its directory with --validator-path DIR",
            )
        for file in _files(spec):
            _require_outside(file, root, name)
        with failed_in(f"the validator {name}, while its module was imported", spec.origin):
            module = importlib.import_module(package)
    return module


def _is_package(parts: list[str]) -> bool:
    return hasattr(sys.modules[".".join(parts)], "__path__")


def _files(spec: ModuleSpec) -> Iterator[Path]:
    if spec.origin is not None and spec.has_location:
        yield Path(spec.origin)
    yield from map(Path, spec.submodule_search_locations or ())


def _require_outside(file: Path, root: Path, name: str) -> None:
    if file.resolve().is_relative_to(root.resolve()):
        raise SettingsError(
            "a validator lies below the database root",
            where=file,
            expected="code outside of the root, which may be written by whoever delivers rows",
            found=name,
            hint="move the module, and name its new directory with --validator-path DIR",
        )
