"""The data source ``deephaven`` in a session, by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkhaven.jobs.dataframes.source import DeephavenSource
from sparkhaven.jobs.session.interpreter import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME_IS_TAKEN = "DATA_SOURCE_ALREADY_EXISTS"
_IN_JAVA = "org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource"


def register_source(spark: SparkSession) -> None:
    """Makes Python's source known to a session.

    Spark takes no source of a name that it finds by itself. It may have found Python's, in the installed package. Or
    it has found Java's, in a jar: that one asks Python's, which is then given to the session without this check.
    """
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(DeephavenSource)
    except AnalysisException as error:
        if error.getCondition() != _NAME_IS_TAKEN:
            raise
        if not is_remote(spark):
            _register_beside_java(spark)


def _register_beside_java(spark: SparkSession) -> None:
    from pyspark.sql.udf import _wrap_function

    name, context = DeephavenSource.name(), spark.sparkContext
    sources = spark._jsparkSession.sessionState().dataSourceManager()
    if not sources.dataSourceExists(name):
        source = getattr(context._jvm, _IN_JAVA)(_wrap_function(context, DeephavenSource))
        sources.registerDataSource(name, source)
