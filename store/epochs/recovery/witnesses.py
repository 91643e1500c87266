"""Witnesses: files that name an epoch or generation of a stream, compared with its commit log.

A log that was lost, or restored from an older copy, may look sound by itself. But a published ``table.size``, a merge
record, a removal, the head, the quarantine ledger and the lock each name the log's newest epoch or generation when they
were written, and the log is always written first. A file that names a later one, or exists without a log, shows that
acknowledged records are lost. So does a ``table.size``, or a merge record, that names other withdrawn rows of the same
epoch than the log.

This module only reads, and a writer may run meanwhile. So the log is read again before a finding is reported: only what
is beyond its newest epoch counts. Unsynced epochs (modes ``periodic`` and ``none``) may be lost in a power failure: for
such a stream nothing beyond its log counts until the first start after the next boot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import tee
from pathlib import Path

from sparkhaven.store.epochs.files.lock import named_generation
from sparkhaven.store.epochs.files.published_size import TABLE_SIZE, published_files, walk_locations
from sparkhaven.store.epochs.files.removals import read_named
from sparkhaven.store.epochs.files.stream_notes import read_removed
from sparkhaven.store.epochs.reading.stream_state import load_stream, newest_state
from sparkhaven.store.epochs.recovery.set_aside import gone_after_merge, words_of
from sparkhaven.store.epochs.recovery.survey import named_by_head, named_by_ledger
from sparkhaven.store.epochs.state.removed_locations import Named
from sparkhaven.store.epochs.state.replay import StreamState, restored
from sparkhaven.store.errors import CorruptFileError, FormatError, TableNotFoundError
from sparkhaven.store.format.table.table_size import TRUNCATED, WITHDRAWN, decode, published
from sparkhaven.store.framing import HEADER
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import MergeInput, MergeRecord, all_values, newest
from sparkhaven.store.next_steps import restore_log
from sparkhaven.store.places import StreamPlace, TablePlace

BESIDE = (".checkpoint", ".head", ".removals", ".quarantine", ".lock")  # of a log


@dataclass(frozen=True, slots=True)
class Witness:
    """A file at ``path`` that names an epoch or generation that the stream's log does not have."""

    stream: str
    path: Path
    what: str
    expected: str
    found: str
    hint: str

    def error(self) -> CorruptFileError:
        return CorruptFileError(
            self.what, where=self.path, expected=self.expected, found=self.found, hint=self.hint, stream=self.stream
        )


