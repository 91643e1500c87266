package io.sparkhaven.spark.parquet;

import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.plan.PlannedColumn;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.metadata.ParquetMetadata;
import org.apache.parquet.io.LocalInputFile;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.Type;

/** What the end of a {@code table.parquet} tells: its fields, and where its row groups are. */
final class ParquetFooter {
  private final Path path;
  private final MessageType schema;
  private final List<BlockMetaData> groups;

  private ParquetFooter(Path path, ParquetMetadata metadata) {
    this.path = path;
    schema = metadata.getFileMetaData().getSchema();
    groups = metadata.getBlocks();
  }

  /**
   * Reads it.
   *
   * @param rows that the location has
   * @throws ReadFailure the file is damaged, or has another number of rows
   */
  static ParquetFooter read(Path path, long rows) throws IOException {
    ParquetFooter footer;
    try (ParquetFileReader file = ParquetFileReader.open(new LocalInputFile(path))) {
      footer = new ParquetFooter(path, file.getFooter());
    } catch (RuntimeException error) {
      throw damaged(path, error);
    }
    long stored = footer.groups.stream().mapToLong(BlockMetaData::getRowCount).sum();
    if (stored != rows) {
      throw ReadFailure.of(
          "CorruptFileError",
          "Parquet file has another number of rows than its location",
          path,
          rows + " rows",
          stored + " rows",
          null);
    }
    return footer;
  }

  /** The error for a file that Parquet's reader does not understand. */
  static ReadFailure damaged(Path path, Exception error) {
    ReadFailure failure =
        ReadFailure.of("CorruptFileError", "Parquet file is damaged", path, "a Parquet file", error, null);
    failure.initCause(error);
    return failure;
  }

  /**
   * Name of a column's field; null: the file has none.
   *
   * @param name that the column has in the location
   * @throws ReadFailure the field says that it is another column's
   */
  String field(PlannedColumn column, String name) throws ReadFailure {
    if (!schema.containsField(name)) {
      return null;
    }
    if (isOfAnother(column, name)) {
      throw ReadFailure.of(
          "CorruptFileError",
          "field " + name + " says that it belongs to another column",
          path,
          "field id " + column.id(),
          "field id " + schema.getType(name).getId().intValue(),
          "the file is damaged or a copy of another one, or another schema wrote it. Restore the file, or the"
              + " schema with its history");
    }
    return name;
  }

  /** Whether a field of that name says that it belongs to another column. */
  boolean isOfAnother(PlannedColumn column, String name) {
    Type.ID id = schema.containsField(name) ? schema.getType(name).getId() : null;
    return id != null && id.intValue() >= 0 && id.intValue() != column.id();
  }

  /** The first row of each row group, then the row after the last. */
  long[] edges() {
    long[] edges = new long[groups.size() + 1];
    for (int number = 0; number < groups.size(); number++) {
      edges[number + 1] = edges[number] + groups.get(number).getRowCount();
    }
    return edges;
  }

  /** Row groups that have rows of [start, stop). */
  Groups groups(long start, long stop) {
    long first = 0;
    long from = -1;
    long begin = 0;
    long end = 0;
    for (BlockMetaData group : groups) {
      long next = first + group.getRowCount();
      if (next > start && first < stop) {
        if (from < 0) {
          from = first;
          begin = group.getStartingPos();
        }
        end = group.getStartingPos() + group.getCompressedSize();
      }
      first = next;
    }
    return new Groups(Math.max(from, 0), begin, end);
  }

  /**
   * Consecutive row groups.
   *
   * @param first their first row
   * @param begin byte of the file at which they begin
   * @param end byte after them
   */
  record Groups(long first, long begin, long end) {}
}
