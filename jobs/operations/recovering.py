"""Recovery of streams, as a command or a method asks for it, without ingest.

A lost or outdated commit log is rebuilt from the records of the locations, and damaged locations are set aside, before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypedDict

from sparkhaven.jobs.operations.epoch_changes import open_log
from sparkhaven.jobs.settings.keywords import Names, as_names
from sparkhaven.store import next_steps
from sparkhaven.store.epochs.files.lock import take_commit_lock, take_lock, take_lock_if_there
from sparkhaven.store.epochs.reading.stream_state import list_streams
from sparkhaven.store.epochs.recovery.directory_plan import damage_of
from sparkhaven.store.epochs.recovery.rebuild import PositionChoice, plan_state, rebuild
from sparkhaven.store.epochs.recovery.recover import RecoveryReport, preview_recovery
from sparkhaven.store.epochs.recovery.set_aside import SetAside, set_aside
from sparkhaven.store.epochs.recovery.survey import StreamSurvey, find
from sparkhaven.store.epochs.recovery.witnesses import require_stream, streams_without_log
from sparkhaven.store.epochs.state.log_values import VERSIONS, packed
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import CorruptFileError, SettingsError, SparkhavenError, TableNotFoundError, counted
from sparkhaven.store.instants import NS_PER_SECOND
from sparkhaven.store.io.fs import Fs, Lock
from sparkhaven.store.io.read_only_roots import is_copy
from sparkhaven.store.layout import Layout, LocationKey, TableName, check_partition, check_stream
from sparkhaven.store.merges.merge_records import lock_table
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.schema.deployed.deploy import deployed_tables

LATER = (
    "the stream ingests nothing until its positions are given. Run --from-locations again with --position"
    " TOPIC/PARTITION=OFFSET for each (the next message to read), --taken-until TIME (earlier files count as ingested),"
    " or --accept-positions"
)


class RebuildKeywords(TypedDict, total=False):
    """Whether a commit log is rebuilt, and where its stream goes on, as the options of ``sparkhaven recover``.

    ``position``: the next messages to read, ``TOPIC/PARTITION=OFFSET``. ``taken_until``: a time; files modified earlier
    count as ingested. ``accept_positions``: the known ones hold for all rows. ``back_to_known``: newer rows go.
    """

    from_locations: bool
    position: Names
    taken_until: str | None
    accept_positions: bool
    back_to_known: bool


def position_choice(given: RebuildKeywords) -> PositionChoice:
    """The choice of the words; SettingsError where they exclude each other or cannot be parsed."""
    positions, taken_until = as_names(given.get("position")) or (), given.get("taken_until")
    accept, back = given.get("accept_positions", False), given.get("back_to_known", False)
    if back and (positions or taken_until or accept):
        raise SettingsError(
            "--back-to-known excludes the other choices", expected="one of them", found="--back-to-known and another"
        )
    return PositionChoice(dict(_position(text) for text in positions), _moment(taken_until), accept, back)


def _position(text: str) -> tuple[tuple[str, int], int]:
    partition_name, equals, stop = text.rpartition("=")
    topic, slash, partition = partition_name.rpartition("/")
    if equals and stop.isdigit() and partition_name == "version":
        return (VERSIONS.topic, 0), packed(int(stop))
    if not (equals and slash and topic and partition.isdigit() and stop.isdigit()):
        raise SettingsError(
            "--position is not a position",
            expected="TOPIC/PARTITION=OFFSET of the next message, or version=N of the next version of a Delta table",
            found=repr(text),
        )
    return (topic, int(partition)), int(stop)


def _moment(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        expected = "ISO, like 2026-11-21T09:30:00Z"
        raise SettingsError("--taken-until is not a time", expected=expected, found=repr(text)) from None
    zoned = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return int(zoned.timestamp()) * NS_PER_SECOND


@dataclass(frozen=True, slots=True)
class RebuiltStream:
    """A rebuilt commit log, or one that would be, with ``dry_run``. ``unknown``: what the locations do not tell.

    ``positions``: whether those of the source are "given", "known" or "unknown"; ``positions_at`` has them.
    """

    stream: str
    dry_run: bool
    epoch: int
    generation: int
    known_epoch: int
    locations: int
    rows: int
    positions: str
    positions_at: Mapping[str, int]
    unknown: list[str]


def rebuild_stream(
    place: StreamPlace, choice: PositionChoice, aside: list[LocationKey], *, dry_run: bool, note: Callable[[str], None]
) -> RebuiltStream:
    """Rebuilds a commit log, or with ``dry_run`` only plans it."""
    now = int(time.time() * 1000)
    _refuse_sound(place)  # before locks are created
    with _locked(place, dry_run=dry_run) as commit_lock:
        _refuse_sound(place)
        stored = find(place)
        if not (stored.locations or stored.damaged or stored.unpublished or stored.epoch or stored.generation):
            raise TableNotFoundError(
                f"no data of a stream {place.stream!r}", where=place.intraday, expected="a location of this stream"
            )
        if dry_run:
            state = plan_state(place, stored, choice, aside=aside)
        else:
            state = rebuild(place, stored, choice, aside=aside, time_ms=now, commit_lock=commit_lock)
    rows, unknown = sum(location.rows for location in state.locations.values()), _unknown(stored, state, choice)
    note(f"{place.stream}: {'would rebuild' if dry_run else 'rebuilt'} as epoch {state.epoch}, {counted(rows, 'row')}")
    for line in unknown:
        note(f"  not known: {line}")
    return RebuiltStream(
        place.stream,
        dry_run,
        state.epoch,
        state.generation,
        stored.known.epoch,
        len(state.locations),
        rows,
        "given" if choice.made else "known" if state.offsets.unsettled is None else "unknown",
        state.offsets.positions(),
        unknown,
    )


@contextmanager
def _locked(place: StreamPlace, *, dry_run: bool) -> Iterator[Lock | None]:
    path = place.stream_lock
    if dry_run:
        with take_lock_if_there(place.fs, path):
            yield None
        return
    place.fs.keep_dirs(place.streams, place.layout.root)
    removals = place.stream_removals
    with take_lock(place.fs, path), lock_table(place), take_commit_lock(place.fs, removals) as commit_lock:
        yield commit_lock


def _refuse_sound(place: StreamPlace) -> None:
    """SettingsError: nothing is to be rebuilt. TableNotFoundError: no file names a stream that would have a log."""
    try:
        state = require_stream(place)
    except CorruptFileError:
        return
    if state.offsets.unsettled is None:
        raise SettingsError(
            "the commit log of this stream is complete",
            where=place.stream_log,
            expected="a log that is missing, damaged or older than what was published",
            found=f"epoch {state.epoch}",
            hint="nothing needs a rebuild. After a crash run `sparkhaven recover` without --from-locations",
        )


def _unknown(stored: StreamSurvey, state: StreamState, choice: PositionChoice) -> list[str]:
    known, unknown = stored.known.epoch, []
    if state.offsets.unsettled is not None:
        lost = f"epochs {known + 1} to {stored.epoch}"
        if known >= stored.epoch:
            lost = f"generations {stored.known.generation + 1} to {stored.generation}"
        unknown.append(f"source positions of {lost}. {LATER}")
    elif choice.back:
        unknown.append(f"rows after epoch {known}, which were dropped: they are read from the source again")
    if known < stored.epoch:
        unknown.append(f"which epochs existed between {known} and {state.epoch}: none can be rolled back to")
    without = sum(not location.stats and location.rows > 0 for location in state.locations.values())
    if without:
        unknown.append(f"statistics of {without} locations: reads there are correct, but skip no rows")
    if stored.unpublished:
        moved = ", ".join(map(str, stored.unpublished))
        unknown.append(f"the committed rows of locations without table.size, which are renamed: {moved}")
    return unknown


@dataclass(frozen=True, slots=True)
class RecoveryRequest:
    """What is recovered: all streams, those of a table, or one.

    ``quarantine``: damaged locations of the stream, INTERNAL/DATE, that are set aside first. ``from_locations``: its
    commit log is rebuilt first, with a ``choice`` of positions.
    """

    name: str | None = None
    stream: str | None = None
    quarantine: Sequence[str] = ()
    from_locations: bool = False
    choice: PositionChoice = field(default_factory=PositionChoice)
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class RecoveredStream:
    """A stream after its recovery, with a ``report``, or why it failed."""

    table: TableName
    stream: str
    report: RecoveryReport | None = None
    error: SparkhavenError | OSError | None = None


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a recovery has done, or with ``dry_run`` would do. ``streams`` is empty for a rebuild that is a dry run."""

    streams: tuple[RecoveredStream, ...] = ()
    set_aside: tuple[SetAside, ...] = ()
    rebuilt: RebuiltStream | None = None
    dry_run: bool = False


