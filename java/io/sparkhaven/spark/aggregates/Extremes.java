package io.sparkhaven.spark.aggregates;

import io.sparkhaven.spark.pushdown.RowValues;
import java.util.Arrays;
import org.apache.spark.sql.vectorized.ColumnVector;

/** Least or greatest values of any type that has an order. Of equal ones the first stays. */
final class Extremes implements Accumulator {
  private final RowValues values;
  private final boolean greatest;
  private Object[] extremes = {};

  Extremes(RowValues values, boolean greatest) {
    this.values = values;
    this.greatest = greatest;
  }

  @Override
  public void reserve(int groups) {
    if (groups > extremes.length) {
      extremes = Arrays.copyOf(extremes, 2 * groups);
    }
  }

  @Override
  public void add(ColumnVector vector, int rows, GroupNumbers groups) {
    for (int row = 0; row < rows; row++) {
      int group = groups.of(row);
      if (group < 0 || vector.isNullAt(row)) {
        continue;
      }
      Object value = values.internal(vector, row);
      int sign = extremes[group] == null ? 0 : values.compare(value, extremes[group]);
      if (extremes[group] == null || (greatest ? sign > 0 : sign < 0)) {
        extremes[group] = value;
      }
    }
  }

  @Override
  public Object result(int group) {
    return extremes[group];
  }
}
