"""What the history of a table was when it was opened, from its location index: one file, whatever the number of dates.

A merge writes the index anew just before its record counts, and each location of it has a name of its own. So the
locations that the index had of a date name the record that a reader saw. While the index is the same file, no merge was
published, and it is not decoded. Of one that is lost the records of all dates are looked at. Of one that is damaged, or
names locations of no record, nobody knows what a reader saw: once it is another file, reads are an error.

Of a few dates the record itself is looked at when the table is opened. Between index and record the index is ahead: of
dates that are being published then, or whose merge was killed there. Where the index names no location of a date that
intraday has, it does not tell a date that was never merged from one whose merged rows are all gone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock

from sparkhaven.store.errors import FormatError, SnapshotMovedError, SparkhavenError
from sparkhaven.store.format.index.tlmi import decode_tlmi
from sparkhaven.store.format.java.object_writer import utf
from sparkhaven.store.io.open_files import Identity
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.history import dates_in_publication, keeps_rows, takes_as_much
from sparkhaven.store.merges.merge_records import MergeRecord, all_values, generations, load_record, newest
from sparkhaven.store.merges.merge_run import ADOPTED, Relocated
from sparkhaven.store.places import TablePlace

_READ: OrderedDict[Path, HistoryPin] = OrderedDict()  # by the path of the index
_READ_LOCK = Lock()
FEW = 16  # dates that are looked for one by one
NONE = -1  # of a date without a record
READ = 16  # indexes whose bytes stay in memory for the next opening


@dataclass(frozen=True, slots=True)
class Opened:
    """The record of a date that readers used when the table was opened; None: there was none."""

    record: MergeRecord | None

    def shows(self, record: MergeRecord, columns: Collection[int]) -> bool:
        """Whether a record has the rows of then, in columns of these ids: it was there, or it has kept all of them.

        So has one that has adopted what readers saw, see ``adopted``.
        """
        return not self.is_newer(record) or self.adopted(record) or keeps_rows(self.record, record, columns)

    def merged_as_much(self, record: MergeRecord) -> bool:
        """Whether a record that ``shows`` the rows of then took no more in than history had then."""
        return not self.is_newer(record) or self.adopted(record) or takes_as_much(self.record, record)

    def adopted(self, record: MergeRecord) -> bool:
        """Whether a record is that of then, and what else stood when it was adopted."""
        generation = self.record.generation if self.record is not None else 0
        return record.run.relocated == Relocated(ADOPTED, str(generation))

    def changed_by_hand(self, record: MergeRecord) -> frozenset[str]:
        """The locations that a record has and that of then had not, or the reverse, of one that has adopted others."""
        if not self.adopted(record) or keeps_rows(self.record, record, ()):
            return frozenset()
        return _shown(record) ^ (_shown(self.record) if self.record is not None else frozenset())

    def is_newer(self, record: MergeRecord) -> bool:
        """Whether a record came after the table was opened."""
        return self.record is None or record.generation > self.record.generation


class HistoryPin:
    """The index of a table as it was; ``data`` None: it was not there, though the table had history.

    ``generations``: those of the records of dates of which the index does not tell; NONE where there was none, or
    the error of reading it. Made by ``of``; it pickles.
    """

    def __init__(
        self,
        identity: tuple[Identity, ...] | None,
        data: bytes | None,
        generations: Mapping[str, int | SparkhavenError] | None = None,
    ) -> None:
        self._identity, self._data, self._generations = identity, data, generations or {}
        self._named: dict[str, bool] = {}  # whether the index has a name, as far as it was asked

    @classmethod
    def of(cls, place: TablePlace, intraday: Iterable[str] = ()) -> HistoryPin:
        """Reads the index, unless it is the one that this process has read last. ``intraday``: dates that are there."""
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
        # after reading: a merge names a date before it writes the index
        dates = {*dates_in_publication(place), *pin._untold(place, intraday)}
        if not dates:
            return pin
        merged = dates if len(dates) <= FEW else dates.intersection(all_values(place))
        generations = {value: _generation(place, value) for value in merged}
        return cls(pin._identity, pin._data, dict.fromkeys(dates, NONE) | generations)

    def _untold(self, place: TablePlace, intraday: Iterable[str]) -> Iterable[str]:
        """Dates of which the index does not tell what readers use."""
        if self._data is None:
            return (*intraday, *all_values(place))
        return (value for value in intraday if not self._names(value))

    def _names(self, value: str) -> bool:
        """Whether the index has a name: that of a date, or of an internal partition that is called the same."""
        if value not in self._named:
            self._named[value] = utf(value) in (self._data or b"")
        return self._named[value]

    def refuse_dropped(self, place: TablePlace) -> None:
        """SnapshotMovedError: the table had history, and neither index nor records are there: it was dropped."""
        if not self._data and all(generation == NONE for generation in self._generations.values()):
            return
        if any(place.fs.stat(path) is not None for path in (place.metadata_index, place.merges)):
            return
        raise SnapshotMovedError(
            "the table was dropped since it was opened, and its files are gone",
            where=place.merges,
            expected="the merge records of its history",
            found="nothing",
            hint="open the table again",
            phase="read",
        )

    def opened(self, place: TablePlace, value: str) -> Opened | None:
        """What readers used of a date; None where nothing was published since.

        CorruptFileError: the record that decided was damaged. SnapshotMovedError: the index does not tell.
        """
        generation = self._generations.get(value)
        if isinstance(generation, SparkhavenError):
            raise generation
        if generation is not None:
            return Opened(load_record(place, value, generation) if generation != NONE else None)
        path = place.metadata_index
        if place.fs.identities(path.parent, [path.name]) == self._identity:
            return None
        record = newest(place, value)
        if self._by_date is None:
            if record is None:
                return None
            raise _untellable(place, value, "a location index that was damaged then")
        shown = self._by_date.get(value, frozenset())
        named = {name for number in generations(place, value) for name in _shown(load_record(place, value, number))}
        own = shown & named  # others stood in history without a record, which is no matter of records
        while record is not None and _shown(record) not in (shown, own):
            record = newest(place, value, below=record.generation)
        if record is None and shown and named:
            raise _untellable(place, value, f"locations {', '.join(sorted(shown))}, which no merge record has")
        if record is not None and not shown and self._names(value):
            raise _untellable(place, value, "a location index that names it otherwise than as a date")
        return Opened(record)

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
    """That of the newest complete record of a date, NONE without one, or the error of reading it for who asks."""
    try:
        record = newest(place, value)
    except SparkhavenError as error:
        return error
    return record.generation if record is not None else NONE


def _read(place: TablePlace) -> bytes | None:
    """The index, empty where the table has no history yet; None: it is lost, or cannot be read, as a damaged one."""
    path = place.metadata_index
    try:
        if place.fs.stat(path) is not None:
            return place.fs.read(path)
    except OSError:
        return None
    return None if any(newest(place, value) for value in all_values(place)) else b""


def _untellable(place: TablePlace, value: str, index: str) -> SnapshotMovedError:
    return SnapshotMovedError(
        "history was changed since the table was opened, and what it was then is not known",
        where=place.metadata_index,
        expected=f"the locations that {value} had",
        found=index,
        hint="open the table again",
        phase="read",
    )


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
