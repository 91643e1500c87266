"""Decoders of splits and frames by a stream's settings, as the tasks of the writers call them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import pyarrow as pa

from sparkhaven.ingest.bad_rows import Rejects, as_batch
from sparkhaven.ingest.feeds.base import Block, PlannedFeed, reject_late, reject_rows, route, route_block, split_of
from sparkhaven.ingest.feeds.frames import FrameBatch
from sparkhaven.ingest.feeds.registry import feed_of
from sparkhaven.ingest.router import TableRows
from sparkhaven.ingest.spec import StreamSpec, TableRoutes
from sparkhaven.ingest.values.typed_rows import Ints
from sparkhaven.store.epochs.state.log_values import Split
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.batch.rejects import LeftOut
from sparkhaven.writers.spark.frame_task import SpilledPart
from sparkhaven.writers.task import SplitNotes


@dataclass(frozen=True, slots=True)
class Decoder:
    """Decodes the splits of a task; pickled to the workers."""

    fs: Fs
    spec: StreamSpec
    schema: TableSchema

    def __call__(self, split: Split, notes: SplitNotes) -> Iterable[tuple[LocationKey, pa.RecordBatch]]:
        feed, rejects = feed_of(self.spec), rejects_of(self.spec, notes)
        blocks = feed.decode(self.fs, split_of(feed, split), self.schema, rejects, time.time)
        for routed in route(blocks, rejects):
            yield routed.key, routed.batch
        _note(rejects, notes, split)

    def late(self, split: Split, keys: frozenset[LocationKey], notes: SplitNotes) -> int:
        """Rejects the rows of the split that belong to these truncated locations; returns their number."""
        feed, rejects = feed_of(self.spec), rejects_of(self.spec, notes)
        decode = partial(feed.decode, self.fs, split_of(feed, split), self.schema, clock=time.time)
        count = reject_late(decode, keys, rejects)
        _note_rejected(rejects, notes)
        return count

    def reject_rows(self, split: Split, left: LeftOut, notes: SplitNotes) -> int:
        """Rejects rows for which their location has no room; returns their number."""
        feed, rejects = feed_of(self.spec), rejects_of(self.spec, notes)
        decode = partial(feed.decode, self.fs, split_of(feed, split), self.schema, clock=time.time)
        count = reject_rows(decode, left, rejects)
        _note_rejected(rejects, notes)
        return count


@dataclass(frozen=True, slots=True)
class TablesDecoder:
    """Decodes the splits of a task for the tables of a feed, each once; pickled to the workers.

    ``tables`` are the decoders of each table alone, in the order of the stream file.
    """

    fs: Fs
    routes: TableRoutes
    tables: tuple[Decoder, ...]

    def __call__(
        self, split: Split, notes: Mapping[int, SplitNotes]
    ) -> Iterable[tuple[int, LocationKey, pa.RecordBatch]]:
        feed = feed_of(self.tables[0].spec)
        assert isinstance(feed, PlannedFeed)  # noqa: S101  a stream file has named it
        decoded = {
            number: TableRows(
                self.tables[number].spec, self.tables[number].schema, rejects_of(self.tables[number].spec, of)
            )
            for number, of in notes.items()
        }
        blocks = feed.decode_tables(self.fs, split_of(feed, split), decoded, self.routes, time.time)
        for number, block in blocks:
            for routed in route_block(block, decoded[number].rejects):
                yield number, routed.key, routed.batch
        for number, rows in decoded.items():
            rows.rejects.flush()
            _note(rows.rejects, notes[number], split)


def rejects_of(spec: StreamSpec, notes: SplitNotes) -> Rejects:
    """Collects bad rows of a split and writes them to quarantine through its notes."""
    frozen = spec.contract == "freeze"
    return Rejects(spec.bad_rows, sink=lambda rows: notes.keep_rejected(as_batch(rows)), frozen=frozen)


def _note(rejects: Rejects, notes: SplitNotes, split: Split) -> None:
    notes.source.add(rejects.source)
    if rejects.last is not None:
        notes.last[split] = rejects.last
    _note_rejected(rejects, notes)


def _note_rejected(rejects: Rejects, notes: SplitNotes) -> None:
    notes.reject(rejects.rows, rejects.bad)
    for name, amount in rejects.counts().items():
        notes.count(name, amount)


@dataclass(frozen=True, slots=True)
class FrameDecoder:
    """Decodes batches of a data frame in a task. ``closed``: truncated locations, which take no rows."""

    spec: StreamSpec
    schema: TableSchema
    closed: frozenset[LocationKey] = frozenset()
    clock: Callable[[], float] = time.time

    def __call__(
        self, batch: pa.RecordBatch, origin: str, numbers: Ints, unit: Literal["row", "offset"], notes: SplitNotes
    ) -> Iterable[tuple[LocationKey, pa.RecordBatch]]:
        """Routed rows; bad ones go into ``notes``."""
        rejects = rejects_of(self.spec, notes)
        split = FrameBatch(batch, origin, numbers, unit)
        blocks = feed_of(self.spec).decode(Fs(), split, self.schema, rejects, self.clock)
        for routed in route(blocks, rejects, self.closed):
            yield routed.key, routed.batch
        notes.reject(rejects.rows, rejects.bad)
        notes.source.add(rejects.source)

    def reject_rows(self, parts: Iterable[SpilledPart], left: LeftOut, notes: SplitNotes) -> int:
        """Rejects rows for which their location has no room; returns their number."""
        rejects = rejects_of(self.spec, notes)
        count = reject_rows(partial(self._blocks, parts), left, rejects)
        notes.reject(rejects.rows, rejects.bad)
        return count

    def _blocks(self, parts: Iterable[SpilledPart], silent: Rejects) -> Iterator[Block]:
        for part in parts:
            split = FrameBatch(part.rows, part.origin, part.numbers, part.unit)
            yield from feed_of(self.spec).decode(Fs(), split, self.schema, silent, self.clock)
