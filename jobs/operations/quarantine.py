"""Rows of a stream's quarantine: which are meant, ingested again, and dropped."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.jobs.monitor.rejected import QuarantinedStream, find
from sparkhaven.jobs.operations.requeue import (
    Requeued,
    RequeueWriter,
    read_repairs,
    refuse_other_edits,
    requeue_pending,
    try_pending,
)
from sparkhaven.jobs.settings.stream_file import StreamSettings, load_stream_tables
from sparkhaven.jobs.streams.progress import Progress
from sparkhaven.jobs.streams.stream import open_stream
from sparkhaven.jobs.streams.stream_run import settle
from sparkhaven.store.errors import SettingsError, near
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.quarantine.reasons import Reason
from sparkhaven.writers.quarantine.row_choice import Chosen

EVERY = Chosen()


@dataclass(frozen=True, slots=True)
class RequeueRequest:
    """Which pending rows are ingested again. ``stream_file``: default: that of the last run.

    ``repaired``: a file of rows, of which each has the payload to ingest; only these rows.
    """

    chosen: Chosen
    stream_file: Path | None = None
    repaired: Path | None = None
    dry_run: bool = False


def chosen_rows(reason: str | None, source: str | None, epoch: int | None, state: str) -> Chosen:
    """The rows that all of these hold for. SettingsError: there is no such state or reason."""
    if state not in ("all", "pending", "requeued"):
        raise SettingsError("unknown state", expected="all, pending or requeued", found=state)
    codes = {known.value for known in Reason}
    if reason is not None and reason not in codes:
        raise SettingsError(
            "unknown reason of a rejected row",
            expected=near(reason, codes),
            found=repr(reason),
            hint="the list of rejected rows has the code of each",
        )
    return Chosen(reason, source, epoch, state)  # type: ignore[arg-type]


def requeue(place: StreamPlace, asked: RequeueRequest, done: Requeued) -> None:
    """Ingests pending rows again; ``done`` has what was committed, also where an error ends it.

    TableNotFoundError: there is no such stream. SettingsError: a file is not that of the stream, or has an edit that no
    requeue takes. LockLostError: the stream runs.
    """
    rejected = find(place)
    repairs = None if asked.repaired is None else read_repairs(asked.repaired, place)
    if rejected is None:
        done.not_pending = frozenset(repairs or ())
        return
    settings = _settings(place, rejected, asked.stream_file)
    if repairs is not None:
        refuse_other_edits(repairs, rejected.rows(EVERY))
        done.ingested_before = rejected.ingested(repairs)
    if asked.dry_run:
        try_pending(place.fs, place.layout, settings, rejected.pending(asked.chosen), repairs, done)
    else:
        with ExitStack() as opened:
            run = open_stream(place.fs, place.layout, settings, opened, Progress())
            quarantine = rejected.quarantine()
            settle(place, run.log.state, quarantine, f"{settings.file}: bad_rows.quarantine")
            requeue_pending(RequeueWriter.of(run, quarantine), asked.chosen, repairs, done)
    done.not_pending = frozenset(repairs or ()) - done.ingested_before


def _settings(place: StreamPlace, rejected: QuarantinedStream, stream_file: Path | None) -> StreamSettings:
    if not rejected.ledger.file:
        raise SettingsError(
            "rows of data frames cannot be requeued. Only their program knows how they are routed",
            where=f"stream {place.stream} of {place.table}",
            expected="a stream with a stream file",
            found="rows that a data frame writer has rejected",
            hint="repair them in a program and write them with write_frame(..., label=...), which writes them once."
            f" Then run `sparkhaven quarantine drop {place.table} {place.stream}`",
        )
    tables = load_stream_tables(place.fs, stream_file or Path(rejected.ledger.file), os.environ)
    settings = next((settings for settings in tables if settings.table == place.table), tables[0])
    if (settings.table, settings.spec.stream) != (place.table, place.stream):
        raise SettingsError(
            "the stream file describes another stream",
            where=settings.file,
            expected=f"stream {place.stream} of {place.table}",
            found=f"stream {settings.spec.stream} of {settings.table}",
        )
    return settings


def drop_rows(place: StreamPlace, chosen: Chosen, *, everything: bool = False, dry_run: bool = False) -> int:
    """Deletes rows from the quarantine, but for those of a running batch; how many.

    TableNotFoundError: there is no such stream. SettingsError: all rows are chosen, and not ``everything``.
    """
    if not everything and chosen == EVERY:
        raise SettingsError(
            "no rows are selected", expected="--reason, --source, --epoch, --state, or --all", found="none of them"
        )
    rejected = find(place, removed=True)
    if rejected is None:
        return 0
    return rejected.count(chosen, rejected.epoch) if dry_run else rejected.quarantine().drop(chosen, rejected.epoch)
