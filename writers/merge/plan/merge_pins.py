"""The rows that a merge may read: the newest durable state of each stream of a table, by date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sparkhaven.store.epochs.files.removals import last_removal, read_removals
from sparkhaven.store.epochs.reading.stream_state import Loaded, list_streams, load_read, load_stream
from sparkhaven.store.epochs.recovery.set_aside import refuse_set_aside
from sparkhaven.store.epochs.recovery.witnesses import Witnesses, refuse
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.layout import LocationKey, TableName
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.places import TablePlace

_Stamp = dict[str, tuple[int, int, int]]  # of each file: inode, size in bytes, modification time in ns
REMOVALS = ".removals"


class Pins:
    """Committed states of a table's streams; reloaded only when their logs have changed.

    Removals that were appended since are applied to the states: a year of truncates reads each log once.

    Only synced epochs count: a power failure may undo later ones (modes ``periodic`` and ``none``), and history would
    keep rows that the source replays.
    """

    def __init__(self, place: TablePlace) -> None:
        self._place = place
        self._stamp: _Stamp | None = None
        self._states: tuple[StreamState, ...] = ()
        self._loaded: tuple[Loaded, ...] = ()
        self._by_value: dict[str, list[tuple[str, LocationState]]] = {}
        self._waiting: dict[str, dict[str, int]] = {}
        self._witnesses = Witnesses(place, ())
        self._asked: set[str] = set()
        self._asked_all = False

    def states(self) -> tuple[StreamState, ...]:
        """The newest durable state of each stream, not older than this call.

        A stream that commits while its log is read is read again at the next call: looked at until it rests, a busy one
        would never be answered.
        """
        stamp = self._now()
        if stamp != self._stamp and not self._removed_since(stamp):
            names = list_streams(self._place)
            loaded = [load_read(self._place.of_stream(name)) for name in names]
            newest = [stream.state for stream in loaded]
            self._witnesses = Witnesses(self._place, newest)
            self._asked, self._asked_all = set(), False
            refuse(self._witnesses.beside_logs())
            for stream in loaded:
                refuse(self._witnesses.removed_by(stream.state.stream, stream.named))
            refuse(self._witnesses.merged_locations())
            self._states = tuple(self._durable(state) for state in newest)
            self._loaded = tuple(loaded)
            self._waiting = _waiting(newest, self._states)
            self._stamp = stamp
            self._by_value = _by_value(self._states)
        return self._states

    def _removed_since(self, stamp: _Stamp) -> bool:
        """Whether all that is new are removals at the end of their files; then the states have them too.

        What was asked of witnesses stays true: they are beside the log, which is the same.
        """
        before = self._stamp
        waiting = any(stream.state is not state for stream, state in zip(self._loaded, self._states, strict=True))
        if before is None or waiting:
            return False
        grown = {name for name in stamp if stamp[name] != before.get(name)}
        if stamp.keys() != before.keys() or any(not _appended(name, before[name], stamp[name]) for name in grown):
            return False
        loaded = list(self._loaded)
        for index, stream in enumerate(loaded):
            own = self._place.of_stream(stream.state.stream)
            if own.stream_removals.name in grown:
                if not last_removal(own.fs, own.stream_removals, stream.last):
                    return False
                more = read_removals(own, stream.removals_end)
                refuse(self._witnesses.removed_by(stream.state.stream, more.named))
                for _, removal in more.entries:
                    stream.state.remove(removal)
                    self._without(stream.state.stream, removal.key)
                loaded[index] = replace(stream, removals_end=more.end, last=more.last)
        self._loaded, self._stamp = tuple(loaded), stamp
        return True

    def _without(self, stream: str, key: LocationKey) -> None:
        """Leaves out the rows of a location that was removed, unless it has some again."""
        state = next(state for state in self._states if state.stream == stream)
        location = state.locations.get(key)
        if key.value in self._by_value and (location is None or not location.rows):
            kept = [item for item in self._by_value.pop(key.value) if (item[0], item[1].key) != (stream, key)]
            if kept:
                self._by_value[key.value] = kept

    def _durable(self, state: StreamState) -> StreamState:
        if state.durable >= state.epoch:
            return state
        return load_stream(self._place.of_stream(state.stream), epoch=state.durable)

    def _now(self) -> _Stamp:
        directory = self._place.streams
        names = [n for n in self._place.fs.names(directory) if n.endswith((".log", ".checkpoint", REMOVALS))]
        stats = {name: self._place.fs.stat(directory / name) for name in names}
        return {name: (stat.inode, stat.size, stat.mtime_ns) for name, stat in stats.items() if stat is not None}

    def locations(self, value: str, complete: Sequence[MergeRecord] | None = None) -> list[tuple[str, LocationState]]:
        """Locations of a date that have rows, with their stream, in tie order; raises what ``require`` raises.

        ``complete``: the complete merge records of the date, if already read.
        """
        self.require(value, complete)
        return self._by_value.get(value, [])

    def require(self, value: str, complete: Sequence[MergeRecord] | None = None) -> None:
        """CorruptFileError: more of a date was published or merged than the logs have."""
        self.states()
        if value not in self._asked:
            ask = self._witnesses.merge if self._asked_all else self._witnesses.date
            refuse(ask(value, complete))
            hint = "history of this date would lack them"
            refuse_set_aside(self._place, value.__eq__, hint)
            self._asked.add(value)

    def waiting(self, value: str) -> int:
        """Rows of a date that were committed but not synced when the states were loaded."""
        return sum(self.waiting_by_source(value).values())

    def waiting_by_source(self, value: str) -> dict[str, int]:
        """Rows of a date that were committed but not synced, by internal partition."""
        return self._waiting.get(value, {})

    def values(self) -> list[str]:
        """Dates with intraday rows, sorted. CorruptFileError: more was published than the logs have."""
        self.states()
        if not self._asked_all:
            refuse(self._witnesses.locations())
            self._asked_all = True
        return sorted(self._by_value)


def _appended(name: str, before: tuple[int, int, int], now: tuple[int, int, int]) -> bool:
    """Whether a file of removals has grown; every other change may be of what was there."""
    return name.endswith(REMOVALS) and before[0] == now[0] and before[1] < now[1]


def after_sync(table: TableName) -> str:
    return f"wait for the stream's next sync. If the stream is stopped, run `sparkhaven recover {table}`"


def _waiting(newest: Sequence[StreamState], durable: Sequence[StreamState]) -> dict[str, dict[str, int]]:
    rows_waiting: dict[str, dict[str, int]] = {}
    for now, then in zip(newest, durable, strict=True):
        for key, location in now.locations.items():
            before = then.locations.get(key)
            rows = location.rows - (before.rows if before is not None and before.since == location.since else 0)
            if now is not then and rows > 0:
                sources = rows_waiting.setdefault(key.value, {})
                sources[key.internal] = sources.get(key.internal, 0) + rows
    return rows_waiting


def _by_value(states: Sequence[StreamState]) -> dict[str, list[tuple[str, LocationState]]]:
    located: dict[str, list[tuple[str, LocationState]]] = {}
    for state in states:
        for key, location in state.locations.items():
            if location.rows:
                located.setdefault(key.value, []).append((state.stream, location))
    for locations in located.values():
        locations.sort(key=lambda item: (item[1].key.internal, item[0]))
    return located
