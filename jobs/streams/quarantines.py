"""The quarantine of a stream by its settings, kept in step with the commit log."""

from __future__ import annotations

import time
from pathlib import Path

from sparkhaven.jobs.settings.stream_file import StreamSettings
from sparkhaven.store.delta.log import is_table
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.quarantine.ledger import read_ledger
from sparkhaven.writers.quarantine.pending_changes import follow_log, leftovers
from sparkhaven.writers.quarantine.table import Quarantine


def place_of(layout: Layout, settings: StreamSettings) -> Path:
    """Directory of the Delta table."""
    return settings.quarantine or layout.quarantine(settings.spec.stream)


def quarantine_of(fs: Fs, layout: Layout, settings: StreamSettings) -> Quarantine:
    place = StreamPlace(fs, layout, settings.table, settings.spec.stream)
    file = str(settings.file.absolute())
    return Quarantine(place, place_of(layout, settings), clock=time.time, file=file)


def catch_up(place: TablePlace, state: StreamState) -> None:
    """Updates the ledger from a log that was just opened and removes uncommitted requeues.

    Called at every start, also of a stream without bad rows: the log forgets its rollbacks.
    """
    follow_log(place, state)
    for requeue in leftovers(place, state)[1]:
        place.fs.unlink(requeue.path)


def settle(place: TablePlace, state: StreamState, quarantine: Quarantine, where: object) -> None:
    """Updates the quarantine from its ledger, before rows are written to it. The table is only read if there is work.

    SettingsError when the settings at ``where`` name another place than the one that has the rows.
    """
    ledger = read_ledger(place.of_stream(state.stream))
    moved = ledger is not None and ledger.place not in ("", str(quarantine.directory))
    if ledger is not None and moved and is_table(place.fs, Path(ledger.place)):
        raise SettingsError(
            "the stream's quarantine is in another place than its settings say",
            where=where,
            expected=ledger.place,
            found=quarantine.directory,
            hint="move the directory there, or requeue its rows and remove it",
        )
    quarantine.settle(leftovers(place, state)[0])
