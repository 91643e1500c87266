"""Which data files of directories count: those of a table format are refused, of a sink's output its log decides.

Whatever lists directories for rows asks here: feeds of files, samples of them, imports.

Directories whose files belong to a table format: its log says which of them count, so they are not read as files.

The log of Spark's streaming file sink: which files of a directory are committed, as ``spark.read`` sees it.

``_spark_metadata`` has a file for each batch, ``N``, or ``N.compact`` with all batches up to N. A file is a line ``v1``
and a line of JSON for each data file: ``path`` (a percent-encoded URI), ``size``, ``action`` (``add`` or ``delete``).
Batches before the last compact one may be removed; those after it are all there. A data file that no batch names is
what a failed try of a batch has left.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from urllib.parse import unquote

from sparkhaven.store.errors import CorruptFileError, RetryableFeedError, SettingsError, UnsupportedVersionError
from sparkhaven.store.io.fs import Fs, Stat

_ICEBERG = re.compile(r"(v[0-9]+|[0-9]{5,}-[0-9a-f-]{36})(\.gz)?\.metadata\.json(\.gz)?\Z")
_PAIMON = re.compile(r"snapshot-[0-9]+\Z")


@dataclass(frozen=True, slots=True)
class _Format:
    """A table format by a name that its tables have: of a directory, or a file.

    ``inside``: what one of the names in the directory is like.
    """

    name: str
    marker: str
    is_dir: bool = True
    inside: re.Pattern[str] | None = None


FORMATS = (
    _Format("Delta", "_delta_log"),
    _Format("Hudi", ".hoodie"),
    _Format("Hudi", ".hoodie_partition_metadata", is_dir=False),  # a partition, wherever it was copied to
    _Format("Iceberg", "metadata", inside=_ICEBERG),
    _Format("Paimon", "snapshot", inside=_PAIMON),
)


def refuse_managed(fs: Fs, directory: Path, names: Collection[str] | None = None) -> None:
    """SettingsError for the directory of a table of another format; ``names``: what is in it, if that is known."""
    for kind in FORMATS:
        marker = directory / kind.marker
        if names is not None and kind.marker not in names:
            continue
        stat = fs.stat(marker)
        if stat is None or stat.is_dir != kind.is_dir:
            continue
        if kind.inside is None or any(kind.inside.match(name) for name in fs.names(marker)):
            raise _managed(kind, directory)


def refuse_managed_above(fs: Fs, path: Path) -> None:
    """Refuses directories of other formats above a path, by its name and by what links on it lead to."""
    for directory in dict.fromkeys((*path.parents, *fs.resolve(path).parents)):
        refuse_managed(fs, directory)


def _managed(kind: _Format, directory: Path) -> SettingsError:
    delta = (
        f'read it by its log: [feed] with type = "delta" and path = "{directory}", or import NS.T --from {directory}'
    )
    none = f"tables of {kind.name} are not read. Have the rows written to a Delta table or to plain files"
    return SettingsError(
        f"the directory is that of a table of {kind.name}, whose log says which files count",
        where=directory,
        expected="files that no table format manages",
        found=kind.marker,
        hint=delta if kind.name == "Delta" else none,
    )


SINK_LOG = "_spark_metadata"
UNCOMMITTED = f"not committed by {SINK_LOG}"
OTHER_SIZE = f"not of the size in {SINK_LOG}"
VERSION = "v1"
_BATCH = re.compile(r"(0|[1-9][0-9]*)(\.compact)?\Z")
_BEFORE_PATH = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
_VERSIONS = count(1)

Parts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A data file: its whole path as Spark wrote it, and its bytes; ``added`` False: it was deleted."""

    parts: Parts
    size: int
    added: bool


