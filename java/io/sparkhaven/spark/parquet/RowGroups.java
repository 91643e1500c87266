package io.sparkhaven.spark.parquet;

import io.sparkhaven.spark.plan.LocationRef;
import io.sparkhaven.spark.plan.RowRanges;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Where the row groups of a {@code table.parquet} begin: each is read from its first row on. */
public final class RowGroups {
  private final long[] edges; // the first row of each, then the row after the last

  private RowGroups(long[] edges) {
    this.edges = edges;
  }

  /** Those of a location, from the end of its file. IOException: it is missing or damaged. */
  public static RowGroups of(LocationRef location) throws IOException {
    Path path = Path.of(location.directory(), ParquetColumns.NAME);
    return new RowGroups(ParquetFooter.read(path, location.rows()).edges());
  }

  /**
   * How many of some rows lie before the end of a row group: the most that are not more than {@code wanted}. Where the
   * first group has more, all that it has.
   */
  public long fitting(long[] ranges, long wanted) {
    long fitting = 0;
    for (int number = 1; number < edges.length; number++) {
      long rows = RowRanges.count(RowRanges.intersection(ranges, new long[] {0, edges[number]}));
      if (rows > wanted && fitting > 0) {
        break;
      }
      fitting = rows;
    }
    return fitting;
  }

  /** Ranges in runs, between which lies at least one row group that has none of their rows. */
  public List<long[]> runs(long[] ranges) {
    List<long[]> runs = new ArrayList<>();
    int begin = 0;
    for (int number = 2; number < ranges.length; number += 2) {
      if (group(ranges[number]) > group(ranges[number - 1] - 1) + 1) {
        runs.add(Arrays.copyOfRange(ranges, begin, number));
        begin = number;
      }
    }
    runs.add(Arrays.copyOfRange(ranges, begin, ranges.length));
    return runs;
  }

  private int group(long row) {
    int place = Arrays.binarySearch(edges, row);
    return place < 0 ? -place - 2 : place;
  }
}
