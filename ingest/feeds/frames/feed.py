"""Rows that a query hands over, as a feed: nothing is planned, Spark brings every batch to its task."""

from __future__ import annotations

from collections.abc import Iterator

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.feeds.base import Block, Clock, Feed, ResumeRules
from sparkhaven.ingest.feeds.frames.frame_rows import frame_blocks
from sparkhaven.ingest.feeds.frames.options import FrameBatch, FramesOptions
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.model import TableSchema


class FramesFeed(Feed[FramesOptions, FrameBatch]):
    """Batches of a data frame, with settings that ``fit_frame`` has made."""

    @property
    def resume(self) -> ResumeRules:
        return ResumeRules(self.options.allow_gap)

    def decode(self, fs: Fs, split: FrameBatch, schema: TableSchema, rejects: Rejects, clock: Clock) -> Iterator[Block]:
        return frame_blocks(split, self.spec, schema, rejects, clock)
