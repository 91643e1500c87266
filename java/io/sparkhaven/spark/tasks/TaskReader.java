package io.sparkhaven.spark.tasks;

import io.sparkhaven.spark.columns.ColumnOpener;
import io.sparkhaven.spark.columns.LocationColumn;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.snapshot.SnapshotCheck;
import java.io.IOException;
import java.util.List;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Reads the slices of a task one after the other, in batches. Files are open while their slice is read. */
final class TaskReader implements PartitionReader<ColumnarBatch> {
  private final TaskSlice[] slices;
  private final PlannedColumn[] columns;
  private final ColumnOpener opener;
  private final SnapshotCheck check;
  private LocationColumn[] open = {};
  private ColumnarBatch batch;
  private int number = -1; // of the slice
  private int range;
  private long next;

  TaskReader(TaskSlice[] slices, PlannedColumn[] columns, ColumnOpener opener, SnapshotCheck check) {
    this.slices = slices;
    this.columns = columns;
    this.opener = opener;
    this.check = check;
  }

  @Override
  public boolean next() throws IOException {
    try {
      return move();
    } catch (IOException error) {
      throw check.explained(slices[number].location(), error);
    }
  }

  private boolean move() throws IOException {
    while (number < 0 || !inSlice()) {
      close();
      if (number + 1 >= slices.length) {
        return false;
      }
      number++;
      open(slices[number]);
    }
    long[] ranges = slices[number].ranges();
    int rows = (int) Math.min(ranges[range + 1] - next, LocationColumn.MOST_ROWS);
    for (LocationColumn column : open) {
      rows = column.room(next, rows);
    }
    for (LocationColumn column : open) {
      column.move(next, rows);
    }
    batch.setNumRows(rows);
    next += rows;
    return true;
  }

  /** Whether the slice has rows left; moves to the next range where one is read. */
  private boolean inSlice() {
    long[] ranges = slices[number].ranges();
    while (range < ranges.length && next >= ranges[range + 1]) {
      range += 2;
      next = range < ranges.length ? ranges[range] : next;
    }
    return range < ranges.length;
  }

  private void open(TaskSlice slice) throws IOException {
    open = new LocationColumn[columns.length];
    ColumnVector[] vectors = new ColumnVector[columns.length];
    for (int column = 0; column < columns.length; column++) {
      open[column] = opener.open(columns[column], slice, column);
      vectors[column] = open[column].vector();
    }
    check.require(List.of(slice.location())); // what is open now stays that of the snapshot
    batch = new ColumnarBatch(vectors);
    range = 0;
    next = slice.ranges().length > 0 ? slice.ranges()[0] : 0;
  }

  @Override
  public ColumnarBatch get() {
    return batch;
  }

  @Override
  public void close() throws IOException {
    LocationColumn[] opened = open;
    open = new LocationColumn[0];
    IOException failure = null;
    for (LocationColumn column : opened) {
      try {
        if (column != null) {
          column.close();
        }
      } catch (IOException error) {
        failure = error;
      }
    }
    if (failure != null) {
      throw failure;
    }
  }
}
