package io.sparkhaven.spark.plan;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

/**
 * Ranges of rows: the first row of each, then the row after its last. They ascend, and leave rows between them out.
 */
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

  /** Number of rows. */
  public static long count(long[] ranges) {
    long rows = 0;
    for (int number = 0; number < ranges.length; number += 2) {
      rows += ranges[number + 1] - ranges[number];
    }
    return rows;
  }

  /** Rows that are in both. */
  public static long[] intersection(long[] left, long[] right) {
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

  /** Rows that are in one of several. */
  public static long[] union(List<long[]> several) {
    if (several.size() == 1) {
      return several.get(0);
    }
    int length = several.stream().mapToInt(ranges -> ranges.length).sum() / 2;
    List<long[]> pairs = new ArrayList<>(length);
    for (long[] ranges : several) {
      for (int number = 0; number < ranges.length; number += 2) {
        pairs.add(new long[] {ranges[number], ranges[number + 1]});
      }
    }
    pairs.sort(Comparator.comparingLong(pair -> pair[0]));
    long[] ascending = new long[2 * length];
    for (int number = 0; number < length; number++) {
      ascending[2 * number] = pairs.get(number)[0];
      ascending[2 * number + 1] = pairs.get(number)[1];
    }
    return closed(ascending, 0);
  }

  /**
   * The rows of ranges whose first rows ascend, with those between two ranges where they are few.
   *
   * @param few that many at most
   */
  public static long[] closed(long[] ranges, long few) {
    long[] kept = ranges.clone();
    int length = 0;
    for (int number = 0; number < ranges.length; number += 2) {
      if (length > 0 && ranges[number] - kept[length - 1] <= few) {
        kept[length - 1] = Math.max(kept[length - 1], ranges[number + 1]);
      } else {
        kept[length++] = ranges[number];
        kept[length++] = ranges[number + 1];
      }
    }
    return Arrays.copyOf(kept, length);
  }
}