class SinkLog:
    """The committed files of one output directory; ``look`` takes up what the sink has committed since.

    A directory that was moved, or is mounted elsewhere than where Spark wrote it, has the same files: paths of another
    place are compared from their end.
    """

    def __init__(self, fs: Fs, directory: Path) -> None:
        self._fs, self._directory = fs, directory
        self._place = directory / SINK_LOG
        self._read: dict[str, tuple[Stat, list[_Entry]]] = {}  # batches by the name of their file
        self._here: dict[Parts, int] = {}  # bytes by the names from the output directory on
        self._elsewhere: dict[str, list[_Entry]] = {}  # by the last name
        self.version = 0  # another one with each change, and no other log has it

    def look(self) -> None:
        """Reads new batches. CorruptFileError: a batch is damaged or missing; UnsupportedVersionError: not v1."""
        try:
            read = self._batches()
        except FileNotFoundError:  # the sink removes what it has compacted
            read = self._batches()
        if read == self._read:
            return
        self._read, self.version = read, next(_VERSIONS)
        entries = [entry for _, batch in read.values() for entry in batch]
        deleted = {entry.parts for entry in entries if not entry.added}
        bases = {self._directory.parts, self._fs.resolve(self._directory).parts}
        self._here, self._elsewhere = {}, {}
        for entry in entries:
            if entry.parts in deleted:
                continue
            base = next((base for base in bases if entry.parts[: len(base)] == base), None)
            if base is None:
                self._elsewhere.setdefault(entry.parts[-1], []).append(entry)
            else:
                self._here[entry.parts[len(base) :]] = entry.size

    def committed(self, path: Path) -> int | None:
        """Bytes of a data file below the output directory as it was committed; None: it was not."""
        if not path.is_relative_to(self._directory):  # a link leads here
            path = self._directory / self._fs.resolve(path).relative_to(self._fs.resolve(self._directory))
        names = path.relative_to(self._directory).parts
        others = self._elsewhere.get(names[-1], ())
        size = next((entry.size for entry in others if entry.parts[-len(names) :] == names), None)
        return self._here.get(names, size)

    def refusal(self, path: Path, stat: Stat) -> str | None:
        """Why a file does not count; None: it is as the sink has committed it."""
        size = self.committed(path)
        return UNCOMMITTED if size is None else OTHER_SIZE if size != stat.size else None

    def missing(self, is_there: Callable[[Path], bool]) -> list[Path]:
        """The committed files that are not there: of a moved directory those that lie below none of their keys."""
        gone = [path for names in self._here if not is_there(path := self._directory.joinpath(*names))]
        for name, entries in self._elsewhere.items():
            for entry in entries:
                keys = list(takewhile(lambda part: "=" in part, reversed(entry.parts[:-1])))[::-1]
                paths = [self._directory.joinpath(*keys[first:], name) for first in range(len(keys) + 1)]
                if not any(map(is_there, paths)):
                    gone.append(paths[0])
        return gone

    def _batches(self) -> dict[str, tuple[Stat, list[_Entry]]]:
        """Every batch that counts, oldest first: the last compact one and those after it."""
        try:
            names = {match[0]: match for name in self._fs.names(self._place) if (match := _BATCH.match(name))}
        except OSError as error:
            raise RetryableFeedError(
                "the log of Spark's sink cannot be listed", where=self._place, found=error, hint="check its permissions"
            ) from error
        by_number = {int(match[1]): name for name, match in sorted(names.items())}  # N.compact comes after N
        last = max(by_number, default=-1)
        first = max((number for number, name in by_number.items() if name.endswith(".compact")), default=0)
        for number in range(first, last + 1):
            if number not in by_number:
                raise CorruptFileError(
                    "the log of Spark's sink lacks a batch",
                    where=self._place / str(number),
                    expected=f"every batch from {first} to {last}",
                    found="nothing",
                    hint=f"put the file back, or move {SINK_LOG} away to take every file, uncommitted ones too",
                )
        return {by_number[number]: self._batch(by_number[number]) for number in range(first, last + 1)}

    def _batch(self, name: str) -> tuple[Stat, list[_Entry]]:
        path = self._place / name
        stat = self._fs.stat(path)
        if stat is None:
            raise FileNotFoundError(path)
        read = self._read.get(name)
        return read if read is not None and read[0] == stat else (stat, self._entries(path))

    def _entries(self, path: Path) -> list[_Entry]:
        try:
            header, *lines = self._fs.read(path).decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            raise _damaged(path, str(error)) from None
        if header != VERSION:
            if re.fullmatch(r"v[0-9]+", header):
                raise UnsupportedVersionError(
                    "the log of Spark's sink has another version", where=path, expected=VERSION, found=header
                )
            raise _damaged(path, f"{header[:40]!r} in line 1, for {VERSION}")
        while lines and not lines[-1]:
            lines.pop()
        return [entry for number, line in enumerate(lines, 2) if (entry := self._entry(path, number, line))]

    def _entry(self, path: Path, number: int, line: str) -> _Entry | None:
        try:
            body = json.loads(line)
            uri, size, action = body["path"], body["size"], body["action"]
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(path, f"line {number}: {error}") from None
        if action not in ("add", "delete") or type(size) is not int or not isinstance(uri, str):
            raise _damaged(path, f"line {number}: action {action!r}, size {size!r}, path {uri!r}")
        parts = Path(unquote(_BEFORE_PATH.sub("", uri, count=1))).parts
        return None if body.get("isDir") is True or not parts else _Entry(parts, size, action == "add")


def _damaged(path: Path, fault: str) -> CorruptFileError:
    return CorruptFileError(
        "the log of Spark's sink is damaged",
        where=path,
        expected=f"{VERSION}, then a line of JSON for each data file",
        found=fault,
        hint=f"put the file back, or move {SINK_LOG} away to take every file, uncommitted ones too",
    )


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
