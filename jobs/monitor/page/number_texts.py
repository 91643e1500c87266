"""Texts of the tree and numbers in the form in which a page shows them."""

from __future__ import annotations

from datetime import UTC, datetime

MOST = 500  # characters of a text


def plain(text: object) -> str:
    """A text in one line without characters that a browser would not show, or would show as something else."""
    shown = "".join(c if c.isprintable() else " " if c in "\n\t" else _escaped(c) for c in str(text))
    return shown if len(shown) <= MOST else f"{shown[: MOST - 1]}…"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def moment(time_ms: int) -> str:
    """A time as ISO text with seconds, UTC; one beyond the calendar as its number."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"


def number(amount: float | None) -> str:
    """A number with thousands separators, three digits of a fraction at most; a dash for none."""
    if amount is None:
        return "-"
    return f"{amount:,}" if isinstance(amount, int) else f"{amount:,.3f}".rstrip("0").rstrip(".")


def size(length: int) -> str:
    amount, units = float(length), ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while amount >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return f"{length:,} bytes" if units[0] == "bytes" else f"{amount:,.1f} {units[0]}"
