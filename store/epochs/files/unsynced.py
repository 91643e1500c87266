"""Files and directories of epochs that are visible but not yet durable (modes ``periodic`` and ``none``)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sparkhaven.store.epochs.files.published_size import OWNER, TABLE_DEFINITION
from sparkhaven.store.epochs.state.log_values import LocationReport
from sparkhaven.store.io.fs import Fs, SyncGuard
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.places import TablePlace


class Unsynced:
    """A set of paths, bounded by the locations in use, not by the number of epochs."""

    def __init__(self, place: TablePlace) -> None:
        self._place = place
        self._files: dict[Path, None] = {}
        self._directories: dict[Path, None] = {}

    def note(self, reports: Iterable[LocationReport]) -> None:
        top = self._place.intraday
        for report in reports:
            directory = self._place.intraday_location(report.key)
            for name in report.files:
                self._files[directory / name] = None
            if report.base_epoch == 0:
                self._files |= {directory / TABLE_DEFINITION: None, directory / OWNER: None}
            for path in (directory, directory.parent, directory.parent.parent, top):
                self._directories[path] = None

    def forget(self, key: LocationKey) -> None:
        """Drops a deleted location, and the value's directory, which may be deleted too."""
        directory = self._place.intraday_location(key)
        self._files = {path: None for path in self._files if path.parent != directory}
        for path in (directory, directory.parent):
            self._directories.pop(path, None)

    def files(self, fs: Fs) -> list[Path]:
        """The files to sync; a definition and an owner mark only if they exist."""
        beside = TABLE_DEFINITION, OWNER
        return [path for path in self._files if path.name not in beside or fs.stat(path) is not None]

    def sync(self, fs: Fs, guard: SyncGuard | None = None) -> None:
        """Syncs files, then their directories; after an OSError all of them stay unsynced.

        A ``guard`` opened before the files were written also sees errors already reported to other processes.
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
