"""Which data files of directories count: those of a table format are refused, of a sink's output its log decides.

Whatever lists directories for rows asks here: feeds of files, samples of them, imports.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.managed_trees.sink_log import OTHER_SIZE, SINK_LOG, SinkLog
from sparkhaven.store.managed_trees.table_formats import refuse_managed, refuse_managed_above


class ManagedDirectories:
    """The directories in and above a path; the log of a sink is looked at once a ``begin``."""

    def __init__(self, fs: Fs) -> None:
        self._fs = fs
        self._logs: dict[Path, SinkLog] = {}
        self._looked: set[Path] = set()
        self._above: dict[tuple[Path, Path], SinkLog | None] = {}  # by directory and what it is
        self._gone: dict[Path, tuple[int, list[Path]]] = {}  # by directory, with the version of its log

    def __bool__(self) -> bool:
        """Whether a sink writes one of them."""
        return bool(self._logs)

    def begin(self) -> None:
        self._looked.clear()
        self._above.clear()

    def above(self, path: Path, *, first: bool = True) -> SinkLog | None:
        """The sink into whose output a path leads, by its name or by what links on it lead to.

        Directories that were nobody's at the ``first`` look are not asked again.
        SettingsError: a table's directory is above it. Errors of ``SinkLog.look``.
        """
        target = self._fs.resolve(path)
        key = path.parent, target.parent
        if key not in self._above:
            if first:
                refuse_managed_above(self._fs, path)
            asked = [above for above in (*path.parents, *target.parents) if first or above in self._logs]
            self._above[key] = next((log for above in asked if (log := self.sink(above)) is not None), None)
        return self._above[key]

    def listed(self, directory: Path, names: Collection[str]) -> SinkLog | None:
        """The sink that writes a directory with these names. SettingsError: a table's. Errors of ``SinkLog.look``."""
        refuse_managed(self._fs, directory, names)
        if SINK_LOG not in names:
            self._logs.pop(directory, None)
            return None
        return self.sink(directory)

    def sink(self, directory: Path) -> SinkLog | None:
        """The sink that writes into a directory. Errors of ``SinkLog.look``."""
        if directory not in self._looked:
            stat = self._fs.stat(directory / SINK_LOG)
            if stat is None or not stat.is_dir:
                self._logs.pop(directory, None)
                return None
            log = self._logs.setdefault(directory, SinkLog(self._fs, directory))
            log.look()
            self._looked.add(directory)
        return self._logs[directory]

    def gone(self, is_there: Callable[[Path], bool]) -> list[Path]:
        """Files that sinks have committed and that are not there, by the newest look."""
        whole = []
        for directory, log in self._logs.items():
            version, missing = self._gone.get(directory, (0, []))
            if version != log.version:
                missing = log.missing(is_there)
                self._gone[directory] = log.version, missing
            whole += missing
        return whole


def committed_files(fs: Fs, root: Path, files: Collection[Path]) -> tuple[frozenset[Path], list[Path]]:
    """Which files of a tree count, and which are left out, since the log of a sink does not name them.

    SettingsError: a directory on the way is that of a table. CorruptFileError: a file that a sink has committed is
    missing, or has another size.
    """
    managed = ManagedDirectories(fs)
    sinks: dict[Path, SinkLog | None] = {}

    def sink_of(directory: Path) -> SinkLog | None:
        if directory not in sinks:
            leads = directory == root or _is_link(fs, directory)
            above = managed.above(directory) if leads else None
            sinks[directory] = (
                managed.listed(directory, fs.names(directory))
                or above
                or (sink_of(directory.parent) if directory != root else None)
            )
        return sinks[directory]

    kept: list[Path] = []
    left_out: list[Path] = []
    for path in files:
        sink = (managed.above(path) if _is_link(fs, path) else None) or sink_of(path.parent)
        stat = fs.stat(path)
        refusal = sink.refusal(path, stat) if sink is not None and stat is not None else None
        if refusal == OTHER_SIZE:
            raise _not_as_committed(path, f"{stat.size if stat else 0} bytes", refusal)
        (kept if refusal is None else left_out).append(path)
    here = {root, fs.resolve(root)}
    for path in managed.gone(lambda path: fs.stat(path) is not None):
        if here & set(path.parents):
            raise _not_as_committed(path, "nothing", f"a file that {SINK_LOG} names")
    return frozenset(kept), left_out


def _is_link(fs: Fs, path: Path) -> bool:
    stat = fs.stat(path, follow=False)
    return stat is not None and stat.is_link


def _not_as_committed(path: Path, size: str, what: str) -> CorruptFileError:
    return CorruptFileError(
        "a file of Spark's streaming sink is not as the sink has committed it",
        where=path,
        expected=f"the file, as {SINK_LOG} has it",
        found=f"{size}: {what}",
        hint="copy the directory again. Nothing was taken",
    )
