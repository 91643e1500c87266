"""Files below a directory, as a feed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sparkhaven.ingest.bad_rows import SHOWN, Rejects
from sparkhaven.ingest.feeds.base import (
    PATIENCE_S,
    SILENT,
    Block,
    Clock,
    PlannedFeed,
    RequeuedRows,
    ResumeRules,
    Source,
    Trial,
    Waiting,
    WaitingCounts,
    try_rows,
)
from sparkhaven.ingest.feeds.files.discovery.path_pattern import missing_directory, split_pattern
from sparkhaven.ingest.feeds.files.discovery.skipped_files import OLDER_NAMED
from sparkhaven.ingest.feeds.files.header import remarks_on
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.feeds.files.planner import FilePlanner
from sparkhaven.ingest.feeds.files.settings import FilesFeedModel, files_options
from sparkhaven.ingest.sample_rows import Sample
from sparkhaven.ingest.spec.stream_spec import Target
from sparkhaven.ingest.spec.table_routes import TableRoutes
from sparkhaven.ingest.table_choice import TableRows
from sparkhaven.store.epochs.state.file_positions import FileWindow
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName
from sparkhaven.store.managed_trees.table_formats import refuse_managed, refuse_managed_above
from sparkhaven.store.quarantine.rejected_rows import RejectedRow
from sparkhaven.store.types.model import TableSchema

TRIED = 3  # files of a trial
WHOLE = 64 << 20  # bytes of a file that a trial reads whole


class FilesFeed(PlannedFeed[FilesOptions, FileId]):
    """Files, or parts of them, each taken once. Decoders are imported where they are used: DuckDB takes its time."""

    settings = FilesFeedModel

    @classmethod
    def read(cls, part: FilesFeedModel, base: Path, fs: Fs) -> FilesOptions:
        return files_options(part, base)

    @property
    def resume(self) -> ResumeRules:
        return ResumeRules(remember_s=self.options.max_file_age_s)

    def check(self, fs: Fs) -> None:
        """SettingsError for a directory that does not exist, unless the feed waits for it, or that a table manages."""
        root, _ = split_pattern(fs, self.options.path)
        if fs.stat(root) is None:
            if self.options.missing_directory != "wait":
                raise missing_directory(root, SettingsError)
            return
        refuse_managed_above(fs, root)
        refuse_managed(fs, root)

    def check_columns(self, targets: Sequence[Target]) -> None:
        """What a decoder of CSV refuses, before a task does."""
        options = self.options
        if options.format == "csv":
            from sparkhaven.ingest.formats.csv.csv_rows import CsvRows

            payload = [target for target in targets if target.meta is None]
            CsvRows(payload, self.spec.ignore, options.csv, missing=options.missing_columns)

    def source(self, root: Path, tasks: int) -> Source:
        from sparkhaven.ingest.feeds.files.source import FilesSource, source_options

        (first, *beside), stream = self.spec.fed_tables, self.spec.stream
        table, parts = TableName.parse(first), self.options.can_be_cut(self.spec.partition.clock)
        options = source_options(root, table, stream, self.options, tasks=tasks, parts=parts, beside=beside)
        return Source(FilesSource, options)

    def waiting(self, fs: Fs, state: StreamState | None, patience: float = PATIENCE_S) -> Waiting:
        self.check(fs)
        planner = FilePlanner(fs, self.options, state.files if state else FileWindow(), time.time)
        planner.look()
        files, size = planner.waiting()
        remarks = [remark for file in planner.first(1) for remark in remarks_on(fs, file, self.options)]
        passed = planner.passed().to_json()
        older = [file.path for file in planner.older()]
        counts = WaitingCounts(
            waiting_files=files,
            waiting_bytes=size,
            older_files=len(older),
            older=older[-OLDER_NAMED:],
            passed=passed,
            remarks=remarks,
        )
        return Waiting(counts, f"{files:,} files, {size:,} bytes", bytes=size, nothing=not files)

    def trial(self, fs: Fs, state: StreamState | None, schema: TableSchema) -> Trial | None:
        """The beginnings of the first files. Where the newest row of a file is the clock, large ones are left out."""
        planner = FilePlanner(fs, self.options, state.files if state else FileWindow(), time.time)
        planner.look()
        whole = self.spec.partition.clock.kind == "batch"
        files = [file for file in planner.first(TRIED) if not whole or file.size <= WHOLE]
        rejects = Rejects(SILENT, keep=SHOWN, frozen=self.spec.contract == "freeze")
        return try_rows((self.decode(fs, file, schema, rejects, time.time) for file in files), rejects)

    def decode(self, fs: Fs, split: FileId, schema: TableSchema, rejects: Rejects, clock: Clock) -> Iterator[Block]:
        from sparkhaven.ingest.feeds.files.decode import file_blocks

        if (routes := self.spec.routes) is not None:
            return self.own_blocks(fs, split, TableRows(self.spec, schema, rejects), routes, clock)
        return file_blocks(fs, split, self.spec, self.options, schema, rejects, clock)

    def decode_tables(
        self, fs: Fs, split: FileId, tables: Mapping[int, TableRows], routes: TableRoutes, clock: Clock
    ) -> Iterator[tuple[int, Block]]:
        from sparkhaven.ingest.feeds.files.decode import file_table_blocks

        return file_table_blocks(fs, split, tables, routes, self.options, clock)

    @classmethod
    def sample(cls, fs: Fs, options: FilesOptions, rows: int) -> Sample:
        from sparkhaven.ingest.feeds.files.sample import sample_files

        return sample_files(fs, options, rows)

    def requeue(
        self, source: str, rows: Sequence[RejectedRow], targets: Sequence[Target], now_ns: int, rejects: Rejects
    ) -> RequeuedRows:
        from sparkhaven.ingest.feeds.files.requeue import requeue_file_rows

        return requeue_file_rows(source, rows, self.spec, self.options, targets, now_ns, rejects)
