"""What is committed of a table, as one digest: two roots have the same content where it is equal, and else not.

It has the schema, of each date of history generation, number and digest of its rows, and of intraday lengths and
checksums. No column file is read, but for files of user tables that other programs wrote without a checksum.

A copy is opened before it is called done, as whoever comes to it opens it: its content is that of the origin, and rows
of all its columns are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from zlib import crc32

from sparkhaven.readers.arrow.opening import open_place
from sparkhaven.readers.arrow.pinned_table import BATCH_ROWS, PinnedTable, PinnedUserTable
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store.errors import CorruptFileError, SparkhavenError
from sparkhaven.store.format.manifest import ManifestPart
from sparkhaven.store.framing import dump
from sparkhaven.store.merges.history import row_content
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.column_file import with_checksum
from sparkhaven.store.scan.seen_history import refuse_unproved
from sparkhaven.store.types.row_ranges import RowRanges
from sparkhaven.store.user_tables import CommittedRows, UserTable, intraday_location, splayed_of
from sparkhaven.writers.transfer.copying import Files


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """What a snapshot has of a table. ``digest`` is that of ``content_digest``, or of ``user_digest``."""

    rows: int
    epochs: Mapping[str, int]
    digest: str
    partitions: tuple[str, ...]
    files: Files

    @staticmethod
    def of(part: ManifestPart) -> CopiedTable:
        """The view of a part of the manifest; what is missing or odd is a ValueError or alike."""
        about = part.about
        epochs = {str(stream): int(epoch) for stream, epoch in about["epochs"].items()}
        return CopiedTable(int(about["rows"]), epochs, str(about["digest"]), tuple(about["partitions"]), part.files)

    @property
    def part(self) -> ManifestPart:
        """The part of the manifest."""
        about = {"rows": self.rows, "epochs": dict(self.epochs), "digest": self.digest}
        return ManifestPart({**about, "partitions": list(self.partitions)}, self.files)

    @property
    def bytes(self) -> int:
        return self.part.bytes


def content_digest(place: TablePlace, pinned: PinnedTable, records: tuple[MergeRecord, ...]) -> str:
    """That of a table; ``place`` has its schema, ``records`` decide what its history is."""
    intraday = {
        f"{stream}/{key.internal}/{key.value}": {name: [file.size, file.crc] for name, file in location.files.items()}
        | ({"": location.withdrawn.edges} if location.withdrawn else {})
        for stream in pinned.epochs
        for key, location in pinned.pin(stream).state.locations.items()
        if location.rows and not location.truncated
    }
    contents = ((record, row_content(record)) for record in records)
    history = {record.value: [record.generation, content.rows, content.digest] for record, content in contents}
    return _digest({"schema": crc32(place.fs.read(place.schema)), "intraday": intraday, "history": history})


def user_digest(place: TablePlace, table: UserTable) -> str:
    """That of a user table at its place."""
    splayed = splayed_of(place, table.since) or place.splayed
    saved = {key: splayed if table.splayed else place.user_location(key) for key in table.locations}
    intraday = {key: intraday_location(place, key) for key in table.intraday}
    sides = ("saved", table.locations, saved), ("intraday", table.intraday, intraday)
    locations = [
        [side, key.internal, key.value, held.rows, _states(place, directories[key], held)]
        for side, rows, directories in sides
        for key, held in sorted(rows.items())
    ]
    return _digest({"definition": crc32(place.fs.read(place.user_definition)), "user": locations})


def _states(place: TablePlace, directory: Path, held: CommittedRows) -> dict[str, list[int]]:
    whole = {name: with_checksum(place.fs, directory / name, state) for name, state in held.files.items()}
    return {name: [state.size, state.crc] for name, state in whole.items()}


def _digest(content: dict[str, Any]) -> str:
    return sha256(dump(content)).hexdigest()[:32]


def same_content(place: TablePlace, table: CopiedTable) -> bool:
    """Whether a root has the table as it was copied."""
    try:
        return _content(place, pinned_of(open_place(place))) == table.digest
    except SparkhavenError:
        return False  # damaged, or half of a table


def _content(place: TablePlace, pinned: PinnedTable | PinnedUserTable) -> str:
    if isinstance(pinned, PinnedUserTable):
        return user_digest(place, pinned.user)
    plan = pinned.plan()
    refuse_unproved(place, plan.differing)  # records do not say what rows without one are
    return content_digest(place, pinned, plan.records)


def require_copy(place: TablePlace, table: CopiedTable, fresh: Callable[[Path], bool] = lambda _: True) -> None:
    """Opens a copy. CorruptFileError: it cannot be read, or is not what was copied.

    The first and the last row are read of each range of rows that is in a ``fresh`` directory. Checksums are not
    compared again: all bytes were compared as they were copied, and linked files are those of the origin.
    """
    try:
        pinned = pinned_of(open_place(place, checksum_verify="off"))
        plan, content = pinned.plan(), _content(place, pinned)
        if (plan.rows, content) != (table.rows, table.digest):
            raise CorruptFileError(
                "the copy has other content than what was copied",
                where=place.layout.root,
                expected=f"{table.rows} rows, content {table.digest}",
                found=f"{plan.rows} rows, content {content}",
            )
        for slice_ in (slice_ for slice_ in plan.slices if fresh(slice_.directory)):
            chosen = slice_.chosen
            ends = slice_.limited(RowRanges.of([(chosen.start, chosen.start + 1), (chosen.stop - 1, chosen.stop)]))
            for _ in pinned.arrays([ends] if ends is not None else [], pinned.columns(), None, BATCH_ROWS):
                pass
    except SparkhavenError as error:
        raise CorruptFileError(
            f"the copy of {place.table} cannot be read: {error.what}",
            where=error.where or place.layout.root,
            expected=error.expected or "a table that opens",
            found=error.found,
            hint=f"the copy was not put in place. `sparkhaven verify {place.table} --deep` names what the origin lacks",
        ) from error
