"""Newest states of streams that this process has read: a state is read on where its log has grown, else kept.

A change is seen by inode, size or time of change. Other bytes of the same length would be missed if they were written
in place within a tick of the kernel's clock after the read. No program of ours does that: logs and removals grow, all
other files are replaced.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path

from sparkhaven.store.epochs.reading.log_reader import read_on
from sparkhaven.store.epochs.reading.stream_state import Loaded, load_read
from sparkhaven.store.epochs.state.log_records import CommitRecord, OpenRecord, Record, SyncRecord
from sparkhaven.store.epochs.state.offsets import Offsets
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.stat import Identity
from sparkhaven.store.places import StreamPlace

MOST = 16  # streams whose state stays in memory
MOST_RECORDS = 1024
FEW = 64  # locations of a record that are changed at once; those of a larger one when they are asked for

_Files = tuple[tuple[Identity, ...] | None, ...]  # of log, checkpoint, head and removals
_KEPT: OrderedDict[Path, _Kept] = OrderedDict()  # by the path of the log
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Kept:
    """A state, which nobody changes, what its files were before it was read, and how many records were read on."""

    files: _Files
    loaded: Loaded
    records: int = 0


def newest_state(place: StreamPlace, *, most_records: int = MOST_RECORDS) -> Loaded:
    """The newest state of a stream, for a caller who may change its locations; raises what ``load_stream`` raises.

    After ``most_records`` that were read on, it is read from its head again.
    """
    log = place.stream_log
    names = [log.name, place.stream_checkpoint.name, place.stream_head.name, place.stream_removals.name]
    files = tuple(place.fs.identities(log.parent, [name]) for name in names)  # before reading
    with _LOCK:
        kept = _KEPT.get(log)
    if kept is None or kept.files != files:
        if kept is not None:
            kept = _read_on(place, kept, files) if kept.records <= most_records else None
        kept = kept or _Kept(files, load_read(place))
        with _LOCK:
            _KEPT[log] = kept
            _KEPT.move_to_end(log)
            while len(_KEPT) > MOST:
                _KEPT.popitem(last=False)
    state = kept.loaded.state
    return replace(kept.loaded, state=replace(state, locations=state.locations.copy()))


def _read_on(place: StreamPlace, known: _Kept, files: _Files) -> _Kept | None:
    """The state after what the log has more than before; None where it has to be read anew."""
    loaded = known.loaded
    if not _has_grown(known.files, files):
        return None
    try:
        more = read_on(place, loaded.found.last, loaded.state.n)
        if more is None or not all(isinstance(record, CommitRecord | OpenRecord | SyncRecord) for record in more[0]):
            return None
    except CorruptFileError:
        return None  # which is told when it is read anew
    (records, end), state = more, loaded.state
    state = replace(
        state, locations=state.locations.copy(), files=state.files.fork(), offsets=Offsets(dict(state.offsets.items()))
    )
    for record in records:
        state.note(record)
        state.apply(record, later=_is_large(record))
    return _Kept(files, replace(loaded, state=state, found=end), known.records + len(records))


def _has_grown(before: _Files, now: _Files) -> bool:
    """Whether the log has, in place, and nothing else that a state is made of is another one: the head is a cache."""
    (log_before, checkpoint_before, _, removals_before), (log, checkpoint, _, removals) = before, now
    if log_before is None or log is None or (checkpoint_before, removals_before) != (checkpoint, removals):
        return False
    return log_before[0][:2] == log[0][:2] and log_before[0][2] <= log[0][2]


def _is_large(record: Record) -> bool:
    return isinstance(record, CommitRecord) and len(record.batch.reports) > FEW
