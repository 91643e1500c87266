"""What is committed of a table, as one digest of lengths, checksums and digests in records: no column file is read."""

from __future__ import annotations

from hashlib import sha256

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.readers.arrow.pinned_user_table import PinnedUserTable
from sparkhaven.readers.arrow.table import pinned_of
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.framing.canonical import dump
from sparkhaven.store.merges.history import totals
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.places import TablePlace
from sparkhaven.store.users.user_table import UserTable
from sparkhaven.writers.copies.manifest import CopiedTable


def content_digest(pinned: PinnedTable, records: tuple[MergeRecord, ...]) -> str:
    """A digest of what is committed: lengths and checksums of intraday, digests of history. Reads no column file."""
    intraday = {
        f"{stream}/{key.internal}/{key.value}": {name: [file.size, file.crc] for name, file in location.files.items()}
        | ({"": location.withdrawn.edges} if location.withdrawn else {})
        for stream in pinned.epochs
        for key, location in pinned.pin(stream).state.locations.items()
        if location.rows and not location.truncated
    }
    history = {record.value: list(totals(record)) for record in records}
    return sha256(dump({"intraday": intraday, "history": history})).hexdigest()[:32]


def user_digest(table: UserTable) -> str:
    """A digest of the lengths and checksums of all files."""
    files = [
        [key.internal, key.value, held.rows, {name: [state.size, state.crc] for name, state in held.files.items()}]
        for locations in (table.locations, table.intraday)
        for key, held in sorted(locations.items())
    ]
    return sha256(dump({"user": files})).hexdigest()[:32]


def same_content(place: TablePlace, table: CopiedTable) -> bool:
    """Whether a root has the table as it was copied."""
    try:
        pinned = pinned_of(open_table(place.layout.root, str(place.table), fs=place.fs))
        if isinstance(pinned, PinnedUserTable):
            return user_digest(pinned.user) == table.digest
        return content_digest(pinned, pinned.plan().records) == table.digest
    except SparkhavenError:
        return False  # damaged, or half of a table
