"""The finding of a check, and the context in which checks run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sparkhaven.jobs.monitor.dates import DateStatus, table_status
from sparkhaven.jobs.monitor.texts import headline
from sparkhaven.jobs.settings.stream_file import StreamSettings
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.schema.deployed.deploy import standing_tables

State = Literal["ok", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """``ok``; ``note``: worth knowing; ``wrong``: something does not work, or soon will not.

    ``what`` is a sentence, ``next`` the next command to run or action to take.
    """

    check: str
    state: State
    what: str
    next: str | None = None

    def to_json(self) -> dict[str, str]:
        """The finding as a JSON object without absent parts."""
        parts = {"check": self.check, "state": self.state, "what": self.what, "next": self.next}
        return {name: text for name, text in parts.items() if text is not None}


Found = tuple[State, str, str | None]  # state, what, next; the caller knows the check


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
    findings: list[DoctorFinding] = []
    try:
        findings.extend(DoctorFinding(name, *result) for result in check(context))
    except (SparkhavenError, OSError) as error:
        hint = getattr(error, "hint", None) or "check permissions"
        findings.append(DoctorFinding(name, "wrong", headline(error), hint))
    except Exception as error:  # noqa: BLE001  the other checks run all the same
        message = f"the check itself failed with {type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"
        findings.append(DoctorFinding(name, "wrong", message, context.command("doctor", "-v")))
    return findings


def each(name: object, command: str, look: Callable[[], Iterable[Found]]) -> Iterator[Found]:
    """The findings of one stream or table; an error of reading it becomes a finding."""
    try:
        yield from look()
    except (SparkhavenError, OSError) as error:
        yield "wrong", f"{name}: {headline(error)}", getattr(error, "hint", None) or command
