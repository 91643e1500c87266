"""How the directories of a tree give the value of a date: a text with their keys, like ``{year}-{month:02}-{day:02}``.

``{key}`` is the value as it is, ``{key:02}`` a number with so many digits, ``{key:date}`` the date of ``2026-11-20``,
``20261120`` or an instant, as ``YYYY-MM-DD``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from string import Formatter

from sparkhaven.store.errors import InvalidNameError, SettingsError

EXAMPLE = "'{year}-{month:02}-{day:02}'"
_DIGITS = re.compile(r"0[1-9]\Z")
_DATED = re.compile(r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})(?:[T _]?[0-9]{2}:?.*)?\Z", re.DOTALL)
_MIDNIGHT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]00:00(:00([.]0+)?)?(Z|[+-]00:?00)?\Z")
_COMPACT = re.compile(r"[0-9]{8}\Z")
_CALENDAR = (("year", "yyyy", "y"), ("month", "mm", "mon", "m"), ("day", "dd", "d"), ("hour", "hh", "hr", "h"))


@dataclass(frozen=True, slots=True)
class ValueTemplate:
    """``parts``: a text, and the key and form that follow it; None for the text at the end."""

    text: str
    parts: tuple[tuple[str, str | None, str], ...]

    @staticmethod
    def parse(text: str) -> ValueTemplate:
        """A template as it is written; SettingsError for a wrong one."""
        try:
            parts = [(before, key, form or "") for before, key, form, _ in Formatter().parse(text)]
        except ValueError as error:
            raise _wrong(text, str(error)) from None
        keys = [key for _, key, _ in parts if key is not None]
        odd = [form for _, key, form in parts if key is not None and not (form in ("", "date") or _DIGITS.match(form))]
        if not keys or "" in keys or odd:
            raise _wrong(text, f"form {odd[0]!r}" if odd else text)
        return ValueTemplate(text, tuple(parts))

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(key for _, key, _ in self.parts if key is not None)

    def value(self, values: Mapping[str, str], where: object) -> str:
        """The value of a date by the values of its directories; InvalidNameError: one does not have its form."""
        return "".join(
            f"{text}{'' if key is None else _formed(values[key], form, where)}" for text, key, form in self.parts
        )


def proposed(directories: Sequence[tuple[str, str]]) -> str | None:
    """A template for directories that are there, by their keys and values; None: none comes to mind."""
    if len(directories) == 1:
        ((key, value),) = directories
        return f"{{{key}:date}}" if _COMPACT.match(value) or is_midnight(value) else f"{{{key}}}"
    keys = {key.lower(): key for key, _ in directories}
    units = [next((keys[name] for name in names if name in keys), None) for names in _CALENDAR]
    if None in units[:3] or len(directories) != sum(unit is not None for unit in units):
        return None
    year, month, day, hour = units
    return f"{{{year}:04}}-{{{month}:02}}-{{{day}:02}}" + (f"-{{{hour}:02}}" if hour else "")


def is_midnight(value: str) -> bool:
    """Whether a value is an instant that stands for a date, as writers make of a column of timestamps."""
    return _MIDNIGHT.match(value) is not None


def _formed(value: str, form: str, where: object) -> str:
    if not form:
        return value
    if form == "date":
        match = _DATED.match(value)
        try:
            return date(*map(int, match.groups())).isoformat() if match else _misformed(value, "a date", where)
        except ValueError:
            return _misformed(value, "a date", where)
    if not value.isascii() or not value.isdecimal():
        return _misformed(value, f"a number of {form[1:]} digits or fewer", where)
    return value.zfill(int(form))


def _misformed(value: str, expected: str, where: object) -> str:
    raise InvalidNameError(
        "a directory of the tree does not have the form that --value says",
        where=where,
        expected=expected,
        found=repr(value),
        hint="move the directory out of the tree, or write {key} in --value for the value as it is",
    )


def _wrong(text: str, fault: str) -> SettingsError:
    return SettingsError(
        "--value lacks keys of directories",
        where=text,
        expected=f"keys in braces, like {EXAMPLE}, with the forms 02 (digits) and date",
        found=fault,
    )
