package io.sparkhaven.spark.pushdown;

import java.util.Arrays;

/** Ranges of rows: first row and row after the last of each, in turn; they ascend and leave rows between them out. */
final class RowRanges {
  private RowRanges() {}

  /** Rows that are in both. */
  static long[] intersection(long[] left, long[] right) {
    long[] both = new long[left.length + right.length];
    int length = 0;
    int one = 0;
    int other = 0;
    while (one < left.length && other < right.length) {
      long start = Math.max(left[one], right[other]);
      long stop = Math.min(left[one + 1], right[other + 1]);
      if (start < stop) {
        both[length++] = start;
        both[length++] = stop;
      }
      if (left[one + 1] < right[other + 1]) {
        one += 2;
      } else {
        other += 2;
      }
    }
    return Arrays.copyOf(both, length);
  }
}
