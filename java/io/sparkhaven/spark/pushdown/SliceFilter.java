package io.sparkhaven.spark.pushdown;

import io.sparkhaven.spark.plan.Plan;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.plan.PlannedSlice;
import io.sparkhaven.spark.plan.RangeStatistics;
import io.sparkhaven.spark.plan.RowRanges;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.unsafe.types.UTF8String;

/** Leaves out rows for which conditions cannot be true, as far as partition value and statistics tell. */
final class SliceFilter {
  private final Plan plan;
  private final List<RowTest> tests;
  private final Set<String> names = new LinkedHashSet<>();

  SliceFilter(Plan plan, List<RowTest> tests) {
    this.plan = plan;
    this.tests = tests;
    tests.forEach(test -> test.addColumns(names));
  }

  /** The slices that may have a row for which all conditions are true, with the rows that may. */
  List<PlannedSlice> narrowed() {
    return plan.slices().stream().map(this::narrowed).filter(Objects::nonNull).toList();
  }

  private PlannedSlice narrowed(PlannedSlice slice) {
    Map<String, List<RangeStatistics>> statistics = new HashMap<>();
    names.forEach(name -> statistics.put(name, slice.statistics(name)));
    long[] edges = edges(slice, statistics);
    long[] kept = new long[2 * edges.length];
    int length = 0;
    for (int number = 0; number + 1 < edges.length; number++) {
      if (mayMatch(slice, statistics, edges[number], edges[number + 1])) {
        kept[length++] = edges[number];
        kept[length++] = edges[number + 1];
      }
    }
    long[] some = RowRanges.closed(Arrays.copyOf(kept, length), 0);
    if (some.length == 2 && some[0] == slice.start() && some[1] == slice.stop()) {
      return slice;
    }
    long[] ranges = RowRanges.intersection(slice.ranges(), some);
    return ranges.length == 0 ? null : slice.limited(ranges);
  }

  /** Rows at which a column's statistics begin or end, with the first row and that after the last. */
  private static long[] edges(PlannedSlice slice, Map<String, List<RangeStatistics>> statistics) {
    TreeSet<Long> edges = new TreeSet<>();
    statistics.values().forEach(ranges -> ranges.forEach(range -> edges.addAll(List.of(range.start(), range.stop()))));
    edges.removeIf(edge -> edge < slice.start() || edge > slice.stop());
    edges.addAll(List.of(slice.start(), slice.stop()));
    return edges.stream().mapToLong(Long::longValue).toArray();
  }

  private boolean mayMatch(
      PlannedSlice slice, Map<String, List<RangeStatistics>> statistics, long start, long stop) {
    return tests.stream()
        .allMatch(
            test ->
                (test.outcomes(name -> values(slice, plan.column(name), statistics.get(name), start, stop))
                        & Outcomes.TRUE)
                    != 0);
  }

  /** What is known of a column in rows [start, stop), between two edges that follow each other. */
  private static ColumnValues values(
      PlannedSlice slice, PlannedColumn column, List<RangeStatistics> ranges, long start, long stop) {
    if (column.partitioning()) {
      return ColumnValues.one(UTF8String.fromString(slice.location().value()));
    }
    if (column.form().hasOtherNull()) { // statistics count others
      return ColumnValues.UNKNOWN;
    }
    for (RangeStatistics range : ranges) {
      if (range.start() <= start && stop <= range.stop()) {
        ValueOrder order = ValueOrder.of(column);
        Object low = order == null ? null : order.bound(range.low());
        Object high = order == null ? null : order.bound(range.high());
        boolean others = range.nulls() + range.nans() < range.stop() - range.start();
        return new ColumnValues(range.nulls() > 0, range.nans() > 0, others, low, high);
      }
    }
    return ColumnValues.UNKNOWN;
  }
}
