package io.sparkhaven.spark.plan;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/** Rows of one location that a query may read. Files and statistics are taken out of the plan when they are asked for. */
public final class PlannedSlice {
  private static final int CHOSEN = 4; // marks: it has ranges
  private static final int PICKED = 8; // and bits of the rows of its ranges

  private final ByteBuffer data;
  private final Shape shape;
  private final LocationRef location;
  private final int marks;
  private final int filesAt;
  private final int detailsEnd;
  private final long start;
  private final long stop;
  private final long[] limit; // null: the rows that the plan has
  private volatile int[] groupsAt; // written last; queries in other threads share the slice
  private int indexesAt;
  private int chosenAt;
  private volatile PickedRows picked; // of the rows that the plan has; null: not asked for yet, or there is none

  PlannedSlice(ByteBuffer data, Shape shape, LocationRef location, int marks, long[] rows, int filesAt, int end) {
    this.limit = null;
    this.data = data;
    this.shape = shape;
    this.location = location;
    this.marks = marks;
    this.start = rows[0];
    this.stop = rows[1];
    this.filesAt = filesAt;
    this.detailsEnd = end;
  }

  private PlannedSlice(PlannedSlice slice, long[] limit) {
    this.data = slice.data;
    this.shape = slice.shape;
    this.location = slice.location;
    this.marks = slice.marks;
    this.start = limit[0];
    this.stop = limit[limit.length - 1];
    this.limit = limit;
    this.picked = slice.picked();
    this.filesAt = slice.filesAt;
    this.detailsEnd = slice.detailsEnd;
  }

  /** The slice with some of its {@link #ranges} alone; at least one row. */
  public PlannedSlice limited(long[] ranges) {
    return new PlannedSlice(this, ranges);
  }

  /** Slices with the first so many rows alone; all of them where there are fewer. */
  public static List<PlannedSlice> first(List<PlannedSlice> slices, long rows) {
    List<PlannedSlice> kept = new ArrayList<>();
    long left = rows;
    for (PlannedSlice slice : slices) {
      if (left <= 0) {
        break;
      }
      long count = slice.count();
      kept.add(count <= left ? slice : slice.limited(slice.first(left)));
      left -= count;
    }
    return kept;
  }

  /** Whether all rows from the first to the last are read: none was withdrawn, and no filter leaves some out. */
  public boolean whole() {
    return limit == null && (marks & (CHOSEN | PICKED)) == 0;
  }

  public LocationRef location() {
    return location;
  }

  /** Whether a later version of the schema wrote it than the one that reads it. */
  public boolean newer() {
    return (marks & 1) != 0;
  }

  /** Whether its rows are in {@code table.parquet}. */
  public boolean inParquet() {
    return (marks & 2) != 0;
  }

  /** The file of its rows where they are in Parquet, else null. */
  public FileState parquet() {
    return inParquet() ? state("table.parquet") : null;
  }

  /** Number of columns that its statistics know. */
  public int columns() {
    return shape.columns();
  }

  /** First row. */
  public long start() {
    return start;
  }

  /** Row after the last. */
  public long stop() {
    return stop;
  }

  /**
   * Rows that are read, as first and after the last of each range, in turn; they ascend. Some of them may be left out:
   * {@link #picked}.
   */
  public long[] ranges() {
    return limit == null ? planned() : limit;
  }

  private long[] planned() {
    if ((marks & CHOSEN) == 0) {
      return new long[] {start, stop};
    }
    locate();
    long[] edges = new long[(bitsAt() - chosenAt) / 8];
    for (int number = 0; number < edges.length; number++) {
      edges[number] = data.getLong(chosenAt + 8 * number);
    }
    return edges;
  }

  /** Where the bits of the rows begin: before their number of bytes, which stands last. */
  private int bitsAt() {
    return (marks & PICKED) == 0 ? detailsEnd : detailsEnd - Integer.BYTES - data.getInt(detailsEnd - Integer.BYTES);
  }

  /** Which rows of {@link #ranges} are read; null: all of them. */
  public PickedRows picked() {
    if (picked == null && (marks & PICKED) != 0) {
      byte[] bits = new byte[detailsEnd - Integer.BYTES - bitsAt()];
      data.get(bitsAt(), bits);
      picked = new PickedRows(planned(), bits);
    }
    return picked;
  }

  /** Number of rows that are read. */
  public long count() {
    return (marks & PICKED) == 0 ? covered() : picked().count(ranges());
  }

