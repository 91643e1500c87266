"""A watchdog process that kills a server when the process that started it ends, in whatever way.

It waits for both: for a pipe that the system closes when the starter ends, and for the process it watches. SIGTERM,
SIGKILL and the end of the whole process group have the same effect. It holds the process by a descriptor, since its
number may be reused.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys


class Watchdog:
    """Watches ``pid``, a child of this process, until ``close`` or the end of one of them."""

    def __init__(self, pid: int) -> None:
        self._process = subprocess.Popen(  # a session of its own: signals to this process group must not reach it
            [sys.executable, "-I", "-S", __file__, str(pid)], stdin=subprocess.PIPE, start_new_session=True
        )

    def wait(self, seconds: float) -> int:
        """Waits for the end of the watch; its exit code. subprocess.TimeoutExpired if it still runs then."""
        return self._process.wait(seconds)

    def close(self) -> None:
        """Ends the watch; a process that still runs is killed. May be called twice."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def watch(pid: int, pipe: int) -> None:
    """Returns when the process ends; kills it when the pipe is closed before."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended, _, _ = select.select([watched, pipe], [], [])
    if watched not in ended:
        signal.pidfd_send_signal(watched, signal.SIGKILL)


if __name__ == "__main__":
    watch(int(sys.argv[1]), sys.stdin.fileno())
