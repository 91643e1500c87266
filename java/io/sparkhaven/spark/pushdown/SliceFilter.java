package io.sparkhaven.spark.pushdown;

import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.plan.PlannedSlice;
import io.sparkhaven.spark.plan.RowRanges;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Leaves out rows for which conditions cannot be true, as far as partition value and statistics tell. */
final class SliceFilter {
  private final List<RowTest> tests;
  private final Map<String, PlannedColumn> columns = new HashMap<>();

  /** {@code columns}: of the table. */
  SliceFilter(List<RowTest> tests, List<PlannedColumn> columns) {
    this.tests = tests;
    Set<String> names = new LinkedHashSet<>();
    tests.forEach(test -> test.addColumns(names));
    for (PlannedColumn column : columns) {
      if (names.contains(column.name())) {
        this.columns.put(column.name(), column);
      }
    }
  }

  /** The slices that may have a row for which all conditions are true, with the rows that may. */
  List<PlannedSlice> narrowed(List<PlannedSlice> slices) {
    List<PlannedSlice> kept = new ArrayList<>();
    for (PlannedSlice slice : slices) {
      PlannedSlice narrowed = narrowed(slice);
      if (narrowed != null) {
        kept.add(narrowed);
      }
    }
    return kept;
  }

  private PlannedSlice narrowed(PlannedSlice slice) {
    SliceStatistics statistics = new SliceStatistics(slice, columns);
    long[] edges = statistics.edges();
    long[] kept = new long[2 * edges.length];
    int length = 0;
    for (int number = 0; number + 1 < edges.length; number++) {
      if (!mayMatch(statistics, edges[number], edges[number + 1])) {
        continue;
      }
      if (length > 0 && kept[length - 1] == edges[number]) {
        kept[length - 1] = edges[number + 1];
      } else {
        kept[length++] = edges[number];
        kept[length++] = edges[number + 1];
      }
    }
    if (length == 2 && kept[0] == slice.start() && kept[1] == slice.stop()) {
      return slice;
    }
    long[] ranges = RowRanges.intersection(slice.ranges(), Arrays.copyOf(kept, length));
    return ranges.length == 0 ? null : slice.limited(ranges);
  }

  private boolean mayMatch(SliceStatistics statistics, long start, long stop) {
    for (RowTest test : tests) {
      if ((test.outcomes(statistics.within(start, stop)) & Outcomes.TRUE) == 0) {
        return false;
      }
    }
    return true;
  }
}
