"""The stream that frames are written to: opened by the options of its writer, with the columns that its table needs."""

from __future__ import annotations

import time
import uuid
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sparkhaven.ingest.feeds.frames import Fields, fit_frame, frame_columns
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.jobs.settings.frame_options import FrameOptions
from sparkhaven.jobs.settings.stream_schema import deploy_schema
from sparkhaven.jobs.streams.decoding import FrameDecoder
from sparkhaven.jobs.streams.stream_run import ErrorBudget, catch_up, settle
from sparkhaven.store.epochs.files.logfile import Lease
from sparkhaven.store.epochs.generation import Opening
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.epochs.recovery.removed_stream import has_no_files
from sparkhaven.store.epochs.state.commit_policy import Retention
from sparkhaven.store.errors import SettingsError, SparkhavenError, as_ours
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.schema.deployed.deploy import load_deployed, require_writable
from sparkhaven.store.schema.document.schema_file import load_schema, parse_schema
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.batch.commit import AddToQuarantine
from sparkhaven.writers.batch.scratch import remove_stale_scratch
from sparkhaven.writers.quarantine.table import Quarantine
from sparkhaven.writers.spark.frame_writes import FramePlan
from sparkhaven.writers.task import StreamTarget


@dataclass(frozen=True, slots=True)
class FrameStream:
    """An open stream and the schema of its table. ``begun``: the epoch that a new stream began at, else None."""

    options: FrameOptions
    log: StreamLog
    schema: TableSchema
    begun: int | None = None

    @property
    def target(self) -> StreamTarget:
        options, log = self.options, self.log
        return StreamTarget(
            Layout(options.root),
            options.table,
            options.stream,
            self.schema,
            log.state.generation,
            options.policy,
            options.spec.partition.takes_late,
        )

    def remove_unwritten(self, fs: Fs) -> None:
        """After the log is closed: removes a new stream into which nothing was written."""
        if self.begun == self.log.state.epoch:
            remove_unwritten(fs, self.options, self.begun, self.log.state.generation)

    def fit(
        self, fields: Fields, budget: ErrorBudget, quarantine: AddToQuarantine | None = None
    ) -> tuple[FramePlan, list[str]]:
        """How to write frames of these columns (name and Spark's simple type), and those of them that are used.

        SchemaMismatchError, SettingsError: the columns do not fit.
        """
        options, log, schema = self.options, self.log, self.schema
        names = options.positions.names if options.positions else ()
        columns = frame_columns(fields, [*(target.source for target in resolve_targets(options.spec, schema)), *names])
        _require_positions(columns, names, options.stream)
        spec = fit_frame(options.spec, schema, columns, names)
        used = list(dict.fromkeys([*(target.source for target in resolve_targets(spec, schema)), *names]))
        log.refresh()
        locations = {} if spec.partition.takes_late else log.state.locations
        closed = frozenset(key for key, location in locations.items() if location.truncated)
        return plan_of(options, FrameDecoder(spec, schema, closed), budget, quarantine), used


def plan_of(
    options: FrameOptions, decode: FrameDecoder, budget: ErrorBudget, quarantine: AddToQuarantine | None = None
) -> FramePlan:
    """How to write frames by these options."""
    return FramePlan(decode, options.positions, budget, quarantine, allow_gap=options.allow_gap, adopt=options.adopt)


def quarantine_of(fs: Fs, options: FrameOptions) -> Quarantine | None:
    """The quarantine of these options; None: the first row that cannot be stored stops its batch."""
    if options.quarantine is None:
        return None
    return Quarantine(_place(fs, options), options.quarantine, clock=time.time)


def open_stream(fs: Fs, options: FrameOptions, query_id: str, quarantine: Quarantine | None = None) -> FrameStream:
    """Deploys the schema and opens the stream as a new generation, with recovery; updates its quarantine. An error
    leaves no new stream.

    SettingsError: the schema is of another table. Others as ``deploy``, ``StreamLog.open`` and ``require_writable``.
    """
    place = _place(fs, options)
    source = options.schema
    if source is None:
        schema = load_deployed(place)
    else:
        given = (parse_schema(source, "") if isinstance(source, bytes) else load_schema(fs, source)).schema
        if given.full_name != str(place.table):
            raise SettingsError("the schema is of another table", expected=place.table, found=given.full_name)
        fs.mkdirs(place.layout.root)
        schema = deploy_schema(fs, place.layout, source).schema
    is_new = has_no_files(place)
    log = StreamLog.open(
        place,
        Opening(
            schema=schema,
            query_id=query_id or str(uuid.uuid4()),
            clock=time.time,
            retention=_retention(options),
            rule=options.spec.rule,
            accept_rule=options.accept_rule,
        ),
    )
    stream = FrameStream(options, log, schema, log.state.epoch if is_new else None)
    try:
        require_writable(fs, place.layout, schema)
        remove_stale_scratch(place)
        catch_up(place, log.state)
        if quarantine is not None:
            settle(place, log.state, quarantine, f"stream {options.stream}: bad_rows.quarantine")
    except BaseException:
        log.abandon()
        stream.remove_unwritten(fs)
        raise
    return stream


def remove_unwritten(fs: Fs, options: FrameOptions, begun: int, generation: int) -> None:
    """Removes a stream that is still as its first write has opened it, and that nobody holds; an error is a warning."""
    place = _place(fs, options)
    try:
        if options.stream not in list_streams(place):
            return
        state = load_stream(place)
        if (state.epoch, state.generation) == (begun, generation):
            # 50 modules that other writes do not need
            from sparkhaven.writers.removal.table_removal import remove_stream

            remove_stream(place, clock=time.time)
    except (SparkhavenError, OSError) as error:
        warnings.warn(f"stream {options.stream} stays without an epoch: {as_ours(error)}", stacklevel=2)


def take_over_stream(fs: Fs, options: FrameOptions, schema: TableSchema, lease: Lease) -> FrameStream:
    """Continues the generation of a lease; errors as ``StreamLog.take_over`` and ``require_writable``."""
    place = _place(fs, options)
    opening = Opening(None, "", time.time, retention=_retention(options))
    log = StreamLog.take_over(place, lease, opening)
    try:
        require_writable(fs, place.layout, schema)
    except BaseException:
        log.abandon()
        raise
    return FrameStream(options, log, schema)


def _place(fs: Fs, options: FrameOptions) -> StreamPlace:
    return StreamPlace(fs, Layout(options.root), options.table, options.stream)


def _retention(options: FrameOptions) -> Retention:
    return Retention(options.policy, options.keep_epochs)


def _require_positions(columns: Mapping[str, str], names: Iterable[str], stream: str) -> None:
    missing = [name for name in names if name not in columns]
    if missing:
        raise SettingsError(
            "the data frame lacks the columns of its positions",
            where=f"stream {stream}",
            expected=", ".join(missing),
            found=", ".join(columns),
        )
