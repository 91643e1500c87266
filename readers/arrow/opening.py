"""Opening a table, or several at one moment: reads schemas and pins snapshots, one epoch of each stream.

Only the deployed schema, the commit logs and the bytes of the location index are read. A read looks up history when it
runs, date by date, and finds it as it was.

Tables that one feed fills are opened together at one position of it. Each table of a feed has a log of its own, and a
batch commits in one after the other. So the newest epochs of two tables may differ by a batch: a reader came between
the commits, a process was killed there, or a table was rolled back. The position that each epoch records tells which of
them belong together, whatever their numbers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from sparkhaven.readers.arrow.pinned_table import PinnedTable, pinned_user_table
from sparkhaven.readers.arrow.snapshot import Snapshot, pinned_of
from sparkhaven.store import next_steps
from sparkhaven.store.epochs.pins import Pin
from sparkhaven.store.epochs.reading.log_reader import read_files
from sparkhaven.store.epochs.reading.stream_state import list_epochs, list_streams, load_stream
from sparkhaven.store.epochs.recovery.witnesses import Witnesses, refuse
from sparkhaven.store.epochs.state.file_positions import FileWindow
from sparkhaven.store.epochs.state.log_records import CommitRecord, EpochRecord
from sparkhaven.store.epochs.state.log_values import FileId, source_of
from sparkhaven.store.epochs.state.offsets import Offsets
from sparkhaven.store.epochs.state.replay import OF_FEEDS, StreamState, chain, lacks
from sparkhaven.store.errors import (
    InvalidNameError,
    SettingsError,
    TableNotFoundError,
    TooEarlyError,
    as_storage_errors,
    near,
)
from sparkhaven.store.framing import refuse_damage
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.dropped_tables import doomed
from sparkhaven.store.places import StreamPlace, TablePlace, followed_root
from sparkhaven.store.scan import ranges
from sparkhaven.store.scan.checksums import Checks, ChecksumVerify, checks_of, chosen_mode
from sparkhaven.store.scan.history_pins import HistoryPin
from sparkhaven.store.scan.selection import Tier
from sparkhaven.store.scan.standing import has_standing
from sparkhaven.store.schema.deployed.deploy import deployed_tables, load_deployed
from sparkhaven.store.types.model import TableSchema
from sparkhaven.store.types.null_char import chosen_null_char, with_null_char
from sparkhaven.store.user_tables import is_user_table, list_user_tables

ATTEMPTS = 5  # a stream may commit, and forget old epochs, between two looks at its logs
Ends = tuple[tuple[str, int, int, str], ...]  # topic, partition, where it stops, id of the topic


def open_table(
    root: str | Path,
    name: str,
    *,
    epoch: int | Mapping[str, int] | None = None,
    as_of: datetime | str | None = None,
    checksum_verify: ChecksumVerify | None = None,
    null_char: str | int | None = None,
    skip_set_aside: bool = False,
    fs: Fs | None = None,
) -> Snapshot:
    """Opens ``NS.T`` below a database root, pinned at the newest epochs, at given ones, or as it was at a time.

    ``epoch`` is one number for a table of one stream, or stream -> epoch (streams left out: newest). ``as_of`` is a
    time with zone, or ISO text (default zone: UTC). With ``skip_set_aside`` reads omit the rows of damaged locations
    that were set aside (``Table.set_aside`` names them), else a read that needs them is a CorruptFileError. Raises
    TableNotFoundError for an unknown table, stream or epoch.

    ``checksum_verify`` says when reads compare committed bytes with their checksums: ``read`` when a file is first
    read in this process, whole, and later its growth (default; else SPARKHAVEN_CHECKSUM_VERIFY), ``open`` each time
    that it is opened, ``scrub`` and ``off`` never: then only `verify --deep` does. A difference is a CorruptFileError.

    ``null_char`` is the null of char in column files: 0xFFFF (default; else SPARKHAVEN_NULL_CHAR), or 0xFFFE for files
    that Deephaven wrote before November 2021.

    Intraday data of user tables is read where SPARKHAVEN_USER_INTRADAY names its directory below the root.
    """
    fs = fs or Fs()
    return open_place(
        TablePlace(fs, Layout(followed_root(fs, local_path(root))), TableName.parse(name)),
        epoch=epoch,
        as_of=as_of,
        checksum_verify=checksum_verify,
        null_char=null_char,
        skip_set_aside=skip_set_aside,
    )


def open_place(
    place: TablePlace,
    *,
    epoch: int | Mapping[str, int] | None = None,
    as_of: datetime | str | None = None,
    checksum_verify: ChecksumVerify | None = None,
    null_char: str | int | None = None,
    skip_set_aside: bool = False,
) -> Snapshot:
    """Opens the table at a place, as ``open_table`` does by its name."""
    checks, null = checks_of(chosen_mode(checksum_verify, os.environ)), chosen_null_char(null_char, os.environ)
    if epoch is not None and as_of is not None:
        raise SettingsError("epoch and as_of exclude each other", expected="one of the two", found="both")
    with as_storage_errors():
        user = is_user_table(place)
        try:
            schema = with_null_char(load_deployed(place), null)
        except TableNotFoundError:
            if user:
                return _user_table(place, checks, null, (epoch, as_of))
            if doomed(place) is not None:
                raise
            raise _no_table(place) from None
        if user:
            raise _ambiguous(place)
        streams = list_streams(place)
        if not streams:
            refuse(Witnesses(place, ()).locations())
        if as_of is None:
            pins = _pins(place.table, streams, epoch)
        else:
            moment = _milliseconds(as_of)
            pins = {stream: _epoch_at(place.of_stream(stream), moment) for stream in streams}
        held = [Pin.of(place.of_stream(stream), epoch=pins.get(stream)) for stream in streams]
        return Snapshot(pinned_table(place, schema, held, checks, skip_set_aside=skip_set_aside))


def _user_table(place: TablePlace, checks: Checks | None, null_char: int, pins: tuple[object, object]) -> Snapshot:
    epoch, as_of = pins
    if epoch is not None or as_of is not None:
        raise SettingsError(
            f"{place.table} is a user table, which has no epochs",
            where=place.user_definition,
            expected="neither epoch nor as_of",
            found="epoch" if epoch is not None else "as_of",
            hint="read it as it is now",
        )
    return Snapshot(pinned_user_table(place, checks, null_char))


def pinned_table(
    place: TablePlace,
    schema: TableSchema,
    held: Sequence[Pin],
    checks: Checks | None,
    *,
    skip_set_aside: bool = False,
    seen: Collection[str] | None = None,
) -> PinnedTable:
    """A table at pinned states of all its streams; CorruptFileError if a file names a later epoch than their logs.

    Of streams that are not in ``seen`` the snapshot has no rows; None: all are.
    """
    witnesses = Witnesses(place, [pin.state for pin in held])
    refuse(witnesses.beside_logs())
    for pin in held:
        refuse(witnesses.removed_by(pin.state.stream, pin.named))
    states = [p.state if seen is None or p.state.stream in seen else StreamState(p.state.stream) for p in held]
    intraday = {value for state in states for value in state.locations.dates()}
    snapshot = ranges.Snapshot(place.table, schema, tuple(states), HistoryPin.of(place, intraday), time.time_ns())
    return PinnedTable(place, snapshot, held, checks, skip_set_aside=skip_set_aside)


def _pins(table: TableName, streams: Sequence[str], epoch: int | Mapping[str, int] | None) -> dict[str, int]:
    if epoch is None:
        return {}
    if not isinstance(epoch, Mapping):
        if len(streams) != 1:
            raise SettingsError(
                f"{table} has {len(streams)} streams, and one epoch is given",
                expected="stream=epoch for one or more of: " + ", ".join(streams),
                found=epoch,
                hint=next_steps.streams(table),
            )
        return {streams[0]: int(epoch)}
    for stream in epoch:
        if stream not in streams:
            raise TableNotFoundError(
                f"{table} has no stream {stream!r}",
                expected=near(stream, streams),
                found=repr(stream),
                hint=next_steps.streams(table),
            )
    return {stream: int(number) for stream, number in epoch.items()}


def _epoch_at(place: StreamPlace, time_ms: int) -> int:
    """The newest epoch committed at that time and not rolled back since; 0 before the first one."""
    past = [entry.epoch for entry in list_epochs(place) if entry.live and entry.time_ms <= time_ms]
    if past:
        return past[-1]
    newest = load_stream(place)
    floor = load_stream(place, epoch=newest.floor)
    if any(location.time_ms > time_ms for location in floor.locations.values()):
        raise TableNotFoundError(
            f"stream {place.stream!r} retains no epoch of that time",
            where=place.stream_log,
            expected=f"epoch {newest.floor} or newer, by its time",
            found=datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(),
            hint=f"`sparkhaven epochs list {place.table} {place.stream}` lists the retained epochs with their times",
        )
    return newest.floor


def _milliseconds(moment: datetime | str) -> int:
    try:
        parsed = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    except ValueError:
        raise SettingsError(
            "as_of is not a time", expected="ISO, like 2026-11-21T09:30:00Z", found=repr(moment)
        ) from None
    zoned = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return int(zoned.timestamp() * 1000)


def _ambiguous(place: TablePlace) -> InvalidNameError:
    return InvalidNameError(
        f"{place.table} names two tables, one of the system and one of a user",
        expected="one table of this name",
        found=f"{place.schema} and {place.user_definition}",
        hint="move one of them to another root or name",
    )


def require_table(place: TablePlace) -> None:
    """TableNotFoundError: there is neither a system table of this name nor a user table."""
    if place.fs.stat(place.schema) is None and not is_user_table(place):
        raise _no_table(place)


def known_tables(fs: Fs, layout: Layout) -> list[TableName]:
    """Every table that ``open_table`` may be asked for: those with a deployed schema, and user tables."""
    return sorted({*deployed_tables(fs, layout), *list_user_tables(fs, layout)})


def _no_table(place: TablePlace) -> TableNotFoundError:
    names = [str(name) for name in known_tables(place.fs, place.layout)]
    if place.fs.stat(place.layout.root) is None:
        hint = "there is no such directory. Check --root or SPARKHAVEN_ROOT"
    elif has_standing(place):
        hint = (
            "history of the table stands there without a schema, which has the types. Run `sparkhaven schema deploy "
            f"FILE`, or copy {place.schema.name} and {place.schema_history.name} from the root that it comes from"
        )
    else:
        hint = "`sparkhaven tables` lists the tables. A table is created by the first run of its stream"
    return TableNotFoundError(
        f"no table {place.table}",
        where=place.schema,
        expected=near(str(place.table), names),
        found=str(place.table),
        hint=hint,
    )


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


def _apart(group: Sequence[EpochInputs]) -> TooEarlyError:
    places: list[StreamPlace] = [kept.place for kept in group]
    return TooEarlyError(
        f"the tables of stream {places[0].stream!r} have no position of their feed in common",
        where=", ".join(str(place.table) for place in places),
        expected="a kept epoch of each with the same position",
        found=", ".join(f"{kept.place.table} epochs {kept.epochs[0]} to {kept.epochs[-1]}" for kept in group),
        hint="let the stream run until the table that was rolled back has caught up. With --newest (newest=True) each"
        " table is read at its newest epoch",
    )


@dataclass(frozen=True, slots=True)
class EpochInputs:
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


def kept_epochs(place: StreamPlace, newest: int | None = None) -> EpochInputs:
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
    return EpochInputs(place, tuple(epochs), tuple(ends), tuple(taken), before.files, runs)


def are_level(states: Sequence[StreamState]) -> bool:
    """Whether all have taken the same of their feeds; False also where only a look at their logs can tell."""
    first, *others = states
    return all(_ends(state.offsets) == _ends(first.offsets) and state.files == first.files for state in others)


def of_one_feed(streams: Sequence[EpochInputs]) -> list[list[EpochInputs]]:
    """Streams in groups, each of them fed by the same runs: of one stream file with ``[[tables]]``."""
    groups: list[tuple[set[str], list[EpochInputs]]] = []
    for stream in streams:
        joined = [group for group in groups if group[0] & stream.queries]
        groups = [group for group in groups if group not in joined]
        queries = set(stream.queries).union(*(queries for queries, _ in joined))
        groups.append((queries, [*(member for _, members in joined for member in members), stream]))
    return [members for _, members in groups]


def joint_epochs(streams: Sequence[EpochInputs]) -> dict[StreamPlace, int] | None:
    """The newest epoch of each stream at the furthest position that all of them have; None: they have none.

    The positions of one stream only grow from epoch to epoch, since a rolled-back epoch is not kept.
    """
    files = _told_apart(streams)
    known = [{position: epoch for epoch, position in stream.positions(files)} for stream in streams]
    for position in reversed(known[0]):
        if all(position in of_stream for of_stream in known):
            return {stream.place: epoch_at[position] for stream, epoch_at in zip(streams, known, strict=True)}
    return None


def _told_apart(streams: Sequence[EpochInputs]) -> list[FileId]:
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
