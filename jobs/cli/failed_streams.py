"""Reports the streams of a command that could not start."""

from __future__ import annotations

from collections.abc import Iterable

from sparkhaven.jobs.cli.context import CliContext, report
from sparkhaven.jobs.streams.starting import NotStarted
from sparkhaven.store.errors import EXIT_DONE
from sparkhaven.store.io.system_errors import as_ours


def report_failed(cli: CliContext, failed: Iterable[NotStarted]) -> int:
    """Reports each failure; returns the exit code of the first."""
    code = EXIT_DONE
    for stream in failed:
        about = {"file": str(stream.file)} if stream.name is None else {"stream": stream.name}
        failed_code = report(cli, as_ours(stream.error), **about)
        code = code or failed_code
    return code
