"""``Table``: what can be done with one table of a database. ``Database.table`` makes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import pyarrow as pa

from sparkhaven.jobs.date_choice import DateChoice, parse_choice
from sparkhaven.jobs.settings.keywords import Names, as_names, keyword_calls, refuse_keywords
from sparkhaven.readers.arrow.opening import open_place
from sparkhaven.readers.arrow.snapshot import Snapshot, pinned_of
from sparkhaven.store.argument_types import checked_calls, refuse_type
from sparkhaven.store.errors import as_ours
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.io.read_only_roots import require_writable
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.checksums import ChecksumVerify
from sparkhaven.store.scan.selection import check_tier
from sparkhaven.store.types.model import TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sparkhaven.jobs.dataframes.frames import ReadKeywords
    from sparkhaven.jobs.operations.epoch_changes import RolledBack, Undone
    from sparkhaven.jobs.operations.exporting import ExportKeywords
    from sparkhaven.jobs.operations.history_dates import HistoryDate
    from sparkhaven.jobs.operations.merge_frame import FrameMergeKeywords
    from sparkhaven.jobs.operations.merging import MergeKeywords
    from sparkhaven.jobs.operations.quarantine import RejectedKeywords, Requeued
    from sparkhaven.jobs.operations.rewriting import RewriteKeywords, RowsDeleted
    from sparkhaven.jobs.operations.validating import (
        DateRemoval,
        IntradayRemoval,
        Phase,
        ValidatedDate,
        ValidationKeywords,
    )
    from sparkhaven.jobs.session.spark_or_local import HistoryRun
    from sparkhaven.jobs.settings.frame_options import FrameKeywords
    from sparkhaven.writers.batch.commit import BatchOutcome
    from sparkhaven.writers.merge.adoption import AdoptedDate
    from sparkhaven.writers.merge.date_result import DateResult
    from sparkhaven.writers.removal.table_removal import StreamRemoval
    from sparkhaven.writers.transfer.export import Exported
    from sparkhaven.writers.transfer.snapshots import TakenSnapshot

Progress = Callable[[str], None]


def silent(text: str) -> None:
    """Progress that nobody wants to see."""


class SnapshotKeywords(TypedDict, total=False):
    """Which snapshot, and how its files are read: the keywords of ``Table.snapshot`` and ``open_table``.

    ``epoch``: a number for a table of one stream, or stream -> epoch (streams left out: newest). ``as_of``: a time with
    zone, or ISO text (default zone: UTC). ``tier``: ``intraday``, ``history``, or ``all``, with each row once.

    ``checksum_verify`` says when reads compare committed bytes with their checksums: ``read`` when a file is first
    read in this process, whole, and later its growth (default; else SPARKHAVEN_CHECKSUM_VERIFY), ``open`` each time
    that it is opened, ``scrub`` and ``off`` never: then only `verify --deep` does. ``null_char``: the null of char in
    column files, 0xFFFF (default; else SPARKHAVEN_NULL_CHAR), or 0xFFFE for files that Deephaven wrote before November
    2021. ``skip_set_aside``: read without the rows of damaged locations that were set aside.
    """

    epoch: int | Mapping[str, int] | None
    as_of: datetime | str | None
    tier: str
    checksum_verify: ChecksumVerify | None
    null_char: str | int | None
    skip_set_aside: bool


@keyword_calls
@checked_calls
class Table:
    """One table of a database, as it is whenever it is asked: nothing is pinned, and nothing is read when it is made.

    Reads go through ``snapshot``, which stands still. ``to_arrow``, ``to_batches``, ``to_pandas`` and ``head`` read the
    newest one, and so do libraries that take the table as an Arrow stream. Whatever a command does with a table, a
    method does, with the names of its options.

    Example:
        >>> trades = sparkhaven.Database(root).table("Equity.Trade")
        >>> trades.append({"Sym": ["MSFT"], "Size": [10], "Price": [430.0]}, "s", internal="Sym",
        ...               value={"fixed": "2026-11-20"}).rows
        1
        >>> trades.to_arrow("Sym", where="Size = 10")["Sym"].to_pylist()
        ['MSFT']
    """

    def __init__(self, place: TablePlace) -> None:
        """``Database.table`` makes it."""
        self._place = place

    def __repr__(self) -> str:
        return f"Table({self.name!r}, root={str(self._place.layout.root)!r})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the newest rows of the table."""
        return self.snapshot()._repr_html_()

    @property
    def name(self) -> str:
        """``NS.T``."""
        return str(self._place.table)

    @property
    def root(self) -> Path:
        """The root of its database."""
        return self._place.layout.root

    @property
    def schema(self) -> TableSchema:
        """The deployed definition; of a user table that of its last save."""
        return self.snapshot().schema

    # reads

    def snapshot(self, **options: Unpack[SnapshotKeywords]) -> Snapshot:
        """The table at one moment, pinned: what is committed later does not change it.

        Args:
            **options: Those of ``SnapshotKeywords``: ``epoch`` or ``as_of``, ``tier``, and how files are read.

        Returns:
            The snapshot, of which rows are read when they are asked for.

        Raises:
            TableNotFoundError: There is no such table, stream or epoch.
            SettingsError: The options exclude each other, or have a value that they do not take.

        Example:
            >>> db.table("Equity.Trade").snapshot(epoch=1, tier="intraday").count()
            3
        """
        refuse_keywords("Table.snapshot()", options, SnapshotKeywords)
        tier = check_tier(options.pop("tier", "all"))
        return Snapshot(pinned_of(open_place(self._place, **options)), tier)  # type: ignore[misc]

    def to_arrow(self, columns: Names | None = None, **selection: Any) -> pa.Table:
        """The rows of the newest snapshot, as ``Snapshot.to_arrow`` gives them.

        Args:
            columns: Names of columns. Default: all.
            **selection: ``dates``, ``sources``, ``where``, ``tier`` and ``dictionaries``.

        Returns:
            The rows.

        Raises:
            TableNotFoundError: There is no such table, date or source.

        Example:
            >>> db.table("Equity.Trade").to_arrow("Size").num_rows
            3
        """
        return self.snapshot().to_arrow(columns, **selection)

    def to_batches(self, columns: Names | None = None, **selection: Any) -> pa.RecordBatchReader:
        """The rows of the newest snapshot as a stream, as ``Snapshot.to_batches`` gives them.

        Args:
            columns: Names of columns. Default: all.
            **selection: Other arguments of ``Snapshot.to_batches``.

        Returns:
            An Arrow stream, which is read once.

        Raises:
            TableNotFoundError: There is no such table, date or source.

        Example:
            >>> [batch.num_rows for batch in db.table("Equity.Trade").to_batches("Size")]
            [3]
        """
        return self.snapshot().to_batches(columns, **selection)

    def to_pandas(self, columns: Names | None = None, **selection: Any) -> Any:
        """The rows of the newest snapshot as a data frame of pandas.

        Args:
            columns: Names of columns. Default: all.
            **selection: ``dates``, ``sources``, ``where`` and ``tier``.

        Returns:
            A ``pandas.DataFrame``.

        Raises:
            ImportError: pandas is not installed.

        Example:
            >>> list(db.table("Equity.Trade").to_pandas(["Sym"]).columns)
            ['Sym']
        """
        return self.snapshot().to_pandas(columns, **selection)

    def head(self, rows: int = 10, columns: Names | None = None, **selection: Any) -> pa.Table:
        """The first rows of the newest snapshot.

        Args:
            rows: How many at most.
            columns: Names of columns. Default: all.
            **selection: ``dates``, ``sources``, ``where`` and ``tier``.

        Returns:
            The rows.

        Raises:
            TableNotFoundError: There is no such table, date or source.

        Example:
            >>> db.table("Equity.Trade").head(2, "Size")["Size"].to_pylist()
            [100, 50]
        """
        return self.snapshot().head(rows, columns, **selection)

    def to_spark(self, spark: SparkSession, **options: Unpack[ReadKeywords]) -> DataFrame:
        """The table as a data frame of Spark, whose queries see one snapshot; see ``read_frame``.

        Args:
            spark: The session.
            **options: Those of ``ReadKeywords``: ``columns``, ``where``, ``tier``, ``epoch``, ``as_of``, ``dates``,
                ``sources``, ``instant``, ``char``, ``reader``.

        Returns:
            The data frame.

        Raises:
            Exception: An error of Spark, with ours in its text; ``errors.from_spark`` finds it.

        Example:
            >>> db.table("Equity.Trade").to_spark(spark, columns=["Size"]).count()  # doctest: +SKIP
            3
        """
        from sparkhaven.jobs.dataframes.frames import read_frame

        return read_frame(spark, self.root, self.name, **options)

    def __arrow_c_schema__(self) -> object:
        """The schema of the stream, as a capsule of the Arrow C data interface."""
        return self.snapshot().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows of the newest snapshot, as a capsule of the Arrow C stream interface."""
        return self.snapshot().__arrow_c_stream__(requested_schema)

    # facts, as Arrow tables: its metadata tables

    def metadata(self, name: str) -> pa.Table:
        """The facts of one kind about the table.

        Args:
            name: ``epochs``, ``streams``, ``locations``, ``dates``, ``files``, ``columns``, ``merges``,
                ``validations``, ``rejected`` or ``schema_versions``. Each is a method, too.

        Returns:
            Their rows. Times are instants in UTC.

        Raises:
            TableNotFoundError: There are no facts of that name.

        Example:
            >>> db.table("Equity.Trade").metadata("columns")["column"].to_pylist()
            ['Date', 'Sym', 'Size', 'Price']
        """
        from sparkhaven.jobs.monitor.metadata import METADATA, metadata_table
        from sparkhaven.store.errors import TableNotFoundError, near

        if name not in METADATA:
            raise TableNotFoundError(
                f"no metadata table {name!r}", where=self.name, expected=near(name, METADATA), found=name
            )
        return metadata_table(self._place, name)

    def epochs(self) -> pa.Table:
        """The kept epochs of all streams, oldest first.

        Returns:
            A row for each epoch: its stream, number, kind, time, rows, and what it undoes or restores.

        Raises:
            CorruptFileError: A commit log is damaged.

        Example:
            >>> db.table("Equity.Trade").epochs().select(["stream", "epoch", "rows"]).to_pylist()
            [{'stream': 'test', 'epoch': 1, 'rows': 3}]
        """
        return self.metadata("epochs")

    def streams(self) -> pa.Table:
        """The streams of the table.

        Returns:
            A row for each stream: its epochs, rows, last commit, and the process that runs it.

        Raises:
            CorruptFileError: A commit log is damaged.

        Example:
            >>> db.table("Equity.Trade").streams()["stream"].to_pylist()
            ['test']
        """
        return self.metadata("streams")

    def locations(self) -> pa.Table:
        """The locations of both tiers.

        Returns:
            A row for each location: its date, source, rows, bytes, files and directory.

        Raises:
            CorruptFileError: A commit log or merge record is damaged.

        Example:
            >>> db.table("Equity.Trade").locations().select(["tier", "date", "rows"]).to_pylist()
            [{'tier': 'intraday', 'date': '2026-11-20', 'rows': 3}]
        """
        return self.metadata("locations")

    def dates(self) -> pa.Table:
        """The dates of the table, and how far each is merged.

        Returns:
            A row for each date: rows merged and not merged, generation, validation, sources.

        Raises:
            CorruptFileError: A merge record is damaged.

        Example:
            >>> db.table("Equity.Trade").dates().select(["date", "unmerged"]).to_pylist()
            [{'date': '2026-11-20', 'unmerged': 3}]
        """
        return self.metadata("dates")

    def files(self) -> pa.Table:
        """The committed files of the table.

        Returns:
            A row for each file: its location, bytes and checksum.

        Raises:
            CorruptFileError: A commit log or merge record is damaged.

        Example:
            >>> db.table("Equity.Trade").files()["file"].to_pylist()[:2]
            ['Price.dat', 'Size.dat']
        """
        return self.metadata("files")

    def merges(self) -> pa.Table:
        """The merges of all dates.

        Returns:
            A row for each generation of a date: its times, rows, bytes and partitions.

        Raises:
            CorruptFileError: A merge record is damaged.

        Example:
            >>> db.table("Equity.Trade").merges().num_rows
            0
        """
        return self.metadata("merges")

    def validations(self) -> pa.Table:
        """The validations of merged dates.

        Returns:
            A row for each rule of each validated generation, with what was measured.

        Raises:
            CorruptFileError: A record is damaged.

        Example:
            >>> db.table("Equity.Trade").validations().num_rows
            0
        """
        return self.metadata("validations")

    def rejected(self) -> pa.Table:
        """The rows that the quarantine of the table has.

        Returns:
            A row for each: where it came from, why it was rejected, and its payload.

        Raises:
            CorruptFileError: The quarantine is damaged.

        Example:
            >>> db.table("Equity.Trade").rejected().num_rows
            0
        """
        return self.metadata("rejected")

    def schema_versions(self) -> pa.Table:
        """The deployed versions of the schema.

        Returns:
            A row for each version, with what it changed.

        Raises:
            CorruptFileError: The history of the schema is damaged.

        Example:
            >>> db.table("Equity.Trade").schema_versions()["version"].to_pylist()
            [1]
        """
        return self.metadata("schema_versions")

    def symbols(self, dates: Names | None = None) -> pa.Table:
        """The symbol tables of the newest snapshot, as ``symbols`` reports them. Reads these tables.

        Args:
            dates: Dates, and ranges ``A..B``. Default: all.

        Returns:
            A row for each column and date: locations, rows, entries, texts, duplicates, bytes, and what to do about it.

        Raises:
            TableNotFoundError: There is no such date.
            CorruptFileError: A symbol table is damaged.

        Example:
            >>> db.table("Equity.Trade").symbols().select(["column", "ids", "duplicates"]).to_pylist()
            [{'column': 'Sym', 'ids': 2, 'duplicates': 0}]
        """
        from sparkhaven.jobs.monitor.symbols import symbols_table

        return symbols_table(self._place.fs, pinned_of(self.snapshot()), as_names(dates))

    def history(self, limit: int | None = None) -> pa.Table:
        """What was done with the table, the newest first: epochs of its streams, and merges of its dates.

        Args:
            limit: How many at most. Default: all that are kept.

        Returns:
            A row for each: time, operation (``commit``, ``rollback``, ``withdraw`` or ``merge``), stream and epoch, or
            date and generation, and rows.

        Raises:
            CorruptFileError: A commit log or merge record is damaged.

        Example:
            >>> db.table("Equity.Trade").history().select(["operation", "epoch", "rows"]).to_pylist()
            [{'operation': 'commit', 'epoch': 1, 'rows': 3}]
        """
        from sparkhaven.jobs.monitor.metadata import history_table

        return history_table(self._place).slice(0, limit)

    # rows in

    def append(
        self, data: Any, stream: str, *, label: str | None = None, **options: Unpack[FrameKeywords]
    ) -> BatchOutcome:
        """Adds rows as one epoch of a stream: all of them, or none.

        Args:
            data: A pyarrow Table, RecordBatch or RecordBatchReader, a data frame of pandas, polars or Spark, any Arrow
                stream, or a dict of lists. Spark's workers write a Spark frame.
            stream: The stream that commits them. No other process may be writing it.
            label: The rows are written once under this name. The same rows again are a no-op.
            **options: Those of ``FrameKeywords``. ``internal`` and ``value`` say which source and date a row has.

        Returns:
            What was committed: ``epoch``, ``rows``, ``rejected``. ``epoch`` is None where there was nothing new.

        Raises:
            SchemaMismatchError: A column or value does not fit.
            PositionGapError: Other rows were written under the label, or offsets are missing.
            ErrorBudgetExceeded: More rows cannot be stored than ``bad_rows`` allows.
            LockLostError: Another process writes the stream.

        Example:
            >>> rows = pa.table({"Sym": ["IBM"], "Size": [5], "Price": [1.0]})
            >>> done = db.table("Equity.Trade").append(rows, "s", internal="Sym", value={"fixed": "2026-11-21"})
            >>> done.epoch, done.rows
            (1, 1)
        """
        from sparkhaven.jobs.dataframes.frame_writer import write_frame

        return write_frame(_rows(data), self._writable().layout.root, self.name, stream, label=label, **options)

    def merge(
        self,
        dates: Names | None = None,
        *,
        closed: bool = False,
        spark: bool = False,
        dry_run: bool = False,
        on_progress: Progress = silent,
        **options: Unpack[MergeKeywords],
    ) -> list[DateResult]:
        """Merges dates from intraday into sorted, grouped history. Equal counts and digests prove it, as by ``merge``.

        Args:
            dates: Dates, and ranges ``A..B``.
            closed: All dates whose day has ended in their time zone, in place of ``dates``.
            spark: Merge in Spark. Default: in threads of this process, with the same result.
            dry_run: Only plan.
            on_progress: Called with texts that say how it goes on.
            **options: Those of ``MergeKeywords``, which are options of ``sparkhaven merge``.

        Returns:
            A result for each date, with ``date``, ``outcome``, ``rows_in``, ``rows_out``, ``generation``.

        Raises:
            TableNotFoundError: There is no such date.
            SettingsError: An option has a value that it does not take.
            MergeError: A date failed. The others were merged first.
            LockLostError: Another merge of the table runs.

        Example:
            >>> [(date.date, date.rows_out) for date in db.table("Equity.Trade").merge("2026-11-20")]
            [('2026-11-20', 3)]
        """
        from sparkhaven.jobs.operations.merging import MergeKeywords, merge_table
        from sparkhaven.jobs.session.spark_or_local import HistoryRun

        refuse_keywords("Table.merge()", options, MergeKeywords)
        run = HistoryRun("spark" if spark else "local", options.get("workers"), dry_run=dry_run, note=on_progress)
        return raised(list(merge_table(self._writable(), as_names(dates), closed, options, run)))

    def merge_frame(
        self,
        data: Any,
        dates: Names | None = None,
        *,
        dry_run: bool = False,
        on_progress: Progress = silent,
        **options: Unpack[FrameMergeKeywords],
    ) -> list[DateResult]:
        """Makes rows the history of their dates, without intraday; see ``sparkhaven.merge_frame``.

        Args:
            data: Rows, as ``append`` takes them.
            dates: Dates, and ranges ``A..B``, of the rows; the date of rows that have none.
            dry_run: Only read the rows.
            on_progress: Called with texts that say how it goes on.
            **options: Those of ``FrameMergeKeywords``.

        Returns:
            A result for each date.

        Raises:
            SchemaMismatchError: A column or value does not fit.
            TableExistsError: History has a date. ``rewrite`` replaces it, ``upsert`` joins it.

        Example:
            >>> rows = pa.table({"Sym": ["IBM"], "Size": [7], "Price": [1.5]})
            >>> db.table("Equity.Trade").merge_frame(rows, "2026-11-19")[0].rows_out
            1
        """
        from sparkhaven.jobs.operations.merge_frame import merge_frame

        return merge_frame(
            _rows(data), self.root, self.name, dates, dry_run=dry_run, on_progress=on_progress, **options
        )

    # rows out, and changed

    def validate(
        self,
        dates: Names,
        *,
        dry_run: bool = False,
        on_progress: Progress = silent,
        **options: Unpack[ValidationKeywords],
    ) -> list[ValidatedDate]:
        """Validates merged dates against counts, digests and rules. ``truncate`` needs a result that has passed.

        Args:
            dates: Dates, and ranges ``A..B``.
            dry_run: Store no result.
            on_progress: Called with texts that say how it goes on.
            **options: Those of ``ValidationKeywords``, which are options of ``sparkhaven validate``.

        Returns:
            For each date its ``validation``: whether it has ``passed``, and ``results`` of the rules.

        Raises:
            TableNotFoundError: There is no such merged date.
            SettingsError: There is no such mode or validator.
            CorruptFileError: A date could not be validated. The others were validated first.

        Example:
            >>> trades = db.table("Equity.Trade")
            >>> _ = trades.merge("2026-11-20")
            >>> [(date.date, date.validation.passed) for date in trades.validate("2026-11-20")]
            [('2026-11-20', True)]
        """
        from sparkhaven.jobs.operations.validating import ValidationKeywords, ValidationRun, validate_dates

        refuse_keywords("Table.validate()", options, ValidationKeywords)
        run = ValidationRun.of(options, dry_run=dry_run, note=on_progress)
        return raised(list(validate_dates(self._place, _chosen(dates), run)))

    def truncate(
        self,
        dates: Names,
        *,
        source: str | None = None,
        allow_unevaluated: bool = False,
        dry_run: bool = False,
        on_progress: Progress = silent,
    ) -> list[DateRemoval]:
        """Empties the intraday locations of merged dates, with the proof that history holds all their rows.

        Args:
            dates: Dates, and ranges ``A..B``.
            source: Only this internal partition.
            allow_unevaluated: Rules that cannot be evaluated do not fail the date.
            dry_run: Change nothing.
            on_progress: Called with texts that say how it goes on.

        Returns:
            What was removed of each date.

        Raises:
            TableNotFoundError: There is no such date or source.
            ValidationFailedError: There is no proof. The other dates were truncated first.

        Example:
            >>> trades = db.table("Equity.Trade")
            >>> _ = trades.merge("2026-11-20")
            >>> [(date.date, date.removed.rows) for date in trades.truncate("2026-11-20")]
            [('2026-11-20', 3)]
        """
        from sparkhaven.jobs.operations.validating import IntradayRemoval

        asked = IntradayRemoval(_chosen(dates), source, allow_unevaluated, dry_run)
        return self._remove("truncate", asked, on_progress)

    def delete(
        self,
        dates: Names,
        *,
        source: str | None = None,
        allow_unevaluated: bool = False,
        grace: float | None = None,
        dry_run: bool = False,
        on_progress: Progress = silent,
    ) -> list[DateRemoval]:
        """Removes the files of truncated dates, once no reader can be using them. Rows that came since stay.

        Args:
            dates: Dates, and ranges ``A..B``.
            source: Only this internal partition.
            allow_unevaluated: Rules that cannot be evaluated do not fail the date.
            grace: Seconds since the truncate, in which readers may still use the files. Default: an hour.
            dry_run: Change nothing.
            on_progress: Called with texts that say how it goes on.

        Returns:
            What was removed of each date.

        Raises:
            TableNotFoundError: There is no such date or source.
            TooEarlyError: A reader may use the files yet. The other dates were deleted first.

        Example:
            >>> trades = db.table("Equity.Trade")
            >>> _ = trades.merge("2026-11-20"), trades.truncate("2026-11-20")
            >>> [len(date.removed.locations) for date in trades.delete("2026-11-20", grace=0)]
            [1]
        """
        from sparkhaven.jobs.operations.validating import IntradayRemoval
        from sparkhaven.writers.merge.publish.publish_phase import GRACE_S

        seconds = GRACE_S if grace is None else grace
        asked = IntradayRemoval(_chosen(dates), source, allow_unevaluated, dry_run, seconds)
        return self._remove("delete", asked, on_progress)

    def delete_rows(
        self, where: str, *, dates: Names | None = None, dry_run: bool = False, on_progress: Progress = silent
    ) -> RowsDeleted:
        """Deletes rows that match a condition, from intraday and history. The same call again deletes nothing more.

        Rows that are not merged go by an epoch of each stream that has some. Merged rows go by a new generation of
        their date, which validate, truncate and later merges keep.

        Args:
            where: A condition in SQL.
            dates: Dates, and ranges ``A..B``. Default: all.
            dry_run: Only count.
            on_progress: Called with texts that say how it goes on.

        Returns:
            What was deleted: ``rows``, rows by ``dates``, ``epochs`` by stream, ``generations`` by date.

        Raises:
            TableNotFoundError: There is no such table or date.
            SchemaParseError: The table does not take the condition.
            LockLostError: A merge is running, or a stream that has such rows.

        Example:
            >>> deleted = db.table("Equity.Trade").delete_rows("Size < 100")
            >>> deleted.rows, deleted.epochs
            (1, {'test': 2})
        """
        from sparkhaven.jobs.operations.rewriting import RowsDeleted, delete_rows

        done = delete_rows(self._writable(), where, as_names(dates), on_progress, dry_run=dry_run)
        for error in done.failed.values():
            raise as_ours(error)
        return RowsDeleted.of(done, dry_run=dry_run)

    def rewrite_columns(
        self,
        dates: Names,
        *,
        spark: bool = False,
        dry_run: bool = False,
        on_progress: Progress = silent,
        **changes: Unpack[RewriteKeywords],
    ) -> list[DateResult]:
        """Rewrites columns of merged dates, each date as a new generation; digests prove that no other column changes.

        A function of ``set`` gets record batches of up to 262,144 rows, and returns an Arrow array with a value for
        each row. It is known by its name, its code and the plain values that it uses. Dates come one after the other;
        the first error ends the call.

        Args:
            dates: Dates, and ranges ``A..B``.
            spark: Rewrite in Spark. Functions run in this process only.
            dry_run: Only plan.
            on_progress: Called with texts that say how it goes on.
            **changes: Those of ``RewriteKeywords``: ``set``, ``add``, ``drop``, ``rename``, ``retype`` and others.

        Returns:
            A result for each date; ``corrections`` has the changed columns.

        Raises:
            TableNotFoundError: There is no such merged date.
            SettingsError: A column or expression cannot be used.
            SchemaMismatchError: A value cannot be stored in its column.
            LockLostError: A merge is running.

        Example:
            >>> trades = db.table("Equity.Trade")
            >>> _ = trades.merge("2026-11-20")
            >>> [date.generation for date in trades.rewrite_columns("2026-11-20", set={"Size": "Size * 2"})]
            [2]
        """
        from sparkhaven.jobs.operations.rewriting import RewriteKeywords, column_changes, rewrite_dates
        from sparkhaven.jobs.session.spark_or_local import HistoryRun

        refuse_keywords("Table.rewrite_columns()", changes, RewriteKeywords)
        wanted, again = column_changes(changes), changes.get("again", False)
        run = HistoryRun("spark" if spark else "local", stop_on_error=True, dry_run=dry_run, note=on_progress)
        return raised(list(rewrite_dates(self._writable(), wanted, _chosen(dates), run, again=again)))

    def undo(
        self, stream: str, epoch: int | Sequence[int], *, dry_run: bool = False, on_progress: Progress = silent
    ) -> Undone:
        """Takes out the rows of an epoch, as a new one. Later epochs stay, and so do source positions.

        Args:
            stream: The stream, which must not be running.
            epoch: The epoch, or several.
            dry_run: Change nothing.
            on_progress: Called with texts that say how it goes on.

        Returns:
            What was undone: ``epoch`` is the new one, None where there was nothing to do, for its ``reason``.

        Raises:
            TableNotFoundError: There is no such stream, or the epoch is not kept.
            TableExistsError: Rows of it are merged, or were removed.
            LockLostError: The stream is running.

        Example:
            >>> undone = db.table("Equity.Trade").undo("test", epoch=1)
            >>> undone.epoch, undone.rows
            (2, 3)
        """
        from sparkhaven.jobs.operations.epoch_changes import undo

        epochs = [epoch] if isinstance(epoch, int) else list(epoch)
        return undo(self._writable().of_stream(stream), epochs, on_progress, dry_run=dry_run)

    def rollback(self, stream: str, to: int, *, dry_run: bool = False, on_progress: Progress = silent) -> RolledBack:
        """Restores the state of an older epoch as a new one. The stream ingests what came after it again.

        Args:
            stream: The stream, which must not be running.
            to: The epoch to restore.
            dry_run: Change nothing.
            on_progress: Called with texts that say how it goes on.

        Returns:
            The rollback: ``epoch`` is the new one, ``rows`` those that it drops.

        Raises:
            TableNotFoundError: There is no such stream, or the epoch is not kept.
            TableExistsError: Rows since are merged.
            LockLostError: The stream is running.

        Example:
            >>> back = db.table("Equity.Trade").rollback("test", to=0)
            >>> back.epoch, back.rows
            (2, 3)
        """
        from sparkhaven.jobs.operations.epoch_changes import roll_back

        return roll_back(self._writable().of_stream(stream), to, on_progress, dry_run=dry_run)

    # streams, and their rejected rows

    def remove_stream(self, stream: str, *, dry_run: bool = False) -> StreamRemoval:
        """Removes a stream of which no row is left, as ``streams remove``. History and the quarantine stay.

        Args:
            stream: The stream, which must not be running.
            dry_run: Change nothing.

        Returns:
            What was removed: ``files``, and what recovery did before.

        Raises:
            TableNotFoundError: There is no such stream.
            TableExistsError: It has rows, or a location that is not deleted.
            SettingsError: A process runs it.

        Example:
            >>> trades = db.table("Equity.Trade")
            >>> _ = trades.merge("2026-11-20"), trades.truncate("2026-11-20"), trades.delete("2026-11-20", grace=0)
            >>> trades.remove_stream("test").epoch
            1
        """
        from sparkhaven.writers.removal.table_removal import remove_stream

        return remove_stream(self._writable().of_stream(stream), clock=time.time, dry_run=dry_run)

    def requeue(
        self,
        stream: str,
        stream_file: str | Path | None = None,
        *,
        repaired: str | Path | None = None,
        dry_run: bool = False,
        **rows: Unpack[RejectedKeywords],
    ) -> Requeued:
        """Ingests rejected rows again, each exactly once, as ``quarantine requeue``. Those still bad stay.

        Args:
            stream: The stream, which must not be running.
            stream_file: Its stream file. Default: that of the last run.
            repaired: Only the rows of this file of JSON lines, with its payloads; ``--from`` of the command.
            dry_run: Only try them.
            **rows: Those of ``RejectedKeywords``. Default: all that are pending.

        Returns:
            What was done: rows ``sent`` in ``epochs``, and rows that were ``refused`` or are ``not_pending``.

        Raises:
            TableNotFoundError: There is no such stream.
            SettingsError: A file is not that of the stream.
            LockLostError: The stream is running.

        Example:
            >>> db.table("Equity.Trade").requeue("test").sent
            0
        """
        from sparkhaven.jobs.operations.quarantine import (
            RejectedKeywords,
            Requeued,
            RequeueRequest,
            chosen_rows,
            requeue,
        )

        refuse_keywords("Table.requeue()", rows, RejectedKeywords)
        chosen = chosen_rows(rows, "pending")
        own, edited = (None if file is None else local_path(file) for file in (stream_file, repaired))
        done = Requeued()
        requeue(self._writable().of_stream(stream), RequeueRequest(chosen, own, edited, dry_run), done)
        return done

    def drop_rejected(
        self,
        stream: str,
        *,
        state: str = "all",
        everything: bool = False,
        dry_run: bool = False,
        **rows: Unpack[RejectedKeywords],
    ) -> int:
        """Deletes rows from the quarantine, as ``quarantine drop``. Rows that were ingested again stay in the table.

        Args:
            stream: The stream that rejected them.
            state: ``all``, ``pending`` or ``requeued``.
            everything: Drop all rows, where nothing else chooses; ``--all`` of the command.
            dry_run: Only count.
            **rows: Those of ``RejectedKeywords``.

        Returns:
            How many rows were dropped.

        Raises:
            TableNotFoundError: There is no such stream.
            SettingsError: No rows are chosen, or there is no such state.

        Example:
            >>> db.table("Equity.Trade").drop_rejected("test", reason="overflow")
            0
        """
        from sparkhaven.jobs.operations.quarantine import RejectedKeywords, chosen_rows, drop_rows

        refuse_keywords("Table.drop_rejected()", rows, RejectedKeywords)
        chosen = chosen_rows(rows, state)
        return drop_rows(self._writable().of_stream(stream), chosen, everything=everything, dry_run=dry_run)

    # dates of history

    def drop_dates(
        self, dates: Names, *, reason: str = "dropped by command", dry_run: bool = False, on_progress: Progress = silent
    ) -> list[HistoryDate]:
        """Drops dates of history, as ``dates drop``: readers no longer see them, and the merge records stay.

        Args:
            dates: Dates, and ranges ``A..B``.
            reason: Why, for the record.
            dry_run: Change nothing.
            on_progress: Called with texts that say how it goes on.

        Returns:
            What was dropped of each date. ``generation`` is 0 where it was dropped before.

        Raises:
            TableNotFoundError: There is no such merged date.
            MergeError: Intraday still has the date. The others were dropped first.
            LockLostError: A merge is running.

        Example:
            >>> trades = db.table("Equity.Trade")
            >>> _ = trades.merge_frame({"Sym": ["A"], "Size": [7], "Price": [1.5]}, "2026-11-19")
            >>> [(date.date, date.rows) for date in trades.drop_dates("2026-11-19")]
            [('2026-11-19', 1)]
        """
        from sparkhaven.jobs.operations import history_dates

        place = self._writable()
        chosen = history_dates.merged_dates(place, _chosen(dates))
        return raised(list(history_dates.drop(place, chosen, reason, _run(dry_run, on_progress))))

    def expire_dates(
        self, keep: str, *, zone: str = "UTC", dry_run: bool = False, on_progress: Progress = silent
    ) -> list[HistoryDate]:
        """Drops dates of history that are older than a period, as ``dates expire --yes``.

        Args:
            keep: How long a date stays after its day: ``400d``, ``6 months``, ``2 years``.
            zone: The time zone in which a day ends.
            dry_run: Change nothing.
            on_progress: Called with texts that say how it goes on.

        Returns:
            What was dropped of each date.

        Raises:
            SettingsError: It is no period or time zone.
            MergeError: Intraday still has a date. The others were dropped first.

        Example:
            >>> db.table("Equity.Trade").expire_dates("100 years")
            []
        """
        from sparkhaven.jobs.operations import history_dates

        place = self._writable()
        old = history_dates.expired_dates(place, keep, zone)
        return raised(list(history_dates.drop(place, old, f"older than {keep}", _run(dry_run, on_progress))))

    def adopt_dates(
        self,
        dates: Names | None = None,
        *,
        accept_loss: bool = False,
        dry_run: bool = False,
        on_progress: Progress = silent,
    ) -> list[AdoptedDate]:
        """Adopts history that was copied, moved or made elsewhere, as ``dates adopt``: merge records get its rows.

        Args:
            dates: Dates, and ranges ``A..B``. Default: every date whose history is not as its merge record says.
            accept_loss: Go on without rows of a merge that were removed by hand.
            dry_run: Change nothing.
            on_progress: Called with texts that say how it goes on.

        Returns:
            For each date the ``rows`` without a record, locations ``moved``, rows ``lost``.

        Raises:
            CorruptFileError: A location is damaged. The other dates were adopted first.
            LockLostError: A merge is running.

        Example:
            >>> db.table("Equity.Trade").adopt_dates()
            []
        """
        from sparkhaven.jobs.operations.history_dates import adopt

        choice = None if dates is None else _chosen(dates)
        return raised(list(adopt(self._writable(), choice, _run(dry_run, on_progress), accept_loss=accept_loss)))

    def move_dates(
        self,
        dates: Names,
        to: str,
        *,
        workers: int | None = None,
        stop_on_error: bool = False,
        dry_run: bool = False,
        on_progress: Progress = silent,
    ) -> list[HistoryDate]:
        """Moves dates of history to another storage partition, as ``dates move``. Readers go on.

        Args:
            dates: Dates, and ranges ``A..B``.
            to: The storage partition; ``Database.add_partition`` makes one.
            workers: Dates at once. Default: four, or as many as there are cores.
            stop_on_error: Begin no date after one has failed.
            dry_run: Change nothing.
            on_progress: Called with texts that say how it goes on.

        Returns:
            What was moved of each date. ``generation`` is 0 where it is there already.

        Raises:
            TableNotFoundError: There is no such merged date or storage partition.
            CorruptFileError: A file is damaged. The other dates were moved first.
            LockLostError: A merge is running.

        Example:
            >>> trades = db.table("Equity.Trade")
            >>> _ = trades.merge("2026-11-20")
            >>> [(date.origin, date.generation) for date in trades.move_dates("2026-11-20", "0")]
            [(('0',), 0)]
        """
        from sparkhaven.jobs.operations import history_dates

        place = self._writable()
        run = _run(dry_run, on_progress, workers, stop_on_error=stop_on_error)
        return raised(list(history_dates.move(place, history_dates.merged_dates(place, _chosen(dates)), to, run)))

    def detach_dates(
        self, dates: Names, out: str | Path, *, dry_run: bool = False, on_progress: Progress = silent
    ) -> list[HistoryDate]:
        """Takes dates of history out of the database, as ``dates detach``. ``attach_dates`` brings them back.

        Args:
            dates: Dates, and ranges ``A..B``.
            out: A directory outside of the database, in which each date gets one.
            dry_run: Change nothing.
            on_progress: Called with texts that say how it goes on.

        Returns:
            For each date its ``path``, rows and bytes. ``generation`` is 0 where it was detached before.

        Raises:
            TableNotFoundError: There is no such merged date.
            MergeError: Intraday still has the date. The others were detached first.
            LockLostError: A merge is running.

        Example:
            >>> trades = db.table("Equity.Trade")
            >>> _ = trades.merge_frame({"Sym": ["A"], "Size": [7], "Price": [1.5]}, "2026-11-19")
            >>> [date.path.name for date in trades.detach_dates("2026-11-19", root / ".." / "tape")]
            ['2026-11-19.g1']
            >>> [date.rows for date in trades.attach_dates(root / ".." / "tape")]
            [1]
        """
        from sparkhaven.jobs.operations import history_dates

        place = self._writable()
        chosen = history_dates.merged_dates(place, _chosen(dates), detached=True)
        return raised(list(history_dates.detach(place, chosen, local_path(out), _run(dry_run, on_progress))))

    def attach_dates(
        self, directory: str | Path, *, to: str | None = None, dry_run: bool = False, on_progress: Progress = silent
    ) -> list[HistoryDate]:
        """Brings detached dates back into history, as ``dates attach``. The directory stays as it is.

        Args:
            directory: That of a detached date, or one with several.
            to: The storage partition. Default: as before.
            dry_run: Only verify them.
            on_progress: Called with texts that say how it goes on.

        Returns:
            What was attached of each date. ``generation`` is 0 where it was attached before.

        Raises:
            TableNotFoundError: The directory has no detached date.
            CorruptFileError: A file is missing or damaged. The other dates were attached first.
            LockLostError: A merge is running.

        Example:
            >>> trades = db.table("Equity.Trade")
            >>> _ = trades.merge_frame({"Sym": ["A"], "Size": [7], "Price": [1.5]}, "2026-11-19")
            >>> _ = trades.detach_dates("2026-11-19", root / ".." / "tape")
            >>> [date.date for date in trades.attach_dates(root / ".." / "tape")]
            ['2026-11-19']
        """
        from sparkhaven.jobs.operations.history_dates import attach

        return raised(list(attach(self._writable(), local_path(directory), to, _run(dry_run, on_progress))))

    # copies

    def snapshot_to(
        self,
        out: str | Path,
        *,
        since: str | Path | None = None,
        epoch: int | Mapping[str, int] | None = None,
        on_progress: Progress = silent,
    ) -> TakenSnapshot:
        """Copies the table while streams, merges and readers run. The directory is itself a database root.

        Args:
            out: The directory to create.
            since: An earlier snapshot: only new bytes are copied.
            epoch: The epoch to copy, or stream -> epoch. Default: the newest.
            on_progress: Called with texts that say how it goes on.

        Returns:
            What was copied: the ``manifest``, and bytes ``copied`` and ``linked`` of the table.

        Raises:
            TableExistsError: Something is in the directory.
            SnapshotMovedError: Rows were removed again and again while they were copied.

        Example:
            >>> db.table("Equity.Trade").snapshot_to(root / ".." / "copy").manifest.tables["Equity.Trade"].rows
            3
        """
        from sparkhaven.writers.transfer.snapshots import take_snapshot

        return take_snapshot(
            self._place.fs,
            self._place.layout,
            [self._place.table],
            local_path(out),
            time_ms=int(time.time() * 1000),
            epoch=epoch,
            since=None if since is None else local_path(since),
            progress=on_progress,
        )

    def export(
        self,
        out: str | Path,
        *,
        dry_run: bool = False,
        on_progress: Progress = silent,
        **options: Unpack[ExportKeywords],
    ) -> Exported:
        """Exports a snapshot as a tree of Parquet files, which appears as a whole. The same again changes nothing.

        Args:
            out: The directory to create.
            dry_run: Only plan.
            on_progress: Called with texts that say how it goes on.
            **options: Those of ``ExportKeywords``, which are options of ``sparkhaven export``.

        Returns:
            The ``outcome``, the ``plan`` with its ``rows``, and the ``manifest`` of the files.

        Raises:
            TableExistsError: Something else is in the directory.
            SettingsError: An option has a value that it does not take.

        Example:
            >>> db.table("Equity.Trade").export(root / ".." / "tree", layout="kv").plan.rows
            3
        """
        from sparkhaven.jobs.operations.exporting import ExportKeywords, export_snapshot

        refuse_keywords("Table.export()", options, ExportKeywords)
        opened = self.snapshot(as_of=options.get("as_of"), skip_set_aside=options.get("skip_set_aside", False))
        return export_snapshot(self._place, opened, local_path(out), options, on_progress, dry_run=dry_run)

    def _remove(self, phase: Phase, asked: IntradayRemoval, on_progress: Progress) -> list[DateRemoval]:
        from sparkhaven.jobs.operations.validating import remove_intraday

        return raised(list(remove_intraday(self._writable(), phase, asked, on_progress)))

    def _writable(self) -> TablePlace:
        require_writable(self._place.layout.root)
        return self._place


def _rows(data: Any) -> Any:
    if not isinstance(data, Mapping):
        return data
    refuse_type("Table.append()", "data", data, "Mapping[str, Any]")
    return pa.table(dict(data))


def _run(
    dry_run: bool, on_progress: Progress, workers: int | None = None, *, stop_on_error: bool = False
) -> HistoryRun:
    from sparkhaven.jobs.session.spark_or_local import HistoryRun

    return HistoryRun("local", workers, stop_on_error, dry_run, note=on_progress)


def _chosen(dates: Names) -> DateChoice:
    return parse_choice(as_names(dates))


def raised(results: list[Any]) -> list[Any]:
    """The results of dates or tables, unless one has an error: the first is raised."""
    for result in results:
        if result.error is not None:
            raise as_ours(result.error)
    return results
