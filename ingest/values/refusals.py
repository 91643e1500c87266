"""What comes of one value: the value as Arrow takes it, or why it cannot be stored."""

from __future__ import annotations

from store.types.frozen import frozen

Value = int | float | str | bool | None


@frozen
class Refusal:
    """Why a value cannot be stored: a short reason, and what would have been accepted."""

    reason: str
    expected: str


@frozen
class OutOfRange(Refusal):
    """An instant that is none because it lies too far away: after the last one (``above``), or before the first."""

    above: bool


def out_of_range(above: bool) -> OutOfRange:
    """The refusal of an instant after the last one (``above``), or before the first."""
    return OutOfRange(
        "outside the range of an Instant",
        "1677-09-21T00:12:43.145224193Z to 2262-04-11T23:47:16.854775807Z",
        above,
    )
