"""Every error that sparkhaven raises on purpose, in one tree.

::

    SparkhavenError
    ├─ FormatError              bytes on disk violate the format          exit 1
    │  ├─ CorruptFileError      damaged: truncated, bits flipped, inconsistent
    │  │  └─ OtherColumnError   its prefix or field says that it is of another column
    │  └─ UnsupportedVersionError  sound, but of an unsupported version or class
    ├─ SchemaError                                                                  exit 2
    │  ├─ SchemaParseError      the schema file: code, file, line, column
    │  ├─ SchemaChangeError     it would drop, rename or change columns, and no command said so
    │  └─ SchemaMismatchError   a column is declared one way and found another
    ├─ CommitError                                                                  exit 3
    │  ├─ EpochConflictError    nothing was committed: safe to retry
    │  ├─ CommitUnknownError    may have been committed: recover first, delete nothing
    │  ├─ LockLostError         another process owns the stream, the location or the table
    │  └─ PositionGapError      the source does not continue where the log ends      exit 1
    ├─ MergeError               carries the phase that failed                        exit 1
    │  ├─ SnapshotMovedError    what was pinned has changed
    │  ├─ ValidationFailedError a rule or the proof failed
    │  └─ TooEarlyError         possible only after a waiting time                   exit 3
    ├─ FeedError                source data cannot be read                           exit 1
    │  ├─ RetryableFeedError    may succeed on a retry                            exit 3
    │  ├─ FeedSettingsError     its names or permissions are wrong: a retry does not help  exit 2
    │  └─ ErrorBudgetExceeded   more bad rows than allowed; nothing was committed
    ├─ StorageError             the operating system refuses to read or write      exit 1
    │  ├─ NotPermittedError     owner, permissions, a read-only file system         exit 2
    │  └─ RetryableStorageError no space, or a limit is reached                     exit 3
    ├─ SettingsError            stream file, option or environment                   exit 2
    ├─ TableNotFoundError       exit 2
    ├─ TableExistsError         exit 2
    ├─ InvalidNameError         a name that cannot become a path                     exit 2
    └─ CoreNotUsableError       the compiled core is missing or of another version   exit 2

Each error says what is wrong, where, what was expected, what was found and what to do. Errors cross
process boundaries (Spark workers), so each of them pickles with all its parts. Errors of the operating system become
those of the tree: permissions, space, limits, devices (``ours``).
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sparkhaven.store.next_steps import damaged

EXIT_DONE, EXIT_BAD_DATA, EXIT_USAGE, EXIT_RETRY = 0, 1, 2, 3


class SparkhavenError(Exception):
    """Base of the tree: one sentence, and the parts needed for troubleshooting.

    ``what`` is one sentence. ``where`` is a path with byte offset, row or source position.
    ``expected`` and ``found`` are values as text. ``hint`` says what to do next.
    Subclasses with further parts name them in ``extra``; they become attributes.
    """

    exit_code = EXIT_BAD_DATA
    retryable = False

    def __init__(
        self,
        what: str,
        *,
        where: object = None,
        expected: object = None,
        found: object = None,
        hint: str | None = None,
        **extra: Any,
    ) -> None:
        self.what = what
        self.where = None if where is None else str(where)
        self.expected = None if expected is None else str(expected)
        self.found = None if found is None else str(found)
        self.hint = hint
        self.extra = extra
        super().__init__(what)

    def __str__(self) -> str:
        parts = [("where", self.where), ("expected", self.expected), ("found", self.found)]
        parts += [(name, value) for name, value in self.extra.items() if value is not None]
        parts.append(("to do", self.hint))
        return "\n".join([self.what, *(f"  {name}: {v}" for name, v in parts if v is not None)])

    def __getattr__(self, name: str) -> Any:
        extra = self.__dict__.get("extra", {})
        if name in extra:
            return extra[name]
        raise AttributeError(name)

    @property
    def _parts(self) -> dict[str, Any]:
        return {"where": self.where, "expected": self.expected, "found": self.found, "hint": self.hint, **self.extra}

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self.what, **self._parts), ()


E = TypeVar("E", bound=SparkhavenError)


def replaced(error: E, **parts: object) -> E:
    """A copy of an error with other parts."""
    return type(error)(error.what, **error._parts | parts)


class FormatError(SparkhavenError):
    """Bytes on disk violate the format."""


class CorruptFileError(FormatError):
    """A file is damaged: truncated, bits flipped, or inconsistent with what was committed.

    Without a hint it has that of its place.
    """

    def __init__(self, what: str, *, where: object = None, hint: str | None = None, **parts: Any) -> None:
        super().__init__(what, where=where, hint=hint or damaged(where), **parts)


class OtherColumnError(CorruptFileError):
    """A file says that it is of another column than the one it was opened for."""


class UnsupportedVersionError(FormatError):
    """A file is of an unsupported version, class or type."""


class SchemaError(SparkhavenError):
    """A schema is wrong in itself or does not fit the data."""

    exit_code = EXIT_USAGE


class SchemaParseError(SchemaError):
    """A schema file breaks a rule; ``code`` is its number (E101 to E161)."""


class SchemaChangeError(SchemaError):
    """A schema would take something from the deployed one without being asked to; ``columns`` names what it drops."""


class SchemaMismatchError(SchemaError):
    """A column is declared one way and found another."""


class CommitError(SparkhavenError):
    """A commit did not happen, or it is not known whether it did."""

    exit_code = EXIT_RETRY
    retryable = True


class EpochConflictError(CommitError):
    """Nothing was committed: safe to retry from the source positions of the log."""


class CommitUnknownError(CommitError):
    """The batch may have been committed: run recovery first, delete nothing."""


class LockLostError(CommitError):
    """Another process owns the stream, the location or the table."""


class PositionGapError(CommitError):
    """The source does not continue where the commit log ends, or replays other content."""

    exit_code = EXIT_BAD_DATA
    retryable = False


class MergeError(SparkhavenError):
    """A merge failed; ``phase`` names the step, the state on disk is that of the phase before."""


class SnapshotMovedError(MergeError):
    """What a merge or read had pinned has changed."""

    exit_code = EXIT_RETRY
    retryable = True


class HistoryWarning(UserWarning):
    """History is read that no merge record vouches for, or a part of it was removed by hand."""


class ValidationFailedError(MergeError):
    """A rule of the schema or the digest proof failed; nothing was published or deleted."""


class TooEarlyError(MergeError):
    """The request is possible only after a waiting time; ``hint`` says when."""

    exit_code = EXIT_RETRY
    retryable = True


class FeedError(SparkhavenError):
    """Source data cannot be read or are not what was planned."""


class RetryableFeedError(FeedError):
    """Source data cannot be read now; a retry may succeed."""

    exit_code = EXIT_RETRY
    retryable = True


class FeedSettingsError(FeedError):
    """Source data cannot be read by the names, addresses or credentials of the settings."""

    exit_code = EXIT_USAGE


class ErrorBudgetExceeded(FeedError):
    """A batch has more bad rows than allowed; nothing of it was committed."""


class StorageError(SparkhavenError):
    """The operating system refuses to read or write."""


class NotPermittedError(StorageError):
    """The user may not read or write: owner, permissions, a read-only file system."""

    exit_code = EXIT_USAGE


class RetryableStorageError(StorageError):
    """No space, or a limit is reached; a retry may succeed."""

    exit_code = EXIT_RETRY
    retryable = True


class SettingsError(SparkhavenError):
    """A stream file, an option or the environment is wrong."""

    exit_code = EXIT_USAGE


class TableNotFoundError(SparkhavenError):
    """No such table, stream, date or location."""

    exit_code = EXIT_USAGE


class TableExistsError(SparkhavenError):
    """The target of new data already exists."""

    exit_code = EXIT_USAGE


class CoreNotUsableError(SparkhavenError):
    """The compiled core is missing, of another version, or refused by the system."""

    exit_code = EXIT_USAGE


class InvalidNameError(SparkhavenError):
    """A name from a user or a feed that must not become a path."""

    exit_code = EXIT_USAGE


def phase_of(error: BaseException) -> str | None:
    """The phase in which the disk failed, if known; see ``store.errors.in_phase``."""
    return getattr(error, "phase", None)


def refused(error: OSError, what: str, where: object) -> SparkhavenError:
    """Translates an OSError: SettingsError for permissions, else CommitError, which can be retried."""
    path = error.filename or where
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = "check owner and permissions of the file, and whether the file system is mounted read-only"
        hint += ". Nothing was changed"
        return SettingsError(f"{what}: {error.strerror or error}", where=path, hint=hint, phase=phase_of(error))
    hint = "free space on the disk, or repair it, and restart. Delete nothing: recovery finds out what was committed"
    return CommitError(f"{what}: {error.strerror or error}", where=path, hint=hint, phase=phase_of(error))


CLASSES: dict[str, type[SparkhavenError]] = {
    name: kind for name, kind in globals().items() if isinstance(kind, type) and issubclass(kind, SparkhavenError)
}

_MARK = "sparkhaven-error:"


class CarriedError(Exception):
    """A sparkhaven error in transit through Spark's planner, which passes on only the text of an exception."""


