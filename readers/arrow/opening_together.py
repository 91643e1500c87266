"""Opening several tables at one moment: those that one feed fills, at one position of it.

The epochs at which several tables have taken the same part of the feed that fills them.

Each table of a feed has a log of its own, and a batch commits in one after the other. So the newest epochs of two
tables may differ by a batch: a reader came between the commits, a process was killed there, or a table was rolled back.
The position that each epoch records tells which of them belong together, whatever their numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sparkhaven.readers.arrow.opening import open_place
from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.readers.arrow.snapshot import Snapshot, pinned_of
from sparkhaven.store.epochs.reading.log_reader import read_files
from sparkhaven.store.epochs.state.file_positions import FileWindow
from sparkhaven.store.epochs.state.joint_positions import OF_FEEDS, lacks
from sparkhaven.store.epochs.state.log_records import CommitRecord, EpochRecord
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.epochs.state.offsets import Offsets
from sparkhaven.store.epochs.state.position_kinds import source_of
from sparkhaven.store.epochs.state.replay import StreamState, chain
from sparkhaven.store.errors import TableNotFoundError, TooEarlyError
from sparkhaven.store.framing.log_frames import refuse_damage
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


Ends = tuple[tuple[str, int, int, str], ...]  # topic, partition, where it stops, id of the topic


@dataclass(frozen=True, slots=True)
class KeptEpochs:
    """The kept epochs of a stream up to one of them, oldest first, with what each has taken of its feed.

    ``queries``: the runs that committed them. ``window``: the files taken before the first one, ``taken`` those since.
    """

    place: StreamPlace
    epochs: tuple[int, ...]
    ends: tuple[Ends, ...]
    taken: tuple[tuple[FileId, ...], ...]
    window: FileWindow
    queries: frozenset[str]

    def positions(self, files: Sequence[FileId]) -> Iterator[tuple[int, tuple[Ends, int]]]:
        """Each epoch with its position: the ends, and which of ``files`` are taken, as bits."""
        numbers = {file: number for number, file in enumerate(files)}
        bits = sum(1 << number for file, number in numbers.items() if not lacks(self.window, file))
        for epoch, ends, taken in zip(self.epochs, self.ends, self.taken, strict=True):
            for file in taken:
                bits |= 1 << numbers[file]
            yield epoch, (ends, bits)


def kept_epochs(place: StreamPlace, newest: int | None = None) -> KeptEpochs:
    """The kept epochs of a stream up to ``newest`` (None: all); raises what ``load_stream`` raises."""
    files = read_files(place)
    refuse_damage(files.found, place.stream_log)
    before = files.checkpoint.state
    offsets = Offsets(dict(before.offsets.items()))
    queries = {before.last_query}
    epochs, ends = [before.epoch], [_ends(offsets)]
    taken: list[tuple[FileId, ...]] = [()]
    for record in chain(files.records, files.epoch, newest, files.path):
        some: tuple[FileId, ...] = ()
        if isinstance(record, CommitRecord):
            offsets.take(record.batch.ranges)
            queries.add(record.batch.query_id)
            some = record.batch.files
        if isinstance(record, EpochRecord):
            epochs.append(record.epoch)
            ends.append(_ends(offsets))
            taken.append(some)
    runs = frozenset(query for query in queries if query is not None and _is_run(query))
    return KeptEpochs(place, tuple(epochs), tuple(ends), tuple(taken), before.files, runs)


def are_level(states: Sequence[StreamState]) -> bool:
    """Whether all have taken the same of their feeds; False also where only a look at their logs can tell."""
    first, *others = states
    return all(_ends(state.offsets) == _ends(first.offsets) and state.files == first.files for state in others)


def of_one_feed(streams: Sequence[KeptEpochs]) -> list[list[KeptEpochs]]:
    """Streams in groups, each of them fed by the same runs: of one stream file with ``[[tables]]``."""
    groups: list[tuple[set[str], list[KeptEpochs]]] = []
    for stream in streams:
        joined = [group for group in groups if group[0] & stream.queries]
        groups = [group for group in groups if group not in joined]
        queries = set(stream.queries).union(*(queries for queries, _ in joined))
        groups.append((queries, [*(member for _, members in joined for member in members), stream]))
    return [members for _, members in groups]


def joint_epochs(streams: Sequence[KeptEpochs]) -> dict[StreamPlace, int] | None:
    """The newest epoch of each stream at the furthest position that all of them have; None: they have none.

    The positions of one stream only grow from epoch to epoch, since a rolled-back epoch is not kept.
    """
    files = _told_apart(streams)
    known = [{position: epoch for epoch, position in stream.positions(files)} for stream in streams]
    for position in reversed(known[0]):
        if all(position in of_stream for of_stream in known):
            return {stream.place: epoch_at[position] for stream, epoch_at in zip(streams, known, strict=True)}
    return None


def _told_apart(streams: Sequence[KeptEpochs]) -> list[FileId]:
    """The files that an epoch of some stream has taken, and an epoch of some stream has not."""
    since = {file for stream in streams for taken in stream.taken for file in taken}
    windows = [stream.window for stream in streams]
    before = {file for window in windows for file in window if any(lacks(other, file) for other in windows)}
    return sorted(since | before)


def _ends(offsets: Offsets) -> Ends:
    return tuple(
        (topic, partition, end.stop, end.topic_id)
        for (topic, partition), end in offsets.items()
        if source_of(topic).kind in OF_FEEDS
    )


def _is_run(query: str) -> bool:
    """Whether it is the id of a run, and not a word that all writes of a kind have."""
    try:
        return str(UUID(query)) == query
    except ValueError:
        return False
