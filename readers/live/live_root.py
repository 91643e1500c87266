"""All live tables of a root: opens them, looks for new epochs, and opens anew what has ended or has another schema.

Of a table that a user has saved an engine sees the rows as of one save. A save that comes later may replace them all,
and an engine only ever appends. So the served table *ends* with the next save, and opens again under the same name with
the rows of that one. Intraday data that other programs append is shown as it grows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from sparkhaven.readers.live.backend import LiveBackend, TableKey
from sparkhaven.readers.live.live_column import served_schema
from sparkhaven.readers.live.live_table import LiveTable
from sparkhaven.readers.live.shown_locations import AGAIN, Committed, Held, ShownPlaces
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.errors import SettingsError, SnapshotMovedError, SparkhavenError, TableNotFoundError
from sparkhaven.store.io.fs import Fs, Stat
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.checksums import Checks
from sparkhaven.store.schema.deployed.deploy import load_deployed, user_tables
from sparkhaven.store.types.datatypes import CHAR_NULL
from sparkhaven.store.types.null_char import with_null_char
from sparkhaven.store.user_tables import (
    UserTable,
    intraday_location,
    is_user_table,
    list_user_tables,
    load_user_table,
    splayed_of,
)


class LiveUserTable(LiveTable):
    """Splayed or partitioned. Raises what ``LiveTable`` raises."""

    def _open(self) -> None:
        self._shown, self._streams = ShownPlaces(self._place), {}
        self._user = self._loaded()
        self.schema = served_schema(with_null_char(self._user.schema, self._null_char))
        for key, held in sorted(self._user.locations.items()):
            since = self._user.since
            directory = splayed_of(self._place, since) if self._user.splayed else self._place.user_location(key)
            if directory is None:
                raise self._saved_again(self._loaded())
            if held.rows:
                self._shown.add_whole(key, directory, Committed(held.rows, 0, held.files))
        self._grow(self._user)
        self.publish()

    def _grow(self, user: UserTable) -> None:
        for key, held in sorted(user.unsaved.items()):
            self._shown.grow("", LocationState(key, 0, 0, held.rows, held.files), intraday_location(self._place, key))

    def _loaded(self) -> UserTable:
        user = load_user_table(self._place)
        if user is None:
            raise TableNotFoundError(f"no user table {self.name}", where=self._place.user_definition)
        return user

    def _learn_names(self) -> None:
        """A column keeps its name: a save with other columns is another definition."""

    def _is_widened(self, name: str) -> bool:
        """A save with other types is another definition, too."""
        return False

    def _confirm(self, held: Held) -> None:
        self.advance(wide=True)

    def _look(self, wide: bool) -> None:
        if not wide:
            return
        now = self._loaded()
        if (now.save, now.since, now.locations) != (self._user.save, self._user.since, self._user.locations):
            raise self._saved_again(now)
        for key, held in self._user.unsaved.items():
            if key not in now.intraday or now.intraday[key].rows < held.rows:
                raise SnapshotMovedError(
                    "rows of its intraday data are gone",
                    where=intraday_location(self._place, key),
                    expected=f"{held.rows} rows or more",
                    found="fewer, or no such location",
                    hint=AGAIN,
                    phase="read",
                )
        self._user = now
        self._grow(now)

    def _saved_again(self, now: UserTable) -> SnapshotMovedError:
        return SnapshotMovedError(
            "it was saved again",
            where=self._place.user_definition,
            expected=f"save {self._user.save}",
            found=f"save {now.save}",
            hint=AGAIN,
            phase="read",
        )


LOOK_SECONDS = 0.010  # between looks at the heads of logs
WIDE_SECONDS = 0.200  # between looks for new tables, streams, schemas and merged dates
REPORT_SECONDS = 60.0
REOPEN_SECONDS = 1.0  # between attempts to open a table that could not be opened

Bind = Callable[[str, TableKey], None]
Note = Callable[[str], None]


def variable(name: TableName) -> str:
    """The name under which a server offers a table: ``NS_T``."""
    return f"{name.namespace}_{name.table}"


@dataclass(slots=True)
class Health:
    """What is served: tables, rows, and the longest time from a commit to its rows being shown, since last asked."""

    tables: int
    rows: int
    lag_ms: int | None


@dataclass(slots=True)
class _Served:
    name: TableName
    key: TableKey
    table: LiveTable
    schema: Stat | None
    ended: bool = False
    waits_until: float = 0.0
    noted: str = ""


class LiveRoot:
    """``names``: the tables to serve; None: all, also those that come later, except those that cannot be served.

    ``note`` is called with one line that a user should know. Raises, for named tables, what opening them raises.
    """

    def __init__(
        self,
        fs: Fs,
        layout: Layout,
        names: Sequence[TableName] | None,
        *,
        note: Note,
        checks: Checks | None = None,
        null_char: int = CHAR_NULL,
        now_ms: Callable[[], int],
    ) -> None:
        self._fs, self._layout, self._checks, self._null_char = fs, layout, checks, null_char
        self._note, self._now_ms = note, now_ms
        self._all = names is None
        self._served: dict[TableName, _Served] = {}
        self._older: list[_Served] = []  # tables of an older schema that are still followed
        self._refused: dict[TableName, tuple[str, float]] = {}  # why, and until when
        self._number = 0
        self._lag_ms: int | None = None
        self._wide_at = 0.0
        self.backend = LiveBackend()
        self._open_new(self._named() if names is None else names, 0.0)

    @property
    def keys(self) -> dict[str, TableKey]:
        return {variable(name): served.key for name, served in self._served.items()}

    @property
    def tables(self) -> dict[str, str]:
        return {str(name): variable(name) for name in self._served}

    def health(self) -> Health:
        tables = [served.table for served in self._served.values() if not served.ended]
        lag, self._lag_ms = self._lag_ms, None
        return Health(len(tables), sum(table.rows for table in tables), lag)

    def run(
        self,
        stop: threading.Event,
        clock: Callable[[], float],
        gate: Callable[[], AbstractContextManager[object]],
        bind: Bind,
        report: Callable[[Health], None],
    ) -> None:
        """Looks until ``stop`` is set. ``gate`` is entered around each delivery.

        ``bind`` is called with each opened table, ``report`` with the figures once a minute. What they raise ends it:
        nothing is looked for any more.
        """
        report_at = clock() + REPORT_SECONDS
        while not stop.wait(LOOK_SECONDS):
            now = clock()
            self.look(now, gate, bind)
            if now >= report_at:
                report_at = now + REPORT_SECONDS
                report(self.health())

    def look(
        self, now: float, gate: Callable[[], AbstractContextManager[object]] = nullcontext, bind: Bind = lambda *_: None
    ) -> None:
        """Looks once, and delivers: an epoch as a whole, inside of ``gate``."""
        wide = now >= self._wide_at
        if wide:
            self._wide_at = now + WIDE_SECONDS
        for unfollowed in [served for served in self._older if not self.backend.is_followed(served.key)]:
            self._older.remove(unfollowed)
            if not unfollowed.ended:
                self.backend.remove(unfollowed.key)
        for served in (*self._served.values(), *self._older):
            if not served.ended:
                served.table.advance(wide=wide)
                self._deliver(served, gate)
            elif now >= served.waits_until and self._served.get(served.name) is served:
                self._reopen(served, now, bind)
        if wide:
            for served in list(self._served.values()):
                if served.ended or now < served.waits_until or not self._has_new_columns(served):
                    continue
                if self._reopen(served, now, bind):
                    self._older.append(served)  # what is attached to it goes on
            if self._all:
                for served in self._open_new(self._named(), now):
                    bind(variable(served.name), served.key)

    def _named(self) -> list[TableName]:
        """All tables but log tables: those of streams and history, and those that users have saved."""
        return [*user_tables(self._fs, self._layout), *list_user_tables(self._fs, self._layout)]

    def _deliver(self, served: _Served, gate: Callable[[], AbstractContextManager[object]]) -> None:
        if not served.table.waits:
            return
        with gate():
            update = served.table.publish()
            self.backend.deliver(served.key, update)
        if update.ended is not None:
            served.ended = True
            self._note(f"{served.name}: the served table has ended ({update.ended.what}). Clients open it again")
        elif served.table.committed_ms:
            lag = max(0, self._now_ms() - served.table.committed_ms)
            self._lag_ms = lag if self._lag_ms is None else max(self._lag_ms, lag)

    def _open_new(self, names: Iterable[TableName], now: float) -> list[_Served]:
        fresh: list[_Served] = []
        for name in names:
            refused, until = self._refused.get(name, ("", now))
            if name in self._served or now < until:
                continue
            try:
                self._require_free(name, [served.name for served in fresh])
                fresh.append(self._opened(name))
            except SparkhavenError as error:
                if not self._all:
                    raise
                self._refused[name] = str(error), now + REOPEN_SECONDS
                if refused != str(error):
                    self._note(f"{name} is not served: {error}")
        self._served |= {served.name: served for served in fresh}
        return fresh

    def _opened(self, name: TableName) -> _Served:
        schema = self._fs.stat(self._layout.schema(name))
        place = TablePlace(self._fs, self._layout, name)
        kind = LiveUserTable if is_user_table(place) else LiveTable
        table = kind(place, self._checks, null_char=self._null_char)
        self._number += 1
        key = TableKey(str(name), self._number)
        self.backend.add(key, table)
        return _Served(name, key, table, schema)

    def _require_free(self, name: TableName, fresh: Iterable[TableName]) -> None:
        for served in (*self._served, *fresh):
            if variable(served) == variable(name):
                raise SettingsError(
                    "two tables have the same name in the server",
                    expected="one table for each variable",
                    found=f"{served} and {name} as {variable(name)}",
                    hint="name the tables to serve, without one of the two",
                )

    def _reopen(self, served: _Served, now: float, bind: Bind) -> bool:
        """Opens a table anew under its name; False: it cannot be opened now."""
        try:
            self._served[served.name] = self._opened(served.name)
        except SparkhavenError as error:
            served.waits_until = now + REOPEN_SECONDS
            if served.noted != str(error):
                served.noted = str(error)
                self._note(f"{served.name} cannot be opened again: {error}")
            return False
        bind(variable(served.name), self._served[served.name].key)
        return True

    def _has_new_columns(self, served: _Served) -> bool:
        schema = self._fs.stat(self._layout.schema(served.name))
        if schema == served.schema:
            return False
        try:
            columns = load_deployed(TablePlace(self._fs, self._layout, served.name)).stored
        except SparkhavenError:
            return False  # being deployed just now, or damaged: what is served goes on
        if columns != served.table.schema.columns:
            return True
        served.schema = schema
        return False
