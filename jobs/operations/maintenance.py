"""The commit log of a stream, opened for maintenance by a command."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sparkhaven.store.epochs.generation import Opening
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.recovery.witnesses import require_stream
from sparkhaven.store.places import StreamPlace


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
