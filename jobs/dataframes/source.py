"""The data source ``deephaven``. Spark asks it for a schema once, when ``load`` is called: that pins the snapshot.

Spark pickles the source from one process to the next, and with it the snapshot; what reads has what it needs in its
tasks. So the source gives the snapshot away to the reader that it makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, DataSourceStreamReader

from sparkhaven.readers.spark.releases import message_first

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter
    from pyspark.sql.types import StructType

    from sparkhaven.readers.arrow.pinned_table import PinnedTable
    from sparkhaven.readers.spark.jvm.plan_file import PlanRequest
    from sparkhaven.readers.spark.options import ReadOptions


class DeephavenSource(DataSource):  # type: ignore[misc]
    """``format("deephaven")`` of ``spark.read``, ``readStream``, ``write``, ``writeStream``; imports modules on use."""

    _table: PinnedTable | None = None

    @classmethod
    def name(cls) -> str:
        return "deephaven"

    @message_first()
    def schema(self) -> StructType:
        """The columns of the data frame; pins the snapshot that it shows, and gives Java its plan if it asks."""
        import os

        from sparkhaven.readers.spark.batch import shown_columns
        from sparkhaven.readers.spark.options import read_options
        from sparkhaven.readers.spark.spark_types import spark_schema

        given, request = self._asked()
        options = read_options(given if request is None else {**given, "reader": request.reader}, os.environ)
        table = self._opened(options)
        schema = spark_schema(shown_columns(table, options), options)
        if request is None or not request.answer(table, options):
            self._table = table.detached()  # else Java reads it
        return schema

    @message_first()
    def reader(self, schema: StructType) -> DataSourceReader:
        from sparkhaven.readers.spark.batch import SnapshotReader

        options = self._options(stream=False)
        if options.reader == "jvm":
            from sparkhaven.readers.spark.jvm.plan_file import refused

            raise refused("the schema was given, or the session has no jar: set spark.sparkhaven.reader and register")
        return SnapshotReader(self._given(schema, options), options)

    @message_first()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from sparkhaven.readers.spark.batch import WholeBatches
        from sparkhaven.readers.spark.releases import installed_spark
        from sparkhaven.readers.spark.source_api import HAS_LIMITS
        from sparkhaven.readers.spark.stream import EpochReader
        from sparkhaven.store.errors import SettingsError

        options = self._options(stream=True)
        reader = EpochReader(self._given(schema, options), options)
        if HAS_LIMITS:
            return reader
        if options.max_rows:
            raise SettingsError(
                "this release of Spark cannot limit the batches of a source",
                where="option maxRowsPerTrigger",
                expected="pyspark 4.2 or later",
                found=f"pyspark {installed_spark().version}",
                hint="leave the option out. A batch then has all that is there",
            )
        return WholeBatches(reader)

    @message_first()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from sparkhaven.jobs.dataframes.source_writers import batch_writer
        from sparkhaven.jobs.dataframes.user_writer import user_writer
        from sparkhaven.jobs.settings.source_options import names_user_table

        if names_user_table(self.options):
            return user_writer(self.options, schema, overwrite)
        return batch_writer(self.options, schema, overwrite)

    @message_first()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from sparkhaven.jobs.dataframes.source_writers import stream_writer

        return stream_writer(self.options, schema, overwrite)

    def _given(self, schema: StructType, options: ReadOptions) -> PinnedTable:
        """The pinned snapshot, or a new one for a frame whose schema the user has given."""
        from sparkhaven.readers.spark.spark_types import require_schema, spark_schema

        table, self._table = self._table or self._opened(options).detached(), None
        require_schema(schema, spark_schema(table.columns(options.columns), options), table.name)
        return table

    def _options(self, *, stream: bool) -> ReadOptions:
        import os

        from sparkhaven.readers.spark.options import read_options

        return read_options(self._asked()[0], os.environ, stream=stream)

    def _asked(self) -> tuple[dict[str, str], PlanRequest | None]:
        from sparkhaven.readers.spark.jvm.plan_file import split_request

        return split_request(self.options)

    def _opened(self, options: ReadOptions) -> PinnedTable:
        return options.pinned()
