package io.sparkhaven.spark.aggregates;

import io.sparkhaven.spark.columns.FloatingNumbers;
import io.sparkhaven.spark.columns.LocationColumn;
import java.util.Arrays;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnVector;

/** Sums of floating-point numbers, row after row, as Spark adds them. */
final class DoubleSums implements Accumulator {
  private final boolean isFloat;
  private final double[] numbers = new double[LocationColumn.MOST_ROWS];
  private double[] sums = {};
  private boolean[] filled = {};

  /** {@code type}: of the column. */
  DoubleSums(DataType type) {
    isFloat = type.equals(DataTypes.FloatType);
  }

  @Override
  public void reserve(int groups) {
    if (groups > sums.length) {
      sums = Arrays.copyOf(sums, 2 * groups);
      filled = Arrays.copyOf(filled, 2 * groups);
    }
  }

  @Override
  public void add(ColumnVector values, int rows, GroupNumbers groups) {
    if (values instanceof FloatingNumbers floating) {
      floating.copy(rows, numbers);
    } else {
      copy(values, rows);
    }
    if (groups.isOne()) {
      addAll(rows, groups.only());
      return;
    }
    int[] group = groups.numbers();
    for (int row = 0; row < rows; row++) {
      if (group[row] >= 0 && numbers[row] != FloatingNumbers.NULL) {
        sums[group[row]] += numbers[row];
        filled[group[row]] = true;
      }
    }
  }

  private void copy(ColumnVector values, int rows) {
    for (int row = 0; row < rows; row++) {
      numbers[row] =
          values.isNullAt(row) ? FloatingNumbers.NULL : isFloat ? values.getFloat(row) : values.getDouble(row);
    }
  }

  private void addAll(int rows, int group) {
    double sum = sums[group];
    boolean any = filled[group];
    for (int row = 0; row < rows; row++) {
      if (numbers[row] != FloatingNumbers.NULL) {
        sum += numbers[row];
        any = true;
      }
    }
    sums[group] = sum;
    filled[group] = any;
  }

  @Override
  public Object result(int group) {
    return filled[group] ? (Object) sums[group] : null;
  }
}
