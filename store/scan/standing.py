"""Locations that stand in the history of a table by the rules of the layout, whoever has put them there.

A location is a directory ``Partitions/<internal>/<value>/<Table>`` with ``table.size``, or with a ``table.parquet``
and no column files. Of column files alone the rows are not known: such a directory is not published, and is none.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from sparkhaven.store.errors import CorruptFileError, InvalidNameError, SparkhavenError, TableNotFoundError
from sparkhaven.store.format.column.region import BYTES, DAT, SYM, SYM_BYTES
from sparkhaven.store.format.parquet.footer import field_names
from sparkhaven.store.format.table import table_size
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.open_files import Identity
from sparkhaven.store.layout import PARQUET, LocationKey, check_partition, in_parquet
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.column_file import column_header
from sparkhaven.store.scan.parquet_file import parquet_schema
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.committed_columns import UNKNOWN, FileState
from sparkhaven.store.types.model import NOW

KEPT = 16  # namespaces whose directories of dates are remembered
SETTLED_NS = 2_000_000_000  # a directory that changed within this time of its listing is listed again
Dated = Mapping[str, tuple[str, ...]]
"""By value: the storage partitions that have a directory of it. Other tables may have made it."""


@dataclass(frozen=True, slots=True)
class StandingLocation:
    """What a location says of itself: rows, files with checksums where it has them, and when it was written.

    ``lost``: columns whose files it names, and that are not there. They are null. ``named_by``: the version of the
    schema whose names the files have.
    """

    key: LocationKey
    rows: int
    files: Mapping[str, FileState]
    modified_ms: int
    lost: tuple[str, ...] = ()
    named_by: int = NOW

    @property
    def in_parquet(self) -> bool:
        return in_parquet(self.files)

    @property
    def name(self) -> str:
        """Storage partition and value, as a line has them."""
        return f"{self.key.internal}/{self.key.value}"


@dataclass(frozen=True, slots=True)
class _Listed:
    """The directories of a namespace when they were listed."""

    identities: tuple[Identity, ...]
    at_ns: int
    dated: Dated

    def still(self, identities: tuple[Identity, ...]) -> bool:
        """Whether nothing has come or gone since; a change within a tick of the clock may not show."""
        return identities == self.identities and max((i[3] for i in identities), default=0) + SETTLED_NS < self.at_ns


_listed: OrderedDict[tuple[Path, tuple[str, ...]], _Listed] = OrderedDict()
_lock = Lock()


def dated_partitions(place: TablePlace) -> Dated:
    """The directories of dates of the namespace: one listing a storage partition, and none where nothing has changed.

    Hidden names are left out: no location has one.
    """
    return dated_in(place.fs, place.partitions)


def dated_in(fs: Fs, root: Path) -> Dated:
    """The same of the directory of storage partitions of any namespace."""
    internals = tuple(name for name in fs.names(root) if name[0] != ".")
    if not internals:
        return {}
    identities, key = fs.identities(root, internals), (root, internals)
    known = _listed.get(key)
    if known is not None and identities is not None and known.still(identities):
        return known.dated
    at_ns = time.time_ns()
    by_value: dict[str, list[str]] = {}
    for internal, values in zip(internals, fs.names_below(root, internals), strict=True):
        for value in values:
            by_value.setdefault(value, []).append(internal)
    dated = {value: tuple(names) for value, names in by_value.items() if value[0] != "."}
    if identities is not None:
        with _lock:
            _listed[key] = _Listed(identities, at_ns, dated)
            _listed.move_to_end(key)
            while len(_listed) > KEPT:
                _listed.popitem(last=False)
    return dated


def standing_keys(place: TablePlace) -> Iterator[LocationKey]:
    """Every location of the table that stands in history, by value and storage partition."""
    for value, internals in sorted(dated_partitions(place).items()):
        for internal in internals:
            key = LocationKey(internal, value)
            if is_name(key) and place.fs.is_dir(place.history_location(key)):
                yield key


def has_standing(place: TablePlace) -> bool:
    """Whether history of the table stands anywhere; it stops at the first location."""
    return next(standing_keys(place), None) is not None


def is_name(key: LocationKey) -> bool:
    """Whether these names can be those of a location."""
    try:
        check_partition("internal partition", key.internal)
        check_partition("partition value", key.value)
    except InvalidNameError:
        return False
    return True


def standing_location(place: TablePlace, key: LocationKey) -> StandingLocation | None:
    """What a location says of itself; None where nothing is published.

    CorruptFileError: files that it names are shorter, or all gone, or some of its rows are withdrawn.
    UnsupportedVersionError: ``table.size`` has the form of another program.
    """
    directory = place.history_location(key)
    record = table_size.load(place.fs, directory)
    if record is None:
        return _parquet_alone(place, key)
    if record.withdrawn:
        raise CorruptFileError(
            "a location of history has withdrawn rows",
            where=directory / table_size.NAME,
            expected="rows that all count, as a merge writes them",
            found=f"{record.withdrawn} of {record.rows} rows withdrawn",
            hint="it is a copy of an intraday location. Merge the date where it comes from, and copy what is merged",
        )
    sizes = place.fs.sizes(directory, record.data_file_sizes)
    lost = tuple(name for name in record.data_file_sizes if name not in sizes and name.endswith(DAT))
    columns = tuple(name.removesuffix(DAT) for name in lost)
    left = {column + suffix for column in columns for suffix in (DAT, SYM, SYM_BYTES, BYTES)}
    files = {
        name: FileState(size, record.checksums.get(name, UNKNOWN))
        for name, size in record.data_file_sizes.items()
        if name not in left
    }
    short = next((name for name, state in files.items() if sizes.get(name, (-1, 0))[0] < state.size), None)
    if short is None and columns and not files:
        short = lost[0]
    if short is not None:
        raise CorruptFileError(
            "a file of a location is not as its record says",
            where=directory / short,
            expected=f"{record.data_file_sizes[short]} bytes or more",
            found=f"{sizes[short][0]} bytes" if short in sizes else "nothing",
            hint="restore the location from a copy",
        )
    rows, named = 0 if record.truncated else record.size, _named_by(place, directory, files)
    return StandingLocation(key, rows, files, record.last_modified_ms, columns, named)


def _parquet_alone(place: TablePlace, key: LocationKey) -> StandingLocation | None:
    directory = place.history_location(key)
    stat = place.fs.stat(directory / PARQUET)
    if stat is None or any(name.endswith(DAT) for name in place.fs.names(directory)):
        return None
    rows = parquet_schema(place.fs, directory / PARQUET, stat.size)[0]
    files = {PARQUET: FileState(stat.size, UNKNOWN)}
    return StandingLocation(key, rows, files, stat.mtime_ns // 1_000_000, named_by=_named_by(place, directory, files))


def _named_by(place: TablePlace, directory: Path, files: Mapping[str, FileState]) -> int:
    """The version of the schema whose names the files have: that of now, unless ids in the files tell an earlier one.

    So a date that was copied by hand before a column was renamed is read as it was.
    """
    try:
        schema = load_deployed(place)
    except TableNotFoundError:  # of a table that has no schema here, no column was ever renamed
        return NOW
    columns = [column for column in (*schema.stored, *schema.retired) if column.stems]
    if not columns:
        return NOW
    names = _names_by_id(place, directory, files)
    versions = sorted({version for column in columns for version, _ in column.stems}, reverse=True)
    fits = (v for v in versions if all(names.get(column.id, column.stem(v)) == column.stem(v) for column in columns))
    fitting = next(fits, NOW)
    return NOW if fitting == versions[0] else fitting


def _names_by_id(place: TablePlace, directory: Path, files: Mapping[str, FileState]) -> dict[int, str]:
    """The name of each column whose files say an id; none where they cannot be read, which their reader tells."""
    try:
        if in_parquet(files):
            return field_names(parquet_schema(place.fs, directory / PARQUET, files[PARQUET].size)[1])
        heads = {name: column_header(place.fs, directory / name) for name in files if name.endswith(DAT)}
    except (SparkhavenError, OSError):
        return {}
    return {head.column_id: name.removesuffix(DAT) for name, head in heads.items() if head.column_id is not None}
