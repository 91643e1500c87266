"""``recover --from-locations``: rebuilds a lost or outdated commit log from the records of the locations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from sparkhaven.store.epochs.files.lock import take_commit_lock, take_lock, take_lock_if_there
from sparkhaven.store.epochs.recovery.rebuild import PositionChoice, plan_state, rebuild
from sparkhaven.store.epochs.recovery.survey import StreamSurvey, find
from sparkhaven.store.epochs.recovery.witnesses import require_stream
from sparkhaven.store.epochs.state.position_kinds import VERSIONS, packed
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import CorruptFileError, SettingsError, TableNotFoundError, counted
from sparkhaven.store.instants import NS_PER_SECOND
from sparkhaven.store.io.fs import Lock
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import lock_table
from sparkhaven.store.places import StreamPlace

LATER = (
    "the stream ingests nothing until its positions are given. Run --from-locations again with --position"
    " TOPIC/PARTITION=OFFSET for each (the next message to read), --taken-until TIME (earlier files count as ingested),"
    " or --accept-positions"
)


def parse_choice(positions: list[str], taken_until: str | None, accept: bool, back: bool) -> PositionChoice:
    """The choice of the options; SettingsError where they exclude each other or cannot be parsed."""
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
