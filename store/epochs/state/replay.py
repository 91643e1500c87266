"""Replays records to a state: the content of a stream's table after any of its epochs.

The state of an epoch is the checkpoint's state plus the records of its *chain*: walking back from the epoch's record,
a rollback continues at the epoch that it restored. Rolled-back records stay in the log, but are on no later chain.

A feed that several tables are fed from has a log in each of them, and a batch commits in each. A process that is killed
between two of these commits leaves tables at different positions, and so does the rollback of one of them. The feed is
then read again from the position that is ``furthest_back``, and each log leaves out what it has (R2, R4, R5). A table
without an epoch has no position. It does not hold the others back: its first epoch says where it begins
(``first_ranges``, and the files of the others), and is committed before any table commits its first batch. So a table
that has an epoch, and does not know a partition, lacks all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from sparkhaven.store import next_steps
from sparkhaven.store.epochs.state.commit_policy import Durability, syncs_each_batch
from sparkhaven.store.epochs.state.file_positions import FileWindow, Resolution
from sparkhaven.store.epochs.state.locations import Locations
from sparkhaven.store.epochs.state.log_records import (
    CommitRecord,
    EpochRecord,
    OpenRecord,
    Record,
    RollbackRecord,
    SyncRecord,
    WithdrawRecord,
)
from sparkhaven.store.epochs.state.log_values import (
    REJECTED,
    FileId,
    LocationReport,
    LocationState,
    OffsetRange,
    PositionKind,
    Split,
    source_of,
)
from sparkhaven.store.epochs.state.offsets import OffsetEnd, Offsets, TopicPartition
from sparkhaven.store.epochs.state.packed_location import Files, Reports, Stats
from sparkhaven.store.epochs.state.removed_locations import Removal, RemovalPhase
from sparkhaven.store.epochs.state.resume_rules import PartitionRule, zone_of
from sparkhaven.store.errors import CorruptFileError, PositionGapError, TableNotFoundError
from sparkhaven.store.layout import LocationKey, stream_of
from sparkhaven.store.types.row_ranges import NO_ROWS, RowRanges

RolledBack = tuple[tuple[int, int], ...]
"""Pairs (restored epoch, epoch of the rollback), ascending and disjoint: the epochs between the two are rolled back."""
MAX_PAIRS = 100
OF_FEEDS = (PositionKind.OFFSETS, PositionKind.VERSIONS)


def fold(known: RolledBack, to: int, epoch: int) -> RolledBack:
    """Adds a rollback that is newer than all known ones; drops those that it covers.

    Above ``MAX_PAIRS`` the oldest two become one. Epochs between them then count as rolled back too, which only a
    reader can meet that has stood still for a hundred rollbacks.
    """
    pairs = [*(pair for pair in known if pair[0] < to), (to, epoch)]
    if len(pairs) > MAX_PAIRS:
        pairs[:2] = [(pairs[0][0], pairs[1][1])]
    return tuple(pairs)


def restored(known: RolledBack, epoch: int) -> int | None:
    """None if an epoch was not rolled back, else the restored older epoch."""
    return min((to for to, rollback in known if to < epoch < rollback), default=None)


@dataclass(frozen=True, slots=True)
class RolledBackEpochs:
    """``dead``: the rollbacks, each (restored epoch, its own epoch). ``locations``: those of rolled-back epochs."""

    dead: tuple[tuple[int, int], ...] = ()
    locations: frozenset[LocationKey] = frozenset()

    @staticmethod
    def of(records: Iterable[Record], kept: Sequence[Record]) -> RolledBackEpochs:
        """Of records, of which ``kept`` are on the chain to the newest epoch."""
        live = {record.n for record in kept}
        dead: list[tuple[int, int]] = []
        locations: set[LocationKey] = set()
        for record in records:
            if isinstance(record, RollbackRecord):
                dead.append((record.to, record.epoch))
            elif isinstance(record, CommitRecord) and record.n not in live:
                locations.update(report.key for report in record.batch.reports)
        return RolledBackEpochs(tuple(dead), frozenset(locations))

    def __add__(self, later: RolledBackEpochs) -> RolledBackEpochs:
        return RolledBackEpochs(self.dead + later.dead, self.locations | later.locations)


@dataclass(slots=True)
class StreamState:
    """What a stream has committed up to ``epoch``; ``floor`` is the oldest epoch that can be asked for.

    ``generation``, ``boot_id``, ``durability``, ``durable`` (newest epoch known to be on disk) and ``n`` (number of the
    last record) are those of the newest record, whatever epoch was asked for. So is ``rejected``, the newest epoch with
    rejected rows, also when it was rolled back: the stream has a quarantine. So is ``withdrawal``, the newest epoch
    that withdrew rows, also when it was rolled back, and 0 where there was none. So is ``rule``, by which rows were
    partitioned last, None where the log does not tell.
    The log's own state is live: a reader of it does not change it and does not keep it over a commit.
    """

    stream: str
    generation: int = 0
    epoch: int = 0
    floor: int = 0
    files: FileWindow = field(default_factory=FileWindow)
    locations: Locations = field(default_factory=Locations)
    last_query: str | None = None
    last_batch: int | None = None
    boot_id: str = ""
    schema_version: int = 0
    durability: Durability = "fsync"
    durable: int = 0
    n: int = 0
    offsets: Offsets = field(default_factory=Offsets)
    rolled_back: RolledBack = ()
    rejected: int = 0
    rule: PartitionRule | None = None
    withdrawal: int = 0

    @property
    def zone(self) -> str | None:
        """The time zone whose days or hours are the partition values; "" if there is none, None if it is not known."""
        return zone_of(self.rule)

    @property
    def horizon(self) -> int:
        """Files modified before it (ns) are never taken."""
        return self.files.horizon

    def classify(self, splits: Iterable[Split], gaps: Iterable[OffsetRange] = ()) -> Resolution:
        """Classifies the splits of a proposed batch. PositionGapError: the source does not continue from here."""
        given = tuple(splits)
        files = self.files.classify(split for split in given if isinstance(split, FileId))
        ranges = self.offsets.classify((split for split in given if isinstance(split, OffsetRange)), gaps)
        return Resolution((*files.fresh, *ranges.fresh), (*files.taken, *ranges.taken), files.below, ranges.cut)

    def apply(self, record: Record, *, later: bool = False) -> None:
        """Applies one record of the chain; ``later``: changes locations lazily."""
        if later and isinstance(record, CommitRecord) and isinstance(record.batch.reports, Reports):
            for index, key in enumerate(record.batch.reports.keys):
                self.locations.later(key, partial(_grow, record, index))
            record = replace(record, batch=replace(record.batch, reports=()))
        for _ in self.steps(record):
            pass

    def steps(self, record: Record) -> Iterator[None]:
        """Applies one record in steps, one per location."""
        match record:
            case CommitRecord(batch=batch):
                for report in batch.reports:
                    location = self.locations.get(report.key)
                    self.locations[report.key] = grown(
                        location, report, record.epoch, batch.schema_version, batch.time_ms
                    )
                    yield
                self.files.take(batch.files, record.horizon)
                self.offsets.take(batch.ranges)
                self.epoch = record.epoch
                self.last_query, self.last_batch = batch.query_id, batch.batch_id
            case RollbackRecord():
                for key in record.changed:
                    location = self.locations.get(key)
                    if location is not None:
                        time_ms = location.time_ms if location.truncated else record.time_ms
                        self.locations[key] = replace(location, epoch=record.epoch, time_ms=time_ms)
                self.rolled_back = fold(self.rolled_back, record.to, record.epoch)
                self.epoch = record.epoch
            case WithdrawRecord():
                for part in record.locations:
                    location = self.locations.get(part.key)
                    if location is not None and location.since == part.since and not location.truncated:
                        self.locations[part.key] = without_rows(location, part.rows, record)
                    yield
                self.epoch = record.epoch
            case OpenRecord() | SyncRecord():
                pass

    @property
    def syncs_each_batch(self) -> bool:
        return syncs_each_batch(self.durability)

    def note(self, record: Record) -> None:
        """Applies what does not depend on the chain: numbers, generation, boot, durability."""
        self.n = record.n
        self.generation = record.generation
        match record:
            case OpenRecord():
                self.boot_id, self.durability, self.durable = record.boot_id, record.durability, record.durable
                self.schema_version = record.schema_version or self.schema_version
                self.rule = self.rule if record.rule is None else record.rule
            case CommitRecord(batch=batch):
                if self.syncs_each_batch:
                    self.durable = record.epoch
                if REJECTED in batch.counts:
                    self.rejected = record.epoch
            case WithdrawRecord():
                self.durable = self.withdrawal = record.epoch
            case SyncRecord() | RollbackRecord():
                self.durable = record.epoch

    def remove(self, removal: Removal) -> LocationState | None:
        """Truncates or drops the location of a removal; returns its new state, None if it was dropped."""
        location = self.locations.get(removal.key)
        if location is None or not removal.means(location):
            return None
        if removal.phase == RemovalPhase.DELETE:
            del self.locations[removal.key]
            return None
        emptied = replace(
            location,
            rows=0,
            files={},
            stats={},
            truncated=True,
            time_ms=removal.time_ms or location.time_ms,
            withdrawn=NO_ROWS,
        )
        self.locations[removal.key] = emptied
        return emptied


def grown(
    base: LocationState | None, report: LocationReport, epoch: int, schema_version: int, time_ms: int
) -> LocationState:
    """A location after one append; ``base``, what there was, counts for nothing where the report is of a new one."""
    if not report.base_epoch:
        base = None
    begun_by = base.named_by if base else schema_version
    return LocationState(
        key=report.key,
        since=base.since if base else epoch,
        epoch=epoch,
        rows=report.rows,
        files=Files.of(report.files),
        stats=Stats.of(base.stats if base else {}).extended(report.stats),
        schema_version=schema_version,
        time_ms=time_ms,
        made_ms=base.made_ms if base else time_ms,
        withdrawn=base.withdrawn if base else NO_ROWS,
        begun_by=begun_by if begun_by != schema_version else None,
    )


def without_rows(location: LocationState, rows: RowRanges, record: WithdrawRecord) -> LocationState:
    """A location after a record has withdrawn rows of it; those of its rows alone count."""
    withdrawn = location.withdrawn.union(rows.within(0, location.rows))
    return replace(location, epoch=record.epoch, time_ms=record.time_ms, withdrawn=withdrawn)


def _grow(record: Record, index: int, base: LocationState | None) -> LocationState:
    assert isinstance(record, CommitRecord)  # noqa: S101 - made by apply
    batch = record.batch
    return grown(base, batch.reports[index], record.epoch, batch.schema_version, batch.time_ms)


def chain(records: Sequence[Record], base: int, epoch: int | None, where: object) -> list[Record]:
    """The records that lead from epoch ``base`` (a checkpoint) to ``epoch`` (None: the newest), in order.

    Raises TableNotFoundError for an epoch that is not kept or was rolled back.
    """
    indexes = {r.epoch: i for i, r in enumerate(records) if isinstance(r, EpochRecord)}
    newest = _walk(records, indexes, base, len(records) - 1, where)
    if epoch is None:
        return newest
    kept = [r.epoch for r in newest if isinstance(r, EpochRecord)]
    if epoch == base:
        return []
    if epoch not in kept:
        table, stream = stream_of(Path(str(where)))
        raise TableNotFoundError(
            "this epoch is before the rollback floor, was rolled back, or does not exist",
            where=where,
            expected=f"one of the kept epochs, {base} to {kept[-1] if kept else base}",
            found=epoch,
            hint=next_steps.kept_epochs(table, stream),
        )
    return newest[: kept_index(newest, epoch) + 1]


def kept_index(records: Sequence[Record], epoch: int) -> int:
    for index in range(len(records) - 1, -1, -1):
        record = records[index]
        if record.epoch == epoch and isinstance(record, EpochRecord):
            return index
    raise KeyError(epoch)


def _walk(records: Sequence[Record], indexes: dict[int, int], base: int, index: int, where: object) -> list[Record]:
    chained: list[Record] = []
    while index >= 0:
        record = records[index]
        chained.append(record)
        if not isinstance(record, RollbackRecord):
            index -= 1
        elif record.to == base:
            break
        elif record.to in indexes and indexes[record.to] < index:
            index = indexes[record.to]
        else:
            raise CorruptFileError(
                "a rollback goes to an epoch that the log does not hold", where=where, expected=base, found=record.to
            )
    return chained[::-1]


def furthest_back(states: Sequence[StreamState]) -> StreamState:
    """A state with the positions that all tables have; its epoch is 0 only if no table has one.

    Of one table they are its own. The files are those that no table would take again.
    """
    begun = [state for state in states if state.epoch]
    if len(begun) < 2:
        return begun[0] if begun else states[0]
    first = begun[0]
    return StreamState(
        first.stream,
        epoch=first.epoch,
        files=_common_files([state.files for state in begun]),
        offsets=_smallest([state.offsets for state in begun]),
        rule=first.rule,
    )


def _smallest(all_offsets: Sequence[Offsets]) -> Offsets:
    """The smallest end of each partition that all of them know."""
    ends: dict[TopicPartition, OffsetEnd] = {}
    for partition in all_offsets[0]:
        if source_of(partition[0]).kind in OF_FEEDS and all(partition in offsets for offsets in all_offsets):
            ends[partition] = min((offsets[partition] for offsets in all_offsets), key=lambda end: end.stop)
    return Offsets(ends)


def _common_files(windows: Sequence[FileWindow]) -> FileWindow:
    horizon = min(window.horizon for window in windows)
    first, *others = windows
    if all(window == first for window in others):
        return first
    paths = {path: None for window in windows for path in window.paths()}
    remembered = (_known(windows, path) for path in paths)
    return FileWindow((file for file in remembered if not any(lacks(window, file) for window in windows)), horizon)


def _known(windows: Iterable[FileWindow], path: str) -> FileId:
    return next(file for window in windows if (file := window.known(path)) is not None)


def lacks(window: FileWindow, file: FileId) -> bool:
    """Whether a table would take a file that another has; one that differs is reported when it is planned."""
    try:
        return window.status(file) == "fresh"
    except PositionGapError:
        return False


def first_ranges(offsets: Offsets, proposed: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Ranges without messages that say where a table begins: at these ends, else where proposed ranges begin."""
    starts = {
        partition: OffsetRange(*partition, end.stop, end.stop, end.topic_id)
        for partition, end in offsets.items()
        if source_of(partition[0]).kind in OF_FEEDS
    }
    for planned in sorted(proposed, key=lambda planned: planned.start):
        start = OffsetRange(planned.topic, planned.partition, planned.start, planned.start, planned.topic_id)
        starts.setdefault((planned.topic, planned.partition), start)
    return tuple(starts[partition] for partition in sorted(starts))
