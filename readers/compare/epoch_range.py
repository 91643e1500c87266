"""The intraday rows that a range of epochs of one stream has added, as slices of a snapshot.

The commit log has lengths and checksums of each file before the range and after it. Where both are the same in two
roots, so are the bytes between, and no row is read. The epoch before the range must be kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sparkhaven.readers.arrow.opening import open_place
from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.errors import SettingsError, SnapshotMovedError
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.committed_columns import FileState


@dataclass(frozen=True, slots=True)
class EpochRange:
    """Epochs ``first`` to ``last`` of a stream; None: of the only one of a table."""

    stream: str | None
    first: int
    last: int

    @staticmethod
    def parse(text: str) -> EpochRange:
        """``A..B`` or ``STREAM=A..B``. SettingsError: another form."""
        stream, equals, numbers = text.rpartition("=")
        first, dots, last = numbers.partition("..")
        if (equals and not stream) or not dots or not (first.isdecimal() and last.isdecimal()):
            raise SettingsError("--epochs is no range", expected="A..B or STREAM=A..B", found=repr(text))
        if not 1 <= int(first) <= int(last):
            raise SettingsError("--epochs is an empty range", expected="1 <= A <= B", found=repr(text))
        return EpochRange(stream or None, int(first), int(last))

    def of(self, place: TablePlace) -> str:
        """The stream of a table. SettingsError: it has several, and none is named."""
        streams = list_streams(place)
        if self.stream is not None:
            return self.stream
        if len(streams) != 1:
            raise SettingsError(
                "--epochs names no stream of a table that has several",
                where=str(place.table),
                expected="STREAM=A..B",
                found=f"{self.first}..{self.last}, streams {', '.join(streams) or 'none'}",
            )
        return streams[0]


@dataclass(frozen=True, slots=True)
class AddedRows:
    """A snapshot at the end of a range, and what the range has added: ``begun`` has the files before it by location."""

    pinned: PinnedTable
    slices: tuple[Slice, ...]
    begun: Mapping[LocationKey, Mapping[str, FileState]]


def added_rows(place: TablePlace, epochs: EpochRange) -> AddedRows:
    """The rows that a range of epochs has added to intraday, merged or not.

    TableNotFoundError: no such stream, or the epoch before the range is not kept. SnapshotMovedError: rows of a date
    were truncated since.
    """
    stream = epochs.of(place)
    pinned = pinned_of(open_place(place, epoch={stream: epochs.last}))
    before = load_stream(place.of_stream(stream), epoch=epochs.first - 1)
    begun: dict[LocationKey, Mapping[str, FileState]] = {}
    starts: dict[LocationKey, int] = {}
    for key, location in pinned.pin(stream).state.locations.items():
        if location.truncated and location.epoch >= epochs.first:
            raise SnapshotMovedError(
                "rows of these epochs were truncated",
                where=f"{place.table} {key.value}, source {key.internal}",
                expected="rows that are intraday",
                found="an empty location",
                hint=f"compare the date without --epochs: its history has the rows of {place.table}",
            )
        old = before.locations.get(key)
        if old is not None and old.since == location.since and not old.truncated:
            starts[key], begun[key] = old.rows, dict(old.files.items())
    slices = [
        _from(slice_, starts.get(slice_.key, 0))
        for slice_ in pinned.plan(tier="intraday").slices
        if slice_.stream == stream and slice_.stop > starts.get(slice_.key, 0)
    ]
    return AddedRows(pinned, tuple(slices), begun)


def _from(slice_: Slice, start: int) -> Slice:
    """The rows of a slice from a row of its location on."""
    if slice_.start >= start:
        return slice_
    selected = slice_.selected
    kept = None if selected is None else selected.within(start, slice_.stop)
    return replace(slice_, start=start, selected=kept)
