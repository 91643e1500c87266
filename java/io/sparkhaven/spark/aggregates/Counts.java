package io.sparkhaven.spark.aggregates;

import java.util.Arrays;
import org.apache.spark.sql.vectorized.ColumnVector;

/** Numbers of rows, or of values that are not null. */
final class Counts implements Accumulator {
  private long[] counts = {};

  @Override
  public void reserve(int groups) {
    if (groups > counts.length) {
      counts = Arrays.copyOf(counts, 2 * groups);
    }
  }

  @Override
  public void add(ColumnVector values, int rows, GroupNumbers groups) {
    boolean nulls = values != null && values.hasNull();
    if (groups.isOne() && !nulls) {
      counts[groups.only()] += rows;
      return;
    }
    for (int row = 0; row < rows; row++) {
      int group = groups.of(row);
      if (group >= 0 && !(nulls && values.isNullAt(row))) {
        counts[group]++;
      }
    }
  }

  @Override
  public Object result(int group) {
    return counts[group];
  }

  @Override
  public Object nothing() {
    return 0L;
  }
}
