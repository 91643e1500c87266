"""Which rows of intraday a live table shows as history, and which merges it has looked at."""

from __future__ import annotations

from collections.abc import Iterator

from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import MergeRecord, all_values, generations, merged_rows, newest
from sparkhaven.store.places import TablePlace

AGAIN = "open the table again. It has the same name"


class Merged:
    """By location (stream, key, epoch that made it): rows that need not be shown from intraday."""

    def __init__(self, place: TablePlace) -> None:
        self._place = place
        self._rows: dict[tuple[str, LocationKey, int], int] = {}
        self._generations: dict[str, int] = {}  # by date, of the record that was looked at

    def rows(self, stream: str, key: LocationKey, since: int) -> int:
        """Rows of a location that are shown from history, or from an earlier mapping."""
        return self._rows.get((stream, key, since), 0)

    def note_rows(self, stream: str, key: LocationKey, since: int, rows: int) -> None:
        """A location is left whose rows stay shown."""
        self._rows[stream, key, since] = max(rows, self.rows(stream, key, since))

    def note(self, record: MergeRecord) -> None:
        """The outputs of a record are shown, or the rows of all of its inputs."""
        self._generations[record.value] = record.generation
        for (stream, internal, since), rows in merged_rows(record).items():
            self.note_rows(stream, LocationKey(internal, record.value), since, rows)

    def fresh(self, *, newer: bool) -> Iterator[MergeRecord]:
        """Complete records that were not looked at: of dates without one; ``newer``: also newer ones of other dates."""
        values = set(all_values(self._place))
        for date in sorted(values if newer else values - self._generations.keys()):
            generation = self._generations.get(date)
            if generation is not None and generations(self._place, date)[-1:] == [generation]:
                continue
            record = newest(self._place, date)
            if record is not None and record.generation != generation:
                yield record
