"""What is committed of a partitioned user table: ``Definitions/.<Table>.locations``, replaced as a whole.

The file has the frames of ``store.framing.log_frames``: magic ``SHVUSR1``, as number that of the save, and one frame,
to the end of the file. Its payload: the table's name, the bytes of its definition in hexadecimal digits, its locations
as lists [internal, value, rows, files], files as {name: [bytes, crc]}, and replaced ones as [internal, value, ms].

*Writer.* Rows are durable before the record names them; replacing the record is the commit of a save. Definition and
``table.size`` are derived from it. *Reader.* A location is read up to the lengths of the record, one that it does not
name is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkhaven.store.framing.one_record import RecordKind
from sparkhaven.store.layout import LocationKey, check_partition
from sparkhaven.store.types.committed_columns import FileState

KIND = RecordKind(
    b"SHVUSR1\n",
    "record of the locations of a user table",
    "save",
    "restore the file from a copy, or save the table again with mode replace",
)


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