@contextmanager
def carrying() -> Iterator[None]:
    """Raises errors of the tree as text that ``carried_error`` can decode, where exceptions pass only as text."""
    try:
        yield
    except SparkhavenError as error:
        raise CarriedError(carried_text(error)) from error


def carried_text(error: SparkhavenError) -> str:
    """The text of an error that ``carried_error`` finds in a longer one."""
    parts = {name: value for name, value in error._parts.items() if isinstance(value, str | int | float | None)}
    return _MARK + json.dumps([type(error).__name__, error.what, parts])


def carried_error(text: str) -> SparkhavenError | None:
    """The sparkhaven error in the text of a foreign exception, or None."""
    _, mark, rest = text.partition(_MARK)
    if not mark:
        return None
    try:
        (name, what, parts), _ = json.JSONDecoder().raw_decode(rest)
        return CLASSES[name](what, **parts)
    except (ValueError, TypeError, KeyError):
        return None


# --- out of a text, as errors of another process come ---


_HEAD = re.compile(rf"(?:^|(?<=[\s.:]))({'|'.join(sorted(CLASSES, key=len, reverse=True))}): (.*)")
_PART = re.compile(r"  ([a-z]\w*|to do): (.*)")
_TAIL = re.compile(r"\s+SQLSTATE: \w+$")  # what Spark adds to the last line
_STOP = re.compile(r"\s*(SQLSTATE: \w+|at [\w.$/]+\(.*|Driver stacktrace:.*|Caused by: .*|=== .*)?$")


