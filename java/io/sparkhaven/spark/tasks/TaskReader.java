package io.sparkhaven.spark.tasks;

import io.sparkhaven.spark.columns.ColumnOpener;
import io.sparkhaven.spark.columns.LocationColumn;
import io.sparkhaven.spark.columns.PickedVector;
import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.files.Checksums;
import io.sparkhaven.spark.parquet.ParquetColumns;
import io.sparkhaven.spark.parquet.ParquetFooter;
import io.sparkhaven.spark.plan.LocationRef;
import io.sparkhaven.spark.plan.PickedRows;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.pushdown.ColumnCondition;
import io.sparkhaven.spark.snapshot.SnapshotCheck;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Reads the slices of a task one after the other, in batches. Files are open while their slice is read. */
final class TaskReader implements PartitionReader<ColumnarBatch> {
  private final List<TaskSlice> slices;
  private final PlannedColumn[] columns;
  private final ColumnOpener opener;
  private final SnapshotCheck check;
  private final ColumnCondition[] conditions;
  private final boolean[] isTested; // by column
  private LocationColumn[] open = {};
  private final int[] picked = new int[LocationColumn.MOST_ROWS]; // rows of the batch, where some are left out
  private ColumnarBatch whole;
  private ColumnarBatch some; // the rows of it that are picked, where the slice has such
  private ColumnarBatch batch; // one of both
  private int number = -1; // of the slice
  private boolean isAside; // the files of the slice were moved away, and are as they were pinned
  private int range;
  private long next;
  private boolean isByRuns; // of picked rows: one beside them has no form in Spark

  TaskReader(
      TaskSlice[] slices,
      PlannedColumn[] columns,
      ColumnOpener opener,
      SnapshotCheck check,
      ColumnCondition[] conditions) {
    this.slices = new ArrayList<>(List.of(slices));
    this.columns = columns;
    this.opener = opener;
    this.check = check;
    this.conditions = conditions;
    this.isTested = new boolean[columns.length];
    for (int column = 0; column < columns.length; column++) {
      String name = columns[column].name();
      isTested[column] = Arrays.stream(conditions).anyMatch(condition -> condition.column().equals(name));
    }
  }

  @Override
  public boolean next() throws IOException {
    try {
      return move();
    } catch (IOException error) {
      throw isAside ? error : check.explained(slices.get(number).location(), error);
    }
  }

  private boolean move() throws IOException {
    while (true) {
      while (number < 0 || !inSlice()) {
        close();
        if (number + 1 >= slices.size()) {
          return false;
        }
        number++;
        divide(slices.get(number));
        open(slices.get(number));
      }
      long[] ranges = slices.get(number).ranges();
      int rows = (int) Math.min(ranges[range + 1] - next, LocationColumn.MOST_ROWS);
      if (moved(slices.get(number).picked(), rows)) {
        return true;
      }
    }
  }

  /** Shows the next rows of one range, so many at most; false: they are passed over, since none is of use. */
  private boolean moved(PickedRows rows, int most) throws IOException {
    if (rows == null) {
      return moved(most);
    }
    int run = rows.run(next, most);
    if (!rows.contains(next)) {
      next += run;
      return false;
    }
    if (isByRuns) {
      return moved(run);
    }
    long first = next;
    try {
      return moved(most) && (run == most || pick(rows, first));
    } catch (ReadFailure refused) {
      if (!refused.isMismatch()) {
        throw refused;
      }
      isByRuns = true; // rows that are left out may have any value
      next = first;
      return false;
    }
  }

  private boolean pick(PickedRows rows, long first) {
    int count = rows.pick(first, whole.numRows(), picked);
    batch = count == whole.numRows() ? whole : some;
    batch.setNumRows(count);
    return true;
  }

  /** Shows the next rows, so many at most; false: no condition can be true for one. */
  private boolean moved(int most) throws IOException {
    int tested = room(true, most);
    move(true, tested);
    for (int column = 0; column < open.length; column++) {
      if (isTested[column] && !open[column].mayMatch(tested)) {
        next += tested;
        return false;
      }
    }
    int rows = room(false, tested);
    if (rows < tested) {
      move(true, rows);
    }
    move(false, rows);
    batch = whole;
    batch.setNumRows(rows);
    next += rows;
    return true;
  }

