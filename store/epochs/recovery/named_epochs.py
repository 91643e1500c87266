"""The epochs that files beside a commit log name: head, quarantine ledger and removals."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from sparkhaven.store.epochs.files.head import open_head
from sparkhaven.store.epochs.files.removals import read_named
from sparkhaven.store.epochs.state.locations import Locations
from sparkhaven.store.epochs.state.rollbacks import RolledBack
from sparkhaven.store.errors import CorruptFileError, FormatError
from sparkhaven.store.framing.log_frames import HEAD_MAGIC, HEADER, read_header
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.quarantine.ledger import read_ledger


class ComparedState(Protocol):
    """The fields of a stream's state that are compared."""

    @property
    def stream(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def generation(self) -> int: ...
    @property
    def syncs_each_batch(self) -> bool: ...
    @property
    def boot_id(self) -> str: ...
    @property
    def rolled_back(self) -> RolledBack: ...
    @property
    def locations(self) -> Locations: ...


def named_by_head(fs: Fs, path: Path, *, beyond: int = 0) -> int:
    """The epoch of a head that is later than ``beyond``, else 0; also 0 for a missing or damaged head."""
    try:
        epoch = read_header(fs.read_range(path, 0, HEADER.size), HEAD_MAGIC, path)
        if epoch > beyond:
            open_head(fs.read(path), path)
            return epoch
    except (OSError, FormatError):
        pass
    return 0


def named_by_ledger(place: StreamPlace) -> int:
    """The newest epoch that a quarantine ledger proves; 0 for a missing or damaged ledger.

    Rows are written to quarantine under the number of the epoch to be committed, so the one before it is committed.
    """
    try:
        ledger = read_ledger(place)
        return max(ledger.newest - 1, ledger.seen) if ledger is not None else 0
    except (OSError, CorruptFileError):
        return 0


def named_beyond(place: TablePlace, state: ComparedState) -> int:
    """The newest epoch that files beside a stream's log name, if it is later than the log's, else 0."""
    named = (
        read_named(place.of_stream(state.stream)).epoch,
        named_by_head(place.fs, place.of_stream(state.stream).stream_head, beyond=state.epoch),
        named_by_ledger(place.of_stream(state.stream)),
    )
    return max(named) if max(named) > state.epoch else 0
