"""Warnings of a run about fields that no column stores and columns without values, each once by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sparkhaven.store.epochs.state.log_values import ignored_in

if TYPE_CHECKING:
    from sparkhaven.writers.batch.commit import BatchOutcome

MAX_FIELDS = 100  # fields that a run names; a feed may have new keys in every row


class DataWarnings:
    """Remembers the fields and columns that this run has warned of."""

    def __init__(self) -> None:
        self._fields: set[str] = set()
        self._empty: set[str] = set()

    def of(self, outcome: BatchOutcome) -> list[str]:
        """The new warnings of a batch."""
        lines = []
        ignored = {name: rows for name, rows in ignored_in(outcome.counts).items() if name not in self._fields}
        if ignored and len(self._fields) < MAX_FIELDS:
            self._fields.update(ignored)
            lines.append(f"fields without a column: {fields(ignored)}. List expected ones under [columns] ignore")
        empty = sorted(set(outcome.empty) - self._empty)
        if empty:
            self._empty.update(empty)
            lines.append(f"no row of this batch has a value for {', '.join(empty)}. Check `from` under [columns]")
        return lines


def fields(ignored: dict[str, int]) -> str:
    """Fields with their number of rows, the most frequent first."""
    ordered: Iterable[tuple[str, int]] = sorted(ignored.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} ({rows:,} rows)" for name, rows in ordered)
