"""Where a table, or one stream of it, is stored: file system, root and name, which travel as one value."""

from __future__ import annotations

from pathlib import Path

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.types.frozen import frozen


@frozen
class TablePlace:
    """A table below a database root; its paths are those of ``Layout``."""

    fs: Fs
    layout: Layout
    table: TableName

    def of_stream(self, stream: str) -> StreamPlace:
        """The place of one stream of the table."""
        return StreamPlace(self.fs, self.layout, self.table, stream)

    @property
    def schema(self) -> Path:
        """The deployed schema."""
        return self.layout.schema(self.table)

    @property
    def schema_history(self) -> Path:
        """Versions of the schema."""
        return self.layout.schema_history(self.table)

    @property
    def intraday(self) -> Path:
        """Root of the intraday partitions."""
        return self.layout.intraday(self.table)

    def intraday_location(self, key: LocationKey) -> Path:
        """Leaf directory of one intraday location."""
        return self.layout.intraday_location(self.table, key)

    @property
    def set_aside(self) -> Path:
        """Notes about damaged locations that were set aside."""
        return self.layout.set_aside(self.table)

    @property
    def streams(self) -> Path:
        """Directory of commit logs, checkpoints and locks."""
        return self.layout.streams(self.table)

    @property
    def partitions(self) -> Path:
        """Where readers find the storage partitions of the namespace."""
        return self.layout.partitions(self.table.namespace)

    def history_location(self, key: LocationKey) -> Path:
        """Leaf directory of one historical location."""
        return self.layout.history_location(self.table, key)

    @property
    def metadata_index(self) -> Path:
        """Location index of the history."""
        return self.layout.metadata_index(self.table)

    @property
    def extended(self) -> Path:
        """Tree of the history in its extended layout."""
        return self.layout.extended(self.table)

    @property
    def merges(self) -> Path:
        """Merge plans, records, proofs and tombstones."""
        return self.layout.merges(self.table)


@frozen
class StreamPlace(TablePlace):
    """One stream of a table; stands for its table too."""

    stream: str

    @property
    def stream_log(self) -> Path:
        """Commit log."""
        return self.layout.stream_log(self.table, self.stream)

    @property
    def stream_checkpoint(self) -> Path:
        """Compacted state at the rollback floor."""
        return self.layout.stream_checkpoint(self.table, self.stream)

    @property
    def stream_head(self) -> Path:
        """Cached state at a recent epoch."""
        return self.layout.stream_head(self.table, self.stream)

    @property
    def stream_lock(self) -> Path:
        """Lock and lock owner."""
        return self.layout.stream_lock(self.table, self.stream)

    @property
    def stream_removals(self) -> Path:
        """Log of truncated and deleted locations."""
        return self.layout.stream_removals(self.table, self.stream)

    @property
    def stream_quarantine(self) -> Path:
        """Ledger of the quarantine."""
        return self.layout.stream_quarantine(self.table, self.stream)

    @property
    def stream_removed(self) -> Path:
        """Note about a removed stream of this name."""
        return self.layout.stream_removed(self.table, self.stream)

    @property
    def scratch(self) -> Path:
        """Scratch files of running batches."""
        return self.layout.scratch(self.table, self.stream)

    @property
    def former_scratch(self) -> Path:
        """Where scratch files were until release 0.1."""
        return self.layout.former_scratch(self.table, self.stream)

    @property
    def spark_checkpoint(self) -> Path:
        """Spark's own checkpoint."""
        return self.layout.spark_checkpoint(self.table, self.stream)

    @property
    def requeues(self) -> Path:
        """Files of requeued rows."""
        return self.layout.requeues(self.table, self.stream)
