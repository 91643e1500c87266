package io.sparkhaven.spark;

import org.apache.spark.sql.SparkSession;
import scala.Option;

/**
 * Functions of Python over columns that Java reads. Spark 4.2.0 can hand over whole columns, and then waits for ever
 * unless they are Arrow's; with files of its own Parquet, too. So sessions that read by Java hand over rows.
 */
final class PythonFunctions {
  private static final String WHOLE_COLUMNS = "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled";

  private PythonFunctions() {}

  /** For this query and later ones of the session; releases without that setting always hand over rows. */
  static void takeRows() {
    Option<SparkSession> session = SparkSession.getActiveSession();
    if (session.isDefined() && session.get().conf().getOption(WHOLE_COLUMNS).contains("true")) {
      session.get().conf().set(WHOLE_COLUMNS, "false");
    }
  }
}