  /** Number of rows of {@link #ranges}, which are read together. */
  public long covered() {
    return limit == null && (marks & CHOSEN) == 0 ? stop - start : RowRanges.count(ranges());
  }

  /** The ranges of the first so many rows that are read; there are more. */
  private long[] first(long rows) {
    PickedRows some = picked();
    return some == null ? RowRanges.first(ranges(), rows) : some.first(ranges(), rows);
  }

  /** Whether a file of that name is committed. */
  public boolean has(String file) {
    return shape.file(file) >= 0;
  }

  /** Committed bytes of a file; null: there is none of that name. */
  public FileState state(String file) {
    int number = shape.file(file);
    if (number < 0) {
      return null;
    }
    return state(filesAt, shape.files, number);
  }

  /** One of several files whose states are packed at a place. */
  private FileState state(int place, int files, int number) {
    int width = data.get(place);
    int size = place + 1 + number * width;
    int crc = place + 1 + files * width + 4 * number;
    return new FileState(width == 4 ? data.getInt(size) & 0xFFFF_FFFFL : data.getLong(size), data.getInt(crc));
  }

  /** Indexes that begin with a column of the data frame; there may be others. */
  public List<IndexForm> indexes() {
    return shape.indexes;
  }

  /** Committed bytes of a file of an index, from its first byte on; null: there is none of that name. */
  public FileState indexState(String file) {
    Integer number = shape.indexFiles.get(file);
    if (number == null) {
      return null;
    }
    locate();
    return state(indexesAt, shape.indexFiles.size(), number);
  }

  /** Statistics of a column, in the order of the rows; they may end before the rows do, and leave rows out. */
  public List<RangeStatistics> statistics(String column) {
    int[] place = shape.statistics(column);
    List<RangeStatistics> ranges = new ArrayList<>();
    if (place != null) {
      locate();
      int group = groupsAt[place[0]];
      int count = data.getInt(group);
      int row = group + 4 + 4 * count;
      for (int number = 0; number < count; number++) {
        ranges.add(RangeStatistics.read(data, row, shape.widths[place[0]], place[1]));
        row += data.getInt(group + 4 + 4 * number);
      }
    }
    return ranges;
  }

  /** Whether a row of the slice may be null: unless its statistics say that none is. */
  public boolean mayBeNull(String column) {
    long covered = start;
    for (RangeStatistics range : statistics(column)) {
      if (range.stop() <= start) {
        continue;
      }
      if (covered >= stop || range.start() > covered || range.nulls() > 0) {
        break;
      }
      covered = range.stop();
    }
    return covered < stop;
  }

  /** The name that a column's files, or its field, have in this location. */
  public String nameOf(PlannedColumn column) {
    return shape.names.getOrDefault(column.name(), column.name());
  }

  /** The files of a column in this location. */
  public ColumnFiles files(PlannedColumn column) {
    String name = nameOf(column);
    if (column.partitioning() || inParquet()) {
      return new ColumnFiles(name, new FileState[0], 0, false);
    }
    int form = formWithin(column, name);
    String[] suffixes = column.forms()[form].suffixes();
    FileState[] states = new FileState[suffixes.length];
    for (int number = 0; number < states.length; number++) {
      states[number] = state(name + suffixes[number]);
    }
    return new ColumnFiles(name, states, form, column.form().hasOtherNull() || mayBeNull(column.name()));
  }

  /** A text that was widened still has its symbols where a file of them is. */
  private int formWithin(PlannedColumn column, String name) {
    ColumnForm[] forms = column.forms();
    if (forms[0].storage().equals("BLOB") && forms.length > 1 && has(name + ".sym")) {
      for (int number = 1; number < forms.length; number++) {
        if (forms[number].storage().equals("SYMBOL")) {
          return number;
        }
      }
    }
    return 0;
  }

  private void locate() {
    if (groupsAt != null) {
      return;
    }
    int position = filesAt + 1 + shape.files * (data.get(filesAt) + 4);
    int[] places = new int[shape.widths.length];
    for (int group = 0; group < places.length; group++) {
      places[group] = position;
      int count = data.getInt(position);
      int next = position + 4 + 4 * count;
      for (int number = 0; number < count; number++) {
        next += data.getInt(position + 4 + 4 * number);
      }
      position = next;
    }
    indexesAt = position;
    int indexFiles = shape.indexFiles.size();
    chosenAt = position + (indexFiles == 0 ? 0 : 1 + indexFiles * (data.get(position) + 4));
    groupsAt = places;
  }
}
