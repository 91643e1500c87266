"""A user table as it is committed: its schema, and the rows and lengths of its locations.

Of a splayed table ``table.size`` and ``table.tbl`` of its one location say it, of a partitioned one the record beside
its definition. One that another program wrote has no record: then each location's own ``table.size`` counts. So it
does for intraday data of a partitioned table, which other programs append in a directory that a setting names.

The record is ``Definitions/.<Table>.locations``, replaced as a whole, with the frames of ``store.framing``: magic
``SHVUSR1``, as number that of the save, and one frame to the end of the file. Its payload: the table's name, the bytes
of its definition in hexadecimal digits, its locations as lists [internal, value, rows, files], files as
{name: [bytes, crc]}, and replaced ones as [internal, value, ms].

*Writer.* Rows are durable before the record names them; replacing the record is the commit of a save. Definition and
``table.size`` are derived from it. *Reader.* A location is read up to the lengths of the record, one that it does not
name is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparkhaven.store.errors import CorruptFileError, InvalidNameError, SnapshotMovedError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.definition import NESTED, SPLAYED, Definition
from sparkhaven.store.format.table.table_size import TableSize
from sparkhaven.store.format.table.tbl import decode_tbl
from sparkhaven.store.framing import RecordKind
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import (
    Layout,
    LocationKey,
    TableName,
    check_identifier,
    check_partition,
    replaced,
    saves_beside,
    staged,
)
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.committed_columns import UNKNOWN, FileState
from sparkhaven.store.types.model import TableSchema

KIND = RecordKind(
    b"SHVUSR1\n",
    "record of the locations of a user table",
    "save",
    "restore the file from a copy, or save the table again with mode replace",
)
SAVE, SINCE = "save", "since"  # in ``sourceState`` of a splayed table: its last save, and the one that made the files
DEFINITION = "table.tbl"
ONE = LocationKey("", "")  # the location of a splayed table, which has neither partition
LOOKS = 10  # at a table that is replaced meanwhile


@dataclass(frozen=True, slots=True)
class CommittedRows:
    """Rows of a location, and the size and CRC-32 of the data region of each file."""

    rows: int
    files: dict[str, FileState]


@dataclass(frozen=True, slots=True)
class LocationRecord:
    """The state after save number ``save``; 0: nothing was saved yet.

    ``replaced``: locations that are still on disk, and when they were replaced (ms).
    """

    table: str
    save: int
    definition: bytes
    locations: dict[LocationKey, CommittedRows]
    replaced: dict[LocationKey, int]


def encode_locations(record: LocationRecord) -> bytes:
    """The bytes of the file; the same record gives the same bytes."""
    content = {
        "table": record.table,
        "save": record.save,
        "definition": record.definition.hex(),
        "locations": [
            [key.internal, key.value, held.rows, {name: [state.size, state.crc] for name, state in held.files.items()}]
            for key, held in sorted(record.locations.items())
        ],
        "replaced": [[key.internal, key.value, time_ms] for key, time_ms in sorted(record.replaced.items())],
    }
    return KIND.encode(record.save, content)


def decode_locations(data: bytes, where: object) -> LocationRecord:
    """The record in the bytes of a file. CorruptFileError: damaged. UnsupportedVersionError: of a later release."""
    return KIND.decode(data, where, _record)


def _record(content: Mapping[str, Any]) -> LocationRecord:
    return LocationRecord(
        table=content["table"],
        save=content["save"],
        definition=bytes.fromhex(content["definition"]),
        locations={
            _key(internal, value): CommittedRows(rows, {name: FileState(*state) for name, state in files.items()})
            for internal, value, rows, files in content["locations"]
        },
        replaced={_key(internal, value): time_ms for internal, value, time_ms in content["replaced"]},
    )


def _key(internal: str, value: str) -> LocationKey:
    """A name that cannot be one of ours is damage: it must not lead out of the tree."""
    return LocationKey(check_partition("internal partition", internal), check_partition("partition value", value))


@dataclass(frozen=True, slots=True)
class UserTable:
    """A user table after save number ``save`` (0: another program wrote it).

    ``since``: the save that made the files of a splayed table. ``record``: that of a partitioned one, if it has any.
    ``locations`` are those of saves, ``intraday`` those in the directory of intraday data.
    """

    definition: Definition
    save: int
    since: int
    locations: dict[LocationKey, CommittedRows]
    record: LocationRecord | None = None
    intraday: dict[LocationKey, CommittedRows] = field(default_factory=dict)

    @property
    def unsaved(self) -> dict[LocationKey, CommittedRows]:
        """Intraday data of the dates that no save has."""
        saved = {key.value for key in self.locations}
        return {key: held for key, held in self.intraday.items() if key.value not in saved}

    @property
    def splayed(self) -> bool:
        return self.definition.storage_type == SPLAYED

    @property
    def schema(self) -> TableSchema:
        return self.definition.schema()


def list_user_tables(fs: Fs, layout: Layout) -> list[TableName]:
    """Every user table, sorted: each definition names one. Other names are ignored."""
    tables = set()
    for namespace in fs.names(layout.users()):
        with suppress(InvalidNameError):
            for name in fs.names(layout.user_definitions(TableName.parse(f"{namespace}.T").namespace)):
                if name.endswith(".tbl"):
                    with suppress(InvalidNameError):
                        tables.add(TableName.parse(f"{namespace}.{name.removesuffix('.tbl')}"))
    return sorted(tables)


def is_user_table(place: TablePlace) -> bool:
    return place.fs.stat(place.user_definition) is not None


def load_user_table(place: TablePlace) -> UserTable | None:
    """The committed state of a user table; None: there is none of this name.

    CorruptFileError: a file is damaged or missing. SnapshotMovedError: it was replaced again and again meanwhile.
    """
    try:
        definition = _definition(place, place.user_definition)
    except FileNotFoundError:
        return None
    if definition.storage_type == SPLAYED:
        return _splayed(place)
    if definition.storage_type != NESTED:
        raise CorruptFileError(
            "definition of a user table has another storage type",
            where=place.user_definition,
            expected=f"{NESTED} (partitioned) or {SPLAYED} (splayed)",
            found=definition.storage_type,
            hint="restore the file from a copy",
        )
    record, base = load_locations(place), place.user_intraday
    intraday = {} if base is None else _listed(place, base)
    if record is None:
        return UserTable(definition, 0, 0, _listed(place, place.user_partitions), None, intraday)
    definition = _decoded(place, record.definition, place.user_locations)
    return UserTable(definition, record.save, 0, record.locations, record, intraday)


def load_locations(place: TablePlace) -> LocationRecord | None:
    """The record of a partitioned table; None: it has none."""
    try:
        record = decode_locations(place.fs.read(place.user_locations), place.user_locations)
    except FileNotFoundError:
        return None
    if record.table != str(place.table):
        raise CorruptFileError(
            "the record of another table", where=place.user_locations, expected=place.table, found=record.table
        )
    return record


def intraday_location(place: TablePlace, key: LocationKey) -> Path:
    """A location in the directory of intraday data, which a setting names."""
    base = place.user_intraday
    assert base is not None  # noqa: S101 - else there are no such locations
    return base / key.internal / key.value / place.table.table


def splayed_now(place: TablePlace) -> Path | None:
    """The directory that has the splayed table: its place, or where it is while another one takes its place."""
    path, names = place.splayed, place.fs.names(place.splayed.parent)
    if path.name in names:
        return path
    saves = saves_beside(path, names, "old")
    return replaced(path, saves[-1]) if saves and saves_beside(path, names, "stage") else None


def splayed_of(place: TablePlace, since: int) -> Path | None:
    """The directory of a splayed table that save ``since`` made; None: it is no longer there."""
    now = place.splayed
    swapped = [staged(now, save) for save in saves_beside(now, place.fs.names(now.parent), "stage")]
    for path in (now, *swapped, replaced(now, since), now):  # in the order in which it moves
        size = table_size.load(place.fs, path)
        if size is not None and since_of(size) == since:
            return path
    return None


def user_directories(place: TablePlace) -> Iterator[Path]:
    """Every directory that holds, held or will hold rows of the table."""
    fs = place.fs
    yield from _directories_in(place, place.splayed.parent)
    for base in filter(None, (place.user_partitions, place.user_intraday)):
        for internal in fs.names(base):
            for value in fs.names(base / internal):
                yield from _directories_in(place, base / internal / value)


def _directories_in(place: TablePlace, holder: Path) -> Iterator[Path]:
    location, names = holder / place.table.table, place.fs.names(holder)
    if location.name in names:
        yield location
    yield from (staged(location, save) for save in saves_beside(location, names, "stage"))
    yield from (replaced(location, save) for save in saves_beside(location, names, "old"))


def since_of(size: TableSize) -> int:
    return _number(size, SINCE)


def save_of(size: TableSize) -> int:
    return _number(size, SAVE)


def _number(size: TableSize, name: str) -> int:
    text = (size.source_state or {}).get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else 0


def _splayed(place: TablePlace) -> UserTable:
    for _ in range(LOOKS):
        path = splayed_now(place)
        size = table_size.load(place.fs, path) if path is not None else None
        if path is None or size is None:
            if splayed_now(place) == path and (path is None or table_size.load(place.fs, path) is None):
                raise _without_rows(place)
            continue
        try:
            definition = _definition(place, path / DEFINITION)
        except FileNotFoundError:
            definition = None
        again = table_size.load(place.fs, path)
        if again is None or since_of(again) != since_of(size):
            continue
        if definition is None:
            raise CorruptFileError(
                "the definition of a location is missing",
                where=path / DEFINITION,
                expected=f"a copy of {place.user_definition}",
                found="no file",
                hint="restore the file from a copy",
            )
        held = published(size)
        return UserTable(definition, save_of(size), since_of(size), {ONE: held})
    raise SnapshotMovedError(
        "the table was replaced each time that it was looked at", where=place.splayed, hint="open it again"
    )


def published(size: TableSize) -> CommittedRows:
    """Rows and files of a location as its ``table.size`` says."""
    sums = size.checksums
    states = {name: FileState(count, sums.get(name, UNKNOWN)) for name, count in size.data_file_sizes.items()}
    return CommittedRows(size.size, states)


def _without_rows(place: TablePlace) -> CorruptFileError:
    return CorruptFileError(
        "the rows of a user table are missing, although its definition is here",
        where=place.splayed / table_size.NAME,
        expected="the published size of the location",
        found="no file",
        hint="restore the directory from a copy, or save the table again with mode replace",
    )


def _listed(place: TablePlace, base: Path) -> dict[LocationKey, CommittedRows]:
    """The published locations of a partitioned table below a directory of which there is no record."""
    locations = {}
    for internal in place.fs.names(base):
        for value in place.fs.names(base / internal):
            with suppress(InvalidNameError):
                key = LocationKey(
                    check_partition("internal partition", internal), check_partition("partition value", value)
                )
                size = table_size.load(place.fs, base / internal / value / place.table.table)
                if size is not None and not size.truncated:
                    locations[key] = published(size)
    return locations


def _definition(place: TablePlace, path: Path) -> Definition:
    return _decoded(place, place.fs.read(path), path)


def _decoded(place: TablePlace, data: bytes, path: Path) -> Definition:
    definition = decode_tbl(data, path)
    for column in definition.columns:
        check_identifier("column name", column.name)  # it is the name of files
    if (definition.namespace, definition.name) != (place.table.namespace, place.table.table):
        raise CorruptFileError(
            "the definition of another table",
            where=path,
            expected=place.table,
            found=f"{definition.namespace}.{definition.name}",
            hint="restore the file from a copy",
        )
    return definition
