"""``table.size`` of a location, derived from the log: it can be rewritten at any time, and is synced later.

``Unsynced`` are the files and directories of epochs that are visible but not yet durable (modes ``periodic`` and
``none``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store.epochs.state.log_values import LocationReport, LocationState
from sparkhaven.store.epochs.state.packed_location import Files
from sparkhaven.store.errors import FormatError, InvalidNameError
from sparkhaven.store.format.table.table_size import TableSize, decode, encode, size_form
from sparkhaven.store.io.fs import Fs, SyncGuard
from sparkhaven.store.layout import LocationKey, check_stream
from sparkhaven.store.native.files import names_below, small_files
from sparkhaven.store.places import StreamPlace, TablePlace

OWNER = ".stream"  # two lines, of a location that has no table.size yet: its stream, and the generation of that
TABLE_SIZE = "table.size"
TABLE_DEFINITION = "table.tbl"
DATA_OFFSET = 4096  # intraday prefixes always have this length


def data_start(name: str) -> int:
    """Where the data region of a file begins: a ``.dat`` starts with a prefix."""
    return DATA_OFFSET if name.endswith(".dat") else 0


def physical_size(name: str, size: int) -> int:
    return size + data_start(name)


def walk_locations(place: TablePlace, takes: Callable[[str], bool] = lambda value: True) -> Iterator[LocationKey]:
    """Directories in the place of a location, of dates that ``takes`` accepts, committed or not.

    One listing per internal partition. Names with a leading dot are internal, not locations.
    """
    for internal, values in _internals(place):
        for value in values:
            if takes(value) and not value.startswith("."):
                yield LocationKey(internal, value)


def other_locations(place: TablePlace, known: Iterable[LocationKey]) -> Iterator[LocationKey]:
    """Those of ``walk_locations`` that are not known."""
    known_values: dict[str, set[str]] = {}
    for internal, value in known:
        known_values.setdefault(internal, set()).add(value)
    for internal, values in _internals(place):
        for value in sorted(set(values).difference(known_values.get(internal, ()))):
            if not value.startswith("."):
                yield LocationKey(internal, value)


def _internals(place: TablePlace) -> Iterator[tuple[str, list[str]]]:
    """Names of the internal partitions, and in each those of the directories."""
    root = place.intraday
    internals = [name for name in place.fs.names(root) if not name.startswith(".")]
    return zip(internals, names_below(place.fs, root, internals), strict=True)


def published_files(place: TablePlace, keys: Iterable[LocationKey]) -> Iterator[bytes | None]:
    """The bytes of each ``table.size``, in this order, none of one that is not there.

    None: it is to be read by itself.
    """
    end = f"/{place.table.table}/{TABLE_SIZE}"
    return small_files(place.fs, place.intraday, (f"{key.internal}/{key.value}{end}" for key in keys))


def record_bytes(stream: str, location: LocationState) -> bytes:
    """The record of a location. Its size ends before the first withdrawn row, which a foreign engine would show."""
    files = Files.of(location.files)
    form = size_form(stream, files.names, location.schema_version, location.truncated, location.begun_by)
    data = form.fill(location.rows, location.time_ms, location.epoch, files.sizes, files.checksums)
    if not location.withdrawn:
        return data
    record = form.read(data)
    assert record is not None  # noqa: S101  it was filled just now
    return encode(record.with_withdrawn(location.withdrawn))


def publish_location(place: StreamPlace, location: LocationState) -> None:
    """Replaces the record of one location; not synced, because recovery rewrites it."""
    path = place.intraday_location(location.key) / TABLE_SIZE
    with place.fs.during("publish-location"):
        place.fs.replace(path, record_bytes(place.stream, location), sync=False)


def read_published(data: bytes, where: object) -> TableSize | None:
    """The record in a file, None if it is torn or foreign (recovery then rewrites it)."""
    try:
        return decode(data, where)
    except FormatError:
        return None


@dataclass(frozen=True, slots=True)
class OwnerMark:
    """What the owner mark of a location says: its stream, and the generation that created it, where it names one.

    Not ``whole``: a power failure may have torn it.
    """

    stream: str
    generation: int | None
    whole: bool


def read_mark(fs: Fs, directory: Path) -> OwnerMark | None:
    try:
        stream, *rest = fs.read(directory / OWNER).decode().split("\n")
        check_stream(stream)
    except (FileNotFoundError, UnicodeDecodeError, InvalidNameError):
        return None
    generation = int(rest[0]) if len(rest) > 1 and rest[0].isascii() and rest[0].isdigit() else None
    return OwnerMark(stream, generation, bool(rest))


def named_owner(place: TablePlace, directory: Path) -> str | None:
    """The stream in the owner mark of a location without ``table.size``, or None.

    The mark is durable from the first commit of the location on. Before that a power failure may have torn it: then it
    lacks its line feed, and counts if the stream exists.
    """
    mark = read_mark(place.fs, directory)
    if mark is None or mark.whole:
        return mark.stream if mark is not None else None
    owner = place.of_stream(mark.stream)
    known = owner.stream_lock, owner.stream_log
    return mark.stream if any(place.fs.stat(path) is not None for path in known) else None


def owner_mark(stream: str, generation: int) -> bytes:
    """The content of the file that names the stream of a location, and the generation that creates it."""
    return f"{stream}\n{generation}\n".encode()


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
