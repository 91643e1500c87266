"""What the history of a table was when it was opened, from its location index: one file, whatever the number of dates.

A merge writes the index anew just before its record counts, and each location of it has a name of its own. So the
locations that the index had of a date name the record that a reader saw. While the index is the same file, no merge was
published, and it is not decoded. One that is lost, damaged or stale names no record; then readers use the newest.

Between index and record the index is ahead: of the few dates that are being published then, or whose merge was killed
there, the record itself is looked at.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from threading import Lock

from sparkhaven.store.errors import FormatError, SnapshotMovedError, SparkhavenError
from sparkhaven.store.format.index.tlmi import decode_tlmi
from sparkhaven.store.io.stat import Identity
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.kept_rows import keeps_rows
from sparkhaven.store.merges.merge_records import MergeRecord, all_values, load_record, newest
from sparkhaven.store.merges.publications import dates_in_publication
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.frozen import frozen

_READ: OrderedDict[Path, HistoryPin] = OrderedDict()  # by the path of the index
_READ_LOCK = Lock()
READ = 16  # indexes whose bytes stay in memory for the next opening


@frozen
class Opened:
    """The record of a date that readers used when the table was opened; None: there was none."""

    record: MergeRecord | None

    def shows(self, record: MergeRecord) -> bool:
        """Whether a record shows the rows of then: it was there, or it has kept all of them."""
        return not self.is_newer(record) or keeps_rows(self.record, record)

    def is_newer(self, record: MergeRecord) -> bool:
        """Whether a record came after the table was opened."""
        return self.record is None or record.generation > self.record.generation


class HistoryPin:
    """The index of a table as it was; ``data`` None: it was not there, though the table had history.

    ``generations``: those of the records of dates that were being published then; 0 where there was none, or the error
    of reading it. Made by ``of``; it pickles.
    """

    def __init__(
        self,
        identity: tuple[Identity, ...] | None,
        data: bytes | None,
        generations: Mapping[str, int | SparkhavenError] | None = None,
    ) -> None:
        self._identity, self._data, self._generations = identity, data, generations or {}

    @classmethod
    def of(cls, place: TablePlace) -> HistoryPin:
        """Reads the index, unless it is the one that this process has read last."""
        path = place.metadata_index
        identity = place.fs.identities(path.parent, [path.name])  # before reading
        with _READ_LOCK:
            pin = _READ.get(path)
        if pin is None or pin._identity != identity:
            pin = cls(identity, _read(place))
            with _READ_LOCK:
                _READ[path] = pin
                _READ.move_to_end(path)
                while len(_READ) > READ:
                    _READ.popitem(last=False)
        dates = dates_in_publication(place)  # after reading: a merge names them before it writes the index
        if not dates:
            return pin
        return cls(pin._identity, pin._data, {value: _generation(place, value) for value in dates})

    def opened(self, place: TablePlace, value: str) -> Opened | None:
        """What readers used of a date; None where nothing was published since, or where the index does not tell.

        CorruptFileError: the record that decided was damaged.
        """
        generation = self._generations.get(value)
        if isinstance(generation, SparkhavenError):
            raise generation
        if generation is not None:
            return Opened(load_record(place, value, generation) if generation else None)
        path = place.metadata_index
        if place.fs.identities(path.parent, [path.name]) == self._identity or self._by_date is None:
            return None
        shown = self._by_date.get(value, frozenset())
        record = newest(place, value)
        while record is not None and _shown(record) != shown:
            record = newest(place, value, below=record.generation)
        return Opened(record) if record is not None or not shown else None

    @cached_property
    def _by_date(self) -> dict[str, frozenset[str]] | None:
        """The locations of each date; None: the index is lost or damaged."""
        if self._data is None:
            return None
        dates: dict[str, set[str]] = {}
        try:
            for entry in decode_tlmi(self._data, "the location index") if self._data else ():
                dates.setdefault(entry.key.value, set()).add(entry.key.internal)
        except FormatError:
            return None
        return {value: frozenset(internals) for value, internals in dates.items()}


def _generation(place: TablePlace, value: str) -> int | SparkhavenError:
    """That of the newest complete record of a date, 0 without one, or the error of reading it, for who asks for it."""
    try:
        record = newest(place, value)
    except SparkhavenError as error:
        return error
    return record.generation if record is not None else 0


def _read(place: TablePlace) -> bytes | None:
    """The index, empty where the table has no history yet; None: it is lost, or cannot be read, as a damaged one."""
    path = place.metadata_index
    try:
        if place.fs.stat(path) is not None:
            return place.fs.read(path)
    except OSError:
        return None
    return None if any(newest(place, value) for value in all_values(place)) else b""


def moved(place: TablePlace, record: MergeRecord) -> SnapshotMovedError:
    """The error for a date whose rows of then are neither in the files of ``record`` nor in newer ones."""
    location = place.history_location(LocationKey(record.outputs[0].internal, record.value))
    return history_left(location, f"merge {record.generation} of {record.value}")


def history_left(location: Path, expected: str) -> SnapshotMovedError:
    """The error for a pinned location of history that was removed; ``expected`` of it."""
    return SnapshotMovedError(
        "history of the date was changed since the table was opened, and its files of then are gone",
        where=location,
        expected=expected,
        found="its locations were removed",
        hint="open the table again",
        phase="read",
    )


def _shown(record: MergeRecord) -> frozenset[str]:
    return frozenset(output.internal for output in record.outputs if output.rows)
