"""What a feed is to the rest of the project: the interface of every source of rows, and how its blocks become batches.

A ``Feed`` decodes splits. A ``PlannedFeed`` is one that a stream file can name: it also says which splits come next.
``sparkhaven.testing`` has the suite that each of them passes; ``ingest.feeds.registry`` lists them.

A stream keeps decoders from one small batch to the next: making one takes longer than decoding few rows.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypedDict, TypeVar, cast

from sparkhaven.ingest.bad_rows import BadRow, Rejects, Unit, bad_row, guarded
from sparkhaven.ingest.router import Routed, Router, TableRows
from sparkhaven.ingest.sample_rows import Sample
from sparkhaven.ingest.settings import SettingsModel
from sparkhaven.ingest.spec import BadRowBudget, FeedOptions, StreamSpec, TableRoutes, Target
from sparkhaven.ingest.values.typed_rows import Refusal, TypedRows
from sparkhaven.store.epochs.state.commit_policy import DEFAULT_MAX_FILE_AGE_S
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.quarantine.rejected_rows import RejectedRow
from sparkhaven.store.types.model import TableSchema

DATA_FILES, DATA_BYTES = "data_files", "data_bytes"
"""Counts by which a feed tells how many files a split held, and how large they were, where the split does not."""

PATIENCE_S, ONCE_S, LOOK_S = 30.0, 5.0, 3.0
"""How long a server is waited for: by a run, at the start of a run that ends, and by a command that only looks."""
SILENT = BadRowBudget(max_rows=2**62)

O = TypeVar("O", bound=FeedOptions)  # noqa: E741 of options
S = TypeVar("S")  # of splits

Clock = Callable[[], float]
Block = tuple[Router, TypedRows, Callable[[int], bytes]]
"""Typed rows in the order of the split, the router they are for, and the payload of a row by its number."""
MOST = 8  # of a thread
Made = TypeVar("Made")
SMALL_BYTES, SMALL_ROWS = 1 << 18, 2_000  # of a split; what a decoder holds grows with what it has read


@dataclass(frozen=True, slots=True)
class ResumeRules:
    """``allow_gap``: offsets may be missing before a range, and are recorded; else that is a PositionGapError.

    ``remember_s``: how long a taken file is remembered, in seconds; of no meaning to feeds of ranges.
    """

    allow_gap: bool = False
    remember_s: float = DEFAULT_MAX_FILE_AGE_S


@dataclass(frozen=True, slots=True)
class Source:
    """A subclass of Spark's DataSource whose rows name splits, and its options; those show in plans: no secrets."""

    kind: type[Any]
    options: Mapping[str, str]


class PassedFiles(TypedDict):
    """Files that are not ingested for one reason: how many, and some of their paths."""

    count: int
    first: list[str]


class WaitingCounts(TypedDict, total=False):
    """What waits at a source, for machines. ``older_files`` are too old to be taken, ``passed`` are never taken."""

    waiting_files: int
    waiting_bytes: int
    waiting_messages: int
    older_files: int
    older: list[str]
    passed: dict[str, PassedFiles]
    remarks: list[str]
    lag: dict[str, int]
    ends: dict[str, int]


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a run would take: counts by name for machines, and the same in a few words.

    A feed that tells how many ``bytes`` or ``rows`` wait can be ingested without Spark while they are few: its source
    is then driven by the command itself, as Spark's trigger ``availableNow`` does (``ingest.feeds.spark_planning``).
    ``nothing``: it is certain that a run would ingest nothing; then a new stream is not created.
    """

    counts: WaitingCounts
    words: str
    bytes: int | None = None
    rows: int | None = None
    nothing: bool = False


@dataclass(frozen=True, slots=True)
class RequeuedRows:
    """Rows of one source partition that left quarantine, decoded once more; all columns.

    ``complete`` adds to a row that is bad again what its decoder does not know.
    """

    source: str
    rows: TypedRows
    payloads: Mapping[int, bytes]
    unit: Unit
    complete: Callable[[BadRow], BadRow] | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of the first rows that wait: their number, how many are rejected, and the first of those.

    ``ignored``: rows with a field that no column takes, by its name; ``absent``: those without the field of a column.
    """

    rows: int
    rejected: int
    first: tuple[BadRow, ...]
    ignored: Mapping[str, int] = field(default_factory=dict)
    absent: Mapping[str, int] = field(default_factory=dict)


class Remote(Protocol):
    """A server that can be asked beside the stream. Without an answer it raises RetryableFeedError."""

    def check(self) -> None:
        """Raises what would stop the stream at its first batch; a server that does not answer is waited for later."""

    def ends(self, known: Sequence[str]) -> Mapping[str, int]:
        """Where partitions end now, by ``name/number``; of ``known`` ones, or of all where none is known yet."""


