package io.sparkhaven.spark.aggregates;

import io.sparkhaven.spark.columns.FloatingNumbers;
import io.sparkhaven.spark.columns.LocationColumn;
import java.util.Arrays;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnVector;

/** Sums of floating-point numbers, row after row, as Spark adds them. */
final class DoubleSums extends Sums {
  private final boolean isFloat;
  private final double[] numbers = new double[LocationColumn.MOST_ROWS];
  private double[] sums = {};

  /** {@code type}: of the column. */
  DoubleSums(DataType type) {
    isFloat = type.equals(DataTypes.FloatType);
  }

  @Override
  void resize(int groups) {
    sums = Arrays.copyOf(sums, groups);
  }

  @Override
  void read(ColumnVector values, int rows) {
    if (values instanceof FloatingNumbers floating) {
      floating.copy(rows, numbers);
    } else {
      copy(values, rows);
    }
  }

  @Override
  void addEach(int rows, int[] groups) {
    for (int row = 0; row < rows; row++) {
      if (groups[row] >= 0 && numbers[row] != FloatingNumbers.NULL) {
        sums[groups[row]] += numbers[row];
        filled[groups[row]] = true;
      }
    }
  }

  private void copy(ColumnVector values, int rows) {
    for (int row = 0; row < rows; row++) {
      numbers[row] =
          values.isNullAt(row) ? FloatingNumbers.NULL : isFloat ? values.getFloat(row) : values.getDouble(row);
    }
  }

  @Override
  void addAll(int rows, int group) {
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
  Object sum(int group) {
    return sums[group];
  }
}
