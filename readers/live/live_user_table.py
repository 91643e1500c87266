"""A table that a user has saved, as an engine sees it: its rows as of one save.

A save that comes later may replace them all, and an engine only ever appends. So the served table *ends* with the next
save, and opens again under the same name with the rows of that one. Intraday data that other programs append is shown
as it grows.
"""

from __future__ import annotations

from sparkhaven.readers.live.live_locations import AGAIN, Committed, Held
from sparkhaven.readers.live.live_table import LiveTable
from sparkhaven.readers.live.served_columns import served_schema
from sparkhaven.readers.live.shown_locations import ShownPlaces
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.errors import SnapshotMovedError, TableNotFoundError
from sparkhaven.store.types.null_char import with_null_char
from sparkhaven.store.users.user_table import UserTable, intraday_location, load_user_table, splayed_of


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
