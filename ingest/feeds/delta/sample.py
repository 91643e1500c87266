"""Rows of a Delta table as it is now, as they stand in its data files."""

from __future__ import annotations

from pathlib import Path

from sparkhaven.ingest.feeds.delta.decode import data_files
from sparkhaven.ingest.feeds.delta.errors import file_gone
from sparkhaven.ingest.feeds.delta.options import DeltaOptions
from sparkhaven.ingest.feeds.delta.partition_values import partition_values
from sparkhaven.ingest.feeds.delta.snapshot import look, snapshot
from sparkhaven.ingest.feeds.files.formats.decoding import KnownFile
from sparkhaven.ingest.feeds.files.sample import sample_of
from sparkhaven.ingest.formats.parquet.file_constants import FileConstants
from sparkhaven.ingest.sample_rows import Sample
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.errors import FeedError
from sparkhaven.store.io.fs import Fs


def sample_table(fs: Fs, options: DeltaOptions, rows: int) -> Sample:
    """At most so many rows of the newest version, about as many of each of some data files."""
    table = Path(options.path)
    view = look(fs, table)
    latest = view.latest
    files: list[tuple[FileId, KnownFile]] = []
    for added in snapshot(fs, table, latest):
        stat = fs.stat(Path(added.path))
        if stat is None:
            raise file_gone(Path(added.path), latest)
        file = FileId(added.path, added.size, stat.mtime_ns)
        values = partition_values(fs, file, dict(added.values), lambda: view.metadata.columns)
        files.append((file, KnownFile(constants=FileConstants(values), utc96=True)))
    if not files:
        raise FeedError(
            "the Delta table has no rows to infer from",
            where=table,
            expected="at least one data file",
            found=f"none at version {latest}",
            hint="wait for rows, or write the schema by the columns of the table",
        )
    return sample_of(fs, files, data_files(options), rows)
