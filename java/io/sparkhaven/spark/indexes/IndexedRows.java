package io.sparkhaven.spark.indexes;

import io.sparkhaven.spark.files.Checksums;
import io.sparkhaven.spark.plan.IndexForm;
import io.sparkhaven.spark.plan.Plan;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.plan.PlannedSlice;
import io.sparkhaven.spark.plan.RowRanges;
import io.sparkhaven.spark.pushdown.Lookup;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;

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
    Checksums asked = Checksums.of(plan.checksums());
    Checksums checks = asked == null ? Checksums.of("read") : asked; // a wrong index would leave rows out
    return slices.parallelStream()
        .map(
            slice ->
                slice.indexes().isEmpty()
                    ? slice
                    : narrowed(slice, new LocationLookup(slice, plan, checks).rows(lookup)))
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

  /** What the indexes of one location say. */
  private static final class LocationLookup {
    private static final int FEW = 1 << 10; // rows that another index need not make fewer

    private final PlannedSlice slice;
    private final Plan plan;
    private final Checksums checks;
    private final List<IndexForm> indexes;

    /** {@code checks}: what compares the files of indexes. */
    LocationLookup(PlannedSlice slice, Plan plan, Checksums checks) {
      this.slice = slice;
      this.plan = plan;
      this.checks = checks;
      indexes = new ArrayList<>(slice.indexes());
      indexes.sort(Comparator.comparingInt(index -> -index.columns().size()));
    }

    /** Rows for which a lookup may hold; null: indexes do not tell. */
    long[] rows(Lookup lookup) {
      if (lookup instanceof Lookup.Keys keys) {
        return listed(Map.of(keys.column(), keys));
      }
      if (lookup instanceof Lookup.Any either) {
        List<long[]> parts = new ArrayList<>();
        for (Lookup part : either.parts()) {
          long[] rows = rows(part);
          if (rows == null) {
            return null;
          }
          parts.add(rows);
        }
        return RowRanges.union(parts);
      }
      List<Lookup> parts = ((Lookup.All) lookup).parts();
      Map<String, Lookup.Keys> wanted = new HashMap<>();
      for (Lookup part : parts) {
        if (part instanceof Lookup.Keys keys) {
          wanted.putIfAbsent(keys.column(), keys);
        }
      }
      long[] rows = listed(wanted);
      for (Lookup part : parts) {
        if (part instanceof Lookup.Any && !isFew(rows)) {
          rows = both(rows, rows(part));
        }
      }
      return rows;
    }

    /** Rows in which each of these columns has one of its keys, as far as indexes tell. */
    private long[] listed(Map<String, Lookup.Keys> wanted) {
      long[] rows = null;
      Set<String> used = new HashSet<>();
      for (IndexForm index : indexes) {
        List<Lookup.Keys> leading = leading(index, wanted);
        boolean helps = leading.stream().anyMatch(keys -> !used.contains(keys.column()));
        if (helps && !isFew(rows)) {
          long[] part = find(index, leading);
          if (part != null) {
            rows = both(rows, part);
            leading.forEach(keys -> used.add(keys.column()));
          }
        }
      }
      return rows;
    }

    /** What is wanted of the first keys of an index, up to the first one of which nothing is. */
    private List<Lookup.Keys> leading(IndexForm index, Map<String, Lookup.Keys> wanted) {
      List<Lookup.Keys> leading = new ArrayList<>();
      for (int number = 0; number < index.columns().size(); number++) {
        String name = index.columns().get(number);
        Lookup.Keys keys = wanted.get(name);
        if (keys == null || !fits(keys, plan.column(name), index.names().get(number))) {
          break;
        }
        leading.add(keys);
      }
      return leading;
    }

    /** Whether the keys of an index under a name are the column's here, in an order that both share. */
    private boolean fits(Lookup.Keys keys, PlannedColumn column, String name) {
      return slice.nameOf(column).equals(name)
          && switch (keys.order()) {
            case NUMBERS -> !column.form().type().equals("char");
            case MICROSECONDS, DOUBLES, DECIMALS, TEXTS -> true;
            case BOOLEANS, CHARACTERS -> false;
          };
    }

    /** null: the index is missing, damaged or of another form, or these are too many keys. */
    private long[] find(IndexForm index, List<Lookup.Keys> leading) {
      List<PlannedColumn> keys = leading.stream().map(part -> plan.column(part.column())).toList();
      try (IndexFile file = IndexFile.open(slice, index, keys, checks)) {
        return file.find(leading.stream().map(Lookup.Keys::keys).toList());
      } catch (IOException error) {
        return null;
      }
    }

    private static boolean isFew(long[] rows) {
      return rows != null && RowRanges.count(rows) <= FEW;
    }

    private static long[] both(long[] one, long[] other) {
      return one == null ? other : other == null ? one : RowRanges.intersection(one, other);
    }
  }
}
