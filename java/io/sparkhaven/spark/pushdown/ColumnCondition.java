package io.sparkhaven.spark.pushdown;

import java.io.Serializable;
import org.apache.spark.unsafe.types.UTF8String;

/** A condition of one column of symbols, which goes with the tasks: rows for which it is not true need not be read. */
public final class ColumnCondition implements Serializable {
  private static final long serialVersionUID = 1;

  private final String column;
  private final RowTest test;

  ColumnCondition(String column, RowTest test) {
    this.column = column;
    this.test = test;
  }

  /** Name of the column in the data frame. */
  public String column() {
    return column;
  }

  /** Whether it may be true for a text, or for null. */
  public boolean mayBeTrue(UTF8String text) {
    ColumnValues values = ColumnValues.one(text);
    return (test.outcomes(name -> values) & Outcomes.TRUE) != 0;
  }
}
