"""A Delta table that is followed by version, as a feed.

Also here: the model of ``[feed]`` with type delta, and the options that it stands for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.feeds.base import (
    PATIENCE_S,
    Block,
    Clock,
    RequeuedRows,
    Source,
    TablesFeed,
    Waiting,
    WaitingCounts,
)
from sparkhaven.ingest.feeds.delta.planner import DeltaOptions
from sparkhaven.ingest.router import TableRows
from sparkhaven.ingest.sample_rows import Sample
from sparkhaven.ingest.settings import MaxPerTrigger, PathText, SettingsModel, beside
from sparkhaven.ingest.spec import MissingColumns, TableRoutes, Target
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import counted
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName
from sparkhaven.store.quarantine.rejected_rows import RejectedRow


class DeltaFeedModel(SettingsModel):
    """``[feed]`` with type delta."""

    type: Literal["delta"]
    """Feed of a Delta table, followed by version."""
    path: PathText
    """Directory of the Delta table; relative to the stream file."""
    start_version: int | None = Field(default=None, ge=0)
    """First version to ingest. Default: what the table holds now, then each later version."""
    max_per_trigger: MaxPerTrigger = MaxPerTrigger(bytes=256_000_000)
    """Largest batch: the smallest of the limits given."""
    ignore_changes: bool = False
    """Versions that rewrite or delete rows: ingest the files that they add, instead of stopping. Copied rows then come
    twice.
    """
    missing_columns: MissingColumns = "fail"
    """A stored column that neither a data file nor the table declares: refused, or null."""
    binary_as_text: bool = False
    """Columns of bytes are texts in UTF-8."""


def delta_options(feed: DeltaFeedModel, base: Path) -> DeltaOptions:
    """The options of a checked ``[feed]``; a relative path starts from ``base``."""
    return DeltaOptions(
        str(beside(base, feed.path)),
        feed.start_version,
        feed.max_per_trigger.limit,
        feed.ignore_changes,
        feed.missing_columns,
        feed.binary_as_text,
    )


class DeltaFeed(TablesFeed[DeltaOptions, OffsetRange]):
    """Ranges of data files, in the order of versions. Decoders are imported where they are used."""

    settings = DeltaFeedModel

    @classmethod
    def read(cls, part: DeltaFeedModel, base: Path, fs: Fs) -> DeltaOptions:
        return delta_options(part, base)

    def source(self, root: Path, tasks: int) -> Source:
        from sparkhaven.ingest.feeds.delta.source import DeltaStream, delta_source

        table, *beside = map(TableName.parse, self.spec.fed_tables)
        stream = DeltaStream(root, table, self.spec.stream, self.options, tasks, tuple(beside))
        return Source(delta_source(stream), {})

    def waiting(self, fs: Fs, state: StreamState | None, patience: float = PATIENCE_S) -> Waiting:
        from sparkhaven.ingest.feeds.delta.planner import DeltaPlanner

        end = state.offsets.versions if state else None
        versions = DeltaPlanner(fs, self.options, end)
        versions.look()
        files, size = versions.waiting()
        counts = WaitingCounts(waiting_files=files, waiting_bytes=size)
        return Waiting(counts, f"{counted(files, 'data file')}, {counted(size, 'byte')}", bytes=size)

    def blocks(
        self, fs: Fs, split: OffsetRange, tables: Mapping[int, TableRows], routes: TableRoutes | None, clock: Clock
    ) -> Iterator[tuple[int, Block]]:
        from sparkhaven.ingest.feeds.delta.source import version_blocks

        return version_blocks(fs, split, tables, routes, self.options, clock)

    @classmethod
    def sample(cls, fs: Fs, options: DeltaOptions, rows: int) -> Sample:
        from sparkhaven.ingest.feeds.delta.source import sample_table

        return sample_table(fs, options, rows)

    def requeue(
        self, source: str, rows: Sequence[RejectedRow], targets: Sequence[Target], now_ns: int, rejects: Rejects
    ) -> RequeuedRows:
        from sparkhaven.ingest.feeds.delta.source import data_files, path_of
        from sparkhaven.ingest.feeds.files.decode import requeue_file_rows
        from sparkhaven.ingest.feeds.files.formats.decoding import Decoding

        decoding = Decoding(self.spec, data_files(self.options), tuple(targets), strict=self.spec.strict)
        return requeue_file_rows(source, rows, decoding, now_ns, rejects, path_of(source))
