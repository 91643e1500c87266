"""Runs of a feed with several tables, without Spark, over a file system that may die: a way for each kind of feed."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console

from sparkhaven.jobs.settings.stream_file import load_stream_tables
from sparkhaven.jobs.streams.progress import Progress
from sparkhaven.jobs.streams.runners import LocalRunner, Runner
from sparkhaven.jobs.streams.stream import Application, RunOptions, open_stream, run_one
from sparkhaven.jobs.streams.stream_run import StreamGroup
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from tests.support.ingest.several_tables import Row, put_json, write_stream


@dataclass
class TableRuns:
    """A feed of one kind below ``base``, and runs that ingest what is in it."""

    base: Path
    kind: str
    tables: Sequence[str]
    feed: str = ""
    """Keys of ``[feed]`` of a kind of its own, which the test fills."""
    where: Mapping[str, str] | None = None
    runner: Runner = field(default_factory=partial(LocalRunner, once=True))

    def put(self, number: int, rows: Sequence[Row]) -> None:
        """Adds rows: a file, or records behind those that are there."""
        if self.kind == "files":
            put_json(self.base / "feed", f"{number}.json", rows, 1000 + number)
            return
        with closing(sqlite3.connect(self.base / "feed.db")) as database, database:
            names = ("kind", "Sym", "At", "Price", "Size", "Bid", "Ask")
            columns = ", ".join(names)
            database.execute(f"CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, {columns})")
            marks = ", ".join("?" * len(names))
            values = [tuple(row.get(name) for name in names) for row in rows]
            database.executemany(f"INSERT INTO rows ({columns}) VALUES ({marks})", values)

    def settings(self, most: int) -> Path:
        """The stream file; a batch has at most so many files, or records."""
        if self.kind == "files":
            feed = f'type = "files"\npath = "{self.base}/feed"\nformat = "json"\nsettle = "0s"\n'
            feed += f"max_per_trigger = {{ files = {most} }}"
        elif self.feed:
            feed = f"{self.feed}\nmax_per_trigger = {{ rows = {most} }}"
        else:
            feed = f'type = "examples.sqlite_feed:SqliteFeed"\npath = "{self.base}/feed.db"\ntable = "rows"\n'
            feed += f"max_per_trigger = {{ rows = {most} }}"
        return write_stream(self.base, feed, tables=self.tables, where=self.where)

    def run(self, fs: Fs, root: Path, most: int) -> list[int]:
        """Ingests all that is there; the rows of each table. An error of the run is raised."""
        layout, progress = Layout(root), Progress(console=Console(quiet=True))
        with ExitStack() as opened:
            streams = load_stream_tables(Fs(), self.settings(most), {})
            runs = [open_stream(fs, layout, settings, opened, progress) for settings in streams]
            app = Application(fs, layout, self.runner, RunOptions(once=True), progress, threading.Event())
            run_one(app, StreamGroup(runs))
            for run in runs:
                if run.error is not None:
                    raise run.error
            return [0 if run.totals is None else run.totals.rows for run in runs]
