"""The first start of a stream: nothing is created before it is known that it can run, and has something to ingest.

What comes to light only in the first batch, like bad rows beyond the error budget, is past that: then the files of the
stream exist. If it ends without an epoch they are removed again, by the steps of ``streams remove``. After a kill they
stay, and `sparkhaven streams list` shows them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from sparkhaven.ingest.feeds.base import Waiting
from sparkhaven.jobs.monitor.waiting import ask_source, passed_lines, remarks_of
from sparkhaven.jobs.settings.stream_file import StreamSettings
from sparkhaven.jobs.settings.stream_schema import deploy_schema
from sparkhaven.jobs.streams.progress import Progress
from sparkhaven.jobs.streams.stream import RunOptions
from sparkhaven.jobs.streams.stream_group import fed_places
from sparkhaven.jobs.streams.stream_run import StreamRun
from sparkhaven.store.epochs.files.failure_note import note_failure
from sparkhaven.store.epochs.recovery.removed_stream import has_no_files
from sparkhaven.store.epochs.recovery.witnesses import require_stream
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SparkhavenError, TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.system_errors import as_ours
from sparkhaven.store.layout import Layout
from sparkhaven.writers.batch.stream_batches import StreamTotals


@dataclass(frozen=True, slots=True)
class FirstStart:
    """A stream about to be opened. ``is_new``: no file of it exists; ``waiting``: what it would ingest, if asked."""

    settings: StreamSettings
    is_new: bool
    waiting: Waiting | None = None


@dataclass(slots=True)
class IdleRun:
    """A new stream that had nothing to ingest, and was not created; it has the results of a run."""

    settings: StreamSettings
    state: StreamState
    older: int = 0
    error: Exception | None = None
    totals: StreamTotals = field(default_factory=StreamTotals)

    @property
    def name(self) -> str:
        return self.settings.spec.stream


def first_looks(fs: Fs, layout: Layout, options: RunOptions) -> Callable[[StreamSettings], FirstStart]:
    """What looks at the start of each stream as ``look_at_start`` does; the tables of a feed are looked at together."""
    looks: dict[Path, FirstStart] = {}

    def look(settings: StreamSettings) -> FirstStart:
        if settings.file not in looks:
            looks[settings.file] = look_at_start(fs, layout, settings, options)
        return replace(looks[settings.file], settings=settings)

    return look


def look_at_start(fs: Fs, layout: Layout, settings: StreamSettings, options: RunOptions) -> FirstStart:
    """Asks the source of a new stream before any file is created. Raises what would stop the stream at its first batch.

    With ``once`` that is also a source that does not answer, or a schema that a start may not deploy.
    """
    fed = fed_places(fs, layout, settings)
    if not all(map(has_no_files, fed)):
        return FirstStart(settings, False)
    remote = settings.feed.remote()
    if remote is not None:
        remote.check()
    if not options.once:
        return FirstStart(settings, True)
    waiting = ask_source(fs, settings, None, options.patience)
    if waiting.nothing:
        deploy_schema(fs, layout, settings.schema_file, consent=options.consent, dry_run=True)
        for table in fed:
            with suppress(TableNotFoundError):
                require_stream(table)  # a lost log is an error, also without input
    return FirstStart(settings, True, waiting)


def split_idle(
    starts: Iterable[FirstStart], progress: Progress, options: RunOptions
) -> tuple[list[IdleRun], list[StreamSettings]]:
    """The runs of new streams without input, which are over, and the settings of the streams to open."""
    idle, started = [], []
    for start in starts:
        if start.waiting is not None and start.waiting.nothing:
            idle.append(_idle(start.settings, start.waiting, progress, options))
        else:
            started.append(start.settings)
    return idle, started


def _idle(settings: StreamSettings, waiting: Waiting, progress: Progress, options: RunOptions) -> IdleRun:
    name = settings.spec.stream
    for remark in remarks_of(waiting.counts, settings.feed.resume.remember_s):
        progress.remark(name, remark)
    progress.passed(name, passed_lines(waiting.counts.get("passed", {})))
    run = IdleRun(settings, StreamState(name), waiting.counts.get("older_files", 0))
    progress.ended(name, run.totals)
    options.recorder(settings.spec.table, name, settings).ended(0)
    return run


def remove_uncommitted(runs: Iterable[StreamRun], new: Collection[Path], progress: Progress) -> None:
    """Removes what the first starts of streams have created that ended without an epoch; an error is a warning."""
    for run in runs:
        if run.epoch == run.begun and run.settings.file in new:
            from sparkhaven.writers.removal.stream_removal import (
                remove_stream,  # 50 modules that other starts do not need
            )

            try:
                remove_stream(run.place, clock=time.time)
            except (SparkhavenError, OSError) as error:
                progress.warn(run.name, as_ours(error))
            if run.error is not None:  # the note went with the stream
                note_failure(run.place, run.error, round(time.time() * 1000), run.settings.file)