  private int room(boolean ofTested, int most) throws IOException {
    int rows = most;
    for (int column = 0; column < open.length; column++) {
      rows = isTested[column] == ofTested ? open[column].room(next, rows) : rows;
    }
    return rows;
  }

  private void move(boolean ofTested, int rows) throws IOException {
    for (int column = 0; column < open.length; column++) {
      if (isTested[column] == ofTested) {
        open[column].move(next, rows);
      }
    }
  }

  /** Whether the slice has rows left; moves to the next range where one is read. */
  private boolean inSlice() {
    long[] ranges = slices.get(number).ranges();
    while (range < ranges.length && next >= ranges[range + 1]) {
      range += 2;
      next = range < ranges.length ? ranges[range] : next;
    }
    return range < ranges.length;
  }

  /** Makes several slices of one in Parquet, so that row groups between its rows are not read. */
  private void divide(TaskSlice slice) throws IOException {
    if (slice.parquet() == null || slice.ranges().length <= 2) {
      return;
    }
    List<TaskSlice> parts = slices.subList(number, number + 1);
    List<long[]> runs = ParquetFooter.of(slice.location()).runs(slice.ranges());
    if (runs.size() > 1) {
      parts.clear();
      runs.forEach(ranges -> parts.add(slice.limited(ranges)));
    }
  }

  /** Whether the slice before this one was of the same location, whose file was compared with its checksum. */
  private boolean continues(TaskSlice slice) {
    return number > 0 && slices.get(number - 1).location() == slice.location();
  }

  /** Opens a slice, in the place that its files were moved to since the table was opened. */
  private void open(TaskSlice slice) throws IOException {
    isAside = false;
    try {
      openFiles(slice);
      check.require(List.of(slice.location())); // what is open now stays that of the snapshot
    } catch (IOException error) {
      LocationRef aside = check.aside(slice.location());
      if (aside == null) {
        throw error;
      }
      close();
      isAside = true;
      slices.set(number, slice.at(aside));
      openFiles(slices.get(number));
    }
  }

  /** Opens only the columns that are tested where they tell that the slice has no row of use. */
  private void openFiles(TaskSlice slice) throws IOException {
    boolean inParquet = slice.parquet() != null;
    Checksums checks = continues(slice) ? null : opener.checks();
    open = inParquet ? ParquetColumns.open(columns, slice, checks) : new LocationColumn[columns.length];
    boolean mayMatch = open(slice, true);
    if (mayMatch) {
      open(slice, false);
    }
    range = mayMatch ? 0 : slice.ranges().length;
    isByRuns = false;
    if (!mayMatch) {
      return;
    }
    ColumnVector[] vectors = new ColumnVector[columns.length];
    for (int column = 0; column < columns.length; column++) {
      vectors[column] = open[column].vector();
    }
    whole = new ColumnarBatch(vectors);
    if (slice.picked() != null) {
      ColumnVector[] parts = new ColumnVector[columns.length];
      for (int column = 0; column < columns.length; column++) {
        parts[column] = PickedVector.of(vectors[column], picked);
      }
      some = new ColumnarBatch(parts);
    }
    next = slice.ranges().length > 0 ? slice.ranges()[0] : 0;
  }

  /** Opens the columns that are tested, or the others; false: no row of the slice can be of use. */
  private boolean open(TaskSlice slice, boolean ofTested) throws IOException {
    boolean mayMatch = true;
    for (int column = 0; column < columns.length && mayMatch; column++) {
      if (isTested[column] == ofTested) {
        if (open[column] == null) {
          open[column] = opener.open(columns[column], slice, column);
        }
        for (ColumnCondition condition : conditions) {
          boolean own = condition.column().equals(columns[column].name());
          mayMatch &= !own || open[column].narrow(condition);
        }
      }
    }
    return mayMatch;
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
