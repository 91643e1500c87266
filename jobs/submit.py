"""The entry points for spark-submit: their arguments become a call of the command line.

Only the standard library is imported before it is known that this interpreter has the other packages.

spark-submit starts the driver with one pipe for both outputs and copies it to its standard output. Its JVM has the
standard error that the user sees, and is asked over the driver's gateway to print progress and errors there.

Airflow, systemd and Kubernetes send SIGTERM to the process that they have started, which is that JVM. By default it
ends at once, and with it the connection of the driver, its child. Here it forwards the signal to the driver, which ends
as it does without spark-submit; then the JVM ends with the driver's exit code.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, TextIO

EXIT_USAGE = 2  # as in ``store.errors``
FORWARDED = ("TERM", "INT")


def submit(command: str, words: Sequence[str] | None = None) -> None:
    """Runs ``sparkhaven [--root DIR] COMMAND ...`` with the given words; ``--root`` may be anywhere among them.

    Results go to standard output of spark-submit, and nothing else; progress and errors to its standard error.
    """
    try:
        from sparkhaven.jobs.cli.context import quiet_libraries
        from sparkhaven.jobs.cli.main import app
        from sparkhaven.jobs.session.spark_or_local import is_submitted
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


class JvmErrors(io.TextIOBase):
    """Standard error by the JVM of spark-submit; ``joined`` is what is left when that has ended."""

    def __init__(self, jvm_errors: Any, joined: TextIO) -> None:
        self._jvm_errors, self._joined = jvm_errors, joined

    def write(self, text: str) -> int:
        from py4j.protocol import Py4JError

        try:
            self._jvm_errors.print(text)
            self._jvm_errors.flush()
        except (Py4JError, OSError):
            return self._joined.write(text)
        return len(text)


def separate_outputs() -> None:
    """Prints standard error by the JVM of spark-submit, if it shares a pipe with standard output."""
    if not os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno()):
        return
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    sys.stderr = JvmErrors(SparkContext._gateway.jvm.java.lang.System.err, sys.stderr)


class _Forward:
    """Java's ``sun.misc.SignalHandler`` in this process: a signal of the JVM becomes a SIGTERM of this process."""

    def handle(self, received: Any) -> None:
        """Called by the JVM; SIGINT too ends after the batch, since a terminal sends it to this process as well."""
        os.kill(os.getpid(), signal.SIGTERM)

    class Java:
        """The Java interface that py4j implements."""

        implements = ("sun.misc.SignalHandler",)


def forward_signals() -> None:
    """Lets the JVM of spark-submit forward SIGTERM and SIGINT to this process until both end."""
    from pyspark import SparkContext
    from pyspark.java_gateway import ensure_callback_server_started

    SparkContext._ensure_initialized()
    gateway = SparkContext._gateway
    ensure_callback_server_started(gateway)
    names = gateway.jvm.sun.misc.Signal
    for name in FORWARDED:
        names.handle(names(name), _Forward())
