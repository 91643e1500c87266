"""What the programs of the demo have in common: how they wait, and how they end."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

from sparkhaven.store.errors import SparkhavenError


def wait_until_stopped() -> None:
    """Returns at Ctrl-C or SIGTERM."""
    print("Ctrl-C, or SIGTERM to this process, stops it", flush=True)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: stop.set())
    while not stop.wait(1.0):
        pass
    print("stopping")


def run_program(name: str, main: Callable[[], int]) -> NoReturn:
    """Ends the process with the exit code of ``main``; an error of ours is one line."""
    try:
        sys.exit(main())
    except SparkhavenError as problem:
        print(f"{name}: {problem}", file=sys.stderr)
        sys.exit(problem.exit_code)