def recover_streams(layout: Layout, asked: RecoveryRequest, note: Callable[[str], None]) -> Recovery:
    """Recovers streams, each by itself: an error of one does not stop the others. In a copy it only reports.

    TableNotFoundError: there is no such table, stream or location. SettingsError: what is asked for cannot go together.
    """
    dry_run = asked.dry_run or (is_copy(layout.root) and not asked.from_locations and not asked.quarantine)
    aside: list[SetAside] = []
    rebuilt: RebuiltStream | None = None
    if asked.from_locations:
        if asked.name is None or asked.stream is None:
            raise SettingsError(
                "--from-locations is given without a stream", expected="recover NS.T STREAM --from-locations"
            )
        named, locations = TableName.parse(asked.name), [_location(text) for text in asked.quarantine]
        place = StreamPlace(Fs(), layout, named, check_stream(asked.stream))
        rebuilt = rebuild_stream(place, asked.choice, locations, dry_run=dry_run, note=note)
        if dry_run:
            return Recovery(rebuilt=rebuilt, dry_run=True)
    elif asked.choice.made:
        raise SettingsError(
            "positions are given without --from-locations", expected="recover NS.T STREAM --from-locations ..."
        )
    else:
        aside = _set_aside(layout, asked, note, dry_run=dry_run)
    streams: list[RecoveredStream] = []
    for table in _streamed_tables(layout, asked.name):
        for stream in _chosen_streams(table, asked.stream):
            try:
                report = _recovered(table.of_stream(stream), dry_run)
            except (SparkhavenError, OSError) as error:  # recover the other streams all the same
                streams.append(RecoveredStream(table.table, stream, error=error))
            else:
                streams.append(RecoveredStream(table.table, stream, report))
    return Recovery(tuple(streams), tuple(aside), rebuilt, dry_run)


