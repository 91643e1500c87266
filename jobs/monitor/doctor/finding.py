"""The lines of ``doctor``, and the context in which checks run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sparkhaven.jobs.monitor.dates import DateStatus, table_status
from sparkhaven.jobs.monitor.texts import headline
from sparkhaven.jobs.settings.stream_file import StreamSettings
from sparkhaven.readers.checks.catalogue import Severity
from sparkhaven.readers.checks.findings import Finding, from_error
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import FormatError, SparkhavenError, StorageError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.schema.deployed.deploy import standing_tables

State = Literal["ok", "note", "wrong"]
STATES: Mapping[Severity, State] = {"error": "wrong", "warning": "note", "note": "note"}


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One line of ``doctor``: a finding of a check, or what is well.

    ``ok``; ``note``: worth knowing; ``wrong``: something does not work, or soon will not. ``what`` is a sentence,
    ``next`` the next command to run or action to take. ``code``: that of the finding, as all commands give it.
    """

    check: str
    state: State
    what: str
    next: str | None = None
    code: str | None = None

    def to_json(self) -> dict[str, str]:
        """The finding as a JSON object without absent parts."""
        parts = {"check": self.check, "state": self.state, "what": self.what, "next": self.next, "code": self.code}
        return {name: text for name, text in parts.items() if text is not None}


Found = Finding | str  # a finding, or what is well; the caller knows the check


def told(code: str, what: str, todo: str | None = None) -> Finding:
    """A finding whose sentence says where it is. ``todo``: the next command, or what to do."""
    return Finding(code, "", what, hint=todo)


def line_of(check: str, finding: Found) -> DoctorFinding:
    """The line of a finding, or of what is well."""
    if isinstance(finding, str):
        return DoctorFinding(check, "ok", finding)
    return DoctorFinding(check, STATES[finding.severity], finding.what, finding.hint, finding.code)


@dataclass(slots=True)
class CheckContext:
    """What all checks read. ``now_s``: seconds since the epoch; ``only``: these tables, empty: all; ``feeds``: streams
    whose sources are asked for lag."""

    fs: Fs
    layout: Layout
    now_s: float
    host: str
    environ: Mapping[str, str]
    only: Sequence[TableName] = ()
    feeds: Sequence[StreamSettings] = ()
    _states: dict[tuple[TableName, str], StreamState | Exception] = field(default_factory=dict)
    told: set[tuple[str, str]] = field(default_factory=set)  # damage that a check has reported: path and what
    _dates: dict[TableName, list[DateStatus]] = field(default_factory=dict)

    @property
    def tables(self) -> list[TableName]:
        """The requested tables, or all that there are, those whose schema is lost included."""
        return list(self.only) or standing_tables(self.fs, self.layout)

    def streams(self) -> Iterator[tuple[TableName, str, StreamState | Exception]]:
        """Every stream with its newest state, or with the error of reading it."""
        for table in self.tables:
            for stream in list_streams(TablePlace(self.fs, self.layout, table)):
                key = table, stream
                if key not in self._states:
                    try:
                        self._states[key] = load_stream(StreamPlace(self.fs, self.layout, table, stream))
                    except (SparkhavenError, OSError) as error:
                        self._states[key] = error
                yield table, stream, self._states[key]

    def dates(self, table: TableName) -> list[DateStatus]:
        """The dates of a table, read once; raises what ``table_status`` raises."""
        if table not in self._dates:
            self._dates[table] = table_status(TablePlace(self.fs, self.layout, table), self.now_s)
        return self._dates[table]

    def command(self, *words: object) -> str:
        return shlex.join(["sparkhaven", "--root", str(self.layout.root), *map(str, words)])


Check = Callable[[CheckContext], Iterable[Found]]


def checked(name: str, check: Check, context: CheckContext) -> list[DoctorFinding]:
    """The findings of a check. An error of the check is its last finding."""
    lines: list[DoctorFinding] = []
    try:
        lines.extend(line_of(name, finding) for finding in check(context))
    except (SparkhavenError, OSError) as error:
        lines.append(line_of(name, unread(error, headline(error), "check permissions")))
    except Exception as error:  # noqa: BLE001  the other checks run all the same
        message = f"the check itself failed with {type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"
        lines.append(line_of(name, told("E491", message, context.command("doctor", "-v"))))
    return lines


def unread(error: Exception, what: str, todo: str, code: str = "E490") -> Finding:
    """The finding of what a check could not read: damage has the code that every command gives it."""
    known = from_error(error, "").code if isinstance(error, FormatError | StorageError | OSError) else code
    return told(known, what, getattr(error, "hint", None) or todo)


def each(name: object, command: str, look: Callable[[], Iterable[Found]]) -> Iterator[Found]:
    """The findings of one stream or table; an error of reading it becomes a finding."""
    try:
        yield from look()
    except (SparkhavenError, OSError) as error:
        yield unread(error, f"{name}: {headline(error)}", command)
