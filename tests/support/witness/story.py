"""A small database in which every kind of file of the tree exists, at three times: older, now, newer.

One table, three streams, five dates. Rows follow from their number, so a value that is wrong, lost or doubled shows.
``DONE`` is merged and its intraday rows are truncated, those of one source deleted as well; ``MERGED`` is merged and
still lies in both tiers; ``PARQUET`` likewise, its history as Parquet; ``OPEN`` is intraday. All rows of ``PAST`` are
in history: the stream ``REMOVED`` wrote them, and was removed before each of the three times. Two other tables have
trees beside their history (``beside``), and one was dropped (``apart``). Feed files go through the real decoder and
the real writer, in this process; the rest are commands.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.spec import BadRowBudget, InternalRule, PartitionSpec, StreamSpec, ValueRule
from sparkhaven.jobs.streams.decoding import Decoder
from sparkhaven.jobs.streams.stream_run import ErrorBudget
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.schema.deployed.deploy import deploy, load_deployed
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import BatchRequest, write_batch
from sparkhaven.writers.quarantine.changes import follow_log
from sparkhaven.writers.task import StreamTarget
from tests.support.commands import run
from tests.support.streams.stream_kit import LocalExecutor
from tests.support.streams.stream_logs import open_stream_log
from tests.support.witness.apart import GONE, create
from tests.support.witness.beside import LAYOUTS, add_tables
from tests.support.writers.quarantine_cases import quarantine_at

TABLE = TableName("Test", "Event")
STREAM, OTHER, REMOVED = "feed", "other", "gone"
PAST, PARQUET, DONE, MERGED, OPEN = "2026-11-16", "2026-11-17", "2026-11-18", "2026-11-19", "2026-11-20"
NEVER = "2026-11-21"  # a date of its own, in the newer tree only
SCHEMA = b"""<Table namespace="Test" name="Event" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Src" dataType="String"/>
  <Column name="Sym" dataType="String" columnType="Grouping"/>
  <Column name="N" dataType="long"/>
  <Column name="Half" dataType="double"/>
  <Column name="Note" dataType="String" symbolTable="None"/>
