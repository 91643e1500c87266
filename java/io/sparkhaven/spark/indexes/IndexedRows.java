package io.sparkhaven.spark.indexes;

import io.sparkhaven.spark.files.Checksums;
import io.sparkhaven.spark.plan.Plan;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.plan.PlannedSlice;
import io.sparkhaven.spark.plan.RowRanges;
import io.sparkhaven.spark.pushdown.Lookup;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * Slices of history with only those rows that an index gives for the {@code =} and {@code in} of a query. Spark still
 * evaluates its filter on each row that is read. So an index may give too many rows, never too few.
 */
public final class IndexedRows {
  private static final int SCATTERED = 4; // of so many rows one, in short ranges, is too many to save anything
  private static final int LONG = 1 << 12; // rows of a range that is not short
  private static final int NEAR = 128; // rows that cost as much as one more batch

  private IndexedRows() {}

  /**
   * The slices that may have a row for which the lookup holds, with the rows that may, in their order. All cores look
   * keys up, each in another location.
   *
   * @param lookup null: all rows may
   */
  public static List<PlannedSlice> narrowed(List<PlannedSlice> slices, Lookup lookup, Plan plan) {
    if (lookup == null) {
      return slices;
    }
    Map<String, PlannedColumn> columns = new HashMap<>();
    plan.columns().forEach(column -> columns.put(column.name(), column));
    Checksums asked = Checksums.of(plan.checksums());
    Checksums checks = asked == null ? Checksums.of("read") : asked; // a wrong index would leave rows out
    return slices.parallelStream()
        .map(
            slice ->
                slice.indexes().isEmpty()
                    ? slice
                    : narrowed(slice, new LocationLookup(slice, columns, checks).rows(lookup)))
        .filter(Objects::nonNull)
        .toList();
  }

  private static PlannedSlice narrowed(PlannedSlice slice, long[] rows) {
    if (rows == null) {
      return slice;
    }
    long count = RowRanges.count(rows);
    boolean isShort = count < (long) LONG * rows.length / 2;
    if (isShort && count * SCATTERED > slice.location().rows()) {
      return slice;
    }
    long[] ranges = RowRanges.intersection(slice.ranges(), RowRanges.closed(rows, NEAR));
    return ranges.length == 0 ? null : slice.limited(ranges);
  }
}
