package io.sparkhaven.spark.aggregates;

import org.apache.spark.sql.vectorized.ColumnVector;

/** One aggregate of a query, by group. */
interface Accumulator {
  /** Makes room for so many groups. */
  void reserve(int groups);

  /**
   * Adds the rows of a batch.
   *
   * @param values of the column that is aggregated; null: rows are counted
   */
  void add(ColumnVector values, int rows, GroupNumbers groups);

  /** What a group has, in the form that Spark has inside; null: no value was added. */
  Object result(int group);

  /** What stands in a row that another aggregate needs for itself, and adds nothing. */
  default Object nothing() {
    return null;
  }

  /** Parts of the result that {@link #result} does not have, since both together are too large. */
  default Overflow overflow() {
    return Overflow.NONE;
  }
}
