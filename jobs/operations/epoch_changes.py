"""Changes of what is committed, each as an epoch of its own: a rollback to an older one, an undo of some.

``open_log`` opens the commit log of a stream for such changes, without ingest.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sparkhaven.store.epochs.generation import Opening
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.recovery.witnesses import require_stream
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.epochs.undo import plan_undo, preview_rollback, require_unmerged
from sparkhaven.store.merges.dropped_tables import refuse_doomed
from sparkhaven.store.places import StreamPlace

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A rollback. ``epoch``: the new one, of a dry run the newest. ``rows``: that it drops; below 0, that come back."""

    to: int
    epoch: int
    rows: int
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Undone:
    """An undo. ``epoch``: the new one; None: of a dry run, or there was nothing to do, for this ``reason``.

    ``locations``: source, date and rows of each location that has some.
    """

    epochs: tuple[int, ...]
    epoch: int | None
    rows: int
    locations: tuple[tuple[str, str, int], ...]
    reason: str
    dry_run: bool


def roll_back(place: StreamPlace, to: int, note: Note, *, dry_run: bool = False) -> RolledBack:
    """Restores the state of an older epoch as a new one; source positions too, so the stream ingests again from there.

    TableNotFoundError: no such stream, or the epoch is not kept. TableExistsError: rows since are merged.
    TableExistsError: the table was dropped, too. LockLostError: the stream is running.
    """
    refuse_doomed(place)
    now = require_stream(place)
    then = load_stream(place, epoch=to)
    require_unmerged(place, to)
    epoch, rows = now.epoch, shown_rows(now) - shown_rows(then)
    if dry_run:
        preview_rollback(place, to, time_ms=int(time.time() * 1000))
    else:
        with open_log(place, note, leave_damaged=True) as log:
            epoch = log.rollback(to)
    return RolledBack(to, epoch, rows, dry_run)


def undo(place: StreamPlace, epochs: Sequence[int], note: Note, *, dry_run: bool = False) -> Undone:
    """Takes out the rows of some epochs, as a new one; source positions stay, so the stream does not ingest them again.

    Raises what ``plan_undo`` raises; TableExistsError: the table was dropped; LockLostError: the stream is running.
    """
    refuse_doomed(place)
    require_stream(place)
    planned, epoch = plan_undo(place, epochs), None
    if planned.locations and not dry_run:
        with open_log(place, note) as log:
            epoch = log.withdraw(lambda: plan_undo(place, epochs))
    located = tuple((part.key.internal, part.key.value, part.rows.rows) for part in planned.locations)
    return Undone(tuple(epochs), epoch, planned.rows, located, planned.reason, dry_run)


@contextmanager
def open_log(
    place: StreamPlace, note: Callable[[str], object] = warnings.warn, *, leave_damaged: bool = False
) -> Iterator[StreamLog]:
    """Opens the commit log of a stream for maintenance: recovered and locked, with its own schema.

    With ``leave_damaged`` locations may lack committed bytes: then the log can only be rolled back. ``note`` is told
    where something is committed, and files of the stream could not follow.
    """
    require_stream(place)  # an unknown stream must not create a log
    opening = Opening(None, "maintenance", time.time, leave_damaged=leave_damaged)
    with StreamLog.open(place, opening) as log:
        yield log
    if log.unfinished is not None:
        note(
            f"epoch {log.state.epoch} of stream {place.stream!r} is committed, and our readers see it. Files for other"
            f" programs could not be written: {log.unfinished}. The next start of the stream writes them, or"
            f" `sparkhaven recover {place.table} {place.stream}`"
        )


def shown_rows(state: StreamState) -> int:
    """The rows that readers show of a stream's intraday locations."""
    return sum(location.shown_rows for location in state.locations.values())
