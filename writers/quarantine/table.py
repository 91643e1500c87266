"""The quarantine (dead-letter table): a Delta table of rejected rows, one row per source position.

=====================================  =================================================================================
``Namespace``, ``TableName``,          owner of the row; with ``SourcePartition`` and ``Position`` the key. A retried
``Stream``                             batch adds its rows by an insert-only merge on the key and ``SourceTime``, so
                                       no duplicates, while a recreated topic, or a new file of an old name, has
                                       other rows at the same positions. Rows of an epoch that the ledger did not
                                       know are appended, in the same time however many there are already
the columns of ``store.rejected``      position, reason, what was expected and found, the row as received
``Epoch``                              the epoch to be committed when the row was written. If the commit log lacks that
                                       epoch, the row does not count: its batch failed or was rolled back, and the
                                       source is read again. See ``writers.quarantine.ledger``
``Time``                               when it was written
``RequeuedEpoch``, ``RequeuedTime``    the epoch that requeued it successfully; null while it is pending
=====================================  =================================================================================

All writers lock the table's directory, because on a local file system Delta does not prevent two writers from creating
the same version. Spark does not sync what it writes; this module does before a call returns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from store.epochs.files.ledger import Ledger, read_ledger, write_ledger
from store.errors import CommitError
from store.io.fs import Fs
from store.layout import Layout, TableName
from store.rejected import REJECTED, decode_rejected
from store.types.frozen import frozen
from writers.quarantine.ledger import Requeue
from writers.spark.paths import local_pattern, local_uri
from writers.spark.tasks import error_summary
from writers.target import RejectedFile

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

OWNER = ("Namespace", "TableName", "Stream")
KEY = (*OWNER, "SourcePartition", "Position")
SPARK_TYPES = {pa.string(): "string", pa.int64(): "bigint", pa.binary(): "binary"}
REJECTED_DDL = ", ".join(f"`{field.name}` {SPARK_TYPES[field.type]}" for field in REJECTED)
DDL = (
    f"{', '.join(f'{name} string' for name in OWNER)}, {REJECTED_DDL}, "
    "Epoch bigint, Time timestamp, RequeuedEpoch bigint, RequeuedTime timestamp"
)
PROPERTIES = {
    "delta.enableDeletionVectors": "false",  # so that any reader of Delta can read it
    "delta.autoOptimize.autoCompact": "true",  # with one file per batch, merges would become slower and slower
}
State = Literal["all", "pending", "requeued"]


@frozen
class Chosen:
    """A filter of rows, its fields joined by AND. ``source`` may have ``*``."""

    reason: str | None = None
    source: str | None = None
    epoch: int | None = None
    state: State = "all"


class Quarantine:
    """The quarantine of one stream. ``place`` is a local directory, created with the first row.

    ``open_session`` returns the session with Delta; it is asked whenever the table is read or written, not before.
    """

    def __init__(
        self,
        open_session: Callable[[], SparkSession],
        fs: Fs,
        layout: Layout,
        table: TableName,
        stream: str,
        place: Path,
        *,
        clock: Callable[[], float],
        file: str = "",
    ) -> None:
        self._open_session, self._fs, self.place, self._clock, self._file = open_session, fs, place, clock, file
        self._owner = (table.namespace, table.table, stream)
        self._ledger = layout, table, stream

    @property
    def _spark(self) -> SparkSession:
        return self._open_session()

    @property
    def exists(self) -> bool:
        """Whether a row was ever written."""
        return self._fs.stat(self.place / "_delta_log") is not None

    # --- writing ---------------------------------------------------------------------------------------

    def add(self, files: Sequence[RejectedFile], epoch: int) -> None:
        """Adds the rejected rows of a batch whose epoch is committed next; durable when it returns."""
        from pyspark.sql import functions as f

        source = self._spark.read.schema(REJECTED_DDL).parquet(*(local_pattern(file.path) for file in files))
        owner = [f.lit(value).alias(name) for name, value in zip(OWNER, self._owner, strict=True)]
        nothing = f.lit(None)
        rows = source.select(
            *owner,
            *(f.col(field.name) for field in REJECTED),
            f.lit(epoch).cast("bigint").alias("Epoch"),
            self._now().alias("Time"),
            nothing.cast("bigint").alias("RequeuedEpoch"),
            nothing.cast("timestamp").alias("RequeuedTime"),
        )
        with self._writing() as table:
            if self.announce(epoch):
                rows.write.format("delta").mode("append").save(local_uri(self.place))
            else:
                merge = table.alias("t").merge(rows.alias("s"), self._match())
                merge.whenNotMatchedInsertAll().execute()

    def announce(self, epoch: int) -> bool:
        """Records in the ledger that the quarantine may have rows of this epoch; whether it surely has none yet.

        A batch that failed has announced its epoch, and so has a process that is fenced off and goes on.
        """
        known = read_ledger(self._fs, *self._ledger)
        ledger = known or Ledger()
        noted = replace(ledger, place=str(self.place), file=self._file, newest=max(ledger.newest, epoch))
        if noted != ledger:
            write_ledger(self._fs, *self._ledger, noted)
        return known is not None and epoch > known.newest

    def settle(self, committed: Sequence[Requeue]) -> None:
        """Applies the pending changes of the ledger, and marks committed requeues that are not marked yet."""
        for requeue in committed:
            self.mark(requeue)
        ledger = read_ledger(self._fs, *self._ledger)
        if ledger is None or not ledger.dead:
            return
        with self._fs.during("quarantine-settle"):
            self._remove_dead(ledger.dead)
        named = replace(ledger, place=ledger.place or str(self.place), file=ledger.file or self._file)
        write_ledger(self._fs, *self._ledger, replace(named, dead=()))

    # --- reading, requeueing, dropping -------------------------------------------------------------------

    def select(self, chosen: Chosen) -> DataFrame:
        """Matching rows of the stream, by source and position."""
        rows = self._spark.read.format("delta").load(local_uri(self.place)).where(self._mine())
        return rows.where(_fits(chosen)).orderBy("SourcePartition", "Position")

    def mark(self, requeue: Requeue) -> None:
        """Marks the rows of a committed requeue, durably, and removes its file; idempotent."""
        from pyspark.sql import functions as f

        with self._fs.during("quarantine-mark"):
            keys = self._spark.read.schema(REJECTED_DDL).parquet(local_pattern(requeue.path))
            owner = [f.lit(value).alias(name) for name, value in zip(OWNER, self._owner, strict=True)]
            source = keys.select(*owner, "SourcePartition", "Position", "SourceTime")
            done = {"RequeuedEpoch": f.lit(requeue.epoch).cast("bigint"), "RequeuedTime": self._now()}
            with self._writing() as table:
                merge = table.alias("t").merge(source.alias("s"), self._match())
                merge.whenMatchedUpdate(condition="t.RequeuedEpoch IS NULL", set=done).execute()
        self._fs.unlink(requeue.path)

    def drop(self, chosen: Chosen, after: int | None = None) -> int:
        """Deletes matching rows, except those of epochs ``after`` the newest committed one; returns how many."""
        with self._writing() as table:
            condition = self._mine() & _fits(chosen)
            if after is not None:
                condition = condition & ~_between("Epoch", after, None)
            found: int = table.toDF().where(condition).count()
            if found:
                table.delete(condition)
        return found

    # --- inside ----------------------------------------------------------------------------------------

    def _remove_dead(self, dead: Sequence[tuple[int, int]]) -> None:
        """Removes the rows of dead epochs, and the marks of requeues by them."""
        from pyspark.sql import functions as f

        if not self.exists:
            return
        with self._writing() as table:
            for after, upto in dead:
                table.delete(self._mine() & _between("Epoch", after, upto))
                again = self._mine() & _between("RequeuedEpoch", after, upto)
                table.update(again, {"RequeuedEpoch": f.lit(None), "RequeuedTime": f.lit(None)})

    def _mine(self) -> Column:
        from pyspark.sql import functions as f

        namespace, table, stream = self._owner
        return (f.col("Namespace") == namespace) & (f.col("TableName") == table) & (f.col("Stream") == stream)

    def _match(self) -> str:
        literals = (f"t.{n} = '{value}'" for n, value in zip(OWNER, self._owner, strict=True))
        return " AND ".join((*(f"t.{name} = s.{name}" for name in KEY), "t.SourceTime <=> s.SourceTime", *literals))

    def _now(self) -> Column:
        from pyspark.sql import functions as f

        return f.timestamp_micros(f.lit(round(self._clock() * 1e6)))

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        """The Delta table, locked against other writers; syncs what was written at the end."""
        from delta.tables import DeltaTable
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        fs, log = self._fs, self.place / "_delta_log"
        fs.keep_dirs(self.place, self.place.parent.parent)
        lock = fs.lock(self.place, wait=True)
        try:
            before = frozenset(fs.names(log))
            if not self.exists:
                builder = DeltaTable.createIfNotExists(self._spark).location(local_uri(self.place))
                for name, value in PROPERTIES.items():
                    builder = builder.property(name, value)
                builder.addColumns(_schema(self._spark)).execute()
            yield DeltaTable.forPath(self._spark, local_uri(self.place))
            with fs.during("quarantine-sync"):
                sync_delta(fs, self.place, before)
        except (PySparkException, Py4JError) as error:
            raise CommitError(
                "the quarantine cannot be written",
                where=self.place,
                found=error_summary(error),
                hint="free space or repair the table, then restart; nothing of a running batch was committed",
            ) from error
        finally:
            if lock is not None:
                lock.release()


def sync_delta(fs: Fs, place: Path, before: frozenset[str]) -> None:
    """Syncs what was added to a local Delta table since its log had the names ``before``."""
    log = place / "_delta_log"
    fresh = [name for name in fs.names(log) if name not in before]
    paths = [log / name for name in (*fresh, "_last_checkpoint")]
    for name in fresh:
        if name.endswith(".json"):
            actions = (json.loads(line) for line in fs.read(log / name).splitlines() if line.strip())
            paths.extend(place / action["add"]["path"] for action in actions if "add" in action)
    stats = {path: fs.stat(path) for path in paths}
    fs.sync([path for path, stat in stats.items() if stat is not None and not stat.is_dir])
    fs.sync_dirs([place, log])


def requeued_rows(fs: Fs, requeue: Requeue) -> list[tuple[str, int]]:
    """Source partition and position of the rows of a requeue."""
    table = decode_rejected(fs.read(requeue.path))
    return list(zip(table["SourcePartition"].to_pylist(), table["Position"].to_pylist(), strict=True))


def _schema(spark: SparkSession) -> Any:
    return spark.createDataFrame([], DDL).schema


def _between(name: str, after: int, upto: int | None) -> Column:
    from pyspark.sql import functions as f

    return f.col(name) > after if upto is None else (f.col(name) > after) & (f.col(name) <= upto)


def _fits(chosen: Chosen) -> Column:
    from pyspark.sql import functions as f

    found = f.lit(True)
    if chosen.reason is not None:
        found = found & (f.col("Reason") == chosen.reason)
    if chosen.source is not None:
        pattern = "".join(".*" if part == "*" else _quoted(part) for part in _split_stars(chosen.source))
        found = found & f.col("SourcePartition").rlike(f"^{pattern}$")
    if chosen.epoch is not None:
        found = found & (f.col("Epoch") == chosen.epoch)
    if chosen.state != "all":
        pending = f.col("RequeuedEpoch").isNull()
        found = found & (pending if chosen.state == "pending" else ~pending)
    return found


def _split_stars(text: str) -> list[str]:
    parts = text.split("*")
    return [piece for part in parts for piece in (part, "*")][:-1]


def _quoted(text: str) -> str:
    """A text quoted as a Java regular expression."""
    return "\\Q" + text.replace("\\E", "\\E\\\\E\\Q") + "\\E" if text else ""
