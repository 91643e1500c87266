package io.sparkhaven.spark.plan;

import java.io.Serializable;
import org.apache.spark.sql.types.DataType;

/**
 * A column of the data frame, and the forms in which files may have it.
 *
 * @param name in the data frame
 * @param id number in the history of the schema, which no other column has
 * @param partitioning whether it is the value of the location's directory, and has no files
 * @param forms the newest first; none of the partitioning column
 * @param type in the data frame
 * @param instant option {@code instant}: timestamp, timestamp-truncate or long
 * @param chars option {@code char}: string or int
 */
public record PlannedColumn(
    String name, int id, boolean partitioning, ColumnForm[] forms, DataType type, String instant, String chars)
    implements Serializable {
  /** The newest form. */
  public ColumnForm form() {
    return forms[0];
  }
}
