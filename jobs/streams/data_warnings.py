"""What a run says of data that it does not store, and of columns that nothing comes for: each once by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from store.epochs.state.values import ignored_in

if TYPE_CHECKING:
    from writers.batch.commit import BatchOutcome

MAX_TOLD = 100  # fields that a run names; feeds with keys of their own in every row would never end


class DataWarnings:
    """Fields that were told already, and columns that have had a value in this run."""

    def __init__(self) -> None:
        self._fields: set[str] = set()
        self._empty: set[str] = set()

    def of(self, outcome: BatchOutcome) -> list[str]:
        """What is new with a batch, in words."""
        lines = []
        ignored = {name: rows for name, rows in ignored_in(outcome.counts).items() if name not in self._fields}
        if ignored and len(self._fields) < MAX_TOLD:
            self._fields.update(ignored)
            lines.append(f"fields that no column takes: {fields(ignored)}; list them under [columns] ignore if known")
        empty = sorted(set(outcome.empty) - self._empty)
        if empty:
            self._empty.update(empty)
            lines.append(f"no row of this batch has a value for {', '.join(empty)}; is `from` under [columns] right?")
        return lines


def fields(ignored: dict[str, int]) -> str:
    """Names with the rows that had them, the most first."""
    ordered: Iterable[tuple[str, int]] = sorted(ignored.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} ({rows:,} rows)" for name, rows in ordered)
