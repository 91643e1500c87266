"""Rows of a stream's quarantine: ingested again, exactly once, in an epoch of their own for each portion, or dropped.

A requeue has these steps:

1. ``requeue-try``     the rows are decoded and routed once, in memory; those that are still bad stay
2. ``requeue-file``    the others go into a durable file, named by their positions and their future epoch
3. (ledger)            the epoch is announced, so that a commit that fails is recognised
4. (commit)            the file is one split of positions that only requeues have; the nine steps of any batch
5. ``quarantine-mark`` the rows are marked with the epoch, and the file is removed

Killed before the record of step 4, nothing of it is in the table and the log does not have the positions: the next
start removes the file, and the rows are pending as before. Killed after it, the log has the positions: the next start
marks the rows of the file. A rollback takes the positions back, and the ledger the marks. All under the lock of the
stream.

Rows may be repaired in between: as JSON lines, which ``quarantine list --json`` prints and ``requeue --from`` takes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

import pyarrow as pa

from sparkhaven.ingest.bad_rows import BadRow, Rejects
from sparkhaven.ingest.requeued_rows import decode_requeued
from sparkhaven.ingest.spec import BadRowBudget, StreamSpec
from sparkhaven.jobs.monitor.rejected import QuarantinedStream, find, row_value
from sparkhaven.jobs.settings.stream_file import StreamSettings, load_stream_tables
from sparkhaven.jobs.settings.stream_schema import checked_schema, require_same_rule
from sparkhaven.jobs.streams.progress import Progress
from sparkhaven.jobs.streams.stream import open_stream
from sparkhaven.jobs.streams.stream_run import StreamRun, settle
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.log_values import REQUEUED, OffsetRange, Split
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SettingsError, near
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.quarantine.rejected_rows import REJECTED, Reason, RejectedRow, decode_rejected, encode_rejected
from sparkhaven.store.types.model import NOW, TableSchema
from sparkhaven.writers.append.append import LocationRoom, committed_room, may_lack_room
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import BatchRequest, write_batch
from sparkhaven.writers.batch.rejects import LeftOut
from sparkhaven.writers.batch.task import Task, TaskResult, run_task
from sparkhaven.writers.quarantine.changes import Requeue, requeue_path
from sparkhaven.writers.quarantine.row_choice import Chosen, QuarantinedRow
from sparkhaven.writers.quarantine.table import Quarantine
from sparkhaven.writers.task import SplitNotes, StreamTarget

EVERY = Chosen()

ANY = BadRowBudget(max_rows=2**62, max_fraction=1.0)
QUERY = "requeue"
PORTION_ROWS, PORTION_BYTES = 10_000, 64 << 20
TOLD = frozenset({"stream", "table", "reason", "detail", "column", "expected", "value", "header", "source_time_ns"})


class RejectedKeywords(TypedDict, total=False):
    """Which rows of a quarantine, as the options of ``sparkhaven quarantine``: all that are given hold together.

    ``reason``: a code. ``source``: a file or topic/partition, in which ``*`` matches any text. ``epoch``: the epoch
    with which the rows were rejected.
    """

    reason: str | None
    source: str | None
    epoch: int | None


@dataclass(frozen=True, slots=True)
class RequeueRequest:
    """Which pending rows are ingested again. ``stream_file``: default: that of the last run.

    ``repaired``: a file of rows, of which each has the payload to ingest; only these rows.
    """

    chosen: Chosen
    stream_file: Path | None = None
    repaired: Path | None = None
    dry_run: bool = False


@dataclass(slots=True)
class Requeued:
    """The result: ``sent`` rows were committed in ``epochs``; ``refused`` rows are still bad and stay pending.

    ``cut`` rows have no whole payload and stay too. Of a file of rows, by source and position: those that are
    ``not_pending``, and those that an earlier requeue has ``ingested_before``. ``unmarked``: why the quarantine does
    not say yet that rows were committed; the next start of the stream marks them.
    """

    sent: int = 0
    cut: int = 0
    epochs: list[int] = field(default_factory=list)
    refused: list[BadRow] = field(default_factory=list)
    not_pending: frozenset[tuple[str, int]] = frozenset()
    ingested_before: frozenset[tuple[str, int]] = frozenset()
    unmarked: OSError | None = None


@dataclass(frozen=True, slots=True)
class CommittedLocations:
    """The locations of a stream as its log has them."""

    place: TablePlace
    state: StreamState

    @property
    def closed(self) -> frozenset[LocationKey]:
        """Truncated locations, which take no rows."""
        return frozenset(key for key, location in self.state.locations.items() if location.truncated)

    def room(self, key: LocationKey, schema: TableSchema) -> LocationRoom:
        """What a location can take."""
        location = self.state.locations.get(key)
        files, named = ({}, NOW) if location is None else (location.files, location.named_by)
        return committed_room(self.place.fs, schema, self.place.intraday_location(key), files, named)


@dataclass(frozen=True, slots=True)
class RequeueDecoder:
    """Decodes the file of a requeue; a bad row stops the batch, since all rows were tried before."""

    fs: Fs
    spec: StreamSpec
    schema: TableSchema
    path: Path
    clock: Callable[[], float]

    def __call__(self, split: Split, notes: SplitNotes) -> Iterable[tuple[LocationKey, pa.RecordBatch]]:
        """Routed batches in the order of the file."""
        rejects, table = Rejects(ANY), decode_rejected(self.fs.read(self.path))
        for routed in decode_requeued(table, self.spec, self.schema, rejects, clock=self.clock):
            yield routed.key, routed.batch
        notes.reject(rejects.rows, rejects.bad)
        notes.source.add(rejects.source)


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


def chosen_rows(given: RejectedKeywords, state: str) -> Chosen:
    """The rows that all of these hold for. SettingsError: there is no such state or reason."""
    if state not in ("all", "pending", "requeued"):
        raise SettingsError("unknown state", expected="all, pending or requeued", found=state)
    reason, codes = given.get("reason"), {known.value for known in Reason}
    if reason is not None and reason not in codes:
        raise SettingsError(
            "unknown reason of a rejected row",
            expected=near(reason, codes),
            found=repr(reason),
            hint="the list of rejected rows has the code of each",
        )
    return Chosen(reason, given.get("source"), given.get("epoch"), state)  # type: ignore[arg-type]


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


def requeue_pending(
    writer: RequeueWriter, chosen: Chosen, repairs: dict[tuple[str, int], PayloadRepair] | None, done: Requeued
) -> None:
    """Ingests the chosen rows again, portion by portion; ``repairs`` keeps those without a row."""
    for rows in portions(writer.quarantine.rows(chosen), repairs, done):
        writer.write(rows, done)


def try_pending(
    fs: Fs,
    layout: Layout,
    settings: StreamSettings,
    pending: Iterable[RejectedRow],
    repairs: dict[tuple[str, int], PayloadRepair] | None,
    done: Requeued,
) -> None:
    """The dry run of ``requeue_pending``."""
    schema = checked_schema(fs, settings)
    table_place = TablePlace(fs, layout, settings.table)
    own = table_place.of_stream(settings.spec.stream)
    require_same_rule(own, settings)
    locations = CommittedLocations(table_place, load_stream(own))
    for rows in portions(pending, repairs, done):
        good, refused = try_rows(rows, settings.spec, schema, locations)
        done.sent += good.num_rows
        done.refused.extend(replace(row, payload=b"") for row in refused)


def portions(
    pending: Iterable[RejectedRow], repairs: dict[tuple[str, int], PayloadRepair] | None, done: Requeued
) -> Iterator[pa.Table]:
    """Rows in portions that fit into memory; with ``repairs`` only the rows it names, which are removed from it.

    A portion has no two rows of one position; sorted by position, they follow each other.
    """
    portion: list[RejectedRow] = []
    size = 0
    for row in pending:
        if repairs is not None:
            repair = repairs.pop(_position(row), None)
            if repair is None:
                continue
            row = repair.of(row)
        if row["PayloadBytes"] > len(row["Payload"] or b""):
            done.cut += 1
            continue
        if portion and _position(portion[-1]) == _position(row):
            yield pa.Table.from_pylist(portion, REJECTED)
            portion, size = [], 0
        portion.append(row)
        size += len(row["Payload"] or b"")
        if len(portion) >= PORTION_ROWS or size >= PORTION_BYTES:
            yield pa.Table.from_pylist(portion, REJECTED)
            portion, size = [], 0
    if portion:
        yield pa.Table.from_pylist(portion, REJECTED)


def _position(row: RejectedRow) -> tuple[str, int]:
    return row["SourcePartition"], row["Position"]


def try_rows(
    rows: pa.Table,
    spec: StreamSpec,
    schema: TableSchema,
    locations: CommittedLocations,
    clock: Callable[[], float] = time.time,
) -> tuple[pa.Table, list[BadRow]]:
    """Step 1: the rows that can be stored, and why the others cannot.

    Truncated locations take no rows, unless the stream stores late ones. ``rows`` are sorted by source partition and
    position.
    """
    lenient = replace(spec, partition=replace(spec.partition, bounds="quarantine", late="quarantine"))
    now, closed = clock(), frozenset() if spec.partition.takes_late else locations.closed
    rejects, routed = Rejects(ANY), defaultdict[LocationKey, list[pa.RecordBatch]](list)
    for part in decode_requeued(rows, lenient, schema, rejects, late=closed, clock=lambda: now):
        if part.key not in closed:
            routed[part.key].append(part.batch)
    rejects.source.require(
        sum(batch.num_rows for batches in routed.values() for batch in batches), rejects.bad, f"stream {spec.stream}"
    )
    if left := _without_room(routed, schema, locations):
        rejects = Rejects(ANY)
        for _ in decode_requeued(rows, lenient, schema, rejects, late=closed, left=left, clock=lambda: now):
            pass
    bad = {(row.file, row.line) for row in rejects.rows}
    keys = zip(rows["SourcePartition"].to_pylist(), rows["Position"].to_pylist(), strict=True)
    return rows.filter(pa.array([key not in bad for key in keys], pa.bool_())), rejects.rows


def _without_room(
    routed: Mapping[LocationKey, Sequence[pa.RecordBatch]], schema: TableSchema, locations: CommittedLocations
) -> LeftOut:
    """The rows for which their location has no room."""
    if not may_lack_room(schema):
        return {}
    rows = {key: locations.room(key, schema).left_out(batches) for key, batches in routed.items()}
    return {key: left for key, left in rows.items() if left}


@dataclass(frozen=True, slots=True)
class RequeueWriter:
    """Writes rows of the quarantine to their stream, whose log is open, and whose lock the caller holds."""

    fs: Fs
    log: StreamLog
    target: StreamTarget
    spec: StreamSpec
    quarantine: Quarantine
    clock: Callable[[], float] = time.time

    @classmethod
    def of(cls, run: StreamRun, quarantine: Quarantine) -> RequeueWriter:
        """The writer of an open stream."""
        return cls(run.place.fs, run.log, run.target, run.settings.spec, quarantine)

    def write(self, rows: pa.Table, done: Requeued) -> None:
        """Ingests the good rows of one portion again and adds to ``done``."""
        fs, log, target = self.fs, self.log, self.target
        log.refresh()
        locations = CommittedLocations(TablePlace(fs, target.layout, target.table), log.state)
        with fs.during("requeue-try"):
            good, refused = try_rows(rows, self.spec, target.schema, locations, self.clock)
        done.refused.extend(replace(row, payload=b"") for row in refused)
        if not good.num_rows:
            return
        start, epoch = log.state.offsets.requeued, log.state.epoch + 1
        path = requeue_path(target.layout, target.table, target.stream, start, epoch)
        content = encode_rejected(good)
        with fs.during("requeue-file"):
            fs.keep_dirs(path.parent, target.layout.root)
            fs.replace(path, content)
        self.quarantine.announce(epoch)
        digest = hashlib.sha256(content).hexdigest()[:32]
        split = OffsetRange(REQUEUED.topic, 0, start, start + good.num_rows, digest=digest)
        decoder = RequeueDecoder(fs, self.spec, target.schema, path, self.clock)

        def execute(scratch: str, instead: Mapping[Split, Split | None]) -> list[TaskResult]:
            task = Task(0, 0, scratch, [split], alone=True, instead=instead)
            return [run_task(fs, WorkerCache(), target, decoder, task)]

        # not tried again: the rows were tried before, and a date that was truncated since changes the result
        request = BatchRequest(execute, query_id=QUERY, batch_id=epoch, proposed=[split], decode=decoder, again=False)
        outcome = write_batch(fs, log, target, WorkerCache(), request)
        done.sent += outcome.rows
        done.epochs.append(epoch)
        try:
            self.quarantine.mark(Requeue(path, start, epoch))
        except OSError as error:
            done.unmarked = error


@dataclass(frozen=True, slots=True)
class PayloadRepair:
    """The payload that replaces that of a row; the ``key`` of a message only with ``replaces_key``.

    ``line``: what else the line says of the row, and ``where`` it stands.
    """

    payload: bytes | None
    key: bytes | None = None
    replaces_key: bool = False
    line: Mapping[str, object] = field(default_factory=dict)
    where: str = ""

    def replaces(self, row: QuarantinedRow) -> bool:
        """Whether another record comes of it than the row was rejected with."""
        return self.payload not in (None, row["Payload"]) or (self.replaces_key and self.key != row["Key"])

    def of(self, row: RejectedRow) -> RejectedRow:
        if self.payload is not None:
            row = {**row, "Payload": self.payload, "PayloadBytes": len(self.payload)}
        return {**row, "Key": self.key} if self.replaces_key else row


def read_repairs(path: Path, place: StreamPlace) -> dict[tuple[str, int], PayloadRepair]:
    """Repairs by source and position; a line may also have ``payload`` and ``key``, both as text, or with the suffix
    ``_base64``. ``"key": null`` removes the key.

    SettingsError with the number of the first line that has another form, or names a row a second time.
    """
    if place.fs.stat(path) is None:
        hint = f"`sparkhaven quarantine list {place.table} {place.stream} --json` writes one"
        raise SettingsError("no such file of rows", where=path, hint=hint)
    repairs: dict[tuple[str, int], PayloadRepair] = {}
    for number, line in enumerate(place.fs.read(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            key, repair = _repair(json.loads(line), f"{path} line {number}")
        except (ValueError, KeyError, TypeError, binascii.Error) as error:
            raise SettingsError(
                "a line names no row of the quarantine",
                where=f"{path} line {number}",
                expected='{"source": "...", "position": 17, "payload": "..."}',
                found=repr(error),
            ) from error
        if key in repairs:
            raise SettingsError("a row is named twice", where=f"{path} line {number}", found=f"{key[0]} {key[1]}")
        repairs[key] = repair
    return repairs


def refuse_other_edits(repairs: Mapping[tuple[str, int], PayloadRepair], rows: Iterable[QuarantinedRow]) -> None:
    """SettingsError: a line has the payload of the quarantine, and another value, which no requeue takes."""
    for row in rows:
        repair = repairs.get((row["SourcePartition"], row["Position"]))
        if repair is None or repair.replaces(row):
            continue
        shown = row_value(row, {})
        for name, value in repair.line.items():
            if name in TOLD and value != shown[name]:
                raise SettingsError(
                    f"an edit of {name} is not taken",
                    where=repair.where,
                    expected=json.dumps(shown[name]),
                    found=json.dumps(value),
                    hint="edit payload: it has the whole record, and is decoded again. All else says what was rejected",
                )


def _repair(value: Any, where: str) -> tuple[tuple[str, int], PayloadRepair]:
    source, position = value["source"], value["position"]
    if not isinstance(source, str) or not isinstance(position, int):
        raise TypeError("source is a text and position a whole number")
    payload, key = _bytes(value, "payload"), _bytes(value, "key")
    replaces_key = not {"key", "key_base64"}.isdisjoint(value)
    return (source, position), PayloadRepair(payload, key, replaces_key, value, where)


def _bytes(value: dict[str, Any], name: str) -> bytes | None:
    coded, text = value.get(f"{name}_base64"), value.get(name)
    if coded is not None:
        return base64.b64decode(coded, validate=True)
    if text is not None and not isinstance(text, str):
        raise TypeError(f"{name} is a text, which may hold JSON")  # parsed here, its numbers might be rounded
    return None if text is None else text.encode("utf-8")
