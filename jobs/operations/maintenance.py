"""The commit log of a stream, opened for maintenance by a command."""

from __future__ import annotations

import os
import socket
import time

from sparkhaven.store.epochs.generation import Opening
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.recovery.witnesses import require_stream
from sparkhaven.store.places import StreamPlace


def open_log(place: StreamPlace, *, leave_damaged: bool = False) -> StreamLog:
    """Opens the commit log of a stream for maintenance: recovered and locked, with its own schema.

    With ``leave_damaged`` locations may lack committed bytes: then the log can only be rolled back.
    """
    require_stream(place)  # an unknown stream must not create a log
    return StreamLog.open(
        place,
        Opening(
            schema=None,
            query_id="maintenance",
            clock=time.time,
            pid=os.getpid(),
            host=socket.gethostname(),
            leave_damaged=leave_damaged,
        ),
    )
