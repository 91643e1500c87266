"""Opening several tables at one moment: those that one feed fills, at one position of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sparkhaven.readers.arrow.opening import open_place
from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.readers.arrow.snapshot import Snapshot, pinned_of
from sparkhaven.store.epochs.reading.joint_epochs import KeptEpochs, are_level, joint_epochs, kept_epochs, of_one_feed
from sparkhaven.store.errors import TableNotFoundError, TooEarlyError
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.scan.selection import Tier

ATTEMPTS = 5  # a stream may commit, and forget old epochs, between two looks at its logs


@dataclass(frozen=True, slots=True)
class Opening:
    """How tables are opened together; ``newest``: each at its newest epoch, wherever its feed was then."""

    as_of: datetime | str | None = None
    tier: Tier = "all"
    skip_set_aside: bool = False
    newest: bool = False


def open_together(places: Sequence[TablePlace], how: Opening) -> list[Snapshot]:
    """Opens tables; those that one feed fills show the same part of it.

    Each is pinned at its newest epoch (or that of ``as_of``). Tables that have a stream in common, from one stream file
    with ``[[tables]]``, then go back to the furthest position of the feed that all of them have. So of each message or
    file, all rows are there in whichever table they belong to, or none are.

    Raises what ``open_place`` raises. TooEarlyError: tables of one feed have no position in common among their kept
    epochs, since one was rolled back further than the others keep epochs.
    """
    options: dict[str, Any] = {"skip_set_aside": how.skip_set_aside}
    for attempt in range(ATTEMPTS):
        opened = [pinned_of(open_place(place, as_of=how.as_of, **options)) for place in places]
        if how.newest:
            break
        try:
            for number, epochs in enumerate(_joint(opened)):
                if epochs != opened[number].epochs:
                    opened[number] = pinned_of(open_place(places[number], epoch=epochs, **options))
            break
        except TableNotFoundError:  # an epoch is kept no longer
            if attempt == ATTEMPTS - 1:
                raise
    return [Snapshot(table, how.tier) for table in opened]


def feed_positions(tables: Iterable[Snapshot]) -> dict[str, Mapping[str, int]]:
    """Where the streams that several of the tables have in common stand: by stream, then by topic partition.

    Of a feed of files it is the number of those that are remembered as taken.
    """
    streams: dict[str, list[PinnedTable]] = {}
    for table in map(pinned_of, tables):
        for stream in table.epochs:
            streams.setdefault(stream, []).append(table)
    states = {stream: having[0].pin(stream).state for stream, having in streams.items() if len(having) > 1}
    return {stream: state.offsets.positions() or {"files": len(state.files)} for stream, state in states.items()}


def _joint(opened: Sequence[PinnedTable]) -> list[dict[str, int]]:
    """The epochs of each table, with those of streams that others have too at one position."""
    epochs = [dict(table.epochs) for table in opened]
    for stream in sorted({stream for table in opened for stream in table.epochs}):
        numbers = [number for number, table in enumerate(opened) if stream in table.epochs]
        if len(numbers) < 2 or are_level([opened[number].pin(stream).state for number in numbers]):
            continue
        number_of = {opened[number].place.of_stream(stream): number for number in numbers}
        kept = [kept_epochs(place, epochs[number][stream]) for place, number in number_of.items()]
        for group in of_one_feed(kept):
            joint = joint_epochs(group) if len(group) > 1 else {}
            if joint is None:
                raise _apart(group)
            for place, epoch in joint.items():
                epochs[number_of[place]][stream] = epoch
    return epochs


def _apart(group: Sequence[KeptEpochs]) -> TooEarlyError:
    places: list[StreamPlace] = [kept.place for kept in group]
    return TooEarlyError(
        f"the tables of stream {places[0].stream!r} have no position of their feed in common",
        where=", ".join(str(place.table) for place in places),
        expected="a kept epoch of each with the same position",
        found=", ".join(f"{kept.place.table} epochs {kept.epochs[0]} to {kept.epochs[-1]}" for kept in group),
        hint="let the stream run until the table that was rolled back has caught up. With --newest (newest=True) each"
        " table is read at its newest epoch",
    )