</Table>
"""
GROUPS = 300  # so many that their ranges do not fit the prefix of a column file
Row = dict[str, Any]


def row(number: int, source: str, date: str) -> Row:
    """A row whose columns follow from its number."""
    return {
        "Date": date,
        "Src": source,
        "Sym": f"group number {number % GROUPS}",
        "N": number,
        "Half": number / 2,
        "Note": None if number % 4 == 1 else "é" * (number % 3) + str(number),
    }


def rows(numbers: Iterable[int], source: str, date: str) -> list[Row]:
    """Rows of one location."""
    return [row(number, source, date) for number in numbers]


def spec(stream: str, date: str) -> StreamSpec:
    """JSON lines by ``Src`` into one date."""
    partition = PartitionSpec(InternalRule("column", "Src"), ValueRule(fixed=date))
    return StreamSpec(
        stream, str(TABLE), FilesOptions("/feed"), partition, ignore=("Date",), bad_rows=BadRowBudget(1000, 1.0)
    )


@dataclass(slots=True)
class Writer:
    """Streams of the table below ``root``, opened for one batch at a time as a job that is started and ended."""

    root: Path
    fs: Fs

    def take(self, number: int, given: Sequence[Row], *, stream: str = STREAM, keep_epochs: int = 3) -> None:
        """One feed file with ``given`` rows of one date, and one whose number is none, as one epoch."""
        feed = self.root.parent / f"{self.root.name}-feed" / stream
        feed.mkdir(parents=True, exist_ok=True)
        path = feed / f"{number}.json"
        bad = {**given[0], "N": "none"}
        sent = [*given, bad] if stream == STREAM else given
        path.write_text("".join(json.dumps(each) + "\n" for each in sent))
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        found = path.stat()
        date = str(given[0]["Date"])
        with self.open(stream, keep_epochs) as log:
            self._batch(log, spec(stream, date), FileId(str(path), found.st_size, found.st_mtime_ns), number)
            log.compact_if_due()
            log.write_head()

    def open(self, stream: str = STREAM, keep_epochs: int = 3) -> StreamLog:
        """The stream, recovered as a start of a job does."""
        layout = Layout(self.root)
        schema = load_deployed(TablePlace(self.fs, layout, TABLE))
        log = open_stream_log(
            StreamPlace(self.fs, layout, TABLE, stream), schema, keep_epochs=keep_epochs, compact_bytes=1
        )
        try:
            follow_log(TablePlace(self.fs, layout, TABLE), log.state)
            if stream == STREAM:
                quarantine_at(self.fs, self.root).settle([])
        except BaseException:
            log.close()
            raise
        return log

    def _batch(self, log: StreamLog, given: StreamSpec, file: FileId, number: int) -> None:
        layout = Layout(self.root)
        schema = load_deployed(TablePlace(self.fs, layout, TABLE))
        target = StreamTarget(layout, TABLE, given.stream, schema, log.state.generation)
        decoder = Decoder(self.fs, given, schema)
        write_batch(
            self.fs,
            log,
            target,
            WorkerCache(),
            BatchRequest(
                LocalExecutor(self.fs, target, [[file]], decoder=decoder),
                query_id="query",
                batch_id=number,
                proposed=[file],
                check_budget=ErrorBudget(given.bad_rows),
                quarantine=quarantine_at(self.fs, self.root).add if given.stream == STREAM else None,
                decode=decoder,
            ),
        )


def command(root: Path, *words: str) -> None:
    """A command that must succeed."""
    found = run(root, *words)
    assert found.exit_code == 0, f"{words}: {found.output} {found.exception!r}"


def merge_beside(root: Path, date: str) -> None:
    """Merges a date of the tables with trees beside their history."""
    for table in LAYOUTS:
        command(root, "merge", str(table), "--date", date, "--local", "--workers", "1")


def write_and_remove(writer: Writer, number: int) -> None:
    """A stream that writes ten rows, whose rows are merged and deleted, and which is then removed."""
    day = (str(TABLE), "--date", PAST)
    writer.take(number, removed_rows(number), stream=REMOVED)
    command(writer.root, "merge", *day, "--local", "--workers", "1")
    command(writer.root, "validate", *day)
    command(writer.root, "truncate", *day)
    command(writer.root, "delete", *day, "--grace", "0")
    command(writer.root, "streams", "remove", str(TABLE), REMOVED)


def removed_rows(number: int) -> list[Row]:
    """The rows of the n-th stream of the name ``REMOVED``."""
    return rows(range(800 + number * 10, 810 + number * 10), "g", PAST)


def begin(root: Path, fs: Fs) -> Writer:
    """The older tree: every kind of file is there."""
    root.mkdir(parents=True)
    deploy(fs, Layout(root), SCHEMA)
    writer = Writer(root, fs)
    command(root, "partitions", "add", "Test", "0")
    add_tables(root, (DONE, MERGED, OPEN))
    merge_beside(root, DONE)
    create(root, GONE, DONE, range(20))
    command(root, "drop", str(GONE), "--yes", "--grace", "0")
    create(root, GONE, DONE, range(20, 40))
    command(root, "drop", str(GONE), "--yes")
    writer.take(0, rows(range(700, 740), "a", PARQUET))
    writer.take(1, rows(range(400), "a", DONE) + rows(range(400, 410), "b", DONE))
    writer.take(1, rows(range(9000, 9010), "z", OPEN), stream=OTHER)
    writer.take(2, rows(range(410, 420), "a", MERGED))
    writer.take(3, rows(range(420, 430), "a", OPEN) + rows(range(430, 440), "b", OPEN))
    command(root, "merge", str(TABLE), "--date", DONE, "--local", "--workers", "1")
    command(root, "merge", str(TABLE), "--date", PARQUET, "--local", "--workers", "1", "--format", "parquet")
    command(root, "validate", str(TABLE), "--date", DONE)
    command(root, "truncate", str(TABLE), "--date", DONE, "--source", "a")
    write_and_remove(writer, 0)
    for number in range(4, 8):  # past the rollback floor, so that there is a checkpoint
        writer.take(number, rows(range(400 + number * 10, 410 + number * 10), "a", OPEN))
    return writer


def go_on(writer: Writer) -> None:
    """From the older tree to that of now."""
    root = writer.root
    command(root, "merge", str(TABLE), "--date", MERGED, "--local", "--workers", "1")
    command(root, "validate", str(TABLE), "--date", MERGED)
    merge_beside(root, MERGED)
    for number in range(8, 12):
        writer.take(number, rows(range(400 + number * 10, 410 + number * 10), "a", OPEN))
    writer.take(12, rows(range(520, 530), "c", OPEN))
    writer.take(2, rows(range(9010, 9020), "z", OPEN), stream=OTHER)
    write_and_remove(writer, 1)
    command(root, "truncate", str(TABLE), "--date", DONE)
    command(root, "delete", str(TABLE), "--date", DONE, "--source", "a", "--grace", "0")


def go_further(writer: Writer) -> None:
    """From the tree of now to the newer one."""
    root = writer.root
    for number in range(13, 17):
        writer.take(number, rows(range(400 + number * 10, 410 + number * 10), "a", OPEN))
    writer.take(17, rows(range(570, 580), "d", OPEN))
    writer.take(18, rows(range(580, 590), "a", NEVER))
    writer.take(3, rows(range(9020, 9030), "z", OPEN), stream=OTHER)
    write_and_remove(writer, 2)
    command(root, "truncate", str(TABLE), "--date", MERGED)
    command(root, "merge", str(TABLE), "--date", OPEN, "--local", "--workers", "1")
    merge_beside(root, OPEN)
    command(root, "drop", str(GONE), "--yes", "--grace", "0")


def expected(tier: str = "all") -> list[Row]:
    """Every row of the tree of now, in the order of its number."""
    done = rows(range(400), "a", DONE) + rows(range(400, 410), "b", DONE) + removed_rows(0) + removed_rows(1)
    found = rows(range(410, 420), "a", MERGED) + rows(range(420, 430), "a", OPEN) + rows(range(430, 440), "b", OPEN)
    found += rows(range(440, 520), "a", OPEN) + rows(range(520, 530), "c", OPEN) + rows(range(9000, 9020), "z", OPEN)
    found += rows(range(700, 740), "a", PARQUET)
    return found if tier == "intraday" else sorted(done + found, key=lambda each: int(each["N"]))


def read_rows(root: Path, tier: str) -> list[Row]:
    """Rows of the newest snapshot in the order of their number; raises what a reader raises."""
    columns = ["Date", "Src", "Sym", "N", "Half", "Note"]
    table: pa.Table = open_table(root, str(TABLE)).to_arrow(columns, tier=tier)
    return sorted(table.to_pylist(), key=lambda each: (each["N"] is None, each["N"]))