class Witnesses:
    """The witnesses of one table, compared with states of its streams as they were loaded, at any of their epochs."""

    def __init__(self, place: TablePlace, states: Iterable[StreamState]) -> None:
        self._place = place
        self._states: dict[str, StreamState] = {state.stream: state for state in states}
        self._newest: dict[str, StreamState | None] = {}
        self._reported: set[str] = set()  # streams whose missing log was reported

    # --- what may be asked -----------------------------------------------------------------------------

    def beside_logs(self) -> Iterator[Witness]:
        """Files of ``.streams``: one listing, and a few bytes of each stream's lock and head."""
        directory = self._place.streams
        names = self._place.fs.names(directory)
        logs = {name for name in names if name.endswith(".log")}
        for suffix in BESIDE:
            for name in names:
                stream = name.removesuffix(suffix)
                if name.endswith(suffix) and not name.startswith(".") and f"{stream}.log" not in logs:
                    yield from self._without_log(stream, directory / name)
        for stream in sorted(self._states):
            place = self._place.of_stream(stream)
            lock, head = place.stream_lock, place.stream_head
            yield from self._names_generation(stream, named_generation(place.fs, lock), lock, "the lock")
            named = named_by_head(place.fs, head, beyond=self._states[stream].epoch)
            yield from self.names_epoch(stream, named, head, "the head")
            yield from self.names_epoch(
                stream, named_by_ledger(place), place.stream_quarantine, "the quarantine ledger"
            )

    def removals(self) -> Iterator[Witness]:
        """Removals that were recorded at an epoch or generation beyond the log; reads all of them."""
        for stream in sorted(self._states):
            yield from self.removed_by(stream, read_named(self._place.of_stream(stream)))

    def removed_by(self, stream: str, named: Named) -> Iterator[Witness]:
        """Removals of one stream that name an epoch or generation beyond its log."""
        path = self._place.of_stream(stream).stream_removals
        older = list(self.names_epoch(stream, named.epoch, path, "a removal"))
        yield from older or self._names_generation(stream, named.generation, path, "a removal")

    def locations(self, takes: Callable[[str], bool] = lambda value: True) -> Iterator[Witness]:
        """Published locations of the dates that ``takes`` accepts: one listing of each internal partition, and one read
        of each ``table.size``.
        """
        yield from self._locations(walk_locations(self._place, takes))

    def published(self, values: Iterable[str]) -> Iterator[Witness]:
        """Published locations of the dates with these values, of which no directory is listed."""
        internals = [name for name in self._place.fs.names(self._place.intraday) if not name.startswith(".")]
        yield from self._locations(LocationKey(internal, value) for value in values for internal in internals)

    def _locations(self, keys: Iterable[LocationKey]) -> Iterator[Witness]:
        """Published locations of these keys. One that agrees with the states is read once, as one of many."""
        walked, again = tee(keys)
        for key, data in zip(walked, published_files(self._place, again), strict=True):
            if data is None or not self._is_known(key, data):
                yield from self.location(key)

    def _is_known(self, key: LocationKey, data: bytes) -> bool:
        """Whether ``location`` has nothing to say of these bytes of a ``table.size``, as far as the states tell."""
        try:
            stream, epoch = published(data, key)
        except FormatError:
            return True
        if stream is None:
            return True
        state = self._states.get(stream)
        if state is None or epoch > state.epoch or key not in state.locations:
            return False
        return TRUNCATED not in data and WITHDRAWN not in data

    def date(self, value: str, complete: Sequence[MergeRecord] | None = None) -> Iterator[Witness]:
        """Locations and merge record of one date; costs nothing for the others. ``complete`` as in ``merge``."""
        yield from self.published([value])
        yield from self.merge(value, complete)

    def merged_locations(self) -> Iterator[Witness]:
        """Published locations of merged dates that logs still have: one read of each that is not truncated there."""
        for value in all_values(self._place):
            for state in self._states.values():
                for location in state.locations.of_date(value):
                    if not location.truncated:
                        yield from self.location(location.key)

    def merges(self) -> Iterator[Witness]:
        """The newest merge record of each date: the streams that it took rows from must have got that far."""
        for value in all_values(self._place):
            record = newest(self._place, value)
            if record is not None:
                yield from self.merge(value, [record])
                yield from self._deleted(record)

    def _deleted(self, record: MergeRecord) -> Iterator[Witness]:
        """Locations that history has whole, and that the log still has, but not the disk: they were deleted since."""
        place = self._place
        for taken in record.inputs:
            state, key = self._states.get(taken.stream), LocationKey(taken.internal, record.value)
            if state is None or not gone_after_merge(place, state.locations.get(key), taken):
                continue
            now = self._again(taken.stream, lambda now: False)
            if now is not None and gone_after_merge(place, now.locations.get(key), taken):
                words = words_of(place.table, key, taken, place.of_stream(taken.stream).stream_log)
                yield Witness(taken.stream, place.merges / record.value, *words)

    def merge(self, value: str, complete: Sequence[MergeRecord] | None = None) -> Iterator[Witness]:
        """The merge record of one date. ``complete``: its complete records by generation, where they have been read."""
        record = newest(self._place, value) if complete is None else complete[-1] if complete else None
        path = self._place.merges / value
        for taken in record.inputs if record is not None else ():
            if taken.stream:  # else rows of an import
                yield from self.names_epoch(taken.stream, taken.epoch, path, f"the merge of {value}")
                yield from self._left_out(taken, LocationKey(taken.internal, value), path)

    def _left_out(self, taken: MergeInput, key: LocationKey, path: Path) -> Iterator[Witness]:
        """A merge left out withdrawn rows, and the log has others of the same rows: merged rows are never withdrawn."""

        def agrees(state: StreamState) -> bool:
            location = state.locations.get(key)
            if location is None or location.truncated or (location.since, location.epoch) < (taken.since, taken.epoch):
                return True  # removed since, or a state from before the merge
            return location.since != taken.since or taken.leaves_out(location.withdrawn)

        state = self._states.get(taken.stream)
        if state is not None and not agrees(state):
            yield from self._other_withdrawn(taken.stream, key, path, f"the merge of {key.value}", agrees)

    def all(self) -> Iterator[Witness]:
        yield from self.beside_logs()
        yield from self.removals()
        yield from self.locations()
        yield from self.merges()

    def names_epoch(self, stream: str, epoch: int, path: Path, what: str) -> Iterator[Witness]:
        """The witness if a file that names an epoch of a stream goes beyond its log, or the stream has none.

        A table of which nothing but history is there has no streams: it was moved without them.
        """
        state = self._states.get(stream)
        if state is None:
            yield from self._without_log(stream, path, epoch)
        elif epoch > state.epoch and (state.syncs_each_batch or state.boot_id == self._place.fs.boot_id()):
            again = self._again(stream, lambda now: now.epoch >= epoch)
            if again is None:
                yield from self._without_log(stream, path, epoch)
            elif again.epoch < epoch:
                yield self._older(stream, path, what, f"epoch {again.epoch} at most", f"epoch {epoch}")

    # --- one kind each ---------------------------------------------------------------------------------

    def _names_generation(self, stream: str, named: int, path: Path, what: str) -> Iterator[Witness]:
        """Generations begin with a sync in each mode: none goes with the machine."""
        state = self._states.get(stream)
        if state is not None and named > state.generation:
            again = self._again(stream, lambda now: now.generation >= named)
            if again is not None and again.generation < named:
                yield self._older(stream, path, what, f"generation {again.generation} at most", f"generation {named}")

    def location(self, key: LocationKey) -> Iterator[Witness]:
        """What one published location names."""
        path = self._place.intraday_location(key) / TABLE_SIZE
        try:
            data = self._place.fs.read(path)
            stream, epoch = published(data, path)
        except (FileNotFoundError, NotADirectoryError, FormatError):
            return  # not published, or torn: who needs it tells
        if stream is None:
            return
        yield from self.names_epoch(stream, epoch, path, "the location")
        state = self._states.get(stream)
        if state is None or epoch > state.epoch:
            return
        if key not in state.locations:
            yield from self._unknown(stream, epoch, key, path)
        elif TRUNCATED in data and not state.locations[key].truncated:
            yield from self._not_removed(stream, key, path, data)
        elif WITHDRAWN in data:
            yield from self._withdrawn(stream, key, path, data)

    def _withdrawn(self, stream: str, key: LocationKey, path: Path, data: bytes) -> Iterator[Witness]:
        """A location that was published with withdrawn rows, of which the log has others at that epoch."""
        try:
            record = decode(data, path)
        except FormatError:
            return  # torn: who needs it tells

        def agrees(state: StreamState) -> bool:
            location = state.locations.get(key)
            if location is None or location.truncated or location.epoch != record.epoch:
                return True  # a truncate is recorded before the file follows it
            return record.withdraws(location.withdrawn)

        if not agrees(self._states[stream]):
            yield from self._other_withdrawn(stream, key, path, "the location", agrees)

    def _other_withdrawn(
        self, stream: str, key: LocationKey, path: Path, who: str, agrees: Callable[[StreamState], bool]
    ) -> Iterator[Witness]:
        now = self._again(stream, agrees)
        if now is None or agrees(now):
            return
        log = self._place.of_stream(stream).stream_log
        yield Witness(
            stream,
            path,
            f"the commit log of stream {stream!r} has other withdrawn rows than {who}. Acknowledged records are lost",
            f"the withdrawn rows of {key.internal}/{key.value} that this file names",
            f"{now.locations[key].withdrawn.rows} others in {log}",
            restore_log(self._place.table, stream, log),
        )

    def _unknown(self, stream: str, epoch: int, key: LocationKey, path: Path) -> Iterator[Witness]:
        """A location that was published at an epoch that the log has, but that no epoch of the log knows."""
        now = self._again(stream, lambda now: key in now.locations)
        gone = now is None or key in now.locations or restored(now.rolled_back, epoch) is not None
        if gone or self._place.fs.stat(path) is None:
            return  # left over from a rollback, or removed just now
        yield self._older(stream, path, "the location", f"a location that {stream}.log knows", f"one of epoch {epoch}")

    def _not_removed(self, stream: str, key: LocationKey, path: Path, data: bytes) -> Iterator[Witness]:
        """A location that was published as truncated, of which no removal is on record.

        The removal is recorded first. So if the same file is there before and after removals are read, they lack it.
        """

        def is_removed(state: StreamState) -> bool:
            return key not in state.locations or state.locations[key].truncated

        now = self._again(stream, is_removed)
        if now is None or is_removed(now):
            return
        try:
            if not decode(data, path).truncated or self._place.fs.read(path) != data:
                return
        except (FileNotFoundError, NotADirectoryError, FormatError):
            return
        removals = self._place.of_stream(stream).stream_removals
        yield Witness(
            stream,
            path,
            f"the removals of stream {stream!r} are older than what was truncated. Merged rows would be read again",
            f"a truncate of {key.internal}/{key.value} in {removals}",
            f"{now.locations[key].rows} rows",
            restore_log(self._place.table, stream, self._place.of_stream(stream).stream_log),
        )

    # --- what they share -------------------------------------------------------------------------------

    def _again(self, stream: str, enough: Callable[[StreamState], bool]) -> StreamState | None:
        """The newest state of a stream, read after the witness; one read before serves where it is ``enough``.

        What is not enough is read anew, whatever this process knows of it: then something is damaged.
        """
        known = self._newest.get(stream)
        if known is not None and enough(known):
            return known
        place = self._place.of_stream(stream)
        try:
            known = newest_state(place).state
            if not enough(known):
                known = load_stream(place)
        except TableNotFoundError:
            known = None
        self._newest[stream] = known
        return known

    def _without_log(self, stream: str, path: Path, epoch: int = 0) -> Iterator[Witness]:
        """The witness for a file of a stream without a log, unless that was removed at ``epoch`` or later."""
        log = self._place.of_stream(stream).stream_log
        if stream in self._reported or self._place.fs.stat(log) is not None:
            return  # the stream has come since the states were loaded
        system = self._place.layout.system(self._place.table.namespace)
        if system in path.parents and self._place.fs.stat(log.parent) is None:
            return  # history alone, moved here without its streams
        if path.parent == log.parent and not self._speaks(stream, path):
            return
        try:
            removed = read_removed(self._place.of_stream(stream))
        except CorruptFileError as error:
            self._reported.add(stream)
            note = self._place.of_stream(stream).stream_removed
            yield Witness(stream, note, error.what, str(error.expected), str(error.found), str(error.hint))
            return
        if removed is not None and epoch <= removed.epoch:
            return
        self._reported.add(stream)
        yield Witness(
            stream,
            log,
            f"the commit log of stream {stream!r} is missing. Committed rows cannot be read",
            f"a log{f', or {stream}.removed of epoch {epoch}' if epoch else ''}, because {path} is there",
            "nothing",
            restore_log(self._place.table, stream, log),
        )

    def _speaks(self, stream: str, path: Path) -> bool:
        """Whether a file beside a log that is not there says that there was one: a first start may have been cut."""
        if path.suffix == ".lock":
            return named_generation(self._place.fs, path) > 0
        stat = self._place.fs.stat(path)
        return stat is not None and (path.suffix != ".removals" or stat.size > HEADER.size)

    def _older(self, stream: str, path: Path, who: str, expected: str, found: str) -> Witness:
        log = self._place.of_stream(stream).stream_log
        return Witness(
            stream,
            path,
            f"the commit log of stream {stream!r} is older than {who}. Acknowledged records are lost",
            f"{expected}, the newest in {log}",
            found,
            restore_log(self._place.table, stream, log),
        )


def streams_without_log(place: TablePlace) -> list[str]:
    """Streams of a table that have left something behind, but no commit log, sorted."""
    return sorted({witness.stream for witness in Witnesses(place, ()).all()})


def require_stream(place: StreamPlace) -> StreamState:
    """The newest state of a stream after every witness was asked; raises what ``load_stream`` raises.

    CorruptFileError where its log is older than something names it, or is missing although something does.
    """
    try:
        state = load_stream(place)
    except TableNotFoundError:
        refuse(witness for witness in Witnesses(place, ()).all() if witness.stream == place.stream)
        raise
    refuse(witness for witness in Witnesses(place, [state]).all() if witness.stream == place.stream)
    return state


def refuse(witnesses: Iterable[Witness]) -> None:
    """Raises the first one as a CorruptFileError."""
    for witness in witnesses:
        raise witness.error()
