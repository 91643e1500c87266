"""What a test file says of all its tests at once, read from its text: the file need not be imported for that."""

from __future__ import annotations

import re

_MODULE = re.compile(r"^pytestmark = (.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"pytest\.mark\.(\w+)")
_WITHOUT = re.compile(r"not (\w+)")


def module_marks(text: str) -> set[str]:
    """The marks that ``pytestmark`` gives to every test of a module."""
    found = _MODULE.search(text)
    return {*_MARK.findall(found[1])} if found else set()


def leaves_out(expression: str, text: str) -> bool:
    """Whether an expression of ``-m`` selects no test of a module for sure: one of marks that a test must not have."""
    parts = [_WITHOUT.fullmatch(part.strip()) for part in expression.split(" and ")]
    return all(parts) and not module_marks(text).isdisjoint(part[1] for part in parts if part)