class Feed(ABC, Generic[O, S]):
    """A source of rows, with the settings of one stream. It pickles: workers decode with it."""

    def __init__(self, spec: StreamSpec) -> None:
        self.spec = spec
        self.options = cast("O", spec.feed)

    @property
    def resume(self) -> ResumeRules:
        """What holds when a stream goes on after its last epoch."""
        return ResumeRules()

    @abstractmethod
    def decode(self, fs: Fs, split: S, schema: TableSchema, rejects: Rejects, clock: Clock) -> Iterator[Block]:
        """Blocks of one split; bad rows and counts go to ``rejects``. The same split gives the same rows each time.

        ``rejects.source`` gets the number of rows that the split has, counted by the source and not by what was
        decoded, and how many of them a rule leaves out. The batch fails unless all rows are good, bad or left out.

        Nothing of a split may be committed before the iterator has ended, since it proves last that what was read is
        what was planned. PositionGapError where it is not, FeedError where it cannot be read.
        """


class PlannedFeed(Feed[O, S]):
    """A feed that a stream file can name."""

    settings: ClassVar[type[SettingsModel]]
    """Model of the keys of ``[feed]``. Its ``type`` is the name of the feed."""

    @classmethod
    @abstractmethod
    def read(cls, part: Any, base: Path, fs: Fs) -> O:
        """The options that a checked ``[feed]``, a value of ``settings``, stands for; paths are relative to ``base``.

        SettingsError for a file of the settings that is missing or cannot be used.
        """

    def decode_tables(
        self, fs: Fs, split: S, tables: Mapping[int, TableRows], routes: TableRoutes, clock: Clock
    ) -> Iterator[tuple[int, Block]]:
        """Blocks of one split for several tables, by number: the split is read once. Else like ``decode``.

        SettingsError for a feed that has rows of one table only.
        """
        raise one_table_only(self.options.traits.feed)

    def own_blocks(self, fs: Fs, split: S, table: TableRows, routes: TableRoutes, clock: Clock) -> Iterator[Block]:
        """The blocks of one table of several."""
        return (block for _, block in self.decode_tables(fs, split, {routes.own: table}, routes, clock))

    def check(self, fs: Fs) -> None:
        """SettingsError for what is missing on this machine; called before the stream is opened."""

    def check_columns(self, targets: Sequence[Target]) -> None:
        """SettingsError or SchemaMismatchError if rows of the feed cannot fill these columns."""

    @abstractmethod
    def source(self, root: Path, tasks: int) -> Source:
        """The planner as a Spark source, which starts from the stream's commit log below ``root``.

        ``tasks`` may share a batch. Rows of the source name splits of ``options.traits.split``.
        """

    @abstractmethod
    def waiting(self, fs: Fs, state: StreamState | None, patience: float = PATIENCE_S) -> Waiting:
        """What a run would take after ``state``; nothing is opened for writing. A server has ``patience`` seconds."""

    def trial(self, fs: Fs, state: StreamState | None, schema: TableSchema) -> Trial | None:
        """Decodes and routes the first rows that a run would take after ``state``, and stores nothing; None: no rows.

        Raises what ``decode`` and ``route`` raise. A feed that does not look at rows beforehand returns None.
        """
        return None

    @abstractmethod
    def requeue(
        self, source: str, rows: Sequence[RejectedRow], targets: Sequence[Target], now_ns: int, rejects: Rejects
    ) -> RequeuedRows:
        """Rejected rows of one source partition (schema ``REJECTED``), decoded by the rules as they are now."""

    @classmethod
    def sample(cls, fs: Fs, options: O, rows: int) -> Sample:
        """At most so many rows as they stand in the source, to infer a schema from; nothing is written anywhere.

        FeedError if there are none; SettingsError for a feed whose rows cannot be looked at before they have types.
        """
        raise SettingsError(
            "a schema cannot be inferred from this feed",
            where="feed.type",
            expected="a feed that gives samples, as files, kafka and delta do",
            found=options.traits.feed,
            hint="write the schema by hand, or infer it from a file with rows like those of the feed",
        )

    def remote(self) -> Remote | None:
        """The server that the feed reads from; None where there is none to ask."""
        return None


class TablesFeed(PlannedFeed[O, S]):
    """A feed that decodes for one table as it does for several."""

    @abstractmethod
    def blocks(
        self, fs: Fs, split: S, tables: Mapping[int, TableRows], routes: TableRoutes | None, clock: Clock
    ) -> Iterator[tuple[int, Block]]:
        """Blocks of one split, each with the number of its table; ``routes`` None: one table has all rows."""

    def decode(self, fs: Fs, split: S, schema: TableSchema, rejects: Rejects, clock: Clock) -> Iterator[Block]:
        routes = self.spec.routes
        tables = {0 if routes is None else routes.own: TableRows(self.spec, schema, rejects)}
        return (block for _, block in self.blocks(fs, split, tables, routes, clock))

    def decode_tables(
        self, fs: Fs, split: S, tables: Mapping[int, TableRows], routes: TableRoutes, clock: Clock
    ) -> Iterator[tuple[int, Block]]:
        return self.blocks(fs, split, tables, routes, clock)


