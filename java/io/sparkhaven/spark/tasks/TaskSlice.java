package io.sparkhaven.spark.tasks;

import io.sparkhaven.spark.columns.LocationColumn;
import io.sparkhaven.spark.plan.ColumnFiles;
import io.sparkhaven.spark.plan.FileState;
import io.sparkhaven.spark.plan.LocationRef;
import io.sparkhaven.spark.plan.PickedRows;
import java.io.Serializable;

/**
 * Rows of one location that a task reads.
 *
 * @param location where they are
 * @param ranges first row and row after the last of each range, in turn; they ascend
 * @param picked which of their rows; null: all
 * @param newer whether a later version of the schema wrote the location
 * @param files of the columns of the task, in their order
 * @param parquet the file that has all columns instead; null: there is none
 */
public record TaskSlice(
    LocationRef location,
    long[] ranges,
    PickedRows picked,
    boolean newer,
    ColumnFiles[] files,
    FileState parquet)
    implements Serializable {

  /** The same location with some of the ranges. */
  TaskSlice limited(long[] some) {
    return new TaskSlice(location, some, picked, newer, files, parquet);
  }

  /** The same rows, of files in another directory. */
  TaskSlice at(LocationRef other) {
    return new TaskSlice(other, ranges, picked, newer, files, parquet);
  }

  /** Most rows of a batch: fewer of a small location. */
  public int batchRows() {
    long longest = 0;
    for (int number = 0; number < ranges.length; number += 2) {
      longest = Math.max(longest, ranges[number + 1] - ranges[number]);
    }
    return (int) Math.min(longest, LocationColumn.MOST_ROWS);
  }
}
