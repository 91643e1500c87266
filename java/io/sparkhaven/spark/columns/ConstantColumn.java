package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.plan.PlannedColumn;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.unsafe.types.UTF8String;

/** The same value in all rows: a text, or none. */
public final class ConstantColumn extends LocationColumn {
  private ConstantColumn(ConstantColumnVector vector) {
    super(vector, null);
  }

  /** The partition value in all rows; of other columns no value: null, or the empty set, since sets have no null. */
  public static ConstantColumn of(PlannedColumn column, String partition) {
    ConstantColumnVector vector = new ConstantColumnVector(MOST_ROWS, column.type());
    vector.setNotNull();
    if (column.partitioning()) {
      vector.setUtf8String(UTF8String.fromString(partition));
    } else if (column.form().storage().equals("SET")) {
      vector.setArray(new ColumnarArray(new OnHeapColumnVector(0, DataTypes.StringType), 0, 0));
    } else {
      vector.setNull();
    }
    return new ConstantColumn(vector);
  }

  @Override
  public void move(long first, int rows) {}
}
