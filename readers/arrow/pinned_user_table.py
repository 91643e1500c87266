"""The rows of a user table as they were when it was opened; later saves do not change them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.readers.arrow.slices import PartitionValues, SliceReader
from sparkhaven.store.epochs.pins import Pin
from sparkhaven.store.epochs.recovery.set_aside import SetAside
from sparkhaven.store.errors import CorruptFileError, SnapshotMovedError, TableNotFoundError, near
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.checksums import Checks
from sparkhaven.store.scan.location_files import LocationFiles
from sparkhaven.store.scan.narrowing import Filter, kept_slices
from sparkhaven.store.scan.ranges import ReadPlan, Snapshot
from sparkhaven.store.scan.selection import Selection, check_tier, refuse_unknown_values
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.datatypes import CHAR_NULL
from sparkhaven.store.types.model import Column
from sparkhaven.store.types.null_char import with_null_char
from sparkhaven.store.users.location_record import CommittedRows
from sparkhaven.store.users.user_table import UserTable, intraday_location, load_user_table, splayed_of

LOOKS = 5  # at the directory of a splayed table that is replaced meanwhile


class PinnedUserTable(PinnedTable):
    """The state of a user table after one save. It pickles.

    What was saved stands for tier ``history``. Dates that no save has come from the directory of intraday data.

    A read is a SnapshotMovedError where the rows were replaced long ago, and their files are gone.
    """

    def __init__(
        self, place: TablePlace, user: UserTable, checks: Checks | None = None, null_char: int = CHAR_NULL
    ) -> None:
        super().__init__(place, Snapshot(place.table, with_null_char(user.schema, null_char), ()), (), checks)
        self.user, self.null_char = user, null_char

    def with_checks(self, checks: Checks | None) -> PinnedTable:
        return PinnedUserTable(self._place, self.user, checks, self.null_char)

    def narrowed(self, slices: Iterable[Slice]) -> PinnedTable:
        return self

    def detached(self) -> PinnedTable:
        return self

    @property
    def set_aside(self) -> list[SetAside]:
        return []

    def _plan(self, selection: Selection, tier: str, where: Filter | None) -> ReadPlan:
        table, places = self.snapshot.table, [*self._locations(check_tier(tier))]
        values = {key.value for _, key, _ in places if key.value}
        every = {key.value for key in (*self.user.locations, *self.user.intraday) if key.value}
        refuse_unknown_values(table, selection, check_tier(tier), values, every)
        sources = {key.internal for _, key, _ in places if key.internal}
        for wanted in selection.sources or ():
            if not any(Selection.of(None, wanted).takes_source(source) for source in sources):
                raise TableNotFoundError(
                    f"{table} has no source {wanted!r}", expected=near(wanted, sources), found=wanted
                )
        slices = [
            Slice(part, None, key, str(self._directory(part, key)), 0, held.rows, held.rows, held.files, {})
            for part, key, held in sorted(places, key=lambda place: (place[1].value, place[1].internal))
            if held.rows and selection.takes_value(key.value) and selection.takes_source(key.internal)
        ]
        kept = kept_slices(self.schema, slices, where)
        return ReadPlan(tuple(kept), sum(slice_.count for slice_ in kept))

    def _locations(self, tier: str) -> Iterator[tuple[Literal["intraday", "history"], LocationKey, CommittedRows]]:
        """The locations of a tier, those of all with each row once."""
        if tier != "intraday":
            yield from (("history", key, held) for key, held in self.user.locations.items())
        if tier != "history":
            intraday = self.user.intraday if tier == "intraday" else self.user.unsaved
            yield from (("intraday", key, held) for key, held in intraday.items())

    def _directory(self, tier: str, key: LocationKey) -> Path:
        if tier == "intraday":
            return intraday_location(self._place, key)
        return self._place.splayed if self.user.splayed else self._place.user_location(key)

    def _reader(
        self,
        slice_: Slice,
        shown: Sequence[Column],
        filtered: Sequence[Column],
        values: PartitionValues,
        pin: Pin | None,
        *,
        later: bool,
    ) -> SliceReader:
        """A reader that has opened all its files, those of the directory that was pinned."""
        files = LocationFiles(self._place.fs, self._checks, kept=0)  # a later save may take the place of these
        for _ in range(LOOKS):
            directory = splayed_of(self._place, self.user.since) if self.user.splayed else slice_.directory
            if directory is None:
                break
            placed = replace(slice_, path=str(directory))
            reader = SliceReader(files, placed, shown, filtered, values, pin, later=later)
            try:
                reader.open()
            except (CorruptFileError, FileNotFoundError):
                if self._place.fs.stat(directory) is None:
                    continue
                if not self.user.splayed or splayed_of(self._place, self.user.since) == directory:
                    raise
                continue
            if not self.user.splayed or splayed_of(self._place, self.user.since) == directory:
                return reader
        raise SnapshotMovedError(
            "the rows were replaced since the table was opened, and their files are gone",
            where=slice_.directory,
            expected=f"{slice_.rows} rows, as of save {self.user.save}",
            found="those of a later save",
            hint="open the table again",
        )


def pinned_user_table(place: TablePlace, checks: Checks | None, null_char: int = CHAR_NULL) -> PinnedUserTable:
    """The newest state of a user table. TableNotFoundError: there is none of this name."""
    user = load_user_table(place)
    if user is None:
        raise TableNotFoundError(f"no user table {place.table}", where=place.user_definition)
    return PinnedUserTable(place, user, checks, null_char)
