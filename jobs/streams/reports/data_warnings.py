"""Warnings of a run about fields that no column stores, columns whose field is absent, or that have no value.

Each once by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sparkhaven.ingest.spec.stream_spec import Contract
from sparkhaven.store.epochs.state.log_values import absent_in, ignored_in

if TYPE_CHECKING:
    from sparkhaven.ingest.feeds.base import Trial
    from sparkhaven.writers.batch.commit import BatchOutcome

MAX_FIELDS = 100  # fields that a run names; a feed may have new keys in every row


class DataWarnings:
    """Remembers the fields and columns that this run has warned of.

    ``contract``: by discard-value other fields are as expected.
    """

    def __init__(self, contract: Contract = "evolve") -> None:
        self._expected = contract == "discard-value"
        self._fields: set[str] = set()
        self._empty: set[str] = set()

    def of(self, outcome: BatchOutcome) -> list[str]:
        """The new warnings of a batch."""
        lines: list[str] = []
        if self._expected:
            return lines
        ignored = {name: rows for name, rows in ignored_in(outcome.counts).items() if name not in self._fields}
        if ignored and len(self._fields) < MAX_FIELDS:
            self._fields.update(ignored)
            lines.append(f"fields without a column: {fields(ignored)}. List expected ones under [columns] ignore")
        absent = {name: rows for name, rows in absent_in(outcome.counts).items() if name not in self._empty}
        if absent:
            self._empty.update(absent)
            lines.append(f"no field for columns: {fields(absent)}. Check `from` under [columns], or set `required`")
        empty = sorted(set(outcome.empty) - self._empty)
        if empty:
            self._empty.update(empty)
            lines.append(f"no row of this batch has a value for {', '.join(empty)}. Check `from` under [columns]")
        return lines


def fields(ignored: dict[str, int]) -> str:
    """Fields with their number of rows, the most frequent first."""
    ordered: Iterable[tuple[str, int]] = sorted(ignored.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} ({rows:,} rows)" for name, rows in ordered)


def other_fields(trial: Trial | None, contract: Contract) -> list[str]:
    """What the first rows that wait have beside the columns, and what they lack, as a dry run says it."""
    if trial is None or contract == "discard-value":
        return []
    lines = [f"fields without a column: {fields(dict(trial.ignored))}"] if trial.ignored else []
    return lines + ([f"no field for columns: {fields(dict(trial.absent))}"] if trial.absent else [])
