"""Every committed file of a table, with the bytes and the checksum that its record names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.readers.checks.findings import CheckFinding, from_error, other_checksum, shortened
from sparkhaven.store import next_steps
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges import merge_records as merges
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.column_file import column_header
from sparkhaven.store.types.committed_columns import UNKNOWN, FileState
from sparkhaven.store.users.user_table import intraday_location, load_user_table, splayed_of


@dataclass(frozen=True, slots=True)
class CommittedFile:
    """A file, and its committed bytes: ``state.size`` with this CRC-32, of an index from its first byte on, else from
    the start of its data.
    """

    path: Path
    state: FileState
    of_index: bool = False

    def start(self, fs: Fs) -> int:
        """Where the data begins: behind the prefix of a ``.dat``. CorruptFileError: the prefix is damaged."""
        has_prefix = self.path.suffix == ".dat" and not self.of_index
        return column_header(fs, self.path).data_offset if has_prefix else 0


def committed_files(place: TablePlace) -> tuple[list[CommittedFile], list[CheckFinding]]:
    """All files of a table, intraday, history and of users, by path; and the records that could not be read."""
    files: list[CommittedFile] = []
    unread: list[CheckFinding] = []
    for where, parts in (
        (place.streams, _intraday(place)),
        (place.merges, _history(place)),
        (place.user_definition, _of_users(place)),
    ):
        try:
            files += parts
        except (SparkhavenError, OSError) as error:
            unread.append(from_error(error, where))
    return sorted(files, key=lambda file: file.path), unread


def compare(place: TablePlace, file: CommittedFile, start: int, crc: int) -> list[CheckFinding]:
    """What is wrong with a file whose committed bytes have this CRC-32: its length, or another CRC-32."""
    stat, end = place.fs.stat(file.path), start + file.state.size
    hint = next_steps.damaged(file.path)
    if stat is None or stat.size < end:
        return [shortened(file.path, stat.size if stat else 0, end, hint)]
    if crc == file.state.crc:
        return []
    return [other_checksum(file.path, "Committed bytes have changed", (start, end), (file.state.crc, crc), hint)]


def _intraday(place: TablePlace) -> Iterator[CommittedFile]:
    for stream in list_streams(place):
        for location in load_stream(place.of_stream(stream), cached=False).locations.values():
            if not location.truncated:
                yield from _within(place.intraday_location(location.key), location.files)


def _history(place: TablePlace) -> Iterator[CommittedFile]:
    for value in merges.all_values(place):
        record = merges.newest(place, value)
        for output in record.outputs if record is not None else ():
            directory = place.history_location(LocationKey(output.internal, value))
            yield from _within(directory, output.files)
            yield from (CommittedFile(directory / name, state, True) for name, state in output.indexes.items())


def _of_users(place: TablePlace) -> Iterator[CommittedFile]:
    table = load_user_table(place)
    for key, held in table.locations.items() if table is not None else ():
        splayed = splayed_of(place, table.since) or place.splayed if table is not None and table.splayed else None
        yield from _within(splayed or place.user_location(key), held.files)
    for key, held in table.intraday.items() if table is not None else ():
        yield from _within(intraday_location(place, key), held.files)


def _within(directory: Path, files: Mapping[str, FileState]) -> Iterable[CommittedFile]:
    return (CommittedFile(directory / name, state) for name, state in files.items() if state.crc != UNKNOWN)
