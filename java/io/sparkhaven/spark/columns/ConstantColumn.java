package io.sparkhaven.spark.columns;

import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.types.UTF8String;

/** The same text, or null, in all rows. */
public final class ConstantColumn extends LocationColumn {
  private final ConstantColumnVector vector;

  private ConstantColumn(DataType type) {
    vector = new ConstantColumnVector(MOST_ROWS, type);
  }

  /** The text in all rows. */
  public static ConstantColumn text(DataType type, String text) {
    ConstantColumn column = new ConstantColumn(type);
    column.vector.setNotNull();
    column.vector.setUtf8String(UTF8String.fromString(text));
    return column;
  }

  /** Null in all rows. */
  public static ConstantColumn nulls(DataType type) {
    ConstantColumn column = new ConstantColumn(type);
    column.vector.setNull();
    return column;
  }

  @Override
  public ColumnVector vector() {
    return vector;
  }

  @Override
  public void move(long first, int rows) {}
}