def _recovered(place: StreamPlace, dry_run: bool) -> RecoveryReport:
    if dry_run:
        require_stream(place)
        return preview_recovery(place, time_ms=int(time.time() * 1000))
    with open_log(place) as log:
        return log.recovery


def _chosen_streams(place: TablePlace, stream: str | None) -> list[str]:
    """The named stream of a table, or all streams that have a commit log or left files behind."""
    names = [*list_streams(place), *streams_without_log(place)]
    if stream is None:
        return names
    if check_stream(stream) not in names:
        raise TableNotFoundError(
            f"{place.table} has no stream {stream!r}", expected=", ".join(names) or "none", found=repr(stream)
        )
    return [stream]


def _location(text: str) -> LocationKey:
    """``INTERNAL/DATE``; InvalidNameError for anything else."""
    internal, _, date = text.partition("/")
    return LocationKey(check_partition("internal partition", internal), check_partition("date", date))


def _set_aside(layout: Layout, asked: RecoveryRequest, note: Callable[[str], None], *, dry_run: bool) -> list[SetAside]:
    """Sets damaged locations aside, so that their stream goes on without them; none with ``dry_run``."""
    locations, name, stream = asked.quarantine, asked.name, asked.stream
    if not locations:
        return []
    if name is None or stream is None:
        raise SettingsError(
            "--quarantine is given without a stream",
            expected="recover NS.T STREAM --quarantine INTERNAL/DATE",
            found=" ".join(filter(None, (name, stream))) or "neither",
        )
    place = StreamPlace(Fs(), layout, TableName.parse(name), check_stream(stream))
    state = require_stream(place)
    reports = []
    for location in locations:
        key = _location(location)
        if dry_run and key not in state.locations:
            raise TableNotFoundError(f"stream {stream!r} has no such location", found=location)
        if not dry_run:
            now = int(time.time() * 1000)
            reason = damage_of(place, state, key) or "requested"
            done = set_aside(place, key, reason=reason, time_ms=now)
            reports.append(done)
            note(f"set aside {counted(done.rows, 'row')} of {location}: {done.path}")
    return reports


def _streamed_tables(layout: Layout, name: str | None) -> list[TablePlace]:
    """The named table, or all tables that have streams, or had some."""
    fs = Fs()
    tables = deployed_tables(fs, layout) if name is None else [TableName.parse(name)]
    places = [TablePlace(fs, layout, table) for table in tables]
    streamed = [place for place in places if list_streams(place) or streams_without_log(place)]
    if name is not None and not streamed:
        raise TableNotFoundError(f"{name} has no streams", where=places[0].streams, hint=next_steps.TABLES)
    return streamed
