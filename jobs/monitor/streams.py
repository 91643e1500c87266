"""The streams of a table: what each reads, has committed and rejected, who runs it, and what is left of it.

Costs the newest state of each stream and its epochs since the rollback floor. No directory of a location is listed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sparkhaven.jobs.monitor.epochs import counts_of, rates
from sparkhaven.store.epochs.files.lock import lock_owner
from sparkhaven.store.epochs.files.stream_notes import FAILED, StreamFailure, failed_streams, read_failure
from sparkhaven.store.epochs.reading.stream_state import EpochEntry, list_epochs, list_streams, load_stream
from sparkhaven.store.epochs.recovery.removed_stream import REST
from sparkhaven.store.epochs.state.log_values import PositionKind, absent_in, ignored_in, source_of
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.places import StreamPlace, TablePlace

Left = Literal["rows", "truncated locations", "log", "files without a log", "unfinished removal"]
Failed = StreamFailure | Literal["damaged note"]


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """One stream at an epoch; ``history``: the epochs that its log keeps up to it, oldest first.

    ``epochs``: how many it has committed, of which ``rows`` are in intraday; ``last_ms``: the time of the newest.
    ``feed``: what its positions tell of the source. ``positions``: by topic partition, ``rates`` of them a second.
    ``unsettled``: after a rebuild, up to which epochs rows and positions are known. ``ignored``, ``absent``: fields
    that no column took, and columns without a field, with their rows. ``running``: the process that holds its lock; 0
    for one that is not visible here. ``left``: the most that is left of it. ``failure``: the last one, unless a success
    has followed.
    """

    table: str
    stream: str
    epoch: int = 0
    floor: int = 0
    generation: int = 0
    durability: str = ""
    schema_version: int = 0
    feed: str = ""
    epochs: int = 0
    rows: int = 0
    locations: int = 0
    files: int = 0
    last_ms: int | None = None
    positions: Mapping[str, int] = field(default_factory=dict)
    unsettled: tuple[int, int] | None = None
    rates: Mapping[str, float] = field(default_factory=dict)
    ignored: Mapping[str, int] = field(default_factory=dict)
    absent: Mapping[str, int] = field(default_factory=dict)
    log_bytes: int = 0
    running: int | None = None
    left: Left = "log"
    failure: Failed | None = None
    history: tuple[EpochEntry, ...] = ()


def table_streams(place: TablePlace) -> list[StreamFacts]:
    """Every stream that has a commit log, or other files that a start or a removal left, sorted by name."""
    with_log = set(list_streams(place))
    names = sorted(with_log | streams_with_files(place))
    return [(read_stream if name in with_log else _remains)(place.of_stream(name)) for name in names]


def streams_with_files(place: TablePlace) -> set[str]:
    """Streams with files beside a log, whether or not that is there."""
    names = [name for name in place.fs.names(place.streams) if not name.startswith(".")]
    suffixes = (*REST, FAILED, ".lock")
    return {name.removesuffix(suffix) for name in names for suffix in suffixes if name.endswith(suffix)}


def read_stream(place: StreamPlace, *, epoch: int | None = None) -> StreamFacts:
    """A stream at its newest epoch, or at another one. Raises what ``load_stream`` raises."""
    return stream_facts(place, load_stream(place, epoch=epoch), list_epochs(place))


def stream_facts(place: StreamPlace, state: StreamState, epochs: Sequence[EpochEntry]) -> StreamFacts:
    """The facts of a stream whose state and epochs were read."""
    history = tuple(entry for entry in epochs if entry.epoch <= state.epoch)
    times = [entry.time_ms for entry in history if entry.is_commit]
    times = times or [location.time_ms for location in state.locations.values()]
    rows = sum(location.shown_rows for location in state.locations.values())
    begun = max((epoch for restored, epoch in state.rolled_back if restored == 0), default=0)
    positions, late, counts = state.offsets.positions(), state.offsets.unsettled, counts_of(history)
    parts = (place.stream_log, place.stream_checkpoint, place.stream_removals)
    return StreamFacts(
        str(place.table),
        place.stream,
        state.epoch,
        state.floor,
        state.generation,
        state.durability,
        state.schema_version,
        _feed(state),
        epochs=state.epoch - begun,
        rows=rows,
        locations=len(state.locations),
        files=len(state.files),
        last_ms=max(times, default=None),
        positions=positions,
        unsettled=None if late is None else (late.stop, late.last_start),
        rates=rates(history, positions) if positions else {},
        ignored=ignored_in(counts),
        absent=absent_in(counts),
        log_bytes=sum(stat.size for part in parts if (stat := place.fs.stat(part)) is not None and not stat.is_dir),
        running=lock_owner(place.fs, place.stream_lock),
        left="rows" if rows else "truncated locations" if state.locations else "log",
        failure=_failure(place),
        history=history,
    )


def _remains(place: StreamPlace) -> StreamFacts:
    is_removed = place.fs.stat(place.stream_removed) is not None
    left: Left = "unfinished removal" if is_removed else "files without a log"
    running = lock_owner(place.fs, place.stream_lock)
    return StreamFacts(str(place.table), place.stream, running=running, left=left, failure=_failure(place))


def _feed(state: StreamState) -> str:
    sources = [source_of(topic) for topic, _ in state.offsets]
    topics = sorted({source.name for source in sources if source.kind is PositionKind.OFFSETS})
    parts = [f"topic {', '.join(topics)}"] if topics else []
    parts += ["Delta table"] if state.offsets.versions is not None else []
    newest = next(iter(state.files.paths()), None)
    parts += [f"files of {Path(newest).parent}"] if newest is not None else []
    return "; ".join(parts)


def _failure(place: StreamPlace) -> Failed | None:
    try:
        return read_failure(place)
    except (CorruptFileError, OSError):
        return "damaged note"


def failures(place: TablePlace) -> Iterator[tuple[str, StreamFailure | Exception]]:
    """The last failure of each stream that has not succeeded since, or the error of reading its note.

    A stream has one whether or not it has a log.
    """
    for stream in failed_streams(place):
        try:
            failure = read_failure(place.of_stream(stream))
        except (CorruptFileError, OSError) as error:
            yield stream, error
        else:
            if failure is not None:  # else it has succeeded meanwhile
                yield stream, failure


@dataclass(frozen=True, slots=True)
class LockMark:
    """What the process that took a lock last has written into it, each part None where it is not known."""

    pid: object = None
    host: str | None = None
    since_ms: float | None = None


def lock_mark(fs: Fs, path: Path) -> LockMark:
    """The mark of a lock that may be held no more; an empty one where there is none."""
    if fs.stat(path) is None:
        return LockMark()
    try:
        mark = json.loads(fs.read(path))
    except ValueError:
        return LockMark()
    if not isinstance(mark, dict):
        return LockMark()
    host, since = mark.get("host"), mark.get("since")
    return LockMark(
        mark.get("pid"), host if isinstance(host, str) else None, since if isinstance(since, int | float) else None
    )