def parse_error(text: str) -> SparkhavenError | None:
    """The first error of ours in the text, with all its parts as texts; None if there is none."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        head = _HEAD.search(line)
        if head is not None:
            parts: dict[str, str] = {}
            for name, value in _parts(lines[number + 1 :]):
                parts.setdefault("hint" if name == "to do" else name, value)
            return CLASSES[head[1]](_TAIL.sub("", head[2]), **parts)
    return None


def _parts(lines: list[str]) -> Iterator[tuple[str, str]]:
    name, value = "", ""
    for line in lines:
        part = _PART.fullmatch(line)
        if part is None and (not name or _STOP.fullmatch(line)):
            break
        if part is not None:
            if name:
                yield name, _TAIL.sub("", value)
            name, value = part[1], part[2]
        else:
            value += f"\n{line}"
    if name:
        yield name, _TAIL.sub("", value)


# --- hints ---


MANY = 500  # with more names no suggestion is made: a hostile schema must not cost minutes


def meant(name: str, choices: Iterable[str]) -> str | None:
    """A hint when ``name`` is one of ``choices`` apart from case or a typo, else None."""
    known = list(choices)
    if len(known) > MANY:
        return None
    for choice in known:
        if choice.lower() == name.lower():
            return f"names and values are case-sensitive: write {choice}"
    near = get_close_matches(name, known, 1, 0.75)
    return f"did you mean {near[0]}?" if near else None


def counted(count: int, noun: str) -> str:
    """A number of things: ``1 file``, ``2 files``; ``noun`` may be in the plural already."""
    return f"{count:,} {noun.removesuffix('s')}{'' if count == 1 else 's'}"


def listed(texts: Sequence[str], most: int = 20) -> str:
    """The first of some texts, and how many more there are."""
    return ", ".join(texts[:most]) + (f" and {len(texts) - most:,} more" if len(texts) > most else "")


_OF_ONE = {"are": "is", "have": "has", "wait": "waits"}


def counted_with(count: int, noun: str, statement: str) -> str:
    """``counted``, and what is said of them, in the plural: ``are merged`` becomes ``is merged`` of one."""
    words = statement if count != 1 else re.sub(r"\b(are|have|wait)\b", lambda verb: _OF_ONE[verb[1]], statement)
    return f"{counted(count, noun)} {words}"


def near(wanted: str, names: Collection[str]) -> str:
    """Names close to a wanted one for a message; else the first and last of what there is."""
    close = get_close_matches(wanted, sorted(names), n=5, cutoff=0.5)
    if close:
        return "one of " + ", ".join(close)
    ordered = sorted(names)
    if len(ordered) > 6:
        return f"one of {len(ordered)}: {', '.join(ordered[:3])} ... {', '.join(ordered[-3:])}"
    return "one of " + ", ".join(ordered) if ordered else "no name: there are none yet"


EXTRAS = {
    "pyspark": "spark",
    "py4j": "spark",
    "pandas": "spark",
    "kafka": "kafka",
    "fastavro": "kafka",
    "google": "kafka",  # protobuf
    "delta": "delta",
    "vl_convert": "page",
}
"""The extra that installs a package, by the name that is imported."""


def missing_extra(error: ImportError) -> SettingsError | None:
    """What to say of a package that cannot be imported; None if no extra has it."""
    package = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(package)
    if extra is None or not isinstance(error, ModuleNotFoundError):
        return None
    return SettingsError(
        f"the extra {extra} is not installed",
        expected=f"the package {package}",
        found=str(error),
        hint=f"run `pip install 'sparkhaven[{extra}]'`",
    )


MEMORY = "give the machine more memory or processes, use fewer --workers or less --memory, then run it again"
_HINTS = {
    errno.ENOSPC: "free space on the disk, then run it again. Committed data stays, the rest is repeated",
    errno.EDQUOT: "raise the quota, then run it again. Committed data stays, the rest is repeated",
    errno.EMFILE: "raise the limit of open files (ulimit -n), then run it again",
    errno.ENFILE: "close other programs, or raise fs.file-max, then run it again",
    errno.ENOMEM: MEMORY,
    errno.EAGAIN: MEMORY,
    errno.EACCES: "check owner and permissions",
    errno.EPERM: "check owner and permissions",
    errno.EROFS: "the file system is mounted read-only",
}
NO_THREAD = "can't start new thread"  # what Python says where the memory or the limit of processes is reached
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


def ours(error: BaseException) -> SparkhavenError | None:
    """The error of the tree that an exception is: one of ours, of the system, of memory. None: it is unexpected."""
    if isinstance(error, SparkhavenError):
        return error
    if isinstance(error, OSError):
        hint = _HINTS.get(error.errno or 0)
        kind = NotPermittedError if error.errno in _FORBIDDEN else RetryableStorageError if hint else StorageError
        return kind(error.strerror or str(error), where=error.filename, hint=hint, phase=phase_of(error))
    if isinstance(error, MemoryError):
        return RetryableStorageError("out of memory", found=str(error) or None, hint=MEMORY)
    if isinstance(error, RuntimeError) and str(error) == NO_THREAD:
        return RetryableStorageError("the system starts no further thread", found=NO_THREAD, hint=MEMORY)
    return None


def as_ours(error: BaseException) -> SparkhavenError:
    """An exception as an error of the tree; of an unexpected one an error with its class and text."""
    return ours(error) or SparkhavenError(f"{type(error).__name__}: {error}")


@contextmanager
def as_storage_errors() -> Iterator[None]:
    """Turns an OSError of the body into a StorageError."""
    try:
        yield
    except OSError as error:
        raise as_ours(error) from error


@contextmanager
def in_phase(name: str) -> Iterator[None]:
    """Adds the phase to a disk error, or to the sparkhaven error that it caused; the innermost phase stays."""
    try:
        yield
    except OSError as error:
        error.__dict__.setdefault("phase", name.removeprefix("merge-"))
        raise
    except SparkhavenError as error:
        if isinstance(error.__cause__, OSError) and error.extra.get("phase") is None:
            error.extra["phase"] = phase_of(error.__cause__) or name.removeprefix("merge-")
        raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Adds the path to an OSError of the body that has none, as errors of calls on open files do."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
