package io.sparkhaven.spark.aggregates;

import java.util.Arrays;
import org.apache.spark.sql.vectorized.ColumnVector;

/** Sums of the values of a column. The sum of no value is null. */
abstract class Sums implements Accumulator {
  /** By group: whether a value was added. */
  boolean[] filled = {};

  @Override
  public final void reserve(int groups) {
    if (groups > filled.length) {
      filled = Arrays.copyOf(filled, 2 * groups);
      resize(filled.length);
    }
  }

  @Override
  public final void add(ColumnVector values, int rows, GroupNumbers groups) {
    read(values, rows);
    if (groups.isOne()) {
      addAll(rows, groups.only());
    } else {
      addEach(rows, groups.numbers());
    }
  }

  @Override
  public final Object result(int group) {
    return filled[group] ? sum(group) : null;
  }

  /** Makes room for the sums of so many groups. */
  abstract void resize(int groups);

  /** Takes the values of a batch. */
  abstract void read(ColumnVector values, int rows);

  /** Adds what was read last, all to one group. */
  abstract void addAll(int rows, int group);

  /** Adds what was read last, each row to its group. */
  abstract void addEach(int rows, int[] groups);

  /** What was added to a group. */
  abstract Object sum(int group);
}
