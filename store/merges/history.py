"""The history of one date: all merge records of it, read once."""

from __future__ import annotations

from sparkhaven.store.merges.merge_records import MergeRecord, generations, load_record
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.frozen import frozen


@frozen
class DateHistory:
    """The records of a date by generation, complete or not.

    Under the table's lock nobody else changes them: a merge reads them once and goes on with ``after``.
    """

    value: str
    records: tuple[MergeRecord, ...] = ()

    @property
    def complete(self) -> tuple[MergeRecord, ...]:
        """Those that readers may take the date's history from."""
        return tuple(record for record in self.records if record.complete)

    @property
    def current(self) -> MergeRecord | None:
        """The newest complete record, which decides what the date's history is; None before the first merge."""
        complete = self.complete
        return complete[-1] if complete else None

    @property
    def last(self) -> MergeRecord | None:
        """The newest record, complete or not."""
        return self.records[-1] if self.records else None

    @property
    def alive(self) -> frozenset[str]:
        """Internal partitions that have the date's history."""
        current = self.current
        return frozenset(output.internal for output in current.outputs) if current else frozenset()

    def after(self, *records: MergeRecord) -> DateHistory:
        """The same once these records are stored; each takes the place of one of its generation."""
        stored = {record.generation: record for record in (*self.records, *records)}
        return DateHistory(self.value, tuple(stored[generation] for generation in sorted(stored)))


def load_history(place: TablePlace, value: str) -> DateHistory:
    """The history of a date; raises what listing and loading its records raise."""
    numbers = generations(place, value)
    return DateHistory(value, tuple(load_record(place, value, number) for number in numbers))
