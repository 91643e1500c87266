package io.sparkhaven.spark.plan;

import java.util.Arrays;

/** Ranges of rows, one after the other: the first row of each, then the row after its last. */
public final class RowRanges {
  private RowRanges() {}

  /** The first so many rows of ranges. */
  public static long[] first(long[] ranges, long rows) {
    long[] kept = ranges.clone();
    long left = rows;
    for (int number = 0; number < kept.length; number += 2) {
      long length = kept[number + 1] - kept[number];
      if (length >= left) {
        kept[number + 1] = kept[number] + left;
        return Arrays.copyOf(kept, number + 2);
      }
      left -= length;
    }
    return kept;
  }

  /** The ranges without their first so many rows, of which there are more. */
  public static long[] without(long[] ranges, long rows) {
    long left = rows;
    for (int number = 0; number < ranges.length; number += 2) {
      long length = ranges[number + 1] - ranges[number];
      if (length > left) {
        long[] kept = Arrays.copyOfRange(ranges, number, ranges.length);
        kept[0] += left;
        return kept;
      }
      left -= length;
    }
    return new long[0];
  }
}
