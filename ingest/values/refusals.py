"""What comes of one value: the value as Arrow takes it, or why it cannot be stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from sparkhaven.store.errors import SparkhavenError, ours
from sparkhaven.store.quarantine.rejected_rows import Reason

MOST_WORDS = 300  # characters of an exception
Decoded = TypeVar("Decoded")
Value = int | float | str | bool | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a value cannot be stored, what would have been accepted, and what is special about this one."""

    reason: Reason
    expected: str
    detail: str = ""

    @property
    def explanation(self) -> str:
        """The reason and the detail, for people."""
        return self.reason.explained(self.detail)


ENVIRONMENT = (SparkhavenError, OSError, ImportError)
"""Exceptions that are no fault of a record: errors of ours, of the operating system, of an installation."""


def unexpected(error: Exception) -> Refusal:
    """Why a record is refused whose decoding raised an exception. Raises it again if it is no fault of the record."""
    if isinstance(error, ENVIRONMENT) or ours(error) is not None:
        raise error
    words = " ".join(f"{type(error).__name__}: {error}".split())
    expected = "a record that the decoder reads. Please report this record"
    return Refusal(Reason.DECODER_FAILED, expected, words[:MOST_WORDS])


def not_utf8(error: UnicodeDecodeError) -> Refusal:
    """Why bytes are refused that are no text."""
    return Refusal(Reason.NOT_UTF8, "text in UTF-8", f"at byte {error.start}")


def attempted(make: Callable[..., Decoded], *arguments: Any) -> Decoded | Refusal:
    """What ``make`` gives, or why a record is refused for which it raises an exception."""
    try:
        return make(*arguments)
    except Exception as error:  # noqa: BLE001 whatever a record raises is a bad row
        return unexpected(error)


@dataclass(frozen=True, slots=True)
class OutOfRange(Refusal):
    """An instant that is none because it lies too far away: after the last one (``above``), or before the first."""

    above: bool = False


def out_of_range(above: bool) -> OutOfRange:
    """The refusal of an instant after the last one (``above``), or before the first."""
    expected = "1677-09-21T00:12:43.145224193Z to 2262-04-11T23:47:16.854775807Z"
    return OutOfRange(Reason.OUTSIDE_RANGE, expected, above=above)
