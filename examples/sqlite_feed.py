"""Rows of an SQLite table with a rising id, as a feed: one module on ``sparkhaven.feeds``, known to no other.

In a stream file::

    [feed]
    type = "examples.sqlite_feed:SqliteFeed"
    path = "orders.db"
    table = "orders"

A position is the next id to read, kept as the offset of partition 0 of a topic named like the table. SQLite has one
writer at a time, so with AUTOINCREMENT rows are committed in the order of their ids, and rows that were read never
change. Each row is decoded as a JSON object of its columns, by the rules for JSON lines.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, field_validator

from sparkhaven.feeds import (
    PATIENCE_S,
    Block,
    Clock,
    FeedStream,
    Fs,
    InputPartition,
    JsonDecoder,
    Limit,
    MaxPerTrigger,
    OffsetRange,
    PathText,
    PlannedFeed,
    RangeReader,
    RangeRun,
    ReadLimit,
    RejectedRow,
    Rejects,
    RequeuedRows,
    Router,
    SettingsError,
    SettingsModel,
    Source,
    StreamState,
    TableChoice,
    TableName,
    TableRoutes,
    TableRows,
    TableSchema,
    Target,
    Traits,
    Waiting,
    beside,
    committed_ends,
    counting,
    framed_block,
    lines_of,
    resolve_targets,
    routing_target,
    stream_source,
)

NAME = "examples.sqlite_feed:SqliteFeed"
BLOCK_ROWS = 50_000


class SqliteFeedModel(SettingsModel):
    """``[feed]`` of a stream file."""

    type: str
    """The name of this class."""
    path: PathText
    """Database file; relative to the stream file."""
    table: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    """Table whose column `id` is its integer primary key."""
    max_per_trigger: MaxPerTrigger = MaxPerTrigger(rows=100_000)
    """Largest batch, in rows."""

    @field_validator("max_per_trigger")
    @classmethod
    def _rows(cls, limit: MaxPerTrigger) -> MaxPerTrigger:
        if limit.rows is None or limit.bytes is not None or limit.files is not None:
            raise ValueError("max_per_trigger of this feed is in rows")
        return limit


@dataclass(frozen=True, slots=True)
class SqliteOptions:
    """A database file and a table of it, whose column ``id`` is its integer primary key."""

    traits: ClassVar[Traits] = Traits(NAME, OffsetRange, "records")

    path: str
    table: str
    max_per_trigger: Limit = field(default_factory=Limit)

    def behind(self, start: int, rows: int | None = None, below: int = 2**62) -> int:
        """The id behind the row that is so many rows after ``start`` (None: behind the last row); ``start`` if none."""
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as database:
            chosen = f"SELECT id FROM {self.table} WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
            some = (start, below, -1 if rows is None else rows)
            (last,) = database.execute(f"SELECT max(id) FROM ({chosen})", some).fetchone()
        return start if last is None else last + 1

    def count(self, start: int, stop: int) -> int:
        """How many rows there are, as the database counts them."""
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as database:
            (rows,) = database.execute(
                f"SELECT count(*) FROM {self.table} WHERE id >= ? AND id < ?", (start, stop)
            ).fetchone()
        return int(rows)

    def rows(self, start: int, stop: int) -> Iterator[list[tuple[int, bytes]]]:
        """Ids and rows as JSON objects, some thousands at a time."""
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as database:
            query = f"SELECT * FROM {self.table} WHERE id >= ? AND id < ? ORDER BY id"
            cursor = database.execute(query, (start, stop))
            names = [column[0] for column in cursor.description]
            while some := cursor.fetchmany(BLOCK_ROWS):
                objects = [dict(zip(names, row, strict=True)) for row in some]
                yield [(row["id"], json.dumps(row, default=bytes.hex).encode()) for row in objects]


class SqliteReader(RangeReader):
    """Plans ranges of ids for Spark; ``begin`` is the position of the commit log."""

    def __init__(self, stream: FeedStream[SqliteOptions]) -> None:
        self.own, self.scratch, self._options = stream.feed.max_per_trigger, stream.scratch, stream.feed
        ends = committed_ends(Fs(), stream).get((stream.feed.table, 0))
        self._begin, self._below = (ends.stop if ends else 0), 2**62

    def initialOffset(self) -> dict[str, int]:
        """The committed position."""
        return {"id": self._begin}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """The id behind the next batch, or ``start`` when nothing is new."""
        rows = self.limited(limit).rows
        stop = self._options.behind(start["id"], rows, self._below)
        return start if stop == start["id"] else self.planned(start, {"id": stop})

    def prepareForTriggerAvailableNow(self) -> None:
        """Only the rows that are there now."""
        self._below = self._options.behind(0)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """One task: ids tell little about how many rows there are."""
        if start == end:
            return []
        return [RangeRun((OffsetRange(self._options.table, 0, start["id"], end["id"]),), 0, 0)]


class SqliteFeed(PlannedFeed[SqliteOptions, OffsetRange]):
    """Ranges of ids."""

    settings = SqliteFeedModel

    @classmethod
    def read(cls, part: SqliteFeedModel, base: Path, fs: Fs) -> SqliteOptions:
        """The options that ``[feed]`` stands for."""
        del fs
        return SqliteOptions(str(beside(base, part.path)), part.table, part.max_per_trigger.limit)

    def check(self, fs: Fs) -> None:
        """SettingsError for a file that is not there."""
        if fs.stat(Path(self.options.path)) is None:
            raise SettingsError("no such database", where=self.options.path, hint="correct feed.path")

    def source(self, root: Path, tasks: int) -> Source:
        """Rows that name ranges of ids."""
        table, *others = map(TableName.parse, self.spec.fed_tables)
        stream = FeedStream(root, table, self.spec.stream, self.options, tasks, tuple(others))
        return Source(stream_source("sqlite", stream, SqliteReader), {})

    def waiting(self, fs: Fs, state: StreamState | None, patience: float = PATIENCE_S) -> Waiting:
        """Ids between the position and the end."""
        del patience
        self.check(fs)
        end = state.offsets.get((self.options.table, 0)) if state else None
        position = end.stop if end else 0
        left = self.options.behind(position) - position
        return Waiting({"waiting_messages": left}, f"{left:,} ids", rows=left)

    def decode(
        self, fs: Fs, split: OffsetRange, schema: TableSchema, rejects: Rejects, clock: Clock
    ) -> Iterator[Block]:
        """Rows of a range, in the order of their ids."""
        if (routes := self.spec.routes) is not None:
            return self.own_blocks(fs, split, TableRows(self.spec, schema, rejects), routes, clock)
        return self._blocks(split, schema, rejects, clock)

    def decode_tables(
        self, fs: Fs, split: OffsetRange, tables: Mapping[int, TableRows], routes: TableRoutes, clock: Clock
    ) -> Iterator[tuple[int, Block]]:
        """The same for ``[[tables]]``: the field that decides first, then each row for its table."""
        del fs
        targets = {number: resolve_targets(table.spec, table.schema) for number, table in tables.items()}
        ignored = {number: counting(table.spec, routes).ignore for number, table in tables.items()}
        decoders = {number: JsonDecoder(targets[number], ignored[number]) for number in tables}
        deciding = JsonDecoder((routing_target(routes),), ())
        choice = TableChoice(routes, tables, split.place, "offset")
        rows = self.options.count(split.start, split.stop)
        for table in tables.values():
            table.rejects.source.count(rows)
        for some in self.options.rows(split.start, split.stop):
            block = framed_block([payload for _, payload in some], np.array([number for number, _ in some], np.int64))
            texts = deciding.decode(block, split.place, choice.probe)
            for number, ids in choice.numbers_of(texts, block.line_of).items():
                table, part = tables[number], block.where(lines_of(block.numbers, ids))
                rules = table.spec.partition
                router = Router(targets[number], rules, split.place, rules.clock.now_ns(clock), "offset")
                table.rejects.complete = partial(replace, unit="offset")
                yield number, (router, decoders[number].decode(part, split.place, table.rejects), part.line_of)
                table.rejects.complete = None

    def _blocks(self, split: OffsetRange, schema: TableSchema, rejects: Rejects, clock: Clock) -> Iterator[Block]:
        targets = resolve_targets(self.spec, schema)
        decoder = JsonDecoder(targets, self.spec.ignore, alias=self.spec.allow_null_alias)
        rules = self.spec.partition
        router = Router(targets, rules, split.place, rules.clock.now_ns(clock), "offset")
        rejects.source.count(self.options.count(split.start, split.stop))
        for some in self.options.rows(split.start, split.stop):
            block = framed_block([payload for _, payload in some], np.array([number for number, _ in some], np.int64))
            rejects.complete = partial(replace, unit="offset")
            yield router, decoder.decode(block, split.place, rejects), block.line_of
            rejects.complete = None

    def requeue(
        self, source: str, rows: Sequence[RejectedRow], targets: Sequence[Target], now_ns: int, rejects: Rejects
    ) -> RequeuedRows:
        """Rows as they were read, or as a user has corrected them."""
        del now_ns
        payloads = {row["Position"]: row["Payload"] or b"" for row in rows}
        block = framed_block(list(payloads.values()), np.array(list(payloads), np.int64))
        rejects.complete = partial(replace, unit="offset")
        found = JsonDecoder(targets, self.spec.ignore, alias=self.spec.allow_null_alias).decode(block, source, rejects)
        return RequeuedRows(source, found, payloads, "offset", rejects.complete)
