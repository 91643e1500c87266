"""Files and directories of epochs that are visible but not yet durable (modes ``periodic`` and ``none``)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from store.epochs.files.publish import OWNER, TABLE_DEFINITION
from store.epochs.state.values import LocationReport
from store.io.fs import Fs, SyncGuard
from store.layout import Layout, LocationKey, TableName


class Unsynced:
    """Each path once, so what is kept follows the locations in use, not the epochs."""

    def __init__(self, layout: Layout, table: TableName) -> None:
        self._layout, self._table = layout, table
        self._files: dict[Path, None] = {}
        self._directories: dict[Path, None] = {}

    def note(self, reports: Iterable[LocationReport]) -> None:
        """Remembers what the tasks of a batch have written."""
        top = self._layout.intraday(self._table)
        for report in reports:
            directory = self._layout.intraday_location(self._table, report.key)
            for name in report.files:
                self._files[directory / name] = None
            if report.base_epoch == 0:
                self._files |= {directory / TABLE_DEFINITION: None, directory / OWNER: None}
            for path in (directory, directory.parent, directory.parent.parent, top):
                self._directories[path] = None

    def forget(self, key: LocationKey) -> None:
        """Drops a location that was deleted, and the value's directory, which may have gone with it."""
        directory = self._layout.intraday_location(self._table, key)
        self._files = {path: None for path in self._files if path.parent != directory}
        for path in (directory, directory.parent):
            self._directories.pop(path, None)

    def files(self, fs: Fs) -> list[Path]:
        """The noted files; a definition and an owner's mark only where there is one."""
        beside = TABLE_DEFINITION, OWNER
        return [path for path in self._files if path.name not in beside or fs.stat(path) is not None]

    def sync(self, fs: Fs, guard: SyncGuard | None = None) -> None:
        """Files first, then the directories that name them; OSError leaves everything noted.

        A ``guard`` that was opened before the files were written also tells of errors that others have been told.
        """
        if self._files:
            files = self.files(fs)
            if guard is not None:
                guard.sync(files, self._directories)
            else:
                fs.sync(files)
                fs.sync_dirs(self._directories)
        self._files.clear()
        self._directories.clear()
