"""Between ingest and the writers: decodes splits and frames by a stream's settings, and weighs what is rejected."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from ingest.bad_rows import Rejects, as_batch
from ingest.feeds.delta.decode import decode_versions, late_in_versions
from ingest.feeds.files.decode import decode_split, late_rows
from ingest.feeds.frames.rows import FrameRows
from ingest.feeds.kafka.decode import decode_range, late_messages
from ingest.feeds.kafka.reader import kept_reader
from ingest.options.delta import DeltaFeed
from ingest.options.kafka import KafkaFeed
from ingest.router import Routed
from ingest.spec import StreamSpec
from ingest.values.rows import Ints
from store.epochs.state.values import FileId, OffsetRange, Split
from store.errors import SettingsError
from store.io.fs import Fs
from store.layout import LocationKey
from store.types.model import TableSchema
from writers.target import SplitNotes

LATE = "the date was truncated or deleted; it takes no more rows"


@dataclass(frozen=True, slots=True)
class Decoder:
    """What a task calls for each split; goes to the workers by pickle."""

    fs: Fs
    spec: StreamSpec
    schema: TableSchema

    def __call__(self, split: Split, notes: SplitNotes) -> Iterable[tuple[LocationKey, pa.RecordBatch]]:
        """Routed batches in the order of the file; bad rows and counts go into ``notes``."""
        rejects = self._rejects(notes)
        for routed in self._routed(split, rejects):
            yield routed.key, routed.batch
        notes.reject(rejects.rows, rejects.bad)
        for name, amount in rejects.counts().items():
            notes.count(name, amount)

    def late(self, split: Split, keys: frozenset[LocationKey], notes: SplitNotes) -> int:
        """Rejects the rows of the split that belong to these locations, which take no more; how many they are."""
        rejects = self._rejects(notes)
        feed = self.spec.feed
        if isinstance(split, OffsetRange) and isinstance(feed, KafkaFeed):
            found = late_messages(kept_reader(feed), split, self.spec, feed, self.schema, keys, rejects)
        elif isinstance(split, OffsetRange) and isinstance(feed, DeltaFeed):
            found = late_in_versions(self.fs, split, self.spec, feed, self.schema, keys, rejects)
        elif isinstance(split, FileId):
            found = late_rows(self.fs, split, self.spec, self.schema, keys, rejects)
        else:
            raise _not_of_this_feed(split)
        notes.reject(rejects.rows, rejects.bad)
        for name, amount in rejects.counts().items():
            notes.count(name, amount)
        return found

    def _routed(self, split: Split, rejects: Rejects) -> Iterable[Routed]:
        feed = self.spec.feed
        if isinstance(split, OffsetRange) and isinstance(feed, KafkaFeed):
            return decode_range(kept_reader(feed), split, self.spec, feed, self.schema, rejects)
        if isinstance(split, OffsetRange) and isinstance(feed, DeltaFeed):
            return decode_versions(self.fs, split, self.spec, feed, self.schema, rejects)
        if isinstance(split, FileId):
            return decode_split(self.fs, split, self.spec, self.schema, rejects)
        raise _not_of_this_feed(split)

    def _rejects(self, notes: SplitNotes) -> Rejects:
        return Rejects(self.spec.bad_rows, sink=lambda rows: notes.keep_rejected(as_batch(rows)))


def _not_of_this_feed(split: Split) -> SettingsError:
    return SettingsError("a split is none that this feed has", where=split.path, expected="a split of the feed's type")


@dataclass(frozen=True, slots=True)
class FrameDecoder:
    """What a task calls for each batch of its rows of a data frame. ``closed`` are locations that take no more."""

    spec: StreamSpec
    schema: TableSchema
    closed: frozenset[LocationKey] = frozenset()
    clock: Callable[[], float] = time.time

    def __call__(
        self, batch: pa.RecordBatch, origin: str, numbers: Ints, unit: Literal["row", "offset"], notes: SplitNotes
    ) -> Iterable[tuple[LocationKey, pa.RecordBatch]]:
        """Routed rows; bad ones go into ``notes``."""
        rejects = Rejects(self.spec.bad_rows, sink=lambda rows: notes.keep_rejected(as_batch(rows)))
        rows = FrameRows(self.spec, self.schema, self.clock)
        for routed in rows.decode(batch, origin, numbers, unit, rejects, self.closed):
            yield routed.key, routed.batch
        notes.reject(rejects.rows, rejects.bad)
