"""The entry points for spark-submit: their arguments become a call of the command line.

Only the standard library is imported before it is known that this interpreter has the other packages.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

EXIT_USAGE = 2  # as in ``store.errors``


def submit(command: str, words: Sequence[str] | None = None) -> None:
    """Runs ``sparkhaven [--root DIR] COMMAND ...`` with the given words; ``--root`` may be anywhere among them.

    Results go to standard output of spark-submit, and nothing else; progress and errors to its standard error.
    """
    try:
        from sparkhaven.jobs.cli.context import quiet_libraries
        from sparkhaven.jobs.cli.main import app
        from sparkhaven.jobs.session.signals import forward_signals
        from sparkhaven.jobs.session.spark_or_local import is_submitted
        from sparkhaven.jobs.submit.driver_outputs import separate_outputs
    except ModuleNotFoundError as error:
        print(
            f"error: the driver's Python {sys.executable} lacks a package of sparkhaven\n"
            f"  found: {error}\n"
            "  to do: set PYSPARK_PYTHON, here and on the workers, to an interpreter that has it",
            file=sys.stderr,
        )
        sys.exit(EXIT_USAGE)
    if is_submitted(os.environ):
        separate_outputs()
        forward_signals()
    given = list(sys.argv[1:] if words is None else words)
    quiet_libraries(given)
    app(arrange(command, given), prog_name=f"jobs/{command}")


def arrange(command: str, words: list[str]) -> list[str]:
    """The words in the order of the command line: global options, the command, the rest."""
    before: list[str] = []
    rest: list[str] = []
    given = iter(words)
    for word in given:
        if word == "--root":
            before += [word, *[next(given, "")]]
        elif word.startswith("--root="):
            before.append(word)
        else:
            rest.append(word)
    return [*before, command, *(rest[1:] if rest[:1] == [command] else rest)]
