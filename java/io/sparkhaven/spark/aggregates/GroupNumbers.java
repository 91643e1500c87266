package io.sparkhaven.spark.aggregates;

/**
 * The groups of the rows of a batch, by number.
 *
 * @param only the group of all rows; below 0: they have several
 * @param numbers by row, {@link #NONE} for a row that is left out; not used where all rows have one group
 */
record GroupNumbers(int only, int[] numbers) {
  static final int NONE = -1;

  static GroupNumbers one(int group) {
    return new GroupNumbers(group, new int[0]);
  }

  static GroupNumbers several(int[] numbers) {
    return new GroupNumbers(NONE, numbers);
  }

  boolean isOne() {
    return only >= 0;
  }

  /** The group of a row. */
  int of(int row) {
    return only >= 0 ? only : numbers[row];
  }
}
