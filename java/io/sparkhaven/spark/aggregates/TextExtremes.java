package io.sparkhaven.spark.aggregates;

import java.util.Arrays;
import org.apache.spark.sql.vectorized.ColumnVector;

/** Least or greatest texts, where all rows of a batch have one group. */
final class TextExtremes implements Accumulator {
  private final boolean greatest;
  private TextExtreme[] extremes = {};

  TextExtremes(boolean greatest) {
    this.greatest = greatest;
  }

  @Override
  public void reserve(int groups) {
    int before = extremes.length;
    if (groups > before) {
      extremes = Arrays.copyOf(extremes, 2 * groups);
    }
    for (int group = before; group < extremes.length; group++) {
      extremes[group] = new TextExtreme(greatest);
    }
  }

  @Override
  public void add(ColumnVector values, int rows, GroupNumbers groups) {
    extremes[groups.only()].add(values, rows);
  }

  @Override
  public Object result(int group) {
    return extremes[group].result();
  }
}
