"""``Database``: the tables below a root, and what is done with several of them at once."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import pyarrow as pa

from sparkhaven.jobs.settings.keywords import Names, as_names, keyword_calls, refuse_keywords
from sparkhaven.readers.arrow.opening import Opening, feed_positions, known_tables, open_together, require_table
from sparkhaven.readers.arrow.snapshot import Snapshot
from sparkhaven.store.argument_types import checked, checked_calls
from sparkhaven.store.errors import TableNotFoundError, as_storage_errors, near
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.io.read_only_roots import is_copy, require_database
from sparkhaven.store.layout import INTERNAL_NAMESPACE, Layout, TableName
from sparkhaven.store.places import TablePlace, followed_root, writable_layout
from sparkhaven.store.scan.selection import check_tier
from sparkhaven.table import Progress, SnapshotKeywords, Table, raised, silent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sparkhaven.jobs.dataframes.frames import ReadKeywords
    from sparkhaven.jobs.monitor.doctor.finding import DoctorFinding
    from sparkhaven.jobs.operations.comparing import ComparedTable
    from sparkhaven.jobs.operations.history_dates import CleanedTable
    from sparkhaven.jobs.operations.recovering import RebuildKeywords, Recovery
    from sparkhaven.readers.checks.findings import Report
    from sparkhaven.store.merges.dropped_tables import TableDrop
    from sparkhaven.writers.partitions import AddedPartition, Partition, RolledPartition
    from sparkhaven.writers.transfer.restore import RestoredTable
    from sparkhaven.writers.transfer.snapshots import TakenSnapshot
    from sparkhaven.writers.users.save import SavedTable


class QueryKeywords(TypedDict, total=False):
    """Which snapshot of its tables a query sees, as the options of ``sparkhaven sql``.

    ``as_of``: a time with zone, or ISO text. ``newest``: each table at its newest epoch, also where tables of one feed
    are then at different positions of it. ``memory``: bytes that DuckDB may use.
    """

    tier: str
    as_of: datetime | str | None
    skip_set_aside: bool
    newest: bool
    memory: int | None


class SaveKeywords(TypedDict, total=False):
    """How a user table is saved. ``mode``: ``replace`` (default), ``append`` or ``error``. ``partition_by``: the column
    whose values become partitions. ``schema``: a file or its bytes. ``internal``: the source of new locations."""

    mode: str
    partition_by: str | None
    schema: str | Path | bytes | None
    internal: str


@keyword_calls
@checked_calls
class Database:
    """The tables below a root directory.

    Nothing is opened when it is made, and nothing is kept: each call sees what is there then.

    Example:
        >>> db = sparkhaven.Database(root)
        >>> db.tables()
        ['Equity.Quote', 'Equity.Trade']
        >>> db.sql("SELECT Sym, max(Size) AS size FROM Equity.Trade GROUP BY Sym ORDER BY Sym").to_pylist()
        [{'Sym': 'AAPL', 'size': 250}, {'Sym': 'IBM', 'size': 100}]
    """

    def __init__(self, root: str | Path) -> None:
        """The root: a directory, or ``file://`` and its path."""
        self._root = local_path(root)

    def __repr__(self) -> str:
        return f"Database({str(self._root)!r})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the names of the tables."""
        listed = "".join(f"<li>{escape(name)}</li>" for name in self.tables())
        return f"<p>{escape(repr(self))}</p><ul>{listed}</ul>"

    @property
    def root(self) -> Path:
        """The root directory."""
        return self._root

    def namespaces(self) -> list[str]:
        """The namespaces that have tables.

        Returns:
            Their names, sorted.

        Raises:
            TableNotFoundError: There is no such directory, or it is no database.

        Example:
            >>> db.namespaces()
            ['Equity']
        """
        return sorted({TableName.parse(name).namespace for name in self.tables()})

    def tables(self, namespace: str | None = None, *, all_tables: bool = False) -> list[str]:
        """The tables: those with a deployed schema, and user tables.

        Args:
            namespace: Only those of it.
            all_tables: Also the log tables, of namespace SparkhavenInternal.

        Returns:
            Their names, ``NS.T``, sorted.

        Raises:
            TableNotFoundError: There is no such directory, or it is no database.

        Example:
            >>> db.tables("Equity")
            ['Equity.Quote', 'Equity.Trade']
        """
        fs, layout = Fs(), self._database()
        with as_storage_errors():
            known = known_tables(fs, layout)
        return [str(name) for name in known if _is_listed(name, namespace, all_tables)]

    def table(self, name: str) -> Table:
        """One table.

        Args:
            name: The table, as ``NS.T``.

        Returns:
            What reads, writes and maintains it.

        Raises:
            TableNotFoundError: There is no such table. ``create_table`` makes one.
            InvalidNameError: It is no name of a table.

        Example:
            >>> db.table("Equity.Trade").name
            'Equity.Trade'
        """
        place = self._place(name)
        with as_storage_errors():
            require_table(place)
        return Table(place)

    def __getitem__(self, name: str) -> Table:
        return self.table(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.tables(all_tables=True)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables())

    def create_table(self, schema: str | Path | bytes, *, dry_run: bool = False) -> Table:
        """Deploys a schema, of a new table or with additions to one, as ``schema deploy`` does.

        Args:
            schema: A ``.schema`` file or its bytes.
            dry_run: Only check it.

        Returns:
            The table, which has no rows yet.

        Raises:
            SchemaParseError: The schema breaks a rule.
            SchemaChangeError: It would take something from the deployed one.

        Example:
            >>> text = b'''<Table namespace="Equity" name="Note" storageType="NestedPartitionedOnDisk">
            ... <Partitions keyFormula="${autobalance_single}"/>
            ... <Column name="Date" dataType="String" columnType="Partitioning"/>
            ... <Column name="Text" dataType="String"/></Table>'''
            >>> len(db.create_table(text).snapshot())
            0
        """
        from sparkhaven.jobs.settings.stream_schema import deploy_schema

        fs, layout = Fs(), writable_layout(self._root)
        if not dry_run:
            fs.mkdirs(layout.root)
        source = schema if isinstance(schema, bytes) else local_path(schema)
        done = deploy_schema(fs, layout, source, dry_run=dry_run)
        return Table(TablePlace(fs, layout, TableName.parse(done.schema.full_name)))

    def drop_table(
        self,
        name: str,
        *,
        grace: float | None = None,
        reason: str = "dropped by command",
        dry_run: bool = False,
        on_progress: Progress = silent,
    ) -> TableDrop:
        """Drops a table, as ``drop --yes``: rows, history, schema, quarantine and logs. The same call goes on.

        Args:
            name: The table, as ``NS.T``.
            grace: Seconds in which readers may still use the files. Default: an hour.
            reason: Why, for the record.
            dry_run: Change nothing.
            on_progress: Called with texts that say how it goes on.

        Returns:
            The record of the drop, and its ``phase``.

        Raises:
            TableNotFoundError: There is no such table.
            SettingsError: A stream of it runs.
            LockLostError: A merge or removal of it is running.

        Example:
            >>> db.drop_table("Equity.Quote", grace=0).intraday_rows
            1
            >>> db.tables()
            ['Equity.Trade']
        """
        from sparkhaven.writers.merge.publish.publish_phase import GRACE_S
        from sparkhaven.writers.removal.table_removal import drop_table

        place = TablePlace(Fs(), writable_layout(self._root), TableName.parse(name))
        seconds = GRACE_S if grace is None else grace
        return drop_table(place, reason, clock=time.time, grace_s=seconds, dry_run=dry_run, note=on_progress)

    def clean(self, name: str | None = None, *, dry_run: bool = False) -> list[CleanedTable]:
        """Removes replaced generations of history, and files of dropped tables, as ``clean``.

        Only once no reader can be using them.

        Args:
            name: Only this table, ``NS.T``. Default: all.
            dry_run: Change nothing.

        Returns:
            For each table what was ``removed``, what is ``waiting`` in its grace period, or the record of its ``drop``.

        Raises:
            TableNotFoundError: There is no such table.
            CorruptFileError: A record is damaged. The other tables were cleaned first.
            LockLostError: A merge of a table is running. The other tables were cleaned first.

        Example:
            >>> [(str(done.table), len(done.removed)) for done in db.clean()]
            [('Equity.Quote', 0), ('Equity.Trade', 0)]
        """
        from sparkhaven.jobs.operations.history_dates import clean_tables

        return raised(list(clean_tables(writable_layout(self._root), name, dry_run=dry_run)))

    def partitions(self, namespace: str) -> list[Partition]:
        """The storage partitions of a namespace, as ``partitions list``.

        Args:
            namespace: The namespace.

        Returns:
            Each with ``name``, ``directory``, ``free_bytes``, and whether merges write to it.

        Raises:
            TableNotFoundError: There is no such namespace.

        Example:
            >>> _ = db.add_partition("Equity", "1")
            >>> [(partition.name, partition.writable) for partition in db.partitions("Equity")]
            [('1', True)]
        """
        from sparkhaven.writers.partitions import known_partitions

        return known_partitions(self._layout(), namespace)

    def add_partition(
        self, namespace: str, name: str, *, volume: str | Path | None = None, dry_run: bool = False
    ) -> AddedPartition:
        """Makes a storage partition, which merges write to, as ``partitions add``.

        Args:
            namespace: The namespace.
            name: The storage partition.
            volume: A directory on its volume. Default: below the root.
            dry_run: Change nothing.

        Returns:
            Its ``directory``, and whether it is ``new``.

        Raises:
            InvalidNameError: The name cannot be that of a storage partition.
            SettingsError: There is no such volume.
            TableExistsError: It is in another place.

        Example:
            >>> db.add_partition("Equity", "1").new
            True
        """
        from sparkhaven.writers.partitions import make_partition

        directory = None if volume is None else local_path(volume)
        return make_partition(writable_layout(self._root), namespace, name, directory, dry_run=dry_run)

    def roll_partitions(
        self,
        namespace: str,
        *,
        if_fuller_than: str | None = None,
        volume: str | Path | None = None,
        dry_run: bool = False,
    ) -> list[RolledPartition]:
        """Has merges write to new storage partitions, as ``partitions roll``. No file is moved.

        Args:
            namespace: The namespace.
            if_fuller_than: Only those on a volume fuller than this, like ``90%``.
            volume: The directory for the new ones. Default: on the volume with most free space.
            dry_run: Change nothing.

        Returns:
            Those that merges no longer write to, each with the ``new`` one.

        Raises:
            TableNotFoundError: The namespace has no storage partition.
            SettingsError: It is no percentage, or the volume cannot take them.
            RetryableStorageError: No volume is empty enough, or one is not mounted.

        Example:
            >>> _ = db.add_partition("Equity", "1")
            >>> [(rolled.name, rolled.new) for rolled in db.roll_partitions("Equity", volume=root)]
            [('1', '2')]
        """
        from sparkhaven.writers.partitions import parse_share, roll_partitions

        limit = None if if_fuller_than is None else parse_share(if_fuller_than, "if_fuller_than")
        target = None if volume is None else local_path(volume).absolute()
        layout = writable_layout(self._root)
        return roll_partitions(Fs(), layout, namespace, fuller_than=limit, volume=target, dry_run=dry_run)

    def verify(self, name: str | None = None, *, deep: bool = False, on_progress: Progress = silent) -> Report:
        """Checks tables for damage, as ``verify``. Read-only.

        Args:
            name: Only this table, ``NS.T``. Default: all.
            deep: Read every committed byte. Default: lengths only.
            on_progress: Called with the directory of each location.

        Returns:
            The ``findings``, how many are ``errors``, and what was looked at.

        Raises:
            TableNotFoundError: There is no such table, or no database.

        Example:
            >>> report = db.verify(deep=True)
            >>> report.tables, report.rows, report.errors
            (2, 4, 0)
        """
        from sparkhaven.readers.checks.verify import verify

        layout = self._database()
        table = None if name is None else TableName.parse(name)
        return verify(Fs(), layout, table, deep=deep, progress=on_progress)

    def compare(
        self,
        other_root: str | Path,
        names: Names = (),
        *,
        every_row: bool = False,
        epochs: str | None = None,
        named: int = 20,
        on_progress: Progress = silent,
    ) -> list[ComparedTable]:
        """Compares tables with those of another root, by digests, as ``compare``. Order and storage may differ.

        Args:
            other_root: The root of the other database.
            names: Tables, ``NS.T``. Default: all but log tables.
            every_row: Read all rows, whatever digests are recorded; ``--whole-rows`` of the command.
            epochs: Only what these epochs of one table have added: ``[STREAM=]A..B``.
            named: Most different rows that are named, of each side.
            on_progress: Called with texts that say how it goes on.

        Returns:
            For each table whether it is ``equal``, what was ``compared``, or which root ``only`` has it.

        Raises:
            TableNotFoundError: There is no such database or table.
            SettingsError: Epochs are given without one table, or are no range.
            CorruptFileError: A file is damaged.

        Example:
            >>> _ = db.snapshot_to(root / ".." / "copy")
            >>> [(done.table.table, done.equal) for done in db.compare(root / ".." / "copy")]
            [('Quote', True), ('Trade', True)]
        """
        from sparkhaven.jobs.operations.comparing import ComparisonRequest, compare_roots

        layout = self._database()
        asked = ComparisonRequest(as_names(names) or (), every_row, epochs, named)
        return raised(list(compare_roots(layout, local_path(other_root), asked, on_progress)))

    def recover(
        self,
        name: str | None = None,
        stream: str | None = None,
        *,
        quarantine: Names = (),
        dry_run: bool = False,
        on_progress: Progress = silent,
        **rebuild: Unpack[RebuildKeywords],
    ) -> Recovery:
        """Runs crash recovery only, as ``recover``. In a snapshot or a mirror it only reports.

        Args:
            name: Only this table, ``NS.T``.
            stream: Only this stream of it.
            quarantine: Damaged locations of the stream, ``INTERNAL/DATE``, that are set aside first.
            dry_run: Change nothing.
            on_progress: Called with texts that say how it goes on.
            **rebuild: Those of ``RebuildKeywords``: whether its commit log is rebuilt first.

        Returns:
            The ``streams``, each with a ``report`` or an ``error``, and what was ``set_aside`` or ``rebuilt``.

        Raises:
            TableNotFoundError: There is no such table, stream or location.
            SettingsError: Arguments exclude each other.

        Example:
            >>> [(done.stream, done.report.clean) for done in db.recover("Equity.Trade").streams]
            [('test', True)]
        """
        from sparkhaven.jobs.operations.recovering import (
            RebuildKeywords,
            RecoveryRequest,
            position_choice,
            recover_streams,
        )

        refuse_keywords("Database.recover()", rebuild, RebuildKeywords)
        layout = self._layout() if is_copy(self._root) else writable_layout(self._root)
        require_database(layout.root, "check the path of the root")
        choice, from_locations = position_choice(rebuild), rebuild.get("from_locations", False)
        asked = RecoveryRequest(name, stream, as_names(quarantine) or (), from_locations, choice, dry_run)
        return recover_streams(layout, asked, on_progress)

    def sql(self, query: str, **options: Unpack[QueryKeywords]) -> pa.Table:
        """The result of a SELECT over tables, which are named ``NS.T``.

        DuckDB evaluates it, and can read nothing but these tables. Of them only the columns, dates and row ranges that
        the query needs are read. Each table is pinned once for the whole query, and tables that one feed fills are
        pinned as by ``snapshot``.

        Args:
            query: One SELECT.
            **options: Those of ``QueryKeywords``.

        Returns:
            The rows of the result.

        Raises:
            TableNotFoundError: There is no such table.
            SettingsError: The query cannot be run.
            TooEarlyError: Tables of one feed have no position in common; see ``snapshot``.

        Example:
            >>> db.sql("SELECT count(*) AS n FROM Equity.Trade WHERE Size >= 100")["n"].to_pylist()
            [2]
        """
        from sparkhaven.readers.sql.query import QueryOptions, open_query

        refuse_keywords("Database.sql()", options, QueryKeywords)
        with open_query(self._root, query, QueryOptions(**options)) as result:
            return result.batches.read_all()

    def snapshot(
        self,
        tables: Names | None = None,
        *,
        as_of: datetime | str | None = None,
        tier: str = "all",
        skip_set_aside: bool = False,
    ) -> DatabaseSnapshot:
        """Several tables at one moment: those that one feed fills show the same part of it.

        A stream file with ``[[tables]]`` fills several tables from one feed, and commits a batch in one table after the
        other. A reader may come between two of these commits, or a process may be killed there. The position of the
        feed that each epoch records tells which epochs belong together.

        What is guaranteed, in tiers ``all`` and ``intraday``:

        * Tables that have a stream in common, committed by the same runs, are pinned at one position of its feed: the
          furthest that a kept epoch of each of them has. So of each message, file or version of the feed all rows are
          there, in whichever of these tables they belong to, or none are. This includes rows that are merged.
        * Rows that an epoch at that position has withdrawn (``undo``, ``delete_rows``) are not shown. Rejected rows and
          rows that were requeued are not part of this: a row that is requeued in one table shows at once.
        * Of other streams each is at its newest epoch. So are tables that different feeds fill: nothing is said of how
          they relate. The same holds for streams that are written by frames without positions, and for user tables.
        * Tier ``history`` has what is merged, which is done table by table.

        Args:
            tables: Names ``NS.T``. Default: all but log tables.
            as_of: A time with zone, or ISO text: no epoch is newer than that.
            tier: ``intraday``, ``history``, or ``all``, with each row once.
            skip_set_aside: Read without the rows of damaged locations that were set aside.

        Returns:
            The snapshots of the tables.

        Raises:
            TableNotFoundError: There is no such table, or no kept epoch of that time.
            TooEarlyError: The tables of a feed have no position in common among their kept epochs. That takes a
                rollback of one of them further back than the others keep epochs; it ends when the stream has caught up.

        Example:
            >>> snap = db.snapshot(["Equity.Trade", "Equity.Quote"])
            >>> snap.epochs
            {'Equity.Trade': {'test': 1}, 'Equity.Quote': {'test': 1}}
            >>> snap.sql("SELECT count(*) AS n FROM Equity.Trade JOIN Equity.Quote USING (Sym)")["n"].to_pylist()
            [2]
        """
        names = as_names(self.tables() if tables is None else tables) or ()
        places = [self._place(name) for name in dict.fromkeys(names)]
        opened = open_together(places, Opening(as_of, check_tier(tier), skip_set_aside))
        return DatabaseSnapshot(self._root, opened)

    def snapshot_to(
        self,
        out: str | Path,
        tables: Names | None = None,
        *,
        since: str | Path | None = None,
        on_progress: Progress = silent,
    ) -> TakenSnapshot:
        """Copies tables while streams, merges and readers run. The directory is itself a database root.

        Args:
            out: The directory to create.
            tables: Names ``NS.T``. Default: all but log tables.
            since: An earlier snapshot: only new bytes are copied.
            on_progress: Called with texts that say how it goes on.

        Returns:
            What was copied: the ``manifest``, and bytes ``copied`` and ``linked`` of each table.

        Raises:
            TableExistsError: Something is in the directory.
            TableNotFoundError: There is no such table.
            SnapshotMovedError: Rows were removed again and again while they were copied.

        Example:
            >>> sorted(db.snapshot_to(root / ".." / "copy").manifest.tables)
            ['Equity.Quote', 'Equity.Trade']
        """
        from sparkhaven.writers.transfer.snapshots import take_snapshot

        names = as_names(self.tables() if tables is None else tables) or ()
        earlier = None if since is None else local_path(since)
        chosen = sorted(map(TableName.parse, dict.fromkeys(names)))
        now_ms, layout = int(time.time() * 1000), self._layout()
        return take_snapshot(Fs(), layout, chosen, local_path(out), time_ms=now_ms, since=earlier, progress=on_progress)

    def restore(
        self,
        snapshot: str | Path,
        tables: Names | None = None,
        *,
        replace: Names = (),
        dry_run: bool = False,
        on_progress: Progress = silent,
    ) -> list[RestoredTable]:
        """Puts tables of a snapshot into the database, which may be a new one. Each appears as a whole.

        Args:
            snapshot: The directory of a snapshot.
            tables: Names ``NS.T``. Default: all of its tables.
            replace: Tables that are removed for those of the snapshot.
            dry_run: Only verify it.
            on_progress: Called with texts that say how it goes on.

        Returns:
            What was done with each table.

        Raises:
            TableExistsError: A table is there already.
            CorruptFileError: A file of the snapshot is missing or damaged; nothing was put in place.

        Example:
            >>> _ = db.snapshot_to(root / ".." / "copy")
            >>> [done.name for done in sparkhaven.Database(root / ".." / "new").restore(root / ".." / "copy")]
            [TableName(namespace='Equity', table='Quote'), TableName(namespace='Equity', table='Trade')]
        """
        from sparkhaven.writers.transfer.restore import restore

        names, replaced = as_names(tables), as_names(replace) or ()
        return restore(
            Fs(),
            local_path(snapshot).absolute(),
            writable_layout(self._root),
            None if names is None else [TableName.parse(name) for name in names],
            replacing={TableName.parse(name) for name in replaced},
            dry_run=dry_run,
            progress=on_progress,
        )

    def save_table(self, name: str, data: Any, **options: Unpack[SaveKeywords]) -> SavedTable:
        """Saves rows as a user table: all of them, or none after a crash.

        ``replace`` takes the place of a table that exists, ``append`` adds rows to it, ``error`` refuses it. Who has
        the old rows open keeps them for an hour. Without ``partition_by`` the table is splayed: one directory. The
        columns have the types of the Arrow data, or those of ``schema``. A save waits up to ten minutes for another.

        Args:
            name: The table, as ``NS.T``.
            data: A pyarrow Table, RecordBatch or RecordBatchReader, a data frame of pandas or polars, any Arrow stream,
                or a Spark frame, which is collected.
            **options: Those of ``SaveKeywords``.

        Returns:
            What was saved: ``rows`` were given, ``total`` are in the table now.

        Raises:
            SchemaMismatchError: A type or value that no column holds exactly, or other columns than the table has.
            TableExistsError: There is a system table of that name, or with ``error`` any.
            ValidationFailedError: The disk gave back other rows than were given, before they were published.

        Example:
            >>> db.save_table("me.Note", pa.table({"Text": ["a", "b"]})).total
            2
        """
        from sparkhaven.writers.users.save import SaveOptions, save_rows

        refuse_keywords("Database.save_table()", options, SaveKeywords)
        place = TablePlace(Fs(), writable_layout(self._root), TableName.parse(name))
        return save_rows(place, data, SaveOptions(**options))

    def doctor(self, tables: Iterable[str] = ()) -> list[DoctorFinding]:
        """Checks machine, volumes, streams, dates and logs, as the command ``doctor`` does. Read-only.

        Args:
            tables: Only these, ``NS.T``. Default: all.

        Returns:
            The findings: what is wrong, and the next command to run.

        Raises:
            InvalidNameError: It is no name of a table.

        Example:
            >>> [finding.what for finding in db.doctor() if finding.state == "wrong"]
            []
        """
        from sparkhaven.jobs.monitor.doctor.checks import findings
        from sparkhaven.jobs.monitor.doctor.finding import CheckContext

        only = [TableName.parse(name) for name in tables]
        return findings(CheckContext(Fs(), self._layout(), time.time(), socket.gethostname(), os.environ, only))

    def _layout(self) -> Layout:
        return Layout(followed_root(Fs(), self._root))

    def _database(self) -> Layout:
        """The root, which must be one. Raises what ``require_database`` raises."""
        layout = self._layout()
        require_database(layout.root, "check the path of the root")
        return layout

    def _place(self, name: str) -> TablePlace:
        return TablePlace(Fs(), self._layout(), TableName.parse(name))


