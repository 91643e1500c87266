package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.plan.PlannedColumn;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.unsafe.types.UTF8String;

/** The same value in all rows: a text, or none. */
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

  /** No value in all rows: null, or the empty set, since sets have no null. */
  public static ConstantColumn none(PlannedColumn planned) {
    ConstantColumn column = new ConstantColumn(planned.type());
    if (planned.form().storage().equals("SET")) {
      column.vector.setNotNull();
      column.vector.setArray(new ColumnarArray(new OnHeapColumnVector(0, DataTypes.StringType), 0, 0));
    } else {
      column.vector.setNull();
    }
    return column;
  }

  @Override
  public ColumnVector vector() {
    return vector;
  }

  @Override
  public void move(long first, int rows) {}
}
