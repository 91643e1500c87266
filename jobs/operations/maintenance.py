"""The commit log of a stream, opened for maintenance by a command."""

from __future__ import annotations

import os
import socket
import time

from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.recovery.witnesses import require_stream
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName, check_stream


def open_log(layout: Layout, table: TableName, stream: str, *, leave_damaged: bool = False) -> StreamLog:
    """Opens the commit log of a stream for maintenance: recovered and locked, with its own schema.

    With ``leave_damaged`` locations may lack committed bytes: then the log can only be rolled back.
    """
    require_stream(Fs(), layout, table, check_stream(stream))  # an unknown stream must not create a log
    return StreamLog.open(
        Fs(),
        layout,
        table,
        stream,
        schema=None,
        query_id="maintenance",
        clock=time.time,
        pid=os.getpid(),
        host=socket.gethostname(),
        leave_damaged=leave_damaged,
    )
