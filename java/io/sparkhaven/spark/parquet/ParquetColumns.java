package io.sparkhaven.spark.parquet;

import io.sparkhaven.spark.columns.ColumnOpener;
import io.sparkhaven.spark.columns.ConstantColumn;
import io.sparkhaven.spark.columns.LocationColumn;
import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.files.Checksums;
import io.sparkhaven.spark.files.CommittedFile;
import io.sparkhaven.spark.plan.FileState;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.tasks.TaskSlice;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.spark.sql.types.StructType;

/** The columns of a location that has its rows in {@code table.parquet}. */
public final class ParquetColumns {
  private ParquetColumns() {}

  /**
   * Opens columns of a slice. The first one that is not constant closes the file.
   *
   * @param checks what compares committed bytes with their checksums; null: nothing does
   * @throws ReadFailure the file is missing or damaged, or a field is another column's
   */
  public static LocationColumn[] open(PlannedColumn[] columns, TaskSlice slice, Checksums checks) throws IOException {
    Path path = ParquetFooter.path(slice.location());
    FileState state = slice.parquet();
    try (CommittedFile file = new CommittedFile(path, 0, state)) {
      file.checked(checks);
    }
    if (Files.size(path) != state.size()) {
      throw ReadFailure.damaged(
          "Parquet file is longer than its committed length",
          path,
          state.size() + " bytes",
          Files.size(path) + " bytes");
    }
    ParquetFooter footer = ParquetFooter.of(slice.location());
    StructType fields = new StructType();
    LocationColumn[] opened = new LocationColumn[columns.length];
    for (int number = 0; number < columns.length; number++) {
      PlannedColumn column = columns[number];
      String name = slice.files()[number].name();
      boolean stored = !column.partitioning() && footer.has(column, name, slice);
      if (stored) {
        fields = fields.add(name, ParquetColumn.storedType(column, column.type()), true);
      } else if (slice.newer() && !column.partitioning()) {
        throw ColumnOpener.schemaMoved(column, slice, "is no longer stored");
      } else {
        opened[number] = ConstantColumn.of(column, slice.location().value());
      }
    }
    if (!fields.isEmpty()) {
      long[] ranges = slice.ranges();
      ParquetRows rows = new ParquetRows(path, fields, footer.groups(ranges[0], ranges[ranges.length - 1]));
      int field = 0;
      for (int number = 0; number < columns.length; number++) {
        if (opened[number] == null) {
          opened[number] = ParquetColumn.of(rows, columns[number], rows.values(field++));
        }
      }
    }
    return opened;
  }
}
