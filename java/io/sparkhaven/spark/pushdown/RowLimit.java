package io.sparkhaven.spark.pushdown;

import io.sparkhaven.spark.plan.PlannedSlice;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** The first rows of slices. */
public final class RowLimit {
  private RowLimit() {}

  /** Slices with the first so many rows alone; all of them where there are fewer. */
  public static List<PlannedSlice> first(List<PlannedSlice> slices, long rows) {
    List<PlannedSlice> kept = new ArrayList<>();
    long left = rows;
    for (PlannedSlice slice : slices) {
      if (left <= 0) {
        break;
      }
      long count = slice.count();
      kept.add(count <= left ? slice : slice.limited(first(slice.ranges(), left)));
      left -= count;
    }
    return kept;
  }

  private static long[] first(long[] ranges, long rows) {
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
}
