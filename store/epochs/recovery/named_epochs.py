"""The epochs that files beside a commit log name: head, quarantine ledger and removals."""

from __future__ import annotations

from pathlib import Path

from sparkhaven.store.epochs.files.head import open_head
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.epochs.state.tombstone import Named
from sparkhaven.store.errors import CorruptFileError, FormatError
from sparkhaven.store.framing.log_frames import HEAD_MAGIC_3, HEADER, read_header
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.quarantine.ledger import read_ledger


def named_by_head(fs: Fs, path: Path, *, beyond: int = 0) -> int:
    """The epoch of a head that is later than ``beyond``, else 0; also 0 for a missing or damaged head."""
    try:
        epoch = read_header(fs.read_range(path, 0, HEADER.size), HEAD_MAGIC_3, path)
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


def named_beyond(place: TablePlace, state: StreamState, removals: Named) -> int:
    """The newest epoch that removals or other files beside a log name, if it is beyond the log, else 0."""
    own = place.of_stream(state.stream)
    head = named_by_head(place.fs, own.stream_head, beyond=state.epoch)
    named = max(removals.epoch, head, named_by_ledger(own))
    return named if named > state.epoch else 0
