"""The streams of a table, one summary each: what it reads, what it has committed, who runs it, what is left of it.

Costs the newest state of each stream and its epochs since the rollback floor; no directory of a location is listed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from sparkhaven.store.epochs.files.failure_note import SUFFIX, StreamFailure, read_failure
from sparkhaven.store.epochs.files.lock import lock_owner
from sparkhaven.store.epochs.reading.stream_state import list_epochs, list_streams, load_stream
from sparkhaven.store.epochs.recovery.removed_stream import REST
from sparkhaven.store.epochs.state.position_kinds import PositionKind, source_of
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.types.frozen import frozen

Left = Literal["rows", "truncated locations", "log", "files without a log", "unfinished removal"]
Failed = StreamFailure | Literal["damaged note"]


@frozen
class StreamSummary:
    """One stream. ``epochs``: committed ones, of which ``rows`` are in intraday; ``last_ms``: of the newest, or None.

    ``feed``: what its positions tell of the source, empty before the first epoch. ``running``: the process that holds
    its lock; 0 for one that is not visible here. ``left``: the most that is left of it. ``failure``: the last one,
    unless a success has followed.
    """

    table: str
    stream: str
    feed: str
    epoch: int
    epochs: int
    rows: int
    locations: int
    last_ms: int | None
    running: int | None
    left: Left
    failure: Failed | None = None


def table_streams(place: TablePlace) -> list[StreamSummary]:
    """Every stream that has a commit log, or other files that a start or a removal left, sorted by name."""
    with_log = set(list_streams(place))
    return [
        replace((_summary if stream in with_log else _remains)(of := place.of_stream(stream)), failure=_failure(of))
        for stream in sorted(with_log | streams_with_files(place))
    ]


def streams_with_files(place: TablePlace) -> set[str]:
    """Streams with files beside a log, whether or not that is there."""
    names = [name for name in place.fs.names(place.streams) if not name.startswith(".")]
    suffixes = (*REST, SUFFIX, ".lock")
    return {name.removesuffix(suffix) for name in names for suffix in suffixes if name.endswith(suffix)}


def _summary(place: StreamPlace) -> StreamSummary:
    state = load_stream(place)
    live = [e for e in list_epochs(place) if e.live and e.kind == "commit"]
    times = [e.time_ms for e in live] or [location.time_ms for location in state.locations.values()]
    rows = sum(location.shown_rows for location in state.locations.values())
    begun = max((epoch for restored, epoch in state.rolled_back if restored == 0), default=0)
    return StreamSummary(
        table=str(place.table),
        stream=place.stream,
        feed=_feed(state),
        epoch=state.epoch,
        epochs=state.epoch - begun,
        rows=rows,
        locations=len(state.locations),
        last_ms=max(times, default=None),
        running=lock_owner(place.fs, place.stream_lock),
        left="rows" if rows else "truncated locations" if state.locations else "log",
    )


def _remains(place: StreamPlace) -> StreamSummary:
    is_removed = place.fs.stat(place.stream_removed) is not None
    left: Left = "unfinished removal" if is_removed else "files without a log"
    running = lock_owner(place.fs, place.stream_lock)
    return StreamSummary(str(place.table), place.stream, "", 0, 0, 0, 0, None, running, left)


def _failure(place: StreamPlace) -> Failed | None:
    try:
        return read_failure(place)
    except (CorruptFileError, OSError):
        return "damaged note"


def _feed(state: StreamState) -> str:
    sources = [source_of(topic) for topic, _ in state.offsets]
    topics = sorted({source.name for source in sources if source.kind is PositionKind.OFFSETS})
    parts = [f"topic {', '.join(topics)}"] if topics else []
    parts += ["Delta table"] if state.offsets.versions is not None else []
    newest = next(iter(state.files.paths()), None)
    parts += [f"files of {Path(newest).parent}"] if newest is not None else []
    return "; ".join(parts)
