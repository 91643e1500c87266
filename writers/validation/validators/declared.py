"""Validators of users: Python functions over the Arrow batches of a date, and what they declare about themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from sparkhaven.store.errors import SettingsError
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
