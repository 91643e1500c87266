"""The message for a person when a task fails, and the command that a configuration names for sending it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence

SECONDS = 60.0


def message(words: str, todo: Sequence[str], by_hand: str) -> str:
    """The text of an exception: the error's own words, what helps, and the command line to repeat."""
    return "\n".join([words, *(f"to do: {line}" for line in todo), f"by hand: {by_hand}"])


def alert(dag: str, run: str, task: str, attempt: int, owner: str, words: str) -> str:
    """The text that is sent."""
    return f"{dag} {task} failed, try {attempt}, owner {owner}, run {run}\n{words}\n"


def send(command: Sequence[str], text: str, log: Callable[[str], object]) -> bool:
    """Gives the text to a command on its standard input; whether it took it. A failure is logged, never raised."""
    if not command:
        return False
    try:
        done = subprocess.run(list(command), input=text, text=True, capture_output=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        log(f"the alert was not sent: {error}")
        return False
    if done.returncode:
        log(f"the alert was not sent. {command[0]} ended with {done.returncode}: {done.stderr.strip()[:500]}")
    return not done.returncode
