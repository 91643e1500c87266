"""A stream without Spark as a process: ``python -m tests.support.streams.append_files FEED ROOT``.

It commits every file of the test feed that the table does not have, each as an epoch, and says ``epoch N`` after each.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.io.fs import Fs
from tests.support.streams.stream_kit import ingest, open_log


def append(feed: Path, root: Path) -> None:
    """All that is there, in the order of the names."""
    fs = Fs()
    with open_log(fs, root, clock=time.time, pid=os.getpid(), host=socket.gethostname()) as log:
        there = [(path, path.stat()) for path in sorted(feed.iterdir())]
        files = [FileId(str(path), stat.st_size, stat.st_mtime_ns) for path, stat in there]
        known = set(log.state.files)
        for number, file in enumerate(file for file in files if file not in known):
            ingest(fs, root, log, [[file]], number)
            print(f"epoch {log.state.epoch}", flush=True)


if __name__ == "__main__":
    append(Path(sys.argv[1]), Path(sys.argv[2]))
