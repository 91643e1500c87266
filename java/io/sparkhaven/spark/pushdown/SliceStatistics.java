package io.sparkhaven.spark.pushdown;

import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.plan.PlannedSlice;
import io.sparkhaven.spark.plan.RangeStatistics;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.Function;
import org.apache.spark.unsafe.types.UTF8String;

/** What is known of some columns in one slice. */
final class SliceStatistics {
  private final PlannedSlice slice;
  private final Map<String, PlannedColumn> columns;
  private final Map<String, List<RangeStatistics>> ranges = new HashMap<>();

  SliceStatistics(PlannedSlice slice, Map<String, PlannedColumn> columns) {
    this.slice = slice;
    this.columns = columns;
    columns.forEach((name, column) -> {
      if (!column.partitioning()) {
        ranges.put(name, slice.statistics(name));
      }
    });
  }

  /** Rows at which a column's statistics begin or end, with the first row and that after the last. */
  long[] edges() {
    TreeSet<Long> edges = new TreeSet<>(List.of(slice.start(), slice.stop()));
    for (List<RangeStatistics> column : ranges.values()) {
      for (RangeStatistics range : column) {
        for (long edge : new long[] {range.start(), range.stop()}) {
          if (edge > slice.start() && edge < slice.stop()) {
            edges.add(edge);
          }
        }
      }
    }
    return edges.stream().mapToLong(Long::longValue).toArray();
  }

  /** What is known of each column in rows [start, stop), between two edges that follow each other. */
  Function<String, ColumnValues> within(long start, long stop) {
    return name -> values(columns.get(name), start, stop);
  }

  private ColumnValues values(PlannedColumn column, long start, long stop) {
    if (column.partitioning()) {
      return ColumnValues.one(UTF8String.fromString(slice.location().value()));
    }
    if (column.form().hasOtherNull()) { // statistics count others
      return ColumnValues.UNKNOWN;
    }
    for (RangeStatistics range : ranges.get(column.name())) {
      if (range.start() <= start && stop <= range.stop()) {
        return values(range, ValueOrder.of(column));
      }
    }
    return ColumnValues.UNKNOWN;
  }

  private static ColumnValues values(RangeStatistics range, ValueOrder order) {
    long rows = range.stop() - range.start();
    Object low = order == null || range.low() == null ? null : order.bound(range.low());
    Object high = order == null || range.high() == null ? null : order.bound(range.high());
    boolean others = range.nulls() + range.nans() < rows;
    return new ColumnValues(range.nulls() > 0, range.nans() > 0, others, low, high);
  }
}
