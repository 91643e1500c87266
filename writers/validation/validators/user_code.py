"""Errors of users' code, by the line that raised them."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sparkhaven.store.errors import SparkhavenError, ValidationFailedError

_OWN = str(Path(__file__).parents[3])
USERS = (Exception, SystemExit)  # what code of users may raise; the end of the process is not theirs to choose


def line_of(error: BaseException, file: str | None = None) -> str | None:
    """``file:line in function`` of the innermost frame of ``file``, else of the innermost that is not ours."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    users = [f for f in frames if f.filename == file] or [f for f in frames if _of_user(f.filename)]
    return f"{users[-1].filename}:{users[-1].lineno} in {users[-1].name}" if users else None


def _of_user(file: str) -> bool:
    return not file.startswith(("<frozen", _OWN))


def words_of(error: BaseException) -> str:
    """The class and the first line of an error."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


@contextmanager
def failed_in(what: str, file: str | None = None) -> Iterator[None]:
    """Raises an error of users' code as ValidationFailedError with its line. Errors of ours pass."""
    try:
        yield
    except SparkhavenError:
        raise
    except USERS as error:
        raise ValidationFailedError(
            f"an error was raised by {what}",
            where=line_of(error, file),
            expected="no error",
            found=words_of(error),
            hint="mend the code. -v shows the traceback",
            phase="validate",
        ) from error
