"""What a check has found, and the context in which it looks."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from jobs.settings.stream_file import StreamSettings
from store.epochs.files.load import list_streams, load_stream
from store.epochs.state.replay import StreamState
from store.errors import SparkhavenError
from store.io.fs import Fs
from store.layout import Layout, TableName
from store.schema.deployed.deploy import deployed_tables

State = Literal["ok", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """``ok``; ``note``: somebody should know; ``wrong``: something does not work, or soon will not.

    ``what`` is a sentence, ``next`` the command to type or the thing to do.
    """

    check: str
    state: State
    what: str
    next: str | None = None

    def to_json(self) -> dict[str, str]:
        """The finding as a JSON object; an absent part is left out."""
        parts = {"check": self.check, "state": self.state, "what": self.what, "next": self.next}
        return {name: value for name, value in parts.items() if value is not None}


Found = tuple[State, str, str | None]  # of a check that is named by its caller


@dataclass(slots=True)
class CheckContext:
    """What all checks look at. ``now_s`` is seconds since the epoch; ``feeds`` are streams whose source is asked."""

    fs: Fs
    layout: Layout
    now_s: float
    host: str
    environ: Mapping[str, str]
    only: TableName | None = None
    feeds: Sequence[StreamSettings] = ()
    _states: dict[tuple[TableName, str], StreamState | Exception] = field(default_factory=dict)

    @property
    def tables(self) -> list[TableName]:
        """The table that was asked for, or all."""
        return [self.only] if self.only is not None else deployed_tables(self.fs, self.layout)

    def streams(self) -> Iterator[tuple[TableName, str, StreamState | Exception]]:
        """Every stream with its newest state, or with what keeps it from being read."""
        for table in self.tables:
            for stream in list_streams(self.fs, self.layout, table):
                key = table, stream
                if key not in self._states:
                    try:
                        self._states[key] = load_stream(self.fs, self.layout, table, stream)
                    except (SparkhavenError, OSError) as error:
                        self._states[key] = error
                yield table, stream, self._states[key]

    def command(self, *words: object) -> str:
        """A command line of ours for this database."""
        return shlex.join(["sparkhaven", "--root", str(self.layout.root), *map(str, words)])


Check = Callable[[CheckContext], Iterable[Found]]


def checked(name: str, check: Check, context: CheckContext) -> list[Finding]:
    """The findings of a check; one that fails has this as its last finding, and one without any is well."""
    found: list[Finding] = []
    try:
        found.extend(Finding(name, *each) for each in check(context))
    except (SparkhavenError, OSError) as error:
        found.append(Finding(name, "wrong", headline(error), getattr(error, "hint", None) or "check permissions"))
    except Exception as error:  # noqa: BLE001  whatever is damaged, the other checks are worth having
        what = f"the check itself failed: {type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"
        found.append(Finding(name, "wrong", what, context.command("doctor", "-v")))
    return found


def each(name: object, command: str, look: Callable[[], Iterable[Found]]) -> Iterator[Found]:
    """What is found about one stream or table; if it cannot be read, that, so that the others are looked at too."""
    try:
        yield from look()
    except (SparkhavenError, OSError) as error:
        yield "wrong", f"{name}: {headline(error)}", getattr(error, "hint", None) or command


def headline(error: Exception) -> str:
    """An error in one line: what, where, found."""
    if not isinstance(error, SparkhavenError):
        return f"{type(error).__name__}: {error}"
    told = error.what + (f" ({error.where})" if error.where else "")
    return told + (f": found {error.found}" if error.found else "")


def named(values: Sequence[object], shown: int = 3) -> str:
    """Some values by name, the others by their number."""
    text = ", ".join(map(str, values[:shown]))
    return text + (f" and {len(values) - shown:,} more" if len(values) > shown else "")


def ago(seconds: float) -> str:
    """A span of time for people."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def exists(fs: Fs, path: Path) -> bool:
    """Whether something is at a path that may be read."""
    return fs.stat(path) is not None
