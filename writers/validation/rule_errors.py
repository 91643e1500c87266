"""The error of a rule that cannot be evaluated."""

from __future__ import annotations


class NotEvaluatedError(Exception):
    """A rule that cannot be evaluated here; the text says why."""