@checked_calls
class DatabaseSnapshot:
    """Several tables at one moment, as ``Database.snapshot`` describes it.

    Example:
        >>> snap = db.snapshot()
        >>> snap.tables
        ['Equity.Quote', 'Equity.Trade']
        >>> snap["Equity.Trade"].count()
        3
    """

    def __init__(self, root: Path, opened: Iterable[Snapshot]) -> None:
        """``Database.snapshot`` makes it."""
        self._root, self._opened = root, {snapshot.name: snapshot for snapshot in opened}

    def __repr__(self) -> str:
        return f"DatabaseSnapshot({self.epochs})"

    def __getitem__(self, name: str) -> Snapshot:
        return self.table(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._opened)

    def __len__(self) -> int:
        """How many tables."""
        return len(self._opened)

    @property
    def tables(self) -> list[str]:
        """The tables, ``NS.T``."""
        return list(self._opened)

    @property
    def epochs(self) -> dict[str, dict[str, int]]:
        """The pinned epochs: table -> stream -> epoch."""
        return {name: snapshot.epochs for name, snapshot in self._opened.items()}

    @property
    def positions(self) -> dict[str, Mapping[str, int]]:
        """Where the streams that several of the tables have in common stand: by stream, then by topic partition."""
        return feed_positions(self._opened.values())

    def table(self, name: str) -> Snapshot:
        """The snapshot of one table.

        Args:
            name: The table, as ``NS.T``.

        Returns:
            Its snapshot.

        Raises:
            TableNotFoundError: It is none of the snapshot.

        Example:
            >>> db.snapshot(["Equity.Trade"]).table("Equity.Trade").dates()
            ['2026-11-20']
        """
        if name not in self._opened:
            raise TableNotFoundError(f"the snapshot has no table {name}", expected=near(name, self._opened), found=name)
        return self._opened[name]

    def sql(self, query: str, *, memory: int | None = None) -> pa.Table:
        """The result of a SELECT over the tables of the snapshot.

        Args:
            query: One SELECT.
            memory: Bytes that DuckDB may use.

        Returns:
            The rows of the result.

        Raises:
            TableNotFoundError: The snapshot has no such table.
            SettingsError: The query cannot be run.

        Example:
            >>> db.snapshot().sql("SELECT max(Size) AS most FROM Equity.Trade")["most"].to_pylist()
            [250]
        """
        from sparkhaven.readers.sql.query import QueryOptions, open_query

        with open_query(self._root, query, QueryOptions(memory=memory), opened=self._opened) as result:
            return result.batches.read_all()

    def to_spark(self, spark: SparkSession, name: str, **options: Unpack[ReadKeywords]) -> DataFrame:
        """One of the tables as a data frame of Spark, at the epochs of the snapshot.

        Args:
            spark: The session.
            name: The table, as ``NS.T``.
            **options: Those of ``ReadKeywords``, but for ``epoch`` and ``as_of``.

        Returns:
            The data frame.

        Raises:
            TableNotFoundError: The snapshot has no such table.

        Example:
            >>> db.snapshot().to_spark(spark, "Equity.Trade").count()  # doctest: +SKIP
            3
        """
        from sparkhaven.jobs.dataframes.frames import ReadKeywords as Options
        from sparkhaven.jobs.dataframes.frames import read_frame

        snapshot = self.table(name)
        given = Options(**{"tier": snapshot.tier, **options})
        if snapshot.epochs:
            given["epoch"] = snapshot.epochs
        return read_frame(spark, self._root, name, **given)


@checked
def open_table(root: str | Path, name: str, **options: Unpack[SnapshotKeywords]) -> Snapshot:
    """``Database(root).table(name).snapshot(**options)``.

    Args:
        root: The root of a database.
        name: The table, as ``NS.T``.
        **options: Those of ``SnapshotKeywords``.

    Returns:
        The table, pinned at its newest epochs, at given ones, or as it was at a time.

    Raises:
        TableNotFoundError: There is no such table, stream or epoch.

    Example:
        >>> sparkhaven.open_table(root, "Equity.Trade").count()
        3
    """
    return Database(root).table(name).snapshot(**options)


@checked
def sql(root: str | Path, query: str, **options: Unpack[QueryKeywords]) -> pa.Table:
    """``Database(root).sql(query, **options)``."""
    return Database(root).sql(query, **options)


@checked
def save_table(root: str | Path, name: str, data: Any, **options: Unpack[SaveKeywords]) -> SavedTable:
    """``Database(root).save_table(name, data, **options)``."""
    return Database(root).save_table(name, data, **options)


def _is_listed(name: TableName, namespace: str | None, with_logs: bool) -> bool:
    return name.namespace == namespace if namespace else with_logs or name.namespace != INTERNAL_NAMESPACE
