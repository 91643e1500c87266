package io.sparkhaven.spark.pushdown;

import io.sparkhaven.spark.plan.PlannedSlice;
import java.util.ArrayList;
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
      kept.add(count <= left ? slice : slice.limited(slice.first(left)));
      left -= count;
    }
    return kept;
  }
}
