package io.sparkhaven.spark.aggregates;

import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.plan.PlannedSlice;
import io.sparkhaven.spark.plan.RangeStatistics;
import io.sparkhaven.spark.pushdown.ValueOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What the plan alone answers: counts of rows, counts of values and least and greatest values as far as the statistics
 * are those of exactly the rows that are read, over all rows or for each partition value.
 */
public final class StatisticsAnswer {
  private StatisticsAnswer() {}

  /** A row a group, and one where nothing is grouped by; null: slices do not tell. */
  public static InternalRow[] of(AskedAggregates asked, List<PlannedSlice> slices) {
    int groups = asked.groups().size();
    if (asked.isMixed()) {
      return null;
    }
    Map<String, List<PlannedSlice>> grouped = new TreeMap<>();
    if (groups == 0) {
      grouped.put("", slices);
    } else {
      slices.forEach(
          slice -> grouped.computeIfAbsent(slice.location().value(), value -> new ArrayList<>()).add(slice));
    }
    List<InternalRow> rows = new ArrayList<>();
    for (Map.Entry<String, List<PlannedSlice>> group : grouped.entrySet()) {
      Object[] row = new Object[groups + asked.functions().size()];
      for (int number = 0; number < groups; number++) {
        row[number] = UTF8String.fromString(group.getKey());
      }
      for (int number = groups; number < row.length; number++) {
        AskedAggregates.Function function = asked.functions().get(number - groups);
        if (!isKnown(function, group.getValue())) {
          return null;
        }
        row[number] = result(function, group.getValue());
      }
      rows.add(new GenericInternalRow(row));
    }
    return rows.toArray(InternalRow[]::new);
  }

  private static boolean isKnown(AskedAggregates.Function function, List<PlannedSlice> slices) {
    PlannedColumn column = function.column();
    if (column == null) {
      return true;
    }
    ValueOrder order = ValueOrder.of(column);
    boolean cut = function.isExtreme() && order == ValueOrder.TEXTS; // bounds of texts may be
    if (function.kind() == AskedAggregates.Kind.SUM || column.partitioning() || column.form().hasOtherNull() || cut) {
      return false;
    }
    for (PlannedSlice slice : slices) {
      List<RangeStatistics> ranges = slice.statistics(column.name());
      if (!covers(slice, ranges) || function.isExtreme() && !ranges.stream().allMatch(range -> hasBounds(range, order))) {
        return false;
      }
    }
    return !function.isExtreme() || !(extreme(function, slices) instanceof Double zero && zero == 0); // which of both?
  }

  /** Whether statistics are there of exactly the rows of a slice. */
  private static boolean covers(PlannedSlice slice, List<RangeStatistics> ranges) {
    long covered = slice.start();
    for (RangeStatistics range : ranges) {
      if (range.start() != covered) {
        return false;
      }
      covered = range.stop();
    }
    return covered == slice.stop() && slice.whole();
  }

  private static boolean hasBounds(RangeStatistics range, ValueOrder order) {
    boolean values = range.nulls() + range.nans() < range.stop() - range.start();
    return !values || order.bound(range.low()) != null && order.bound(range.high()) != null;
  }

  private static Object result(AskedAggregates.Function function, List<PlannedSlice> slices) {
    if (function.isExtreme()) {
      return ValueOrder.internal(extreme(function, slices), function.type());
    }
    long rows = 0;
    for (PlannedSlice slice : slices) {
      rows += slice.count();
      if (function.column() != null) {
        rows -= slice.statistics(function.column().name()).stream().mapToLong(RangeStatistics::nulls).sum();
      }
    }
    return rows;
  }

  /** The least or the greatest value; null where there is none. NaN is the greatest. */
  private static Object extreme(AskedAggregates.Function function, List<PlannedSlice> slices) {
    ValueOrder order = ValueOrder.of(function.column());
    boolean greatest = function.kind() == AskedAggregates.Kind.GREATEST;
    List<Object> values = new ArrayList<>();
    for (PlannedSlice slice : slices) {
      for (RangeStatistics range : slice.statistics(function.column().name())) {
        Object bound = order.bound(greatest ? range.high() : range.low());
        if (bound != null) {
          values.add(bound);
        }
        if (range.nans() > 0) {
          values.add(Double.NaN);
        }
      }
    }
    return values.stream().reduce((one, other) -> order.compare(one, other) < 0 == greatest ? other : one).orElse(null);
  }
}
