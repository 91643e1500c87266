"""What the programs of the demo have in common: how they wait, and how they end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

from sparkhaven.jobs.cli.context import stopped_by_signals
from sparkhaven.store.errors import SparkhavenError


def wait_until_stopped() -> None:
    print("Ctrl-C, or SIGTERM to this process, stops it", flush=True)
    stop = stopped_by_signals()
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
