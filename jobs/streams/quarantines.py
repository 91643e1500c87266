"""A stream's quarantine, from its settings: whether it has one, where it is, and that it follows the commit log."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from jobs.settings.stream_file import StreamSettings
from store.epochs.files.ledger import read_ledger
from store.epochs.state.replay import StreamState
from store.errors import SettingsError
from store.io.fs import Fs
from store.layout import Layout, TableName
from writers.quarantine.ledger import follow_log, leftovers
from writers.quarantine.table import Quarantine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def place_of(layout: Layout, settings: StreamSettings) -> Path:
    """Directory of the Delta table."""
    return settings.quarantine or layout.quarantine(settings.spec.stream)


def quarantine_of(fs: Fs, layout: Layout, spark: SparkSession, settings: StreamSettings) -> Quarantine:
    """The quarantine that a stream file means."""
    stream, place, file = settings.spec.stream, place_of(layout, settings), str(settings.file.absolute())
    return Quarantine(spark, fs, layout, settings.table, stream, place, clock=time.time, file=file)


def catch_up(fs: Fs, layout: Layout, table: TableName, state: StreamState) -> None:
    """Brings the ledger up to a log that was just opened; requeues that were not committed go. Needs no Spark.

    To be called at every start, also of a stream that sets nothing aside: the log forgets its rollbacks.
    """
    follow_log(fs, layout, table, state)
    for requeue in leftovers(fs, layout, table, state)[1]:
        fs.unlink(requeue.path)


def settle(fs: Fs, layout: Layout, table: TableName, state: StreamState, quarantine: Quarantine, where: object) -> None:
    """Brings the quarantine up to its ledger, before anything is parked. Without anything to do, Delta is not asked.

    SettingsError when the settings, which are ``where``, name another place than the one that has the rows.
    """
    ledger = read_ledger(fs, layout, table, state.stream)
    moved = ledger is not None and ledger.place not in ("", str(quarantine.place))
    if ledger is not None and moved and fs.stat(Path(ledger.place) / "_delta_log") is not None:
        raise SettingsError(
            "the stream's quarantine is in another place than its settings say",
            where=where,
            expected=ledger.place,
            found=quarantine.place,
            hint="move the directory there, or send its rows again and remove it, before another one is begun",
        )
    quarantine.settle(leftovers(fs, layout, table, state)[0])
