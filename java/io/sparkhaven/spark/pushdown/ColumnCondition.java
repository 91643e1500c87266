package io.sparkhaven.spark.pushdown;

import io.sparkhaven.spark.columns.TextCondition;
import java.io.Serializable;
import org.apache.spark.unsafe.types.UTF8String;

/** A condition of one column of symbols, which goes with the tasks: rows for which it is not true need not be read. */
public final class ColumnCondition implements TextCondition, Serializable {
  private static final long serialVersionUID = 1;
  private static final ColumnValues NULL = new ColumnValues(true, false, false, null, null);

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

  @Override
  public boolean mayBeTrue(UTF8String text) {
    ColumnValues values = text == null ? NULL : ColumnValues.one(text);
    return (test.outcomes(name -> values) & Outcomes.TRUE) != 0;
  }
}