def one_table_only(feed: str) -> SettingsError:
    """The error for [[tables]] with a feed that does not decode for several tables."""
    return SettingsError(
        "this feed does not decode for several tables",
        where="tables",
        expected="a feed whose class has decode_tables, as files, kafka and delta have",
        found=feed,
        hint="write a stream file for each table",
    )


def split_of(feed: Feed[Any, S], split: object) -> S:
    """The split, if it is of the feed's kind; else a SettingsError."""
    expected = feed.options.traits.split
    if not isinstance(split, expected):
        raise SettingsError(
            "split type does not match the feed",
            where=getattr(split, "path", None),
            expected=f"{expected.__name__}, as the feed {feed.options.traits.feed} has",
            found=type(split).__name__,
            hint="a stream keeps the type of its feed. Read another source as a new stream",
        )
    return cast("S", split)


def try_rows(blocks: Iterable[Iterator[Block]], rejects: Rejects) -> Trial | None:
    """What becomes of the first block of some splits."""
    rows = sum(len(routed.batch) for split in blocks for routed in route(islice(split, 1), rejects))
    if not rows + rejects.bad:
        return None
    return Trial(rows + rejects.bad, rejects.bad, tuple(rejects.rows), rejects.ignored, rejects.absent)


def route(blocks: Iterator[Block], rejects: Rejects, closed: frozenset[LocationKey] = frozenset()) -> Iterator[Routed]:
    """Routed batches of the blocks of a split. Rows for ``closed``, locations that take no more, are rejected."""
    for router, rows, payload in blocks:
        if closed:
            router.late(rows, payload, closed, rejects)
        for routed in route_block((router, rows, payload), rejects):
            if routed.key not in closed:
                yield routed
    rejects.flush()


def route_block(block: Block, rejects: Rejects) -> list[Routed]:
    """Routed batches of one block. A row that raises an exception on its way is a bad row."""
    router, rows, payload = block

    def routed(start: int, stop: int) -> list[Routed]:
        return list(router.route(rows.part(start, stop), payload, rejects))

    def refused(row: int, refusal: Refusal) -> BadRow:
        number = int(rows.numbers[row])
        return bad_row(router.file, number, None, refusal, "", payload(number), unit=router.unit)

    return [*chain.from_iterable(guarded(len(rows), routed, refused, rejects))]


def reject_rows(
    decode: Callable[[Rejects], Iterator[Block]], left: Mapping[LocationKey, Mapping[int, str]], rejects: Rejects
) -> int:
    """Decodes a split again to reject some rows, by their numbers in each location; returns how many they are.

    ``left`` has the column of each that has no room in the location.
    """
    passed = Counter[LocationKey]()
    return _reject_again(
        decode, lambda router, rows, payload: router.without_room(rows, payload, left, passed, rejects), rejects
    )


def reject_late(decode: Callable[[Rejects], Iterator[Block]], keys: frozenset[LocationKey], rejects: Rejects) -> int:
    """Decodes a split again to reject the rows that go to ``keys``, and no others; returns how many they are."""
    return _reject_again(decode, lambda router, rows, payload: router.late(rows, payload, keys, rejects), rejects)


def _reject_again(
    decode: Callable[[Rejects], Iterator[Block]],
    reject: Callable[[Router, TypedRows, Callable[[int], bytes]], int],
    rejects: Rejects,
) -> int:
    silent, count = Rejects(SILENT, keep=0), 0
    for router, rows, payload in decode(silent):
        rejects.header, rejects.time_ns = silent.header, silent.time_ns
        with rejects.completing(silent.complete):
            count += reject(router, rows, payload)
    rejects.flush()
    return count


class DecoderCache(Generic[Made]):
    """What was made of some parts, for the same parts in the same thread.

    Parts are frozen, and compared by identity: comparing settings and schemas takes longer than making the decoder.
    """

    def __init__(self, make: Callable[..., Made]) -> None:
        self._make, self._of_thread = make, threading.local()

    def of(self, *parts: object, small: bool) -> Made:
        """The decoder of these parts; a new one where the split is not ``small``. Raises what making it raises."""
        if not small:
            return self._make(*parts)
        kept: dict[tuple[int, ...], tuple[tuple[object, ...], Made]] = self._of_thread.__dict__.setdefault("kept", {})
        key = tuple(map(id, parts))  # the parts are held, so that their numbers stay theirs
        if key not in kept:
            while len(kept) >= MOST:
                del kept[next(iter(kept))]
            kept[key] = parts, self._make(*parts)
        return kept[key][1]
