package io.sparkhaven.spark.aggregates;

import io.sparkhaven.spark.columns.LocationColumn;
import io.sparkhaven.spark.columns.WholeNumbers;
import java.util.Arrays;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnVector;

/** Sums of whole numbers. What does not fit into 64 bits is {@link #overflow}. */
final class LongSums extends Sums {
  private static final long LOW = 0xFFFF_FFFFL;

  private final DataType type;
  private final long[] numbers = new long[LocationColumn.MOST_ROWS];
  private final Overflow overflow = new Overflow();
  private long[] sums = {};

  /** {@code type}: of the column. */
  LongSums(DataType type) {
    this.type = type;
  }

  @Override
  void resize(int groups) {
    sums = Arrays.copyOf(sums, groups);
  }

  @Override
  void read(ColumnVector values, int rows) {
    if (values instanceof WholeNumbers whole) {
      whole.copy(rows, numbers);
    } else {
      copy(values, rows);
    }
  }

  @Override
  void addEach(int rows, int[] groups) {
    for (int row = 0; row < rows; row++) {
      if (groups[row] >= 0 && numbers[row] != WholeNumbers.NULL) {
        add(groups[row], numbers[row]);
      }
    }
  }

  private void copy(ColumnVector values, int rows) {
    for (int row = 0; row < rows; row++) {
      numbers[row] = values.isNullAt(row) ? WholeNumbers.NULL : number(values, row);
    }
  }

  private long number(ColumnVector values, int row) {
    if (type.equals(DataTypes.LongType)) {
      return values.getLong(row);
    }
    if (type.equals(DataTypes.IntegerType)) {
      return values.getInt(row);
    }
    return type.equals(DataTypes.ShortType) ? values.getShort(row) : values.getByte(row);
  }

  /** Adds both halves of the numbers by themselves, which fit: a batch has few rows. */
  @Override
  void addAll(int rows, int group) {
    long low = 0;
    long high = 0;
    int count = 0;
    for (int row = 0; row < rows; row++) {
      long number = numbers[row];
      if (number != WholeNumbers.NULL) {
        low += number & LOW;
        high += number >> 32;
        count++;
      }
    }
    high += low >>> 32;
    if (high == (int) high) {
      if (count > 0) {
        add(group, (high << 32) + (low & LOW));
      }
      return;
    }
    for (int row = 0; row < rows; row++) {
      if (numbers[row] != WholeNumbers.NULL) {
        add(group, numbers[row]);
      }
    }
  }

  private void add(int group, long number) {
    long sum = sums[group] + number;
    if (((sums[group] ^ sum) & (number ^ sum)) < 0) {
      overflow.add(group, sums[group]);
      sum = number;
    }
    sums[group] = sum;
    filled[group] = true;
  }

  @Override
  Object sum(int group) {
    return sums[group];
  }

  @Override
  public Overflow overflow() {
    return overflow;
  }
}
