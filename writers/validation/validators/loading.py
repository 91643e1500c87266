"""From ``module:function`` to a validator. This runs code: only the command line can name it.

The module is imported from Python's own path, or from a directory that ``--validator-path`` names. No file below the
database root is ever executed: whoever can write there is trusted with rows, not with code. Each package on the way to
the module is looked up, and its files are compared with the root, before it is imported.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from sparkhaven.store.errors import SettingsError
from sparkhaven.writers.validation.validators.declared import Validator, declaration_of
from sparkhaven.writers.validation.validators.user_code import failed_in

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
