"""The error of everything that a person wrote for the DAGs: configuration, calendars, parameters of a run."""

from __future__ import annotations


class ConfigurationError(ValueError):
    """Says what is wrong, where, what was expected and found, and what to do, in one text."""

    def __init__(
        self, what: str, *, where: object, expected: object = None, found: object = None, hint: str | None = None
    ) -> None:
        parts = {"where": where, "expected": expected, "found": found, "to do": hint}
        lines = [f"  {name}: {part}" for name, part in parts.items() if part is not None]
        super().__init__("\n".join([what, *lines]))
        self.what = what
