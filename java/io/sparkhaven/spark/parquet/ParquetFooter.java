package io.sparkhaven.spark.parquet;

import io.sparkhaven.spark.columns.ColumnOpener;
import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.plan.LocationRef;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.plan.RowRanges;
import io.sparkhaven.spark.tasks.TaskSlice;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.io.LocalInputFile;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.Type;

/** What the end of a {@code table.parquet} tells: its fields, and where its row groups are. */
public final class ParquetFooter {
  private final Path path;
  private final MessageType schema;
  private final List<BlockMetaData> groups;
  private final long[] edges; // the first row of each group, then the row after the last

  private ParquetFooter(Path path, MessageType schema, List<BlockMetaData> groups) {
    this.path = path;
    this.schema = schema;
    this.groups = groups;
    edges = new long[groups.size() + 1];
    for (int number = 0; number < groups.size(); number++) {
      edges[number + 1] = edges[number] + groups.get(number).getRowCount();
    }
  }

  static Path path(LocationRef location) {
    return Path.of(location.directory(), "table.parquet");
  }

  /** Reads that of a location. ReadFailure: the file is damaged, or has another number of rows. */
  public static ParquetFooter of(LocationRef location) throws IOException {
    Path path = path(location);
    ParquetFooter footer;
    try (ParquetFileReader file = ParquetFileReader.open(new LocalInputFile(path))) {
      footer =
          new ParquetFooter(path, file.getFooter().getFileMetaData().getSchema(), file.getFooter().getBlocks());
    } catch (RuntimeException error) {
      throw damaged(path, error);
    }
    long stored = footer.edges[footer.groups.size()];
    if (stored != location.rows()) {
      throw ReadFailure.damaged(
          "Parquet file has another number of rows than its location",
          path,
          location.rows() + " rows",
          stored + " rows");
    }
    return footer;
  }

  /** The error for a file that Parquet's reader does not understand. */
  static ReadFailure damaged(Path path, Exception error) {
    ReadFailure failure = ReadFailure.damaged("Parquet file is damaged", path, "a Parquet file", error);
    failure.initCause(error);
    return failure;
  }

  /**
   * Whether the file has a column.
   *
   * @param name that the column has in the location
   * @throws ReadFailure the field says that it is another column's
   */
  boolean has(PlannedColumn column, String name, TaskSlice slice) throws ReadFailure {
    if (!schema.containsField(name)) {
      return false;
    }
    Type.ID id = schema.getType(name).getId();
    if (id == null || id.intValue() < 0 || id.intValue() == column.id()) {
      return true;
    }
    if (slice.newer()) {
      throw ColumnOpener.schemaMoved(column, slice, "has another name now");
    }
    throw ReadFailure.of(
        "CorruptFileError",
        "field " + name + " says that it belongs to another column",
        path,
        "field id " + column.id(),
        "field id " + id.intValue(),
        "the file is damaged or a copy of another one, or another schema wrote it. Restore the file, or the"
            + " schema with its history");
  }

  /** Row groups that have rows of [start, stop). */
  Groups groups(long start, long stop) {
    if (groups.isEmpty()) {
      return new Groups(0, 0, 0);
    }
    int from = group(start);
    int to = start < stop ? group(stop - 1) : from;
    BlockMetaData last = groups.get(to);
    long end = last.getStartingPos() + last.getCompressedSize();
    return new Groups(edges[from], groups.get(from).getStartingPos(), end);
  }

  /**
   * Consecutive row groups.
   *
   * @param first their first row
   * @param begin byte of the file at which they begin
   * @param end byte after them
   */
  record Groups(long first, long begin, long end) {}

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
